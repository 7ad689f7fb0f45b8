#!/usr/bin/env bash
# ds-pdsh: 2 nodes x 8 GPUs (p4d.24xlarge), deepspeed started by deepspeed-pdsh
#
# Written by clusterjobs 0.1.0 from a spec. Change the spec, not this script:
#   clusterjobs plan   spec.yaml
#   clusterjobs render spec.yaml
# In the spec's folder: the first says why each value is what it is, the second writes this again.
#
# shellcheck disable=SC1091,SC2016 # values in single quotes are not meant to be expanded
# shellcheck disable=SC2317,SC2329 # `exit` stands before the programs, and traps call functions

#SBATCH --job-name=ds-pdsh
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

set -euo pipefail

# ---- start: one folder for all that this job writes, and one way out -------------------------
# On a mount that is dead a command hangs and cannot even be killed: it is left behind.
in_time() { # COMMAND ...
  local code=0
  read -r -t 60 _ < <("$@" >&2 && echo) || code=$?
  (( code <= 128 )) || printf 'clusterjobs: no answer in 60 s to %s: is a mount dead?\n' "$*" >&2
  return "$code"
}

job_dir="/fsx/logs/$SLURM_JOB_ID"
in_time mkdir -p -- "$job_dir" || exit 1
exec > >(trap '' TERM && exec tee -a -- "$job_dir/job.log") 2>&1
log_writer=$!
own_id=$SLURM_JOB_ID # where this is a task of an array, the whole array may answer to it
[[ -z ${SLURM_ARRAY_TASK_ID:-} ]] || own_id=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
attempt=$((${SLURM_RESTART_COUNT:-0} + 1))
# The attempt that last came as far as this. Where there is none, what lies here is another job's:
# ids begin anew with a new cluster.
previous=0
{ read -r previous < "$job_dir/started"; } 2>/dev/null || true
if [[ ! $previous =~ ^[0-9]+$ ]] || (( previous >= attempt )); then previous=0; fi
(( previous > 0 )) || rm -f -- "$job_dir/attempts.jsonl"
printf '%s\n' "$attempt" > "$job_dir/started.new" \
  && mv -f -- "$job_dir/started.new" "$job_dir/started" || true # on a full disk the old one stays
reason= # for the end, where the exit code does not say it

fail() { # before the training: another try would end like this one
  printf 'clusterjobs: %s\n' "$1" >&2
  reason=not_started
  exit 1
}

# One line of JSON for each attempt; of two for the same, the later counts.
record() { # ATTEMPT REASON EXIT_CODE NODES SECONDS
  printf '{"attempt": %s, "reason": "%s", "checkpoint": "%s", ' "$1" "$2" "$(newest_checkpoint)"
  printf '"exit_code": %s, "nodes": "%s", "seconds": %s, "ended": %(%s)T}\n' "$3" "$4" "$5" -1
} >> "$job_dir/attempts.jsonl"

# A text that changes with every new checkpoint.
newest_checkpoint() {
  local newest=
  printf '%s' "${newest//[\"\\[:cntrl:]]/_}"
}

finish() {
  local status=$?
  set +e # whatever fails here keeps nothing else from being done
  trap - EXIT
  trap '' USR1
  trap 'reason=cancelled' TERM
  rm -rf -- "$job_dir/ssh"
  if [[ -z $reason ]]; then
    reason=completed
    (( status == 0 )) || reason=failure
  fi
  case $reason in # who was told to end has not ended by itself, whatever the code of what it ran
    time_limit) status=124 ;;
    cancelled) status=143 ;;
  esac
  record "$attempt" "$reason" "$status" "$SLURM_JOB_NODELIST" "$SECONDS"
  printf 'clusterjobs: job %s ended with exit code %s after %s s: %s\n' \
    "$SLURM_JOB_ID" "$status" "$SECONDS" "$reason"
  exec >&- 2>&- # the log is complete once its writer has read the end
  timeout 10 tail --pid="$log_writer" -f /dev/null
  exit "$status"
}
trap finish EXIT

# scancel and the time limit say TERM first, and KILL after Slurm's KillWait.
ranks=
told_to_end() {
  why_ended
  rm -f -- "$job_dir/ssh/rank.json" || true # watched by ranks that Slurm does not know
  [[ -n $ranks ]] || exit 1 # `finish` knows the code
  printf 'clusterjobs: told to end (%s), waiting for the ranks\n' "$reason"
}
why_ended() {
  reason=cancelled
  [[ $(timeout 5 squeue --noheader --job="$own_id" --format=%r) != TimeLimit ]] || reason=time_limit
}
trap told_to_end TERM

# Slurm ends the steps of a job before it tells this script: what was ended so is no failure.
ended_by_slurm() {
  case $(timeout 5 squeue --noheader --job="$own_id" --format=%T) in
    RUNNING | '') return 1 ;;
  esac
}

in_time cd -- /fsx/code/gpt || fail 'no workdir /fsx/code/gpt here' # in a child, for it may hang
cd -- /fsx/code/gpt

# ---- inherited: of the shell that called sbatch, nothing that Slurm or torch would obey ------
# It may be part of another job. Of Slurm's variables only those stay that sbatch sets for this one.
for name in "${!SLURM_@}" "${!SRUN_@}"; do
  case $name in
    SLURM_ARRAY_* | SLURM_CLUSTER_NAME | SLURM_CONF | SLURM_CONF_SERVER) ;;
    SLURM_CPUS_ON_NODE | SLURM_GPUS_ON_NODE | SLURM_GTIDS | SLURM_JOB_* | SLURM_JOBID) ;;
    SLURM_NNODES | SLURM_NODEID | SLURM_NODELIST | SLURM_NPROCS | SLURM_NTASKS) ;;
    SLURM_RESTART_COUNT | SLURM_SUBMIT_* | SLURM_TASKS_PER_NODE | SLURM_TASK_PID) ;;
    SLURM_TOPOLOGY_* | SLURM_WORKING_CLUSTER | SLURM_CPUS_PER_TASK | SLURM_GPUS_PER_NODE) ;;
    SLURM_MEM_PER_NODE | SLURM_NTASKS_PER_NODE) ;;
    *) unset "$name" ;;
  esac
done
unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE NODE_RANK GROUP_RANK ROLE_RANK MASTER_ADDR \
  MASTER_PORT PYTHONPATH PYTHONHOME "${!TORCHELASTIC_@}" "${!OMPI_COMM_@}" "${!PMI_@}" \
  "${!PMIX_@}" "${!SQUEUE_@}" "${!SCANCEL_@}" "${!SCONTROL_@}"

# ---- rendezvous: all ranks meet on the first node --------------------------------------------
# The port follows from the job id, so that jobs on one node differ, and stays below the
# ephemeral ports (32768 and up). While it is taken, the next candidate is tried.
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
(( ${#nodes[@]} == 2 )) || fail "planned for 2 nodes, got ${#nodes[@]}"

port_in_use() {
  local found needle
  if found=$(ss -Htan "sport = :$1" 2>/dev/null); then
    [[ -n $found ]]
  else # no ss on this node: the kernel's list of all sockets, which takes it longer to write
    printf -v needle ':%04X ' "$1"
    [[ $(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null) == *"$needle"* ]]
  fi
}

port=$((SLURM_JOB_ID % 20000))
while port_in_use "$((12000 + port))"; do
  port=$(((port + 7919) % 20000)) # a prime step: never the next job's own first choice
done
export MASTER_ADDR=${nodes[0]} MASTER_PORT=$((12000 + port))

# ---- environment -----------------------------------------------------------------------------
export OMP_NUM_THREADS=12 # CPUs of one rank; unset, every rank would use all
export PYTHONUNBUFFERED=1 # log lines appear when they are written
export NCCL_DEBUG=WARN # says why a collective failed
# NCCL's first contact; a name such as eth0 differs between nodes
export NCCL_SOCKET_IFNAME='^lo,docker,veth'
export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # a hang leaves a record of who waited
export TORCH_FR_BUFFER_SIZE=20000 # how many calls that record keeps
export TORCH_NCCL_TRACE_BUFFER_SIZE=20000 # its older name
export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where it is kept
export TORCH_NCCL_DEBUG_INFO_TEMP_FILE="$job_dir/nccl-trace-rank-" # its older name
export FI_PROVIDER=efa # plugins before 1.6 do not choose it themselves
export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork fails for want of memory
# a new folder per node and attempt: the lock of a killed build hangs all ranks
export TORCH_EXTENSIONS_DIR="/tmp/torch-extensions-$SLURM_JOB_ID-$attempt"
export NOTE='$(touch /tmp/never)'
# libfabric and its NCCL plugin, wherever the AMI has them
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/opt/amazon/efa/lib:/opt/amazon/efa/lib64:/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu:/opt/aws-ofi-nccl/lib"

VIRTUAL_ENV=/fsx/envs/gpt
[[ -x $VIRTUAL_ENV/bin/python3 ]] || fail "no virtual environment at $VIRTUAL_ENV"
export VIRTUAL_ENV PATH="$VIRTUAL_ENV/bin:$PATH"

# ---- files -----------------------------------------------------------------------------------
cat > "$job_dir"/ds_config.json <<'END'
{
  "train_batch_size": 256,
  "train_micro_batch_size_per_gpu": 8,
  "gradient_accumulation_steps": 2,
  "bf16": {
    "enabled": true
  },
  "zero_optimization": {
    "stage": 1
  }
}
END
# sbatch keeps a copy of this script and of nothing else, so the programs stand at its end.
unpack() { # NAME...
  local name steps=()
  for name; do
    steps+=(-e "/^: <<'end of $name'\$/,/^end of $name\$/ { //! w $name" -e '}')
  done
  (cd -- "$job_dir" && exec sed -n "${steps[@]}") < "$0"
}
unpack over_ssh.py

# ---- inputs: what is missing now would be missing in the next attempt, too -------------------
[[ -r train.py ]] || fail "no script train.py in $PWD: correct the spec's script or workdir, or put it there"

# ---- launch: one deepspeed starts the ranks of all nodes over pdsh and ssh -------------------
command=(
  python3 train.py
  --lr 1.5e-4
  --title 'it'\''s $(here)'
  --deepspeed
  --deepspeed_config "$job_dir/ds_config.json"
)
srun_options=(
  --nodes=2 # as planned, whatever sbatch was told
  --ntasks=2 # likewise
  --ntasks-per-node=1 # likewise
  --label # every line says which task wrote it
  --kill-on-bad-exit=1 # one dead task ends the step, not a timeout
  --wait=0 # a rank may go on after the others, to save or to evaluate
  --cpu-bind=none # threads may move; data loaders need it
  --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
)
# ---- ssh: settings of this job alone, in a folder that `finish` removes ----------------------
ssh_dir="$job_dir/ssh"
[[ $ssh_dir =~ ^[A-Za-z0-9_@+=:,./-]+$ ]] \
  || fail "a launcher over ssh cannot take the folder $ssh_dir: plain letters and digits in logs:"
rm -rf -- "$ssh_dir" # of an earlier attempt, whose node was lost
mkdir -m 700 -- "$ssh_dir" "$ssh_dir/bin"
sshd=$(PATH="$PATH:/usr/sbin:/sbin" type -P sshd) \
  || fail 'no sshd on this node: install openssh-server, or name one that runs: `ssh: {port: 22}`'
ssh_port=$MASTER_PORT
while (( ssh_port == MASTER_PORT )) || port_in_use "$ssh_port"; do
  ssh_port=$((12000 + (ssh_port - 12000 + 7919) % 20000))
done
ssh_key="$ssh_dir/key"
for name in key host_key; do
  ssh-keygen -q -t ed25519 -N '' -C "job $SLURM_JOB_ID" -f "$ssh_dir/$name"
done
printf '* %s\n' "$(< "$ssh_dir/host_key.pub")" > "$ssh_dir/known_hosts"
host_keys=yes
cat > "$ssh_dir/sshd_config" <<END
Port $ssh_port
HostKey $ssh_dir/host_key
AuthorizedKeysFile $ssh_dir/key.pub
AuthenticationMethods publickey
PidFile none
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
MaxStartups 1000
MaxSessions 1000
END
{
  printf '%s\n' 'Host *' "Port $ssh_port" "StrictHostKeyChecking $host_keys" \
    "UserKnownHostsFile $ssh_dir/known_hosts" 'BatchMode yes' 'LogLevel ERROR' \
    'ServerAliveInterval 15'
  [[ -z $ssh_key ]] || printf '%s\n' "IdentityFile $ssh_key" 'IdentitiesOnly yes'
} > "$ssh_dir/config"
printf '#!/bin/sh\nexec %q -F %q "$@"\n' "$(type -P ssh)" "$ssh_dir/config" > "$ssh_dir/bin/ssh"
printf '#!/bin/sh\nexec %q %q run %q\n' "$(type -P python3)" "$job_dir/over_ssh.py" "$ssh_dir" \
  > "$ssh_dir/rank"
chmod 700 "$ssh_dir/bin/ssh" "$ssh_dir/rank"
python3 "$job_dir/over_ssh.py" keep "$ssh_dir" "${command[@]}"

# Nothing of the job's environment: the launchers would paste it into a remote shell. Of SIGTERM they
# hear nothing: they would cut off ranks that are saving.
launcher_environment=(
  PATH="$ssh_dir/bin:$PATH" HOME="$HOME" LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}" PYTHONUNBUFFERED=1
)
# As a step of this job, so that what is started by ssh is the job's, and ends with it.
open_nodes() {
  srun "${srun_options[@]}" python3 "$job_dir/over_ssh.py" serve "$ssh_dir" "$sshd" < /dev/null &
  sshd_step=$!
  ssh_answers
}
close_nodes() { # EXIT_CODE: after a failure ranks may be left, which end when rank.json is gone
  if (( $1 == 0 )); then kill -USR1 "$sshd_step"; else rm -f -- "$ssh_dir/rank.json"; fi 2>/dev/null || true
  wait "$sshd_step" || true
}
ssh_answers() {
  local node deadline=$((SECONDS + 120))
  for node in "${nodes[@]}"; do
    until "$ssh_dir/bin/ssh" -o ConnectTimeout=5 "$node" true < /dev/null 2> "$ssh_dir/said"; do
      kill -0 "$sshd_step" 2>/dev/null || return 1
      if (( SECONDS > deadline )); then
        printf 'clusterjobs: ssh to %s: %s\n' "$node" "$(< "$ssh_dir/said")" >&2
        return 1
      fi
      sleep 0.5
    done
  done
}

# A missing host file would silently train on one node, so it is written here, by this job.
printf '%s slots=8\n' "${nodes[@]}" > "$ssh_dir/hostfile"
# What DeepSpeed's own program needs on a node; the ranks find all in rank.json. No blank line.
for name in PATH LD_LIBRARY_PATH; do
  [[ ${!name:-} =~ ^[]A-Za-z0-9_@%+=:,./[-]+$ ]] && printf '%s=%s\n' "$name" "${!name}"
done > "$ssh_dir/deepspeed_env"
launcher_environment+=(DS_ENV_FILE="$ssh_dir/deepspeed_env")
# Its own check of ssh knows no settings.
start_ranks() {
  local code=0
  open_nodes
  (cd / && exec env -i "${launcher_environment[@]}" python3 "$job_dir/over_ssh.py" deaf \
    deepspeed --hostfile="$ssh_dir/hostfile" --launcher=pdsh --force_multi --no_ssh_check \
    --ssh_port="$ssh_port" --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" \
    --no_local_rank --no_python "$ssh_dir/rank") || code=$?
  close_nodes "$code"
  return "$code"
}

# In the background, for bash hears no signal while a child runs in the foreground. A signal ends
# `wait`, not the ranks, who hear it too and may be saving a checkpoint: their end is awaited.
(
  trap '' TERM
  start_ranks
) &
ranks=$!
while kill -0 "$ranks" 2>/dev/null; do wait "$ranks" || true; done
status=0
wait "$ranks" || status=$? # bash keeps it
ranks=
if [[ -z $reason ]] && ended_by_slurm; then why_ended; fi
[[ -z $reason ]] || exit "$status" # ranks that were told to end are not done, however they ended
(( status == 0 )) || exit "$status"

exit 0 # before bash gets to what follows, and writes it into files in /tmp, which may be full
# ---- programs: `unpack` takes them out of this file ------------------------------------------
: <<'end of over_ssh.py'
"""Starts a rank that a launcher reaches by ssh as it would be started by Slurm.

    over_ssh.py keep FOLDER COMMAND...   on the first node: what the ranks are to find
    over_ssh.py serve FOLDER SSHD        on every node: the sshd by which the ranks are reached
    over_ssh.py deaf COMMAND...          the launcher, which SIGTERM does not reach
    over_ssh.py run FOLDER               on any node: one rank, with all that was kept
    over_ssh.py interface NODE           the network interface that leads to another node

ssh leaves the job's environment and folder behind, and the launchers paste what they take along
into a remote shell, unquoted or half quoted: a value with a dollar would be run. So they are given
one word, this program's, and the rest lies in FOLDER/rank.json, which only the job's user reads.

A rank ends with its launcher: when the connection is cut, or rank.json is removed or another's, the
rank is told to end, and killed if it does not. The job removes it, or a rank that failed; the job's
next attempt writes another, maybe before an earlier one's rank has looked.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import time
from typing import Any, Mapping

# What a launcher sets for each rank; all else is the job's.
LAUNCHER_SETS = (
    *("CROSS_RANK", "CROSS_SIZE", "CUDA_VISIBLE_DEVICES", "LOCAL_RANK", "LOCAL_SIZE"),
    *("LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "RANK", "WORLD_SIZE"),
)
LAUNCHER_PREFIXES = ("HOROVOD_",)
# What the batch script has for itself: as a rank's it would be wrong.
NOT_KEPT = (
    *("CUDA_VISIBLE_DEVICES", "HOSTNAME", "SLURMD_NODENAME", "SLURM_GTIDS", "SLURM_LOCALID"),
    *("SLURM_NODEID", "SLURM_PROCID", "SLURM_TASK_PID"),
)
GRACE_SECONDS = 25  # below KillWait's default, 30 s
SIOCGIFADDR = 0x8915  # Linux: ioctl that asks for an interface's address
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
TOKEN_BYTES = 16
BEGINNING = len('{"token": "') + 2 * TOKEN_BYTES  # of rank.json, by which an attempt knows its own
ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


def keep(folder: str, command: list[str]) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in NOT_KEPT}
    here = {"folder": str(pathlib.Path.cwd()), "node": socket.gethostname()}
    token = os.urandom(TOKEN_BYTES).hex()  # first, for it alone is read again and again
    kept = {"token": token, "environment": environment, "command": command, **here}
    file = pathlib.Path(folder, "rank.json")
    file.touch(mode=0o600, exist_ok=False)
    file.write_text(json.dumps(kept))


def serve(folder: str, sshd: str) -> int:
    """An sshd. Told to end, it lets nobody in any more and ends with the last who is in.

    Slurm tells all processes of a step, also those of sshd, and when the step's task has ended, it
    kills what is left: so this is the task, and waits for what sshd leaves behind.
    """
    set_option(PR_SET_CHILD_SUBREAPER, 1)
    file = pathlib.Path(folder, "rank.json")
    own = beginning(file)
    server = subprocess.Popen([sshd, "-D", "-e", "-f", f"{folder}/sshd_config"])
    told: list[bool] = []

    def stop(*_: Any) -> None:
        if not told:
            signal.alarm(GRACE_SECONDS)
            server.kill()
        told.append(True)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGUSR1, lambda *_: sys.exit(0))  # nobody is in
    signal.signal(signal.SIGALRM, lambda *_: sys.exit(1))
    while someone_is_below():
        if not own or beginning(file) != own:
            stop()
        time.sleep(0.2)
    return 0 if told else 1


def someone_is_below() -> bool:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    return False


def beginning(file: pathlib.Path) -> bytes:
    """Nothing where it is gone. Opened, for NFS may remember for a minute what `stat` asks."""
    with contextlib.suppress(FileNotFoundError), file.open("rb") as opened:
        return opened.read(BEGINNING)
    return b""


def deaf(command: list[str]) -> None:
    """Blocked, for a launcher's own handler would override `ignored`."""
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    os.execvp(command[0], command)


def run(folder: str) -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # until they can be handed on
    parent = os.getppid()
    file = pathlib.Path(folder, "rank.json")
    text = file.read_text()
    own, kept = text[:BEGINNING].encode(), json.loads(text)
    environment = {**kept["environment"], **set_by_launcher(os.environ)}
    name_interface(environment, kept)
    os.chdir(kept["folder"])
    rank = subprocess.Popen(kept["command"], env=environment, preexec_fn=become_rank)

    def hand_on(number: int, _frame: Any) -> None:
        tell(rank.pid, number)

    for number in ENDING:
        signal.signal(number, hand_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    while not has_ended(rank):
        if os.getppid() != parent or beginning(file) != own:
            return end(rank)
    if rank.returncode and beginning(file) == own:  # the others would wait for this one
        with contextlib.suppress(FileNotFoundError):
            file.unlink()
    return rank.returncode


def has_ended(rank: subprocess.Popen[bytes]) -> bool:
    with contextlib.suppress(subprocess.TimeoutExpired):
        rank.wait(1)
    return rank.returncode is not None


def set_by_launcher(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name in LAUNCHER_SETS or name.startswith(LAUNCHER_PREFIXES)
    }


def name_interface(environment: dict[str, str], kept: Mapping[str, Any]) -> None:
    """horovodrun gives all ranks the name that the first node's interface has; names differ."""
    name, own = "HOROVOD_GLOO_IFACE", kept["environment"]
    if name in environment and socket.gethostname() != kept["node"]:
        environment[name] = own.get(name) or interface(own["MASTER_ADDR"])


def become_rank() -> None:
    """In the new process: a group of its own, as it is with srun; no signal ignored or blocked."""
    os.setsid()
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    set_option(PR_SET_PDEATHSIG, signal.SIGKILL)


def set_option(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value)


def end(rank: subprocess.Popen[bytes]) -> int:
    tell(rank.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        rank.wait(GRACE_SECONDS)
    tell(rank.pid, signal.SIGKILL)  # the group: what the rank itself has started, too
    return rank.wait()


def tell(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def interface(node: str) -> str:
    """The name of the interface over which this node and that one talk."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.connect((node, 9))  # nothing is sent: the kernel only chooses the way
        own = asking.getsockname()[0]
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode())
            try:
                answer = fcntl.ioctl(asking.fileno(), SIOCGIFADDR, request)
            except OSError:
                continue  # an interface without an address
            if socket.inet_ntoa(answer[20:24]) == own:
                return name
    raise SystemExit(f"clusterjobs: no interface here has the address {own}")


def main(words: list[str]) -> int:
    if words[0] == "keep":
        keep(words[1], words[2:])
        return 0
    if words[0] == "interface":
        sys.stdout.write(f"{interface(words[1])}\n")
        return 0
    if words[0] == "deaf":
        deaf(words[1:])
    if words[0] == "serve":
        return serve(words[1], words[2])
    code = run(words[1])
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
end of over_ssh.py

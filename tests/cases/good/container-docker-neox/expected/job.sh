#!/usr/bin/env bash
# neox: 2 nodes x 8 GPUs (p4d.24xlarge), gpt-neox started by deepy
#
# Written by clusterjobs 0.1.0 from a spec. Change the spec, not this script:
#   clusterjobs plan   spec.yaml
#   clusterjobs render spec.yaml
# In the spec's folder: the first says why each value is what it is, the second writes this again.
#
# shellcheck disable=SC1091,SC2016 # values in single quotes are not meant to be expanded
# shellcheck disable=SC2317,SC2329 # `exit` stands before the programs, and traps call functions

#SBATCH --job-name=neox
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=12
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

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
  { read -r newest < /fsx/checkpoints/neox/latest; } 2>/dev/null || true
  printf '%s' "${newest//[\"\\[:cntrl:]]/_}"
}

lifeline=
ssh_nodes=
end_ssh() {
  [[ -n $lifeline ]] || return 0
  (printf 'end\n' >&"$lifeline") 2>/dev/null || true
  exec {lifeline}>&-
  [[ -z $ssh_nodes ]] || timeout 20 tail --pid="$ssh_nodes" -f /dev/null || true
}

finish() {
  local status=$?
  set +e # whatever fails here keeps nothing else from being done
  trap - EXIT
  trap '' USR1
  trap 'reason=cancelled' TERM
  end_ssh
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

in_time cd -- /fsx/code/gpt-neox || fail 'no workdir /fsx/code/gpt-neox here' # in a child, for it may hang
cd -- /fsx/code/gpt-neox

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
export LOCAL_WORLD_SIZE=8 # ranks per node, which srun does not set
# a new folder per node and attempt: the lock of a killed build hangs all ranks
export TORCH_EXTENSIONS_DIR="/tmp/torch-extensions-$SLURM_JOB_ID-$attempt"

# ---- files -----------------------------------------------------------------------------------
in_time mkdir -p -- /fsx/checkpoints/neox || fail 'cannot make /fsx/checkpoints/neox'
cat > "$job_dir"/clusterjobs_launch.yml <<'END'
{
  "launcher": "pdsh",
  "no_ssh_check": true,
  "train_batch_size": 128,
  "train_micro_batch_size_per_gpu": 4,
  "gradient_accumulation_steps": 2,
  "save": "/fsx/checkpoints/neox",
  "load": "/fsx/checkpoints/neox",
  "checkpoint_factor": 1000
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
unpack job_ssh.py job_ssh_login.py

# ---- inputs: what is missing now would be missing in the next attempt, too -------------------
[[ -r deepy.py ]] || fail "no script deepy.py in $PWD: correct the spec's script or workdir, or put it there"
[[ -r train.py ]] || fail "no script train.py in $PWD: correct the spec's script or workdir, or put it there"

# ---- container: one on every node, by docker -------------------------------------------------
mounts=( # from the node into the container
  'type=bind,source=/fsx,target=/fsx' # shared storage of p4d-a100
)
inside=( # what the ranks find set, whatever the image says; by name, so that no value is shown
  MASTER_ADDR MASTER_PORT OMP_NUM_THREADS PYTHONUNBUFFERED NCCL_DEBUG NCCL_SOCKET_IFNAME
  TORCH_NCCL_DUMP_ON_TIMEOUT TORCH_FR_BUFFER_SIZE TORCH_NCCL_TRACE_BUFFER_SIZE
  TORCH_FR_DUMP_TEMP_FILE TORCH_NCCL_DEBUG_INFO_TEMP_FILE FI_PROVIDER FI_EFA_USE_HUGE_PAGE
  LOCAL_WORLD_SIZE TORCH_EXTENSIONS_DIR SLURM_JOB_ID SLURM_JOB_NODELIST SLURM_NNODES SLURM_NODEID
  SLURM_RESTART_COUNT USER
)
# sshd and ssh want to know who they are, and the image does not know this user.
ssh_folder=/dev/shm/clusterjobs-$SLURM_JOB_ID # in the memory of each container
printf '%s\n' 'sshd:x:65533:65533::/run/sshd:/usr/sbin/nologin' \
  "$(id -un):x:$UID:$(id -g)::$ssh_folder:/bin/bash" > "$job_dir/passwd"
mounts+=("type=bind,source=$job_dir/passwd,target=/etc/passwd,readonly")
container=(
  docker run
  --rm --init # gone when it ends; signals are handed on
  --interactive # it lives as long as its input: as this script, whatever ends that
  --name="clusterjobs-$SLURM_JOB_ID" --label=clusterjobs.user="$UID"
  --user="$UID:$(id -g)" "${GROUPS[@]/#/--group-add=}" # what it writes belongs to who submitted
  --network=host # the nodes' own addresses, and EFA
  --gpus=all # by NVIDIA's container toolkit
  --device=/dev/infiniband # EFA; without it NCCL takes TCP (aws-ofi-nccl issue 1020)
  --shm-size=16g # Docker's own 64 MB break NCCL
  --ulimit=memlock=-1:-1 # EFA and NCCL pin memory
  "--workdir=$PWD" # where the job runs
  "${mounts[@]/#/--mount=}"
  "${inside[@]/#/--env=}"
  --env=HOME=/tmp # the image knows no home of this user
  my.registry:5000/gpt-neox:2.0
)
# Left behind where a node crashed, or still on its way out: containers of this user whose job is
# over, or is this one.
srun --overlap --cpu-bind=none --cpus-per-task="$SLURM_CPUS_ON_NODE" \
  --nodes=2 --ntasks=2 --ntasks-per-node=1 bash -c '
  set -o pipefail
  end() {
    printf "clusterjobs: %s: %s\n" "$SLURMD_NODENAME" "$1" >&2
    exit 1
  }
  states=running,suspended,completing
  alive=" $(squeue --noheader --user="$UID" --states="$states" --format=%A | tr "\n" " ")" ||
    end "squeue does not say which jobs run"
  left() {
    docker ps --all --filter="label=clusterjobs.user=$UID" --format="{{.Names}}" |
      while read -r name; do
        job=${name#clusterjobs-}
        [[ $job != "$SLURM_JOB_ID" && $alive == *" $job "* ]] || printf "%s\n" "$name"
      done
  }
  for _ in {1..60}; do
    names=$(left) || end "docker does not answer: may this user call it?"
    [[ -n $names ]] || exit 0
    xargs docker rm --force <<< "$names" || sleep 1 # it is being removed
  done
  end "containers that were left behind cannot be removed: $names"' \
  || fail 'not every node is ready for its container'

# ---- ssh: one sshd in each container, with a port and a key for this job alone ---------------
# The key is made here and comes to the containers through their lifeline: it is in no file but in
# their memory, on no command line, and gone with them.
ssh_port=$((10000 + SLURM_JOB_ID % 2000))
while port_in_use "$ssh_port"; do
  ssh_port=$((10000 + (ssh_port - 10000 + 919) % 2000))
done
exec {lifeline}> >(
  trap '' TERM
  exec srun --overlap --cpu-bind=none --cpus-per-task="$SLURM_CPUS_ON_NODE" \
  --nodes=2 --ntasks=2 --ntasks-per-node=1 --kill-on-bad-exit=1 \
    "${container[@]}" bash -c '
    exec python3 "$@"' node \
    "$job_dir/job_ssh.py" serve "$ssh_folder" "$ssh_port" "${nodes[@]}"
)
ssh_nodes=$!
python3 "$job_dir/job_ssh.py" keys >&"$lifeline"
deadline=$((SECONDS + 1800)) # a node may have to fetch the image first
until docker exec "clusterjobs-$SLURM_JOB_ID" python3 "$job_dir/job_ssh.py" reach \
  "$ssh_folder" "${nodes[@]}" > "$job_dir/ssh.log" 2>&1; do
  if ! kill -0 "$ssh_nodes" 2>/dev/null || (( SECONDS > deadline )); then
    cat -- "$job_dir/ssh.log"
    fail 'the nodes do not reach each other by ssh'
  fi
  sleep 1
done

# In the first node's container, and not by `docker exec`, whose client leaves when Slurm says TERM.
in_first_container() {
  local code=
  rm -f -- "$job_dir/launched"
  printf '%s\0' "$@" > "$job_dir/launch"
  printf 'run\n' >&"$lifeline"
  while kill -0 "$ssh_nodes" 2>/dev/null && [[ ! -e $job_dir/launched ]]; do sleep 1; done
  { read -r code < "$job_dir/launched"; } 2>/dev/null || true
  return "${code:-1}" # 1: the containers have ended before it
}

# ---- launch: deepy.py has DeepSpeed start the ranks by ssh -----------------------------------
command=(
  python3 deepy.py train.py -d configs small.yml "$job_dir/clusterjobs_launch.yml" "$job_dir/clusterjobs_master.yml"
)
# A missing host file would silently train on one node, so it is written here, by this job.
DLTS_HOSTFILE="$job_dir/hostfile"
printf '%s slots=8\n' "${nodes[@]}" > "$DLTS_HOSTFILE"
# Not told the address, DeepSpeed would ask the first node for it by ssh.
printf '{"master_addr": "%s", "master_port": %s}\n' "$MASTER_ADDR" "$MASTER_PORT" \
  > "$job_dir/clusterjobs_master.yml"
# deepy.py runs in this node's container, and reaches the others with pdsh, over the job's own ssh.
start_ranks() {
  in_first_container env DLTS_HOSTFILE="$DLTS_HOSTFILE" \
    PDSH_SSH_ARGS_APPEND="-F $ssh_folder/.ssh/config" "${command[@]}"
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
: <<'end of job_ssh.py'
"""ssh between the nodes of one job, with keys that are made for it alone and vanish with it.

    job_ssh.py keys                        prints new keys, as one line of JSON
    job_ssh.py serve FOLDER PORT HOST...   reads that line, runs an sshd until it reads `end`
    job_ssh.py reach FOLDER HOST...        whether every host can be reached; silent if so

FOLDER is in memory (/dev/shm), and has a config for ssh: `ssh -F FOLDER/.ssh/config HOST`. The
keys are in no other file. Nobody but this user gets in, and by nothing but the key. What a login
finds is job_ssh_login.py's to say.

When the first node's `serve` reads `run`, it starts the command in the file `launch` beside this
program, and writes its exit code to `launched`. `sh FOLDER/rank` runs the one in the file `rank`.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pwd
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

MEMORY = Path("/dev/shm")
# Where a command failed, its launcher may end the others in its own way before `serve` does.
PATIENCE_SECONDS = 10
PR_SET_PDEATHSIG = 1


def keys() -> None:
    """A key to log in with, one to know the hosts by; ssh-keygen wants to write, so to memory."""
    made = {}
    with tempfile.TemporaryDirectory(dir=str(MEMORY)) as folder:
        for name in ("login", "host"):
            file = Path(folder, name)
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(file)]
            subprocess.run(command, check=True)
            made[name] = file.read_text()
            made[f"{name}.pub"] = Path(f"{file}.pub").read_text()
    sys.stdout.write(json.dumps(made) + "\n")


# ------------------------------------------------------------------ the folder


def lay_out(folder: Path, port: str, hosts: Iterable[str], made: dict[str, str]) -> None:
    """Keys and configs of both sides; nobody else may look into the folder."""
    shutil.rmtree(str(folder), ignore_errors=True)
    folder.mkdir(mode=0o700)
    (folder / ".ssh").mkdir(mode=0o700)
    (folder / "ranks").mkdir(mode=0o700)
    user = pwd.getpwuid(os.getuid()).pw_name
    python, command = shlex.quote(sys.executable), shlex.quote(str(beside("rank")))
    files = {
        "login": made["login"],
        "host": made["host"],
        "authorized_keys": made["login.pub"],
        "known_hosts": f"clusterjobs {made['host.pub']}",
        "pid": f"{os.getpid()} {started(os.getpid())}\n",
        ".ssh/config": CLIENT.format(folder=folder, port=port, user=user, hosts=" ".join(hosts)),
        "sshd_config": SERVER.format(folder=folder, port=port, user=user, python=python),
        # Read by a shell, for not all memory can be executed.
        "rank": f"exec {python} {folder}/job_ssh_login.py rank {folder} {command}\n",
    }
    for name, text in files.items():
        where = os.open(str(folder / name), os.O_WRONLY | os.O_CREAT, 0o600)
        with os.fdopen(where, "w") as file:
            file.write(text)
    shutil.copy(str(beside("job_ssh_login.py")), str(folder))


CLIENT = """\
Host {hosts}
  Port {port}
  User {user}
  IdentityFile {folder}/login
  IdentitiesOnly yes
  HostKeyAlias clusterjobs
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  PasswordAuthentication no
  LogLevel ERROR
"""
# StrictModes looks at the folders above, and /dev/shm is everybody's; {folder} is not.
SERVER = """\
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
StrictModes no
AllowUsers {user}
PermitRootLogin prohibit-password
PasswordAuthentication no
ChallengeResponseAuthentication no
UsePAM no
AllowTcpForwarding no
AllowAgentForwarding no
X11Forwarding no
PermitTunnel no
MaxStartups 1000
MaxSessions 1000
LogLevel ERROR
ForceCommand {python} {folder}/job_ssh_login.py session {folder}
"""


def sweep() -> None:
    """Away with the folders of this user whose `serve` is gone: it was killed, not ended."""
    for folder in MEMORY.glob("clusterjobs-*"):
        with contextlib.suppress(OSError, ValueError):
            if folder.stat().st_uid == os.getuid():
                pid, start = (folder / "pid").read_text().split()
                if started(int(pid)) != start:
                    shutil.rmtree(str(folder))


def started(pid: int) -> str:
    """When a process started, which with its number makes it unique; "" if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[19]
    except OSError:
        return ""


# ------------------------------------------------------------------ serving


def serve(place: str, port: str, *hosts: str) -> None:
    """Run sshd until the input ends, or says so. Told to end, it tells the ranks and goes on.

    A command that failed ends it too: pdsh would wait for the other nodes, and they for this one.
    """
    folder, control = Path(place), os.fdopen(0, "rb", buffering=0)
    sweep()
    lay_out(folder, port, hosts, json.loads(control.readline().decode()))
    sshd = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin")
    if sshd is None:
        shutil.rmtree(place)
        sys.exit("job_ssh: there is no sshd here: the image needs openssh-server")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(parents=True, exist_ok=True)  # root's sshd locks itself up there
    command = [sshd, "-D", "-e", "-f", str(folder / "sshd_config")]
    server = subprocess.Popen(command, preexec_fn=end_with_parent)
    signal.signal(signal.SIGTERM, lambda *_: tell_to_end(folder, server.pid))
    try:
        said = why_end(folder, server, control, port)
    finally:
        tell(sessions(server.pid), signal.SIGKILL)
        server.kill()
        shutil.rmtree(place, ignore_errors=True)
    if said is not None:
        sys.exit(f"job_ssh on {os.uname().nodename}: {said}")


def end_with_parent() -> None:
    """In the new process: killed when `serve` is."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def why_end(
    folder: Path, server: subprocess.Popen[bytes], control: IO[bytes], port: str
) -> str | None:
    """Waits until there is a reason to end: None where it was asked to."""
    failed, told, since = folder / "failed", folder / "told", None
    launcher = None
    while True:
        if select.select([control], [], [], 1)[0]:
            if control.readline() != b"run\n":
                return None
            launcher = launch() if os.environ.get("SLURM_NODEID") == "0" else None
        if launcher and launcher.poll() is not None:
            code = launcher.returncode
            write_whole(beside("launched"), f"{128 - code if code < 0 else code}\n")
            launcher = None
        if server.poll() is not None:
            return f"sshd ended with {server.returncode}; is port {port} taken?"
        if failed.exists() and not told.exists():
            since = since or time.monotonic()
            if time.monotonic() - since > PATIENCE_SECONDS:
                return f"a command that was started here by ssh ended with {failed.read_text()}"


def launch() -> subprocess.Popen[bytes]:
    """Hears none of the signals of `serve`: the ranks do, and it ends when they have."""
    words = beside("launch").read_bytes().split(b"\0")[:-1]
    return subprocess.Popen(words, stdin=subprocess.DEVNULL)


def beside(name: str) -> Path:
    return Path(__file__).resolve().with_name(name)


def write_whole(file: Path, text: str) -> None:
    draft = file.with_name(f"{file.name}.new")
    draft.write_text(text)
    draft.replace(file)


def tell_to_end(folder: Path, server: int) -> None:
    """To the ranks alone where they are known: a shell around them would end before they do."""
    (folder / "told").touch()
    ranks = [int(entry.name) for entry in (folder / "ranks").iterdir()]
    tell(ranks or sessions(server), signal.SIGTERM)


def sessions(server: int) -> list[int]:
    """The processes below sshd, but for sshd's own."""
    below, known = [], {server}
    found = sorted(processes())
    for _ in found:  # a parent may have the higher number
        for pid, parent, name in found:
            if parent in known and pid not in known:
                known.add(pid)
                if not name.startswith("sshd"):
                    below.append(pid)
    return below


def processes() -> Iterator[tuple[int, int, str]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                head, _, tail = (entry / "stat").read_text().rpartition(") ")
                yield int(entry.name), int(tail.split()[1]), head.partition("(")[2]


def tell(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


# ------------------------------------------------------------------ asking


def reach(place: str, *hosts: str) -> None:
    """Log in everywhere at once; the exit code says whether all of it worked."""
    command = ["ssh", "-F", f"{place}/.ssh/config", "-o", "ConnectTimeout=5", "-o", "BatchMode=yes"]
    tries = [subprocess.Popen([*command, host, "true"], stdin=subprocess.DEVNULL) for host in hosts]
    codes = [one.wait() for one in tries]
    sys.exit(1 if any(codes) else 0)


if __name__ == "__main__":
    commands: dict[str, Callable[..., None]]
    commands = {"keys": keys, "serve": serve, "reach": reach}
    commands[sys.argv[1]](*sys.argv[2:])
end of job_ssh.py
: <<'end of job_ssh_login.py'
"""What a login finds, by the ssh of job_ssh.py: the environment and the folder of its `serve`.

    job_ssh_login.py session FOLDER     what sshd runs, whatever it is asked for
    job_ssh_login.py rank FOLDER FILE   becomes the command in FILE, its words ended by zero bytes

They are read from the process itself, so that secrets are in no file. `rank` is for launchers that
paste what they start, and their own environment, into a remote shell.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

# What srun says of the task that `serve` is; to a rank it would be a lie.
KEPT_OF_SLURM = ("SLURM_JOB_", "SLURM_SUBMIT_", "SLURM_RESTART_COUNT", "SLURM_NODEID", "SLURM_NNO")


def session(place: str) -> None:
    """What sshd runs for each login: the command, in the environment and the folder of `serve`."""
    environment, folder = of_serve(place)
    environment.update({k: v for k, v in os.environ.items() if k in ("SSH_CONNECTION", "SSH_TTY")})
    command = os.environ.get("SSH_ORIGINAL_COMMAND")
    words = ["bash", "-c", command] if command else ["bash"]
    shell = subprocess.Popen(words, env=environment, cwd=folder)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # `serve` tells the command itself
    code = shell.wait()
    code = 128 - code if code < 0 else code
    if code:
        with contextlib.suppress(OSError):  # `serve` may have ended, and its folder with it
            Path(place, "failed").write_text(str(code))
    sys.exit(code)


def rank(place: str, file: str) -> None:
    """One rank in place of this process. horovodrun starts those of its own node without ssh."""
    environment, folder = of_serve(place)
    set_by_horovodrun = {k: v for k, v in os.environ.items() if k.startswith("HOROVOD_")}
    environment.update(set_by_horovodrun)
    first = environment["MASTER_ADDR"]
    if set_by_horovodrun.get("HOROVOD_HOSTNAME", first) != first:
        # All ranks are given the name that the first node's interface has; names differ.
        ask = [sys.executable, str(Path(file).with_name("over_ssh.py")), "interface", first]
        environment["HOROVOD_GLOO_IFACE"] = subprocess.check_output(ask).decode().strip()
    command = [os.fsdecode(word) for word in Path(file).read_bytes().split(b"\0")[:-1]]
    Path(place, "ranks", str(os.getpid())).touch()
    if Path(place, "told").exists():
        sys.exit(128 + signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # whatever the launcher has left it at
    os.chdir(folder)
    os.execvpe(command[0], command, environment)


def of_serve(place: str) -> tuple[dict[str, str], str]:
    """The environment and the folder that `serve` was started with."""
    process = Path("/proc", Path(place, "pid").read_text().split()[0])
    pairs = [item.partition(b"=") for item in (process / "environ").read_bytes().split(b"\0")]
    environment = {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
    environment = {name: value for name, value in environment.items() if is_true_here(name)}
    return environment, os.readlink(str(process / "cwd"))


def is_true_here(name: str) -> bool:
    foreign = not name or name.startswith(("SLURM_", "SRUN_", "PMI"))
    return not foreign or name.startswith(KEPT_OF_SLURM)


if __name__ == "__main__":
    commands: dict[str, Callable[..., None]] = {"session": session, "rank": rank}
    commands[sys.argv[1]](*sys.argv[2:])
end of job_ssh_login.py

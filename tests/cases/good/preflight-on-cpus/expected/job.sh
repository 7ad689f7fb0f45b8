#!/usr/bin/env bash
# cpus: 2 nodes x 1 rank (c6i.xlarge), command started by srun
#
# Written by clusterjobs 0.1.0 from a spec. Change the spec, not this script:
#   clusterjobs plan   spec.yaml
#   clusterjobs render spec.yaml
# In the spec's folder: the first says why each value is what it is, the second writes this again.
#
# shellcheck disable=SC1091,SC2016 # values in single quotes are not meant to be expanded
# shellcheck disable=SC2317,SC2329 # `exit` stands before the programs, and traps call functions

#SBATCH --job-name=cpus
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
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

job_dir="$SLURM_SUBMIT_DIR/logs/$SLURM_JOB_ID"
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
asking= # the preflight, while it runs

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
  [[ -z $asking ]] || kill -- "$asking" 2>/dev/null
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

# ---- inherited: of the shell that called sbatch, nothing that Slurm or torch would obey ------
# It may be part of another job. Of Slurm's variables only those stay that sbatch sets for this one.
for name in "${!SLURM_@}" "${!SRUN_@}"; do
  case $name in
    SLURM_ARRAY_* | SLURM_CLUSTER_NAME | SLURM_CONF | SLURM_CONF_SERVER) ;;
    SLURM_CPUS_ON_NODE | SLURM_GPUS_ON_NODE | SLURM_GTIDS | SLURM_JOB_* | SLURM_JOBID) ;;
    SLURM_NNODES | SLURM_NODEID | SLURM_NODELIST | SLURM_NPROCS | SLURM_NTASKS) ;;
    SLURM_RESTART_COUNT | SLURM_SUBMIT_* | SLURM_TASKS_PER_NODE | SLURM_TASK_PID) ;;
    SLURM_TOPOLOGY_* | SLURM_WORKING_CLUSTER | SLURM_CPUS_PER_TASK | SLURM_MEM_PER_NODE) ;;
    SLURM_NTASKS_PER_NODE) ;;
    *) unset "$name" ;;
  esac
done
unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE NODE_RANK GROUP_RANK ROLE_RANK MASTER_ADDR \
  MASTER_PORT PYTHONPATH PYTHONHOME CUDA_VISIBLE_DEVICES "${!TORCHELASTIC_@}" "${!OMPI_COMM_@}" \
  "${!PMI_@}" "${!PMIX_@}" "${!SQUEUE_@}" "${!SCANCEL_@}" "${!SCONTROL_@}"

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
export OMP_NUM_THREADS=4 # CPUs of one rank; unset, every rank would use all
export PYTHONUNBUFFERED=1 # log lines appear when they are written

# ---- files -----------------------------------------------------------------------------------
# sbatch keeps a copy of this script and of nothing else, so the programs stand at its end.
unpack() { # NAME...
  local name steps=()
  for name; do
    steps+=(-e "/^: <<'end of $name'\$/,/^end of $name\$/ { //! w $name" -e '}')
  done
  (cd -- "$job_dir" && exec sed -n "${steps[@]}") < "$0"
}
unpack preflight.py preflight_hardware.sh preflight_node.sh preflight_software.sh \
  preflight_table.py

# ---- preflight: each node says whether it is what the training needs -------------------------
# By the system's own Python if it can be: it starts fastest, and is on no shared folder. RHEL 8's is
# 3.6, which is too old, and seen without the time that starting it takes.
python=/usr/bin/python3
for name in /usr/bin/python3.{0..6}; do
  [[ ! $python -ef $name ]] || python=
done
if [[ ! -x $python ]]; then
  python=$(type -P python3) || fail 'the preflight needs a python3: there is none on this node'
  "$python" -BEsS -c 'import sys; sys.exit(sys.version_info < (3, 7))' \
    || fail "the preflight needs Python 3.7 or newer: $python is $("$python" --version 2>&1)"
fi
asked=(
  seconds=60 # for all of it; a node that is silent is bad
  mount=/fsx # fsx of small
  "folder=$job_dir" # the job's own folder: the same for all nodes
  "space=10:$job_dir" # GiB free: the job's own folder
  space=1:/tmp # GiB free: programs keep temporary files there
  clock=5 # seconds apart: logs, file times, signed requests
  network # an interface that NCCL_SOCKET_IFNAME takes
  names # every node finds MASTER_ADDR by its name
  port # MASTER_PORT is free, and every node can call it
  packages=numpy==1.26 # what the job's Python must have
)

rm -f -- "$job_dir/bad_nodes"
"$python" -BEsS "$job_dir/preflight.py" "${nodes[@]}" -- "${asked[@]}" -- srun --overlap \
  --cpu-bind=none --mpi=none --input=none --chdir=/ --kill-on-bad-exit=0 \
  --nodes=2 --ntasks=2 --ntasks-per-node=1 &
asking=$!
status=0
wait "$asking" || status=$?
asking=
if (( status )); then
  if ended_by_slurm; then told_to_end; fi
  reason=not_started
  exit "$status"
fi

# ---- launch: srun starts one task per rank ---------------------------------------------------
command=(
  ./run
)
srun_options=(
  --nodes=2 # as planned, whatever sbatch was told
  --ntasks=2 # likewise
  --ntasks-per-node=1 # likewise
  --label # every line says which task wrote it
  --kill-on-bad-exit=1 # one dead task ends the step, not a timeout
  --wait=0 # a rank may go on after the others, to save or to evaluate
  --cpu-bind=none # threads may move; data loaders need it
  --cpus-per-task=4 # not inherited in Slurm 22.05-23.02
)
# In single quotes: expanded by each task, not by this script.
start_ranks() {
  srun "${srun_options[@]}" bash -c '
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID
    export WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=1
    exec "$@"' rank "${command[@]}"
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
: <<'end of preflight.py'
"""Check every node with one srun, print the results, and list the bad nodes.

    python3 -BEsS preflight.py NODE... -- CHECK=WANTED... -- SRUN OPTION...

Runs on the batch host. srun runs `preflight_node.sh` on every node; a node that has not reported
within `seconds=` is bad. Exits with 0 or `FAILED`. The bad nodes are written to the file
`bad_nodes` beside this program, unless they are so many that the nodes are probably not at fault.

-E, -s and -S keep the job's PYTHONPATH and all site-packages out, which may be on a dead mount.
"""

from __future__ import annotations

import collections
import os
import select
import signal
import socket
import subprocess
import sys
import time
from typing import IO, Any, Iterator

import preflight_table as table
from preflight_table import Row

FAILED = 69  # EX_UNAVAILABLE of sysexits.h: not a usual exit code of a training or a shell
FOLDER = os.path.dirname(os.path.abspath(__file__))
NODE_PROGRAM = ("preflight_hardware.sh", "preflight_software.sh", "preflight_node.sh")
BASH = ("/bin/bash", "-p", "-c")  # -p: neither BASH_ENV nor functions of the job's environment

# Create a token, and delete it and the files of the nodes when stdin ends, which it does however
# preflight.py ends.
KEEP_TOKEN = """
trap '' TERM
cd -- "$1" || exit
: > "$2"
echo done
read -r
rm -f -- "${@:2}"
"""


def main(words: list[str]) -> int:
    start = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # also stops srun
    first, second = (i for i, word in enumerate(words) if word == "--")
    nodes, checks, srun = words[:first], words[first + 1 : second], words[second + 1 :]
    folders = [check.partition("=")[2] for check in checks if check.startswith("folder=")]
    tokens = Tokens(folders, nodes)
    try:
        rows = table.in_order(nodes, checks, run_checks(nodes, checks, srun, tokens))
    finally:
        tokens.remove()
    table.print_table(nodes, rows)
    bad = table.root_causes(nodes[0], rows)
    table.print_verdict(nodes, rows, bad, time.monotonic() - start)
    bad_nodes = [node for node in nodes if any(row.node == node for row in bad)]
    if bad_nodes and 2 * len(bad_nodes) <= len(nodes):
        with open(os.path.join(FOLDER, "bad_nodes"), "w") as file:
            file.write(table.hostlist(bad_nodes) + "\n")
    return FAILED if bad else 0


def run_checks(nodes: list[str], checks: list[str], srun: list[str], tokens: Tokens) -> list[Row]:
    """The checks of the batch host first, then those of all nodes."""
    wanted = dict(check.partition("=")[::2] for check in checks)
    seconds = float(wanted.get("seconds", 60))
    checks = [check for check in checks if check.partition("=")[0] not in ("seconds", "clock")]
    rows = []
    hanging = tokens.wait(seconds / 3)
    for folder in hanging:  # no node could compare it with the batch host's
        checks.remove(f"folder={folder}")
        seen = f"no answer in {seconds / 3:.3g} s: it hangs"
        rows.append(Row(nodes[0], f"folder {folder}", "bad", seen, "an answer"))
    if hanging:
        seconds *= 2 / 3
    listener, port = None, os.environ.get("MASTER_PORT", "")
    if "port" in wanted:
        try:
            listener = listen(int(port))
        except OSError as error:
            checks.remove("port")
            rows.append(Row(nodes[0], "port", "bad", f"{port}: {error.strerror}", "a free port"))
    step = Step(len(nodes), seconds, float(wanted.get("clock", "inf")), listener)
    program = "".join(map(read_text, NODE_PROGRAM))
    command = [*srun, *BASH, program, "preflight", tokens.name, f"{seconds:.0f}", *checks]
    rows += step.run(command)
    rows += table.missing_rows(nodes, checks, rows, step.finished, step.why)
    return rows


def read_text(name: str) -> str:
    with open(os.path.join(FOLDER, name)) as file:
        return file.read()


def listen(port: int) -> socket.socket:
    """Listen on MASTER_PORT: this shows that it is free, and the nodes connect to it."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("0.0.0.0", port))
    listener.listen(1024)
    return listener


class Tokens:
    """A file in each folder that the nodes look for, to see that they share the folder.

    A process per folder creates and deletes it: on a dead mount it hangs and cannot be killed.
    """

    def __init__(self, folders: list[str], nodes: list[str]) -> None:
        self.name = f".clusterjobs-{os.urandom(8).hex()}"
        names = (self.name, *(f"{self.name}.{node}" for node in nodes))
        self.keepers = {
            folder: subprocess.Popen(
                [*BASH, KEEP_TOKEN, "keep_token", folder, *names],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            for folder in folders
        }

    def wait(self, seconds: float) -> list[str]:
        """Wait for the tokens, and return the folders that hang.

        A folder that is missing or full does not hang: the nodes report it.
        """
        deadline = time.monotonic() + seconds
        waiting: dict[Any, str] = {keeper.stdout: path for path, keeper in self.keepers.items()}
        while waiting:
            left = max(0.0, deadline - time.monotonic())
            ready = select.select(list(waiting), [], [], left)[0]
            if not ready:
                break
            for output in ready:
                del waiting[output]
        for folder in waiting.values():
            del self.keepers[folder]
        return list(waiting.values())

    def remove(self) -> None:
        deadline = time.monotonic() + 5
        for keeper in self.keepers.values():
            if keeper.stdin:
                keeper.stdin.close()
        for keeper in self.keepers.values():
            try:
                keeper.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                pass


class Step:
    """One srun and its output. `finished`: nodes that have reported all their checks.

    `why`: for which reason the others have not.
    """

    def __init__(
        self, nodes: int, seconds: float, tolerance: float, listener: socket.socket | None
    ) -> None:
        self.nodes, self.seconds, self.tolerance = nodes, seconds, tolerance
        self.listener = listener
        # A caller hangs up first, so that no TIME_WAIT is left on this port. The oldest of more
        # than a hundred is closed.
        self.callers: collections.deque[socket.socket] = collections.deque(maxlen=100)
        self.finished: list[str] = []
        self.why = f"no answer in {seconds:g} s"

    def run(self, command: list[str]) -> list[Row]:
        """The results that came in time; later ones are discarded."""
        self.started = time.time()
        environment = {**os.environ, "LC_ALL": "C"}  # the messages of programs are parsed
        srun = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment
        )
        assert srun.stdout
        try:
            return [row for line in self.lines(srun.stdout) for row in self.rows(line)]
        finally:
            if len(self.finished) < self.nodes:  # else srun ends by itself: do not wait for it
                stop(srun)

    def lines(self, output: IO[bytes]) -> Iterator[str]:
        """srun's output until all nodes have finished, srun has ended or the time is over."""
        deadline, pending = time.monotonic() + self.seconds, b""
        while len(self.finished) < self.nodes:
            sources: list[Any] = [output, *filter(None, [self.listener])]
            ready = select.select(sources, [], [], max(0.0, deadline - time.monotonic()))[0]
            if not ready:
                return
            if self.listener and self.listener in ready:
                self.callers.append(self.listener.accept()[0])
            if output in ready:
                data = os.read(output.fileno(), 65536)
                if not data:
                    self.why = "srun ended without its answer"
                    return
                *whole, pending = (pending + data).split(b"\n")
                for line in whole:
                    yield line.decode("utf-8", "replace")

    def rows(self, line: str) -> list[Row]:
        """The result in a line; other lines are printed."""
        fields = line.split("\t")
        if fields[0] != "preflight" or len(fields) != 6:
            print(line)
            return []
        row = Row(*fields[1:])
        if row.verdict == "end":
            self.finished.append(row.node)
            return []
        if row.check == "clock":
            return [self.clock_row(row)] if self.tolerance < float("inf") else []
        return [row]

    def clock_row(self, row: Row) -> Row:
        """The node read its clock after srun started and before its line arrived: no estimate."""
        ahead, behind = float(row.seen) - time.time(), self.started - float(row.seen)
        wanted = f"within {self.tolerance:g} s"
        if max(ahead, behind) <= self.tolerance:
            return row._replace(verdict="ok", seen=wanted, wanted=wanted)
        seen = f"{ahead:.0f} s ahead" if ahead > 0 else f"{behind:.0f} s behind"
        return row._replace(verdict="bad", seen=seen, wanted=wanted)


def stop(srun: subprocess.Popen[bytes]) -> None:
    """Give srun 5 s to end its tasks; one on a dead mount may never end."""
    srun.terminate()
    try:
        srun.wait(5)
    except subprocess.TimeoutExpired:
        srun.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
end of preflight.py
: <<'end of preflight_hardware.sh'
# shellcheck shell=bash
# The checks of GPUs and EFA devices, prepended to preflight_node.sh; see there.
# shellcheck disable=SC2154 # `if_missing` is defined there

# NVIDIA's nvidia-smi manual: --query-gpu, and what it counts as uncorrected ECC errors.
check_gpus() { # COUNT
  local wanted="$1, no uncorrected ECC errors" fields=name,ecc.errors.uncorrected.volatile.total
  local output line name errors names='' broken='' count=0 IFS=$'\n'
  type -P nvidia-smi > /dev/null || { report gpus "$if_missing" 'no nvidia-smi' "$wanted"; return; }
  run nvidia-smi "--query-gpu=$fields" --format=csv,noheader \
    || { report gpus bad "$output" "$wanted"; return; }
  for line in $output; do
    name=${line%, *} errors=${line##*, }
    [[ $line == *', '* && $errors == [0-9[N]* ]] || continue # a warning, not a GPU
    [[ $names == *"$name"* ]] || names+="${names:+ and }$name"
    [[ $errors != *[!]\[0NA/\ ]* ]] || broken+="${broken:+, }GPU $count has $errors"
    (( ++count ))
  done
  output="$count${names:+ $names}${broken:+, ECC errors: $broken}"
  report_test "$(( count >= $1 && ! ${#broken} ))" gpus "$output" "$wanted"
}

check_processes() {
  local wanted='none on the GPUs' output line found='' IFS=$'\n'
  type -P nvidia-smi > /dev/null \
    || { report processes "$if_missing" 'no nvidia-smi' "$wanted"; return; }
  run nvidia-smi --query-compute-apps=pid,process_name --format=csv,noheader \
    || { report processes bad "$output" "$wanted"; return; }
  for line in $output; do
    [[ $line != [0-9]* ]] || found+="${found:+; }$line"
  done
  report_test "$(( ! ${#found} ))" processes "${found:-none}" "$wanted"
}

# libfabric's fi_info(1): a domain is listed once for each kind of endpoint (-rdm, -dgrm).
check_efa() { # COUNT
  local output line IFS=$'\n'
  local -A domains=()
  type -P fi_info > /dev/null || { report efa "$if_missing" 'no fi_info' "$1 domains"; return; }
  run fi_info -p efa || output=
  for line in $output; do
    line=${line#"${line%%[! ]*}"}
    [[ $line != 'domain: '* ]] || line=${line#domain: } domains[${line%-*}]=
  done
  report_test "$(( ${#domains[@]} >= $1 ))" efa "${#domains[@]} domains" "$1 domains"
}

# EFA pins memory; Slurm passes on the limit of the shell that called sbatch.
check_memlock() {
  local limit total
  limit=$(ulimit -l)
  if [[ $limit == unlimited ]]; then
    report memlock ok unlimited unlimited
  elif [[ $if_missing == absent ]] && ! type -P fi_info > /dev/null; then
    report memlock absent "$limit KiB, no EFA to pin memory for" unlimited
  else
    read -r _ total _ < /proc/meminfo
    report_test "$(( limit >= total ))" memlock "$limit KiB" unlimited
  fi
}
end of preflight_hardware.sh
: <<'end of preflight_node.sh'
# shellcheck shell=bash
# Run once on every node before the training: does this node have what the job needs?
#
#     /bin/bash -p -c "$(cat preflight_hardware.sh preflight_software.sh preflight_node.sh)" \
#       preflight TOKEN SECONDS CHECK=WANTED...
#
# Each result is a line for preflight.py: `preflight`, node, check, verdict (ok, bad, absent), what
# was seen, what is wanted, with tabs between. TOKEN is the name of a file that the batch host has
# created in the folders and deletes together with what is written here. Results that come later
# than SECONDS are discarded.
#
# Whatever may be slow or hang (a program, a disk, a server) runs in a background process, so that
# preflight.py can name the check that hangs. Nothing else does: starting processes takes most of
# the time. This is bash because Python alone would take longer to start; bash 4.2, as Amazon
# Linux 2 has it. The exit code is 0: preflight.py decides.
#
# Before bash 5.1 a here-string is a file in /tmp, which may be full: lists are split as words.
# shellcheck disable=SC2206
set -f

node=${SLURMD_NODENAME:-$HOSTNAME}
token=$1
timeout=$(( $2 / 3 + 1 )) # of a single check
SECONDS=0 # the job's environment may set it
shift 2
# The job's PATH may contain a folder on a dead mount: only the checks of its software use it.
# shellcheck disable=SC2034 # used in preflight_software.sh
job_path=$PATH
PATH=/usr/bin:/bin:/opt/amazon/efa/bin:$PATH
if_missing=bad # the verdict on missing hardware; in a lab of clusterjobs it is no fault
[[ ! -e /.lab/lab.json ]] || if_missing=absent

run_checks() { # CHECK=WANTED...
  local one now=${EPOCHREALTIME:-} storage=() folders=() background=() disks call names output=
  [[ -n $now ]] || printf -v now '%(%s)T' -1
  report clock at "$now" ''
  for one; do
    case $one in
      mount=* | lustre=* | space=* | shm=*) storage+=("$one") ;;
      folder=*) folders+=("${one#*=}") ;;
      port) exec {call}< <(call_master) ;;
      names) names=wanted ;;
      memlock | network) "check_$one" ;; # cannot hang
      *) "check_${one%%=*}" "${one#*=}" & background+=("$!") ;;
    esac
  done
  for one in "${folders[@]:1}"; do
    check_folder "$one" & background+=("$!")
  done
  if (( ${#storage[@]} )); then
    exec {disks}< <(file_systems "${storage[@]}")
    check_storage "$disks" "${storage[@]}"
  fi
  [[ -z ${call:-} ]] || check_port "$call"
  if [[ -n ${names:-} && $output == answers ]]; then
    report names ok 'its port answers' 'an address for MASTER_ADDR'
  elif [[ -n ${names:-} ]]; then
    check_names & background+=("$!")
  fi
  # The first folder in this process and last: if it hangs, it delays nothing else.
  for one in "${folders[@]::1}"; do check_folder "$one"; done
  (( ! ${#background[@]} )) || wait "${background[@]}"
  report '' end '' ''
}

report() { # CHECK VERDICT SEEN WANTED; a single write, so that lines do not mix
  local line="preflight	$node" field
  for field; do line+="	${field//[[:space:]]/ }"; done
  printf '%s\n' "$line"
}

report_test() { # 1 (ok) or 0 (bad), CHECK SEEN WANTED
  local verdicts=(bad ok)
  report "$2" "${verdicts[$1]}" "$3" "$4"
}

run() { # COMMAND...: sets `output`; on failure to its exit code and last line, and returns 1
  local status
  output=$("$@" < /dev/null 2>&1) && return
  status=$?
  output="${1##*/} exits $status: ${output##*$'\n'}"
  return 1
}

# ---- storage

check_storage() { # FD of df's output, CHECK=WANTED...
  local disks=$1 one lines number=0 each=() limit=3
  shift
  if read -r -t "$timeout" -u "$disks" _ && mapfile -t -u "$disks" lines \
    && (( ${#lines[@]} == $# )); then # df prints everything at its end
    for one; do
      check_file_system "$one" "${lines[number++]}"
    done
    return
  fi
  for one; do # one of them hangs or is missing: run df for each
    exec {disks}< <(file_systems "$one")
    each+=("$disks")
  done
  for one; do
    read -r -t "$limit" -u "${each[number++]}" _
    if (( $? > 128 )); then
      report "$(label "$one")" bad 'no answer in 3 s: it hangs' 'an answer'
      limit=0.1 # the others have had the same 3 s
    else
      mapfile -t -u "${each[number - 1]}" lines
      check_file_system "$one" "${lines[0]:-}"
    fi
  done
}

label() { # CHECK=WANTED: the name of the check in the table, with its folder
  case $1 in
    shm=*) echo shm ;;
    space=*) echo "space ${1#*:}" ;;
    *) echo "${1%%=*} ${1#*=}" ;;
  esac
}

file_systems() { # CHECK=WANTED...: a header, and a line for each
  local one paths=()
  for one; do
    case $one in
      shm=*) paths+=(/dev/shm) ;;
      space=*) paths+=("${one#*:}") ;;
      *) paths+=("${one#*=}") ;;
    esac
  done
  exec df --block-size=1M --output=fstype,avail,itotal,iavail,target -- "${paths[@]}" 2> /dev/null
}

check_file_system() { # CHECK=WANTED, and the line of df, or nothing if the folder is missing
  local check=${1%%=*} wanted=${1#*=} fields=($2) at=/${2#*/}
  local kind=${fields[0]:-} free=${fields[1]:-} files=${fields[2]:-} free_files=${fields[3]:-}
  case $check in
    mount) check_mount "$wanted" ;;
    lustre) check_mount "$wanted" lustre ;;
    shm) check_space shm "$wanted" ;;
    space) check_space "space ${wanted#*:}" "${wanted%%:*}" ;;
  esac
}

check_mount() { # PATH [KIND]; df has found $kind, mounted at $at
  local wanted="a mount${2:+ of $2}"
  if [[ -z $kind ]]; then
    report "$check $1" bad 'not there' "$wanted"
  elif [[ $at != "$1" ]]; then
    report "$check $1" bad "a folder of the node's own" "$wanted"
  elif [[ -n ${2:-} && $kind != "$2" ]]; then
    report "$check $1" "$if_missing" "$kind, no $2" "$wanted"
  else
    report "$check $1" ok "$kind" "$wanted"
  fi
}

# Free space and free inodes (0 of 0 on file systems that do not count them).
check_space() { # CHECK GIB; df has found $free MiB and $free_files of $files inodes
  local wanted="$2 GiB free" seen
  if [[ -z $free ]]; then
    report "$1" bad 'not there' "$wanted"
    return
  fi
  free=${free//[!0-9]/} # `-` if unknown
  printf -v seen '%d.%02d GiB' "$(( free / 1024 ))" "$(( free % 1024 * 100 / 1024 ))"
  (( free < 10240 )) || seen="$(( (free + 512) / 1024 )) GiB"
  if [[ $files == [1-9]* && $free_files == 0 ]]; then
    report "$1" bad "$seen, and no file can be made (inodes)" "$wanted"
  else
    report_test "$(( free >= $2 * 1024 ))" "$1" "$seen" "$wanted"
  fi
}

# Is the batch host's token visible, and can this node write?
check_folder() { # PATH
  local wanted="the batch host's, writable" own=$1/$token.$node output
  if [[ ! -f $1/$token ]]; then
    output='another folder'
    [[ -d $1 ]] || output='not there'
    report "folder $1" bad "$output" "$wanted"
  elif { printf '%065536d' 0 > "$own"; } 2> /dev/null; then # a full disk takes only an empty file
    report "folder $1" ok 'the same, writable' "$wanted"
  else
    output=$({ printf '%065536d' 0 > "$own"; } 2>&1)
    report "folder $1" bad "${output##*: }" "$wanted"
  fi
}

# ---- network

# NCCL's manual, NCCL_SOCKET_IFNAME: prefixes; `^` excludes, `=` wants the whole name. Every
# interface with an address has a route, except `lo`.
check_network() {
  local IFS=, rule=${NCCL_SOCKET_IFNAME:-^lo} routes prefixes prefix name is_named is_wanted=1
  local found=
  [[ $rule != ^* ]] || is_wanted=0
  prefixes=(${rule##*[\^=]})
  mapfile -t -s 1 routes < /proc/net/route
  for name in lo "${routes[@]%%	*}"; do
    is_named=0
    for prefix in "${prefixes[@]}"; do
      [[ ! $name == "$prefix"* || $rule == *=* && $name != "$prefix" ]] || is_named=1
    done
    if (( is_named == is_wanted )) && [[ ", $found, " != *", $name, "* ]]; then
      found+="${found:+, }$name"
    fi
  done
  report_test "$(( ${#found} > 0 ))" network "${found:-no such interface}" \
    "one that NCCL_SOCKET_IFNAME=$rule takes"
}

# preflight.py listens on MASTER_PORT. A node that can connect can also resolve MASTER_ADDR. The
# output goes to a pipe of its own: if the connection hangs, nothing waits for it.
call_master() {
  exec 2>&1
  : <> "/dev/tcp/$MASTER_ADDR/$MASTER_PORT" && echo answers
}

check_port() { # FD of call_master's output; sets `output`
  local wanted="port $MASTER_PORT of $MASTER_ADDR answers" left=$(( timeout - SECONDS ))
  if read -r -t "$(( left > 1 ? left : 1 ))" -u "$1" output || (( $? < 128 )); then
    output=${output##*: }
  else
    output="no answer in $timeout s"
  fi
  [[ $output != answers ]]
  report_test "$?" port "$output" "$wanted"
}

check_names() {
  local wanted='an address for MASTER_ADDR' found address
  if found=$(getent ahostsv4 "$MASTER_ADDR"); then
    address=${found%% *}
    [[ $address == 127.* && $node != "$MASTER_ADDR" ]]
    report_test "$?" names "$address" "$wanted"
  else
    report names bad "$MASTER_ADDR: no such name" "$wanted"
  fi
}

run_checks "$@"
end of preflight_node.sh
: <<'end of preflight_software.sh'
# shellcheck shell=bash
# The checks of packages, compilers and containers, prepended to preflight_node.sh; see there.
# shellcheck disable=SC2154,SC2206 # `job_path` is defined there; lists are split as there

# With the job's own Python. It imports no package: torch alone would take seconds.
probe() { # PACKAGE...; sets `output` to lines of a name and its version
  PATH=$job_path run python3 -c '
import importlib.util, os, re, sys, sysconfig
try:
    from importlib.metadata import version
except ImportError:
    from pkg_resources import get_distribution
    version = lambda name: get_distribution(name).version
for name in sys.argv[1:]:
    try:
        found = version(name)
    except Exception:
        found = "?" if importlib.util.find_spec(name) else "-"
    print(name, found)
torch = importlib.util.find_spec("torch") if "torch" in sys.argv else None
for folder in torch.submodule_search_locations if torch else ():
    with open(os.path.join(folder, "version.py")) as file:
        cuda = re.search(r"(?m)^cuda\b.*?=\s*.([0-9.]+)", file.read())
    print("cuda", cuda.group(1) if cuda else "-")
headers = os.path.join(sysconfig.get_paths()["include"], "Python.h")
print("headers", "there" if os.path.exists(headers) else "-")
' "$@"
}

version_of() { # NAME; sets `version` from its line in $output
  local text=$'\n'$output$'\n'
  version=-
  if [[ $text == *$'\n'"$1 "* ]]; then
    version=${text#*$'\n'"$1 "} version=${version%%$'\n'*}
  fi
}

# `torch==2.6,deepspeed`: installed, and 2.6 or a release of it such as 2.6.1.
check_packages() { # NAME[==VERSION],...
  local IFS=, pair name pin version output seen='' wanted='' is_good=1
  local pairs=($1)
  probe "${pairs[@]%%==*}" || { report packages bad "$output" "$1"; return; }
  for pair in "${pairs[@]}"; do
    name=${pair%%==*} pin=
    [[ $pair != *==* ]] || pin=${pair#*==}
    wanted+="${wanted:+, }$name${pin:+ $pin}"
    version_of "$name"
    if [[ $version == - ]]; then
      seen+="${seen:+, }no $name" is_good=0
    else
      seen+="${seen:+, }$name $version"
      [[ -z $pin || "${version%%+*}." == "$pin".* ]] || is_good=0
    fi
  done
  report_test "$is_good" packages "$seen" "$wanted"
}

# What torch needs to compile extensions; it refuses a CUDA of another major version.
check_build() {
  local wanted="nvcc of torch's CUDA, ninja, Python.h"
  local output version release=- cuda headers ninja seen
  if [[ $if_missing == absent ]] && ! type -P nvidia-smi > /dev/null; then
    report build absent 'no GPU to compile for' "$wanted"
    return
  fi
  if PATH=${CUDA_HOME:-/usr/local/cuda}/bin:$job_path run nvcc --version; then
    release=${output#*release } release=${release%%,*}
  fi
  probe torch ninja || { report build bad "$output" "$wanted"; return; }
  version_of cuda && cuda=$version
  version_of headers && headers=$version
  version_of ninja && ninja=$version
  [[ $ninja != - ]] || ninja=$(PATH=$job_path type -P ninja) || ninja=-
  seen="nvcc $release, torch's CUDA $cuda"
  [[ $ninja != - ]] || seen+=', no ninja'
  [[ $headers == there ]] || seen+=', no Python.h'
  [[ ${release%%.*} != "${cuda%%.*}" || $cuda == - || $ninja == - || $headers != there ]]
  report_test "$?" build "$seen" "$wanted"
}

# pyxis adds its options to srun's own help.
check_containers() {
  local output
  PATH=$job_path run srun --help
  if [[ $output == *--container-image* ]]; then
    report containers ok pyxis pyxis
  else
    report containers bad 'no pyxis' pyxis
  fi
}
end of preflight_software.sh
: <<'end of preflight_table.py'
"""The preflight's results as a table and a verdict; it knows nothing of how they are obtained."""

from __future__ import annotations

import subprocess
from typing import NamedTuple


class Row(NamedTuple):
    """One result. `verdict`: ok, bad, or absent (hardware that a lab lacks, which is no fault)."""

    node: str
    check: str
    verdict: str
    seen: str
    wanted: str


def missing_rows(
    nodes: list[str], checks: list[str], rows: list[Row], finished: list[str], why: str
) -> list[Row]:
    """A bad row for each check without a result; of a node without any, one row for all."""
    reported = {(row.node, row.check) for row in rows}
    labels = [check_label(check) for check in checks]
    found = []
    for node in nodes:
        missing = [label for label in labels if (node, label) not in reported]
        has_finished = node in finished
        if not has_finished and (len(missing) == len(labels) or why.startswith("srun")):
            missing = ["answers"]
        seen = "no answer" if has_finished else why
        found += [Row(node, label, "bad", seen, "an answer") for label in missing]
    return found


def check_label(check: str) -> str:
    """The name of a check in the table, with its folder: `space=10:/fsx` is `space /fsx`."""
    name, _, wanted = check.partition("=")
    if name in ("mount", "lustre", "folder"):
        return f"{name} {wanted}"
    return f"{name} {wanted.partition(':')[2]}" if name == "space" else name


def in_order(nodes: list[str], checks: list[str], rows: list[Row]) -> list[Row]:
    """In the order of the checks and the nodes, whichever node was fastest."""
    names = [check.partition("=")[0] for check in checks]

    def position(row: Row) -> tuple[int, str, str, int]:
        name = row.check.partition(" ")[0]
        number = names.index(name) if name in names else len(names)
        node = nodes.index(row.node) if row.node in nodes else len(nodes)
        return (number, row.check, row.verdict, node)

    return sorted(rows, key=position)


def print_table(nodes: list[str], rows: list[Row]) -> None:
    """A line per check and result; nodes with the same result share one."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        seen = row.seen if row.verdict != "ok" else ""  # numbers of good nodes may differ
        groups.setdefault((row.verdict, row.check, seen), []).append(row)
    lines = [("", "check", "seen", "wanted", "nodes")]
    for (verdict, check, _), group in groups.items():
        mark = verdict.upper() if verdict == "bad" else verdict
        where = [row.node for row in group]
        who = f"all {len(nodes)}" if len(nodes) == len(set(where)) > 1 else hostlist(where)
        lines.append((mark, check, _range([row.seen for row in group]), group[0].wanted, who))
    widths = [max(len(line[i]) for line in lines) for i in range(4)]
    for line in lines:
        print("  ".join(["", *map(str.ljust, line, widths), line[4]]))


def _range(values: list[str]) -> str:
    """`8.1 GiB to 12 GiB`: the smallest and the largest."""
    different = sorted(set(values), key=lambda text: (_number(text), text))
    return different[0] if len(different) == 1 else f"{different[0]} to {different[-1]}"


def _number(text: str) -> float:
    try:
        return float(text.partition(" ")[0])
    except ValueError:
        return 0.0


def hostlist(nodes: list[str]) -> str:
    """Slurm's short form, `train-dy-p4d-[1-3,7]`."""
    unique = ",".join(dict.fromkeys(nodes))
    if "," not in unique:
        return unique
    try:
        command = ["scontrol", "show", "hostlist", unique]
        return subprocess.check_output(command, timeout=10).decode().strip()
    except (OSError, subprocess.SubprocessError):
        return unique


def root_causes(batch_host: str, rows: list[Row]) -> list[Row]:
    """The bad rows without those that follow from a missing mount.

    What is below a mount that the batch host lacks fails on every node.
    """
    bad = [(row, *row.check.partition(" ")[::2]) for row in rows if row.verdict == "bad"]
    lost = [(row.node, f"{path}/") for row, kind, path in bad if kind in ("mount", "lustre")]
    return [
        row
        for row, kind, path in bad
        if kind not in ("folder", "space")
        or not any(node in (row.node, batch_host) and path.startswith(at) for node, at in lost)
    ]


def print_verdict(nodes: list[str], rows: list[Row], bad: list[Row], seconds: float) -> None:
    """One line per fault with its nodes, or one line that says that all is well."""
    if any(row.verdict == "absent" for row in rows):
        print("clusterjobs: this is a lab: absent hardware is no fault")
    if not bad:
        count = "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"
        print(f"clusterjobs: preflight passed on {count} in {seconds:.1f} s")
    faults: dict[tuple[str, str, str], list[str]] = {}
    for row in bad:
        faults.setdefault((row.check, row.seen, row.wanted), []).append(row.node)
    for (check, seen, wanted), where in faults.items():
        who = f"{'node' if len(where) == 1 else 'nodes'} {hostlist(where)}"
        print(f"clusterjobs: preflight failed on {who}: {check}: {seen}; wanted: {wanted}")
end of preflight_table.py

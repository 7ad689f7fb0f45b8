#!/usr/bin/env bash
# preflight: 16 nodes x 8 GPUs (p4d.24xlarge), megatron-deepspeed started by srun
#
# Written by clusterjobs 0.1.0 from a spec. Change the spec, not this script:
#   clusterjobs plan   spec.yaml
#   clusterjobs render spec.yaml
# In the spec's folder: the first says why each value is what it is, the second writes this again.
#
# shellcheck disable=SC1091,SC2016 # values in single quotes are not meant to be expanded
# shellcheck disable=SC2317,SC2329 # `exit` stands before the programs, and traps call functions

#SBATCH --job-name=preflight
#SBATCH --partition=train
#SBATCH --nodes=16
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
sidecars=()
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
  { read -r newest < '/fsx/check points/preflight/latest_checkpointed_iteration.txt'; } 2>/dev/null || true
  printf '%s' "${newest//[\"\\[:cntrl:]]/_}"
}

finish() {
  local status=$?
  set +e # whatever fails here keeps nothing else from being done
  trap - EXIT
  trap '' USR1
  [[ $reason == bad_node ]] || trap 'reason=cancelled' TERM # that TERM is of its own making
  [[ -z $asking ]] || kill -- "$asking" 2>/dev/null
  kill -- "${sidecars[@]}" 2>/dev/null
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

in_time cd -- /fsx/code/Megatron-DeepSpeed || fail 'no workdir /fsx/code/Megatron-DeepSpeed here' # in a child, for it may hang
cd -- /fsx/code/Megatron-DeepSpeed

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
(( ${#nodes[@]} == 16 )) || fail "planned for 16 nodes, got ${#nodes[@]}"

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
# NCCL's first contact; a name such as eth0 differs between nodes
export NCCL_SOCKET_IFNAME='^lo,docker,veth'
export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # a hang leaves a record of who waited
export TORCH_FR_BUFFER_SIZE=20000 # how many calls that record keeps
export TORCH_NCCL_TRACE_BUFFER_SIZE=20000 # its older name
export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where it is kept
export TORCH_NCCL_DEBUG_INFO_TEMP_FILE="$job_dir/nccl-trace-rank-" # its older name
export FI_PROVIDER=efa # plugins before 1.6 do not choose it themselves
export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork fails for want of memory
export NCCL_DEBUG=INFO # its log says whether EFA is used
export NCCL_DEBUG_SUBSYS='INIT,NET' # of that, what is about the network
export NCCL_DEBUG_FILE="$job_dir/nccl/%h.%p" # a file for each rank
export LOCAL_SIZE=8 # ranks per node, which only deepspeed's launcher sets
# a new folder per node and attempt: the lock of a killed build hangs all ranks
export TORCH_EXTENSIONS_DIR="/tmp/torch-extensions-$SLURM_JOB_ID-$attempt"
# libfabric and its NCCL plugin, wherever the AMI has them
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/opt/amazon/efa/lib:/opt/amazon/efa/lib64:/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu:/opt/aws-ofi-nccl/lib"

VIRTUAL_ENV='/fsx/my envs/megatron'
[[ -x $VIRTUAL_ENV/bin/python3 ]] || fail "no virtual environment at $VIRTUAL_ENV"
export VIRTUAL_ENV PATH="$VIRTUAL_ENV/bin:$PATH"

# ---- files -----------------------------------------------------------------------------------
in_time mkdir -p -- '/fsx/check points/preflight' || fail 'cannot make /fsx/check points/preflight'
cat > "$job_dir"/ds_config.json <<'END'
{
  "train_batch_size": 2048,
  "train_micro_batch_size_per_gpu": 8,
  "gradient_accumulation_steps": 2,
  "zero_optimization": {
    "stage": 0
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
unpack preflight.py preflight_table.py preflight_node.sh preflight_hardware.sh \
  preflight_software.sh nccl_log.py

# ---- preflight: each node says whether it is what the training needs -------------------------
# By the system's own Python if it can be: it starts fastest, and is on no shared folder. RHEL 8's is
# 3.6, which is too old, and seen without the time that starting it takes.
python=/usr/bin/python3
for name in /usr/bin/python3.{0..6}; do
  [[ ! $python -ef $name ]] || python=
done
if [[ ! -x $python ]]; then
  python=$(type -P python3) || fail 'the preflight needs a python3: there is none on this node'
  "$python" -IS -c 'import sys; sys.exit(sys.version_info < (3, 7))' \
    || fail "the preflight needs Python 3.7 or newer: $python is $("$python" --version 2>&1)"
fi
rm -rf -- "$job_dir/nccl" && mkdir -p -- "$job_dir/nccl" # of an earlier start of this job
asked=(
  seconds=120 # for all of it; a node that is silent is bad
  gpus=8 # the job's GPUs of a p4d.24xlarge
  processes # a whole node: nobody else is on its GPUs
  efa=4 # the EFA interfaces of a p4d.24xlarge
  memlock # EFA pins memory
  shm=1 # GiB of /dev/shm: NCCL, and loaders of data, share it
  lustre=/fsx # fsx of p4d-a100
  "folder=$job_dir" # the job's own folder: the same for all nodes
  "space=500:$job_dir" # GiB free: the job's own folder
  'folder=/fsx/check points/preflight' # checkpoints: the same for all nodes
  'space=500:/fsx/check points/preflight' # GiB free: checkpoints
  space=1:/tmp # GiB free: programs keep temporary files there
  clock=5 # seconds apart: logs, file times, signed requests
  network # an interface that NCCL_SOCKET_IFNAME takes
  names # every node finds MASTER_ADDR by its name
  port # MASTER_PORT is free, and every node can call it
  'packages=torch==2.6,deepspeed==0.19.8' # what the job's Python must have
  build # megatron-deepspeed compiles extensions when it starts
)

# Only a job that is held can be told to avoid nodes. Holding it ends this script, with Slurm's
# KillWait, 30 s on ParallelCluster, to say the rest.
start_without() {
  trap '' TERM USR1
  local excluded requeue
  excluded=$(squeue --noheader --job="$own_id" --format=%x)
  requeue=$(squeue --noheader --job="$own_id" --Format=requeue)
  requeue=${requeue%% *} # stays as it was: what a lost node means to the job
  [[ -z $excluded ]] || set -- "$1,$excluded"
  printf 'clusterjobs: starting again without %s\n' "$1"
  scontrol update JobId="$own_id" Requeue=1 \
    && scontrol requeuehold "$own_id" \
    && scontrol update JobId="$own_id" ExcNodeList="$1" Requeue="$requeue" \
    && scontrol release "$own_id"
}

rm -f -- "$job_dir/bad_nodes"
"$python" -IS "$job_dir/preflight.py" "${nodes[@]}" -- "${asked[@]}" -- srun --overlap \
  --cpu-bind=none --mpi=none --input=none --chdir=/ --kill-on-bad-exit=0 \
  --nodes=16 --ntasks=16 --ntasks-per-node=1 &
asking=$!
status=0
wait "$asking" || status=$?
asking=
if (( status )); then
  if ended_by_slurm; then told_to_end; fi
  reason=not_started
  if [[ -s $job_dir/bad_nodes ]]; then
    reason=bad_node
    start_without "$(< "$job_dir/bad_nodes")" \
      || fail 'Slurm does not let the job start again'
  fi
  exit "$status"
fi

# ---- inputs: what is missing now would be missing in the next attempt, too -------------------
[[ -r pretrain_gpt.py ]] || fail "no script pretrain_gpt.py in $PWD: correct the spec's script or workdir, or put it there"

# ---- beside the training, until the job ends -------------------------------------------------
"$python" -IS "$job_dir/nccl_log.py" watch "$own_id" "$job_dir/nccl" 128 &
sidecars+=("$!")
tensorboard --logdir /fsx/tb &
sidecars+=("$!")

# ---- launch: srun starts one task per rank ---------------------------------------------------
command=(
  python3 pretrain_gpt.py
  --num-layers 24
  --hidden-size 1024
  --num-attention-heads 16
  --seq-length 1024
  --max-position-embeddings 1024
  --tensor-model-parallel-size 1
  --pipeline-model-parallel-size 1
  --no-pipeline-parallel
  --micro-batch-size 8
  --global-batch-size 2048
  --save '/fsx/check points/preflight'
  --load '/fsx/check points/preflight'
  --deepspeed
  --deepspeed_config "$job_dir/ds_config.json"
  --zero-stage 0
  --save-interval 1000
)
srun_options=(
  --nodes=16 # as planned, whatever sbatch was told
  --ntasks=128 # likewise
  --ntasks-per-node=8 # likewise
  --label # every line says which task wrote it
  --kill-on-bad-exit=1 # one dead task ends the step, not a timeout
  --wait=0 # a rank may go on after the others, to save or to evaluate
  --cpu-bind=none # threads may move; data loaders need it
  --cpus-per-task=12 # not inherited in Slurm 22.05-23.02
)
# In single quotes: expanded by each task, not by this script.
start_ranks() {
  srun "${srun_options[@]}" bash -c '
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID
    export WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=8
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

# ---- after a training that ended well --------------------------------------------------------
reason=after_failure # until all of it has ended well, too
"$python" -IS "$job_dir/nccl_log.py" "$job_dir/nccl" 128
python3 evaluate.py
reason=completed

exit 0 # before bash gets to what follows, and writes it into files in /tmp, which may be full
# ---- programs: `unpack` takes them out of this file ------------------------------------------
: <<'end of preflight.py'
"""The preflight: asks every node once, prints what they answer, and says which nodes are bad.

    preflight.py NODE... -- CHECK=WANTED... -- SRUN OPTION...

Runs on the batch host. It lets srun run `preflight_node.sh`, which lies beside it, on each node,
reads the answers from srun's output, and waits for no node longer than `seconds=` says.
The exit code is 0, or `FAILED`; then the file `bad_nodes` beside this program names those nodes,
unless they are so many that the fault is hardly theirs.
"""

from __future__ import annotations

import _socket
import os
import select
import sys
import time
from collections import namedtuple

# Until srun has started, the launch waits for this program: of the standard library it takes the
# halves that are written in C, and forks by itself (subprocess alone takes as long as the rest).
TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Any, Callable, Iterator
else:
    import _signal as signal

FAILED = 69  # EX_UNAVAILABLE of sysexits.h: not a training's usual code, nor a shell's
HERE = os.path.dirname(os.path.abspath(__file__))


# One answer. `verdict`: ok, bad, absent (what a lab lacks, and no fault there).
Row = namedtuple("Row", "node check verdict seen wanted")


def main(words: list[str]) -> int:
    start = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + 15))  # and srun ends, too
    first, second = (i for i, word in enumerate(words) if word == "--")
    nodes, checks, srun = words[:first], words[first + 1 : second], words[second + 1 :]
    folders = [check.partition("=")[2] for check in checks if check.startswith("folder=")]
    tokens = Tokens(folders, nodes)
    try:
        rows = ask_all(nodes, checks, srun, tokens)
    finally:
        tokens.remove()
    told = table()
    rows = told.in_order(nodes, checks, rows)
    told.print_table(nodes, rows)
    return 0 if told.print_verdict(nodes, rows, time.monotonic() - start) else FAILED


def ask_all(nodes: list[str], checks: list[str], srun: list[str], tokens: Tokens) -> list[Row]:
    """What this node finds out by itself, and what all of them answer."""
    wanted = dict(check.partition("=")[::2] for check in checks)
    seconds = float(wanted.get("seconds", 60))
    asked = [one for one in checks if one.partition("=")[0] not in ("seconds", "clock")]
    rows = []
    hanging = tokens.hanging(seconds / 3)
    for folder in hanging:  # nobody could compare it with this node's
        asked.remove(f"folder={folder}")
        why = f"no answer in {seconds / 3:.3g} s: it hangs"
        rows.append(Row(nodes[0], f"folder {folder}", "bad", why, "an answer"))
    if hanging:
        seconds *= 2 / 3
    listener = None
    if "port" in wanted:
        listener, taken = listen(nodes[0])
        if taken:
            asked.remove("port")
        rows += taken
    asking = Asking(len(nodes), seconds, float(wanted.get("clock", "inf")), listener)
    node = ["/bin/bash", "-p", "-c", node_program(), "preflight"]  # -p: no BASH_ENV, no functions
    rows += asking.ask([*srun, *node, tokens.name, f"{seconds:.0f}", *asked])
    missing = table().unanswered(nodes, asked, rows, asking)
    return rows + [Row(node, check, "bad", why, "an answer") for node, check, why in missing]


def node_program() -> str:
    """Of its parts those that are here; it is run by the last."""
    text = ""
    for part in ("hardware", "software", "node"):
        path = os.path.join(HERE, f"preflight_{part}.sh")
        if os.path.exists(path):
            with open(path) as file:
                text += file.read()
    return text


def table() -> Any:
    """The program's other half, from beside it: isolated (-I), Python does not look there."""
    if HERE not in sys.path:
        sys.path.insert(0, HERE)
        sys.dont_write_bytecode = True
    import preflight_table

    return preflight_table


def listen(master: str) -> tuple[_socket.socket | None, list[Row]]:
    """On MASTER_PORT, as the training will: is it free? And the nodes are to call it."""
    port = int(os.environ["MASTER_PORT"])
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("0.0.0.0", port))
        listener.listen(1024)
    except OSError as error:
        return None, [Row(master, "port", "bad", f"{port}: {error.strerror}", "a free port")]
    return listener, []


class Tokens:
    """A file in each folder, for the nodes to see; in one that is not there or full, there is none.

    A process for each puts it, and removes it and what the nodes have written when this one ends,
    however it ends: whoever asks a dead mount may wait for ever, and cannot even be killed.
    """

    def __init__(self, folders: list[str], nodes: list[str]) -> None:
        self.folders = folders
        self.name = f".clusterjobs-{os.urandom(8).hex()}"
        self.answered: list[int] = []
        self.said, says = os.pipe()
        gone, self.stay = os.pipe()
        for number, folder in enumerate(folders):
            if os.fork() == 0:
                os.close(self.stay)
                keep_token(os.path.join(folder, self.name), nodes, says, gone, bytes([number]))
        os.close(says)
        os.close(gone)

    def hanging(self, seconds: float) -> list[str]:
        """The folders that do not answer within this time."""
        self.answered = self.answers(len(self.folders), seconds)
        return [path for i, path in enumerate(self.folders) if i not in self.answered]

    def remove(self) -> None:
        os.close(self.stay)
        self.answers(len(self.answered), 5)

    def answers(self, count: int, seconds: float) -> list[int]:
        deadline, answered = time.monotonic() + seconds, b""
        while len(answered) < count:
            left = max(0.0, deadline - time.monotonic())
            data = os.read(self.said, 256) if select.select([self.said], [], [], left)[0] else b""
            if not data:
                break
            answered += data
        return list(answered)


def keep_token(file: str, nodes: list[str], says: int, gone: int, answer: bytes) -> None:
    """In a process of its own, which holds nothing open that others wait for."""
    try:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.close(1)
        os.close(2)
        without_error(make, file)
        os.write(says, answer)
        os.read(gone, 1)
        for name in (file, *(f"{file}.{node}" for node in nodes)):
            without_error(os.remove, name)
        os.write(says, answer)
    finally:
        os._exit(0)


def without_error(act: Callable[[str], object], file: str) -> None:
    try:
        act(file)
    except OSError:  # a node that is asked for it says so, too
        pass


def make(file: str) -> None:
    os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o666))


# ------------------------------------------------------------------ asking


class Asking:
    """One srun and what it printed: `ended` are the nodes that have answered everything."""

    def __init__(
        self, count: int, seconds: float, tolerance: float, listener: _socket.socket | None
    ) -> None:
        self.count, self.seconds, self.tolerance = count, seconds, tolerance
        self.listener = listener
        self.callers: list[int] = []
        self.ended: list[str] = []
        self.over = self.why = f"no answer in {seconds:g} s"

    def ask(self, command: list[str]) -> list[Row]:
        """The answers that came in time."""
        self.began = time.time()
        srun, output = started(command)
        try:
            table()  # while srun starts: the launch does not wait for it
            return [row for line in self.lines(output) for row in self.rows(line)]
        finally:  # a step whose tasks have ended goes by itself: nobody has to wait for it
            if len(self.ended) < self.count:
                stop(srun)

    def lines(self, output: int) -> Iterator[str]:
        """What srun prints, until all nodes have answered, it ends, or the time is over."""
        deadline, pending = time.monotonic() + self.seconds, b""
        while len(self.ended) < self.count:
            sources: list[Any] = [output, self.listener] if self.listener else [output]
            ready = select.select(sources, [], [], max(0.0, deadline - time.monotonic()))[0]
            if self.listener in ready and self.listener is not None:
                self.hold(self.listener._accept()[0])  # type: ignore[attr-defined]
            if output in ready:
                data = os.read(output, 65536)
                if not data:
                    self.why = "srun ended without its answer"
                    return
                *whole, pending = (pending + data).split(b"\n")
                for line in whole:
                    yield line.decode("utf-8", "replace")
            if not ready:
                return

    def hold(self, caller: int) -> None:
        """The caller hangs up first, so that no TIME_WAIT is left on this port."""
        self.callers.append(caller)
        for old in self.callers[:-100]:
            os.close(old)
        self.callers[:-100] = []

    def rows(self, line: str) -> list[Row]:
        """A node's line as a row; what else a node printed is passed on."""
        fields = line.split("\t")
        if fields[0] != "preflight" or len(fields) != 6:
            print(line)
            return []
        row = Row(*fields[1:])
        if row.verdict == "end":
            self.ended.append(row.node)
            return []
        if row.verdict == "at":
            return [self.clock(row)] if self.tolerance < float("inf") else []
        return [row]

    def clock(self, row: Row) -> Row:
        """The node read its clock after srun began and before its line came: no guess in it."""
        ahead, behind = float(row.seen) - time.time(), self.began - float(row.seen)
        wanted = f"within {self.tolerance:g} s"
        if max(ahead, behind) <= self.tolerance:
            return row._replace(verdict="ok", seen=wanted, wanted=wanted)
        seen = f"{ahead:.0f} s ahead" if ahead > 0 else f"{behind:.0f} s behind"
        return row._replace(verdict="bad", seen=seen, wanted=wanted)


def started(command: list[str]) -> tuple[int, int]:
    """srun's process, and where its output can be read."""
    output, into = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # which Python ignores
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(into, 1)
            os.execvpe(command[0], command, {**os.environ, "LC_ALL": "C"})  # what it says, is read
        except OSError as error:
            os.write(2, f"clusterjobs: {command[0]}: {error.strerror}\n".encode())
        finally:
            os._exit(127)
    os.close(into)
    return process, output


def stop(srun: int) -> None:
    """With SIGTERM if it obeys: a task in a dead mount may never end."""
    for end in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + 5
        try:
            os.kill(srun, end)
            while time.monotonic() < deadline:
                if os.waitpid(srun, os.WNOHANG)[0]:
                    return
                time.sleep(0.02)
        except OSError:  # it has ended
            return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
end of preflight.py
: <<'end of preflight_table.py'
"""What the preflight tells: a table of all answers, and which nodes are bad.

`preflight.py`, which lies beside it, loads it while srun starts: the launch does not wait for it.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator

    from preflight import Asking, Row

HERE = os.path.dirname(os.path.abspath(__file__))


def unanswered(
    nodes: list[str], asked: list[str], rows: list[Row], asking: Asking
) -> Iterator[tuple[str, str, str]]:
    """Node, check and why, of what has no answer: a node may have ended without one, too."""
    answered = {(row.node, row.check) for row in rows}
    checks = [label(one) for one in asked]
    for node in nodes:
        missing = [check for check in checks if (node, check) not in answered]
        has_ended = node in asking.ended
        if not has_ended and (len(missing) == len(checks) or asking.why is not asking.over):
            missing = ["answers"]
        for check in missing:
            yield node, check, "no answer" if has_ended else asking.why


def label(asked: str) -> str:
    """The check's name in the table, with the folder that it is about."""
    name, _, wanted = asked.partition("=")
    if name in ("mount", "lustre", "folder"):
        return f"{name} {wanted}"
    return f"{name} {wanted.partition(':')[2]}" if name == "space" else name


def in_order(nodes: list[str], checks: list[str], rows: list[Row]) -> list[Row]:
    """As the checks were asked and the nodes are counted, whoever was quickest."""
    asked = [check.partition("=")[0] for check in checks]

    def place(row: Row) -> tuple[int, str, str, int]:
        name = row.check.partition(" ")[0]
        position = asked.index(name) if name in asked else len(asked)
        number = nodes.index(row.node) if row.node in nodes else len(nodes)
        return (position, row.check, row.verdict, number)

    return sorted(rows, key=place)


def print_table(nodes: list[str], rows: list[Row]) -> None:
    """A line for each check and what was seen; nodes that say the same stand together."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        seen = row.seen if row.verdict != "ok" else ""  # nodes in order may differ in numbers
        groups.setdefault((row.verdict, row.check, seen), []).append(row)
    lines = [("", "check", "seen", "wanted", "nodes")]
    for (verdict, check, _), alike in groups.items():
        mark = verdict.upper() if verdict == "bad" else verdict
        where = [row.node for row in alike]
        who = f"all {len(nodes)}" if len(nodes) == len(set(where)) > 1 else hostlist(where)
        lines.append((mark, check, span([row.seen for row in alike]), alike[0].wanted, who))
    widths = [max(len(line[i]) for line in lines) for i in range(4)]
    for line in lines:
        print("  ".join(["", *map(str.ljust, line, widths), line[4]]))


def span(seen: list[str]) -> str:
    """`8.1 GiB to 12 GiB`: the least and the most of what nodes have seen."""
    different = sorted(set(seen), key=lambda text: (number(text), text))
    return different[0] if len(different) == 1 else f"{different[0]} to {different[-1]}"


def number(text: str) -> float:
    try:
        return float(text.partition(" ")[0])
    except ValueError:
        return 0.0


def hostlist(nodes: list[str]) -> str:
    """Slurm's short form, `train-dy-p4d-[1-3,7]`."""
    unique = ",".join(dict.fromkeys(nodes))
    if "," not in unique:
        return unique
    import subprocess  # where nodes differ, and nobody waits for the training

    try:
        show = ["scontrol", "show", "hostlist", unique]
        return subprocess.check_output(show, timeout=10).decode().strip()
    except (OSError, subprocess.SubprocessError):
        return unique


def causes(batch_host: str, bad: list[Row]) -> list[Row]:
    """Without what follows from a missing mount: what lies below it, the batch host's to all."""
    kinds = [(row, *row.check.partition(" ")[::2]) for row in bad]
    lost = [(row.node, f"{path}/") for row, kind, path in kinds if kind in ("mount", "lustre")]
    return [
        row
        for row, kind, path in kinds
        if kind not in ("folder", "space")
        or not any(node in (row.node, batch_host) and path.startswith(at) for node, at in lost)
    ]


def print_verdict(nodes: list[str], rows: list[Row], seconds: float) -> bool:
    """Whether the preflight has passed."""
    bad = causes(nodes[0], [row for row in rows if row.verdict == "bad"])
    if any(row.verdict == "absent" for row in rows):
        print("clusterjobs: this is a lab: what is absent here is no fault")
    if not bad:
        count = "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"
        print(f"clusterjobs: preflight passed on {count} in {seconds:.1f} s")
        return True
    for what in dict.fromkeys((row.check, row.seen, row.wanted) for row in bad):
        where = [row.node for row in bad if (row.check, row.seen, row.wanted) == what]
        label = "node" if len(where) == 1 else "nodes"
        check, seen, wanted = what
        place = f"{label} {hostlist(where)}"
        print(f"clusterjobs: preflight failed on {place}: {check}: {seen}; wanted: {wanted}")
    culprits = [node for node in nodes if any(row.node == node for row in bad)]
    if 2 * len(culprits) <= len(nodes):
        with open(os.path.join(HERE, "bad_nodes"), "w") as file:
            file.write(hostlist(culprits) + "\n")
    return False
end of preflight_table.py
: <<'end of preflight_node.sh'
# shellcheck shell=bash
# Asked once on every node before the training: is this node what the job needs?
#
#     /bin/bash -p -c "$(cat preflight_hardware.sh preflight_software.sh preflight_node.sh)" \
#       preflight TOKEN SECONDS CHECK=WANTED...
#
# The two others hold more checks, where they are asked for.
#
# An answer is a line for preflight.py: `preflight`, node, check, verdict (ok, bad, absent), what
# was seen, what is wanted, with tabs between. TOKEN is the name of a file that the batch host has
# put into the folders, and removes with what is written here. After SECONDS nobody listens.
#
# What may take long or hang (a program, a disk, a server) is asked in a process of its own, so that
# preflight.py can name what does not answer; nothing else is, for starting processes is what takes
# the time. This is bash, because Python takes longer to start than all of it; 4.2, as Amazon Linux 2
# has it. The exit code is 0: preflight.py judges.
#
# Before bash 5.1 a here-string is a file in /tmp, which may be full: lists are split as words.
# shellcheck disable=SC2206
set -f

node=${SLURMD_NODENAME:-$HOSTNAME}
token=$1
patience=$(( $2 / 3 + 1 ))
SECONDS=0 # whatever the job's environment says
shift 2
# Of the job's PATH only Python is wanted, and a folder of it may be on a dead mount.
# shellcheck disable=SC2034 # preflight_software.sh reads it
job_path=$PATH
PATH=/usr/bin:/bin:/opt/amazon/efa/bin:$PATH
lacking=bad # what only a lab of clusterjobs lacks is told, and no fault
[[ ! -e /.lab/lab.json ]] || lacking=absent

ask_all() { # CHECK=WANTED...
  local one now=${EPOCHREALTIME:-} storage=() folders=() own_processes=() disks call names said=
  [[ -n $now ]] || printf -v now '%(%s)T' -1
  say clock at "$now" ''
  for one; do
    case $one in
      mount=* | lustre=* | space=* | shm=*) storage+=("$one") ;;
      folder=*) folders+=("${one#*=}") ;;
      port) exec {call}< <(call_master) ;;
      names) names=asked ;;
      memlock | network) "check_$one" ;; # asks nobody
      *) "check_${one%%=*}" "${one#*=}" & own_processes+=("$!") ;;
    esac
  done
  for one in "${folders[@]:1}"; do
    check_folder "$one" & own_processes+=("$!")
  done
  if (( ${#storage[@]} )); then
    exec {disks}< <(file_systems "${storage[@]}")
    check_storage "$disks" "${storage[@]}"
  fi
  [[ -z ${call:-} ]] || check_port "$call"
  if [[ -n ${names:-} && $said == answers ]]; then
    say names ok 'its port answers' 'an address for MASTER_ADDR'
  elif [[ -n ${names:-} ]]; then
    check_names & own_processes+=("$!")
  fi
  # The first folder in this process: where it hangs, it holds nothing up.
  for one in "${folders[@]::1}"; do check_folder "$one"; done
  (( ! ${#own_processes[@]} )) || wait "${own_processes[@]}"
  say '' end '' ''
}

say() { # CHECK VERDICT SEEN WANTED; in one write, so that lines do not mix
  local line="preflight	$node" field
  for field; do line+="	${field//[[:space:]]/ }"; done
  printf '%s\n' "$line"
}

say_whether() { # 1 or 0, for good or bad, CHECK SEEN WANTED
  local verdicts=(bad ok)
  say "$2" "${verdicts[$1]}" "$3" "$4"
}

run() { # COMMAND...: `said` is all that it prints, and false with its last words where it fails
  local status
  said=$("$@" < /dev/null 2>&1) && return
  status=$?
  said="${1##*/} exits $status: ${said##*$'\n'}"
  return 1
}

# ---- storage

check_storage() { # FD, where df answers, and CHECK=WANTED...
  local disks=$1 one lines number=0 each=() limit=3
  shift
  if read -r -t "$patience" -u "$disks" _ && mapfile -t -u "$disks" lines \
    && (( ${#lines[@]} == $# )); then # df prints all of it at its end
    for one; do
      check_file_system "$one" "${lines[number++]}"
    done
    return
  fi
  for one; do # one hangs, or is not there: each is asked by itself
    exec {disks}< <(file_systems "$one")
    each+=("$disks")
  done
  for one; do
    read -r -t "$limit" -u "${each[number++]}" _
    if (( $? > 128 )); then
      say "$(label "$one")" bad 'no answer in 3 s: it hangs' 'an answer'
      limit=0.1 # the others had the same 3 s
    else
      mapfile -t -u "${each[number - 1]}" lines
      check_file_system "$one" "${lines[0]:-}"
    fi
  done
}

label() { # CHECK=WANTED: the check's name in the table, with the folder that it is about
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

check_file_system() { # CHECK=WANTED LINE, which is empty where nothing is there
  local check=${1%%=*} wanted=${1#*=} fields=($2) at=/${2#*/}
  local kind=${fields[0]:-} free=${fields[1]:-} files=${fields[2]:-} free_files=${fields[3]:-}
  case $check in
    mount) check_mount "$wanted" ;;
    lustre) check_mount "$wanted" lustre ;;
    shm) check_space shm "$wanted" ;;
    space) check_space "space ${wanted#*:}" "${wanted%%:*}" ;;
  esac
}

check_mount() { # PATH [KIND]; $kind and $at are what is there
  local wanted="a mount${2:+ of $2}"
  if [[ -z $kind ]]; then
    say "$check $1" bad 'not there' "$wanted"
  elif [[ $at != "$1" ]]; then
    say "$check $1" bad "a folder of the node's own" "$wanted"
  elif [[ -n ${2:-} && $kind != "$2" ]]; then
    say "$check $1" "$lacking" "$kind, no $2" "$wanted"
  else
    say "$check $1" ok "$kind" "$wanted"
  fi
}

# Free space, and files that can still be made (0 of 0 where a file system does not count them).
check_space() { # CHECK GIB; $free MiB and $free_files are what is there
  local wanted="$2 GiB free" seen
  if [[ -z $free ]]; then
    say "$1" bad 'not there' "$wanted"
    return
  fi
  free=${free//[!0-9]/} # `-` where it is not known
  printf -v seen '%d.%02d GiB' "$(( free / 1024 ))" "$(( free % 1024 * 100 / 1024 ))"
  (( free < 10240 )) || seen="$(( (free + 512) / 1024 )) GiB"
  if [[ $files == [1-9]* && $free_files == 0 ]]; then
    say "$1" bad "$seen, and no file can be made (inodes)" "$wanted"
  else
    say_whether "$(( free >= $2 * 1024 ))" "$1" "$seen" "$wanted"
  fi
}

# The file that the batch host put there is seen, and one of our own can be written.
check_folder() { # PATH
  local wanted="the batch host's, writable" own=$1/$token.$node said
  if [[ ! -f $1/$token ]]; then
    said='another folder'
    [[ -d $1 ]] || said='not there'
    say "folder $1" bad "$said" "$wanted"
  elif { printf '%065536d' 0 > "$own"; } 2> /dev/null; then # a full disk takes the name at most
    say "folder $1" ok 'the same, writable' "$wanted"
  else
    said=$({ printf '%065536d' 0 > "$own"; } 2>&1)
    say "folder $1" bad "${said##*: }" "$wanted"
  fi
}

# ---- network

# NCCL's manual, NCCL_SOCKET_IFNAME: prefixes, `^` leaves out, `=` asks for the whole name. What has
# an address has a route, but for `lo`.
check_network() {
  local IFS=, rule=${NCCL_SOCKET_IFNAME:-^lo} routes prefixes prefix name is_named is_wanted=1 taken=
  [[ $rule != ^* ]] || is_wanted=0
  prefixes=(${rule##*[\^=]})
  mapfile -t -s 1 routes < /proc/net/route
  for name in lo "${routes[@]%%	*}"; do
    is_named=0
    for prefix in "${prefixes[@]}"; do
      [[ ! $name == "$prefix"* || $rule == *=* && $name != "$prefix" ]] || is_named=1
    done
    if (( is_named == is_wanted )) && [[ ", $taken, " != *", $name, "* ]]; then
      taken+="${taken:+, }$name"
    fi
  done
  say_whether "$(( ${#taken} > 0 ))" network "${taken:-no such interface}" \
    "one that NCCL_SOCKET_IFNAME=$rule takes"
}

# preflight.py listens at MASTER_PORT. Who can call it there knows the name, too. Nothing of this
# process waits for the end of a call that nobody takes: it holds no output but its own.
call_master() {
  exec 2>&1
  : <> "/dev/tcp/$MASTER_ADDR/$MASTER_PORT" && echo answers
}

check_port() { # FD, where call_master answers; `said` is its answer
  local wanted="port $MASTER_PORT of $MASTER_ADDR answers" left=$(( patience - SECONDS ))
  if read -r -t "$(( left > 1 ? left : 1 ))" -u "$1" said || (( $? < 128 )); then
    said=${said##*: }
  else
    said="no answer in $patience s"
  fi
  [[ $said != answers ]]
  say_whether "$?" port "$said" "$wanted"
}

check_names() {
  local wanted='an address for MASTER_ADDR' found address
  if found=$(getent ahostsv4 "$MASTER_ADDR"); then
    address=${found%% *}
    [[ $address == 127.* && $node != "$MASTER_ADDR" ]]
    say_whether "$?" names "$address" "$wanted"
  else
    say names bad "$MASTER_ADDR: no such name" "$wanted"
  fi
}

ask_all "$@"
end of preflight_node.sh
: <<'end of preflight_hardware.sh'
# shellcheck shell=bash
# What preflight_node.sh asks of a node's GPUs and its EFA devices. See there.
# shellcheck disable=SC2154 # `lacking` and `said` are its own

# NVIDIA's nvidia-smi manual: --query-gpu, and what it counts as uncorrected ECC errors.
check_gpus() { # COUNT
  local wanted="$1, no uncorrected ECC errors" fields=name,ecc.errors.uncorrected.volatile.total
  local said line name errors names='' broken='' count=0 IFS=$'\n'
  type -P nvidia-smi > /dev/null || { say gpus "$lacking" 'no nvidia-smi' "$wanted"; return; }
  run nvidia-smi "--query-gpu=$fields" --format=csv,noheader \
    || { say gpus bad "$said" "$wanted"; return; }
  for line in $said; do
    name=${line%, *} errors=${line##*, }
    [[ $line == *', '* && $errors == [0-9[N]* ]] || continue # a warning is none
    [[ $names == *"$name"* ]] || names+="${names:+ and }$name"
    [[ $errors != *[!]\[0NA/\ ]* ]] || broken+="${broken:+, }GPU $count has $errors"
    (( ++count ))
  done
  said="$count${names:+ $names}${broken:+, ECC errors: $broken}"
  say_whether "$(( count >= $1 && ! ${#broken} ))" gpus "$said" "$wanted"
}

check_processes() {
  local wanted='none on the GPUs' said line found='' IFS=$'\n'
  type -P nvidia-smi > /dev/null || { say processes "$lacking" 'no nvidia-smi' "$wanted"; return; }
  run nvidia-smi --query-compute-apps=pid,process_name --format=csv,noheader \
    || { say processes bad "$said" "$wanted"; return; }
  for line in $said; do
    [[ $line != [0-9]* ]] || found+="${found:+; }$line"
  done
  say_whether "$(( ! ${#found} ))" processes "${found:-none}" "$wanted"
}

# libfabric's fi_info(1): a domain is listed once for each kind of endpoint (-rdm, -dgrm).
check_efa() { # COUNT
  local said line IFS=$'\n'
  local -A domains=()
  type -P fi_info > /dev/null || { say efa "$lacking" 'no fi_info' "$1 domains"; return; }
  run fi_info -p efa || said=
  for line in $said; do
    line=${line#"${line%%[! ]*}"}
    [[ $line != 'domain: '* ]] || line=${line#domain: } domains[${line%-*}]=
  done
  say_whether "$(( ${#domains[@]} >= $1 ))" efa "${#domains[@]} domains" "$1 domains"
}

# EFA pins memory; Slurm hands on the limit of the shell that called sbatch.
check_memlock() {
  local limit total
  limit=$(ulimit -l)
  if [[ $limit == unlimited ]]; then
    say memlock ok unlimited unlimited
  elif [[ $lacking == absent ]] && ! type -P fi_info > /dev/null; then
    say memlock absent "$limit KiB, no EFA to pin memory for" unlimited
  else
    read -r _ total _ < /proc/meminfo
    say_whether "$(( limit >= total ))" memlock "$limit KiB" unlimited
  fi
}
end of preflight_hardware.sh
: <<'end of preflight_software.sh'
# shellcheck shell=bash
# What preflight_node.sh asks of a node's software: packages, compilers, containers. See there.
# shellcheck disable=SC2154,SC2206 # `job_path` is its own, and there it says how lists are split

# The job's own Python is asked. Nothing is imported: torch alone would take seconds.
probe() { # PACKAGE...; lines of a name and its version in `said`
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

version_of() { # NAME in $said, at the start of a line: sets `version`
  local text=$'\n'$said$'\n'
  version=-
  if [[ $text == *$'\n'"$1 "* ]]; then
    version=${text#*$'\n'"$1 "} version=${version%%$'\n'*}
  fi
}

# `torch==2.6,deepspeed`: there, and of that version or one below it (2.6.1).
check_packages() { # NAME[==VERSION],...
  local IFS=, pair name pin version said seen='' wanted='' is_good=1
  local pairs=($1)
  probe "${pairs[@]%%==*}" || { say packages bad "$said" "$1"; return; }
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
  say_whether "$is_good" packages "$seen" "$wanted"
}

# What torch needs to compile an extension: it refuses a CUDA of another major version.
check_build() {
  local wanted="nvcc of torch's CUDA, ninja, Python.h"
  local said version release=- cuda headers ninja seen
  if [[ $lacking == absent ]] && ! type -P nvidia-smi > /dev/null; then
    say build absent 'no GPU to compile for' "$wanted"
    return
  fi
  if PATH=${CUDA_HOME:-/usr/local/cuda}/bin:$job_path run nvcc --version; then
    release=${said#*release } release=${release%%,*}
  fi
  probe torch ninja || { say build bad "$said" "$wanted"; return; }
  version_of cuda && cuda=$version
  version_of headers && headers=$version
  version_of ninja && ninja=$version
  [[ $ninja != - ]] || ninja=$(PATH=$job_path type -P ninja) || ninja=-
  seen="nvcc $release, torch's CUDA $cuda"
  [[ $ninja != - ]] || seen+=', no ninja'
  [[ $headers == there ]] || seen+=', no Python.h'
  [[ ${release%%.*} != "${cuda%%.*}" || $cuda == - || $ninja == - || $headers != there ]]
  say_whether "$?" build "$seen" "$wanted"
}

# pyxis adds its options to srun's own help.
check_containers() {
  local said
  PATH=$job_path run srun --help
  if [[ $said == *--container-image* ]]; then
    say containers ok pyxis pyxis
  else
    say containers bad 'no pyxis' pyxis
  fi
}
end of preflight_software.sh
: <<'end of nccl_log.py'
"""Reads NCCL's own log: did it take EFA, or TCP without a word?

    nccl_log.py watch JOB FOLDER RANKS    beside the training: ends it where NCCL has taken TCP
    nccl_log.py FOLDER RANKS              after it: exits with FAILED in that case

JOB is the job's id, of a task of an array 123_4: Slurm's own for it may be that of the array.

NCCL writes one file for each rank into FOLDER (NCCL_DEBUG=INFO, NCCL_DEBUG_FILE). `NET/OFI` alone
proves nothing, since the plugin also says there why it failed; what NCCL took in the end is in
`Using network ...`. Warnings are passed on to the job's log, where they would be without a file.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time

FAILED = 69  # as the preflight's own
POLL_SECONDS = 5
MAX_WARNINGS = 20

# NCCL's src/plugin/net.cc and src/transport/net.cc; aws-ofi-nccl names the provider of libfabric.
_NETWORK = re.compile(r"NCCL INFO Using network (.+)")
_CHANNEL = re.compile(r"NCCL INFO Channel .* via NET/([^/]+)/")
_PROVIDER = re.compile(r"NET/OFI Selected [Pp]rovider is ([^\s,]+)")


class Logs:
    """What the files of all ranks have said so far."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.offsets: dict[str, int] = {}
        self.networks: dict[str, str] = {}
        self.warnings = 0

    def read(self) -> None:
        """Take in what is new: whole lines alone."""
        for name in sorted(os.listdir(self.folder)):
            with open(os.path.join(self.folder, name), "rb") as file:
                file.seek(self.offsets.get(name, 0))
                text = file.read()
            whole = text[: text.rfind(b"\n") + 1]
            self.offsets[name] = self.offsets.get(name, 0) + len(whole)
            for line in whole.decode("utf-8", "replace").splitlines():
                self.take(name, line)

    def take(self, name: str, line: str) -> None:
        found = network_of(line)
        if found:
            if is_efa(self.networks.get(name, "Libfabric")):  # once wrong, it stays wrong
                self.networks[name] = found
        elif "NCCL WARN" in line and self.warnings < MAX_WARNINGS:
            self.warnings += 1
            print(line)

    def complaint(self) -> str:
        """What is wrong, or nothing."""
        slow = {name: network for name, network in self.networks.items() if not is_efa(network)}
        if not slow:
            return ""
        hosts = sorted({name.rpartition(".")[0] for name in slow})
        network = sorted(set(slow.values()))[0]
        ranks = "1 rank" if len(slow) == 1 else f"{len(slow)} ranks"
        return (
            f"clusterjobs: NCCL does not use EFA but {network} on {ranks} "
            f"({', '.join(hosts[:8])}{', ...' if len(hosts) > 8 else ''}): see {self.folder}"
        )


def network_of(line: str) -> str:
    """The network that a line of NCCL's says it takes; nothing where it says none."""
    found = _NETWORK.search(line) or _CHANNEL.search(line)
    if found:
        return found.group(1).strip()
    provider = _PROVIDER.search(line)
    if provider and provider.group(1) != "efa":
        return f"the provider {provider.group(1)} of libfabric"
    return ""


def is_efa(network: str) -> bool:
    """`AWS Libfabric` or `Libfabric`, as the plugin's versions call it."""
    return "Libfabric" in network


def watch(job_id: str, logs: Logs, ranks: int) -> None:
    """Until the job ends it; the first rank on another network ends the training."""
    is_told = False
    while True:
        logs.read()
        complaint = logs.complaint()
        if complaint:
            print(f"{complaint}; the training is ended")
            sys.stdout.flush()
            subprocess.call(["scancel", "--signal=TERM", job_id])
            return
        if len(logs.networks) >= ranks and not is_told:
            is_told = True
            print(f"clusterjobs: NCCL uses EFA on all {ranks} ranks")
        sys.stdout.flush()
        time.sleep(POLL_SECONDS)


def judge(logs: Logs) -> int:
    logs.read()
    complaint = logs.complaint()
    if complaint:
        print(complaint)
        return FAILED
    if not logs.networks:
        print("clusterjobs: NCCL left no log, so that nothing proves that it used EFA")
    return 0


def main(words: list[str]) -> int:
    if words[0] == "watch":
        watch(words[1], Logs(words[2]), int(words[3]))
        return 0
    return judge(Logs(words[0]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
end of nccl_log.py

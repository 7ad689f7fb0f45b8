#!/usr/bin/env bash
# neox-20b: 12 nodes x 8 GPUs (p4d.24xlarge), gpt-neox started by deepy
#
# Written by clusterjobs 0.1.0 from a spec. Change the spec, not this script:
#   clusterjobs plan   spec.yaml
#   clusterjobs render spec.yaml
# The first says why each value is what it is, the second writes this script again.
#
# shellcheck disable=SC1091,SC2016 # values in single quotes are not meant to be expanded

#SBATCH --job-name=neox-20b
#SBATCH --partition=train
#SBATCH --nodes=12
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=12
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=7-00:00:00
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

set -euo pipefail

# ---- start: one folder for all that this job writes, and one way out ----------------------
job_dir="/fsx/logs/neox-20b/$SLURM_JOB_ID"
mkdir -p -- "$job_dir"
exec > >(trap '' TERM && exec tee -a -- "$job_dir/job.log") 2>&1
log_writer=$!

fail() {
  printf 'clusterjobs: %s\n' "$1" >&2
  exit 1
}

finish() {
  local status=$?
  trap - EXIT
  printf 'clusterjobs: job %s ended with exit code %s after %s s\n' \
    "$SLURM_JOB_ID" "$status" "$SECONDS"
  exec >&- 2>&- # the log is complete once its writer has read the end
  timeout 10 tail --pid="$log_writer" -f /dev/null || true
  exit "$status"
}
trap finish EXIT
trap 'exit 143' TERM # scancel, the time limit, a lost node

cd -- /fsx/code/gpt-neox || fail 'no workdir /fsx/code/gpt-neox here'

# ---- inherited: of the shell that called sbatch, nothing that srun or torch would obey -------
unset \
  RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE NODE_RANK GROUP_RANK ROLE_RANK MASTER_ADDR \
  MASTER_PORT PYTHONPATH PYTHONHOME SLURM_CPU_BIND SLURM_CPU_BIND_LIST SLURM_CPU_BIND_TYPE \
  SLURM_CPU_BIND_VERBOSE SLURM_CPU_FREQ_REQ SLURM_DISTRIBUTION SLURM_EXACT SLURM_EXPORT_ENV \
  SLURM_GPU_BIND SLURM_GPUS SLURM_GPUS_PER_TASK SLURM_HINT SLURM_LABELIO SLURM_MEM_BIND \
  SLURM_MEM_PER_CPU SLURM_MEM_PER_GPU SLURM_MPI_TYPE SLURM_NTASKS_PER_CORE \
  SLURM_NTASKS_PER_GPU SLURM_NTASKS_PER_SOCKET SLURM_OVERCOMMIT SLURM_OVERLAP SLURM_PROCID \
  SLURM_LOCALID SLURM_STEP_ID SLURM_STEPID SLURM_STEP_NODELIST SLURM_STEP_NUM_TASKS \
  SLURM_THREADS_PER_CORE SLURM_TIMELIMIT SLURM_TRES_PER_TASK SLURM_WHOLE SLURM_WORKING_DIR \
  SRUN_CPUS_PER_TASK \
  "${!TORCHELASTIC_@}" "${!OMPI_COMM_@}" "${!PMI_@}" "${!PMIX_@}"

# ---- rendezvous: all ranks meet on the first node -------------------------------------------
# The port follows from the job id, so that jobs on one node differ, and stays below the
# ephemeral ports (32768 and up). While it is taken, the next candidate is tried.
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
(( ${#nodes[@]} == 12 )) || fail "planned for 12 nodes, got ${#nodes[@]}"

port_in_use() {
  local needle
  printf -v needle ':%04X ' "$1"
  [[ $(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null) == *"$needle"* ]]
}

port=$((SLURM_JOB_ID % 20000))
while port_in_use "$((12000 + port))"; do
  port=$(((port + 7919) % 20000)) # a prime step: never the next job's own first choice
done
export MASTER_ADDR=${nodes[0]} MASTER_PORT=$((12000 + port))

# ---- environment ----------------------------------------------------------------------------
export OMP_NUM_THREADS=12 # CPUs of one rank; unset, every rank would use all
export PYTHONUNBUFFERED=1 # log lines appear when they are written
export NCCL_DEBUG=WARN # says why a collective failed
export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # a hang leaves a record of who waited
export TORCH_FR_BUFFER_SIZE=20000 # how many calls that record keeps
export FI_PROVIDER=efa # fail rather than fall back to TCP
export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork fails for want of memory
# libfabric and its NCCL plugin, wherever the AMI has them
export LD_LIBRARY_PATH="/opt/amazon/efa/lib:/opt/amazon/efa/lib64:/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu:/opt/aws-ofi-nccl/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export LOCAL_WORLD_SIZE=8 # ranks of one node; srun has no such variable
export TORCH_EXTENSIONS_DIR="/tmp/torch-extensions-${SLURM_JOB_ID-}-${SLURM_RESTART_COUNT-}"

VIRTUAL_ENV=/fsx/envs/neox
[[ -x $VIRTUAL_ENV/bin/python3 ]] || fail "no virtual environment at $VIRTUAL_ENV"
export VIRTUAL_ENV PATH="$VIRTUAL_ENV/bin:$PATH"

# ---- files ----------------------------------------------------------------------------------
mkdir -p -- /fsx/checkpoints/neox-20b
cat > "$job_dir"/clusterjobs_launch.yml <<'END'
{
  "launcher": "slurm",
  "deepspeed_slurm": true,
  "no_ssh_check": true,
  "train_batch_size": 1536,
  "train_micro_batch_size_per_gpu": 4,
  "gradient_accumulation_steps": 32,
  "pipe_parallel_size": 4,
  "model_parallel_size": 2,
  "num_layers": 44,
  "hidden_size": 6144,
  "num_attention_heads": 64,
  "seq_length": 2048,
  "max_position_embeddings": 2048,
  "precision": "fp16",
  "fp16": {
    "enabled": true
  },
  "zero_optimization": {
    "stage": 1
  },
  "save": "/fsx/checkpoints/neox-20b",
  "load": "/fsx/checkpoints/neox-20b",
  "min_lr": 9.7e-06,
  "lr_decay_style": "cosine"
}
END

# ---- launch: deepy.py has DeepSpeed start the ranks with srun
command=(
  python3 -u deepy.py train.py
  --wandb_group neox-20b -d configs 20B_rest /fsx/configs/data.yml "$job_dir/clusterjobs_launch.yml" "$job_dir/clusterjobs_master.yml"
)
# Not in the foreground, where bash hears no signal. A signal ends `wait`, not the ranks, who hear
# it too and may be saving a checkpoint: their end is awaited, and their exit code kept.
trap 'printf "clusterjobs: told to end, waiting for the ranks\n"' TERM
# A missing host file would silently train on one node, so it is written here, by this job.
export DLTS_HOSTFILE="$job_dir/hostfile"
printf '%s slots=8\n' "${nodes[@]}" > "$DLTS_HOSTFILE"
# Not told the address, DeepSpeed would ask the first node for it by ssh.
printf '{"master_addr": "%s", "master_port": %s}\n' "$MASTER_ADDR" "$MASTER_PORT" \
  > "$job_dir/clusterjobs_master.yml"
# deepy.py reads these two before there are ranks; srun sets them anew for each rank.
export SLURM_PROCID=0 SLURM_LOCALID=0
# DeepSpeed calls srun without options: a label on every line, one dead task ends the step and so
# does one that ended early, threads may move, and a rank keeps its CPUs.
export SLURM_LABELIO=1 SLURM_KILL_BAD_EXIT=1 SLURM_WAIT=60 SLURM_CPU_BIND=none
export SRUN_CPUS_PER_TASK="${SLURM_CPUS_PER_TASK:-1}"
"${command[@]}" &
step=$!
while :; do
  status=0
  wait "$step" || status=$?
  kill -0 "$step" 2>/dev/null || break
done
trap 'exit 143' TERM
(( status == 0 )) || exit "$status"

#!/usr/bin/env bash
# gpt2-7b: 1 node x 4 GPUs (p4de.24xlarge), megatron-deepspeed started by deepspeed
#
# Written by clusterjobs 0.1.0 from a spec. Change the spec, not this script:
#   clusterjobs plan   spec.yaml
#   clusterjobs render spec.yaml
# The first says why each value is what it is, the second writes this script again.
#
# shellcheck disable=SC1091,SC2016 # values in single quotes are not meant to be expanded

#SBATCH --job-name=gpt2-7b
#SBATCH --partition=train
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=4
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=2-00:00:00
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

set -euo pipefail

# ---- start: one folder for all that this job writes, and one way out ----------------------
job_dir="/fsx/logs/gpt2-7b/$SLURM_JOB_ID"
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

cd -- /fsx/code/Megatron-DeepSpeed || fail 'no workdir /fsx/code/Megatron-DeepSpeed here'

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
(( ${#nodes[@]} == 1 )) || fail "planned for 1 nodes, got ${#nodes[@]}"

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
export OMP_NUM_THREADS=24 # CPUs of one rank; unset, every rank would use all
export PYTHONUNBUFFERED=1 # log lines appear when they are written
export NCCL_DEBUG=WARN # says why a collective failed
# NCCL's first contact; a name such as eth0 differs between nodes
export NCCL_SOCKET_IFNAME='^lo,docker,veth'
export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # a hang leaves a record of who waited
export TORCH_FR_BUFFER_SIZE=20000 # how many calls that record keeps
export FI_PROVIDER=efa # fail rather than fall back to TCP
export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork fails for want of memory
# libfabric and its NCCL plugin, wherever the AMI has them
export LD_LIBRARY_PATH="/opt/amazon/efa/lib:/opt/amazon/efa/lib64:/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu:/opt/aws-ofi-nccl/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export LOCAL_SIZE=4 # ranks of one node, which no launcher but deepspeed's sets
export TORCH_EXTENSIONS_DIR="/tmp/torch-extensions-${SLURM_JOB_ID-}-${SLURM_RESTART_COUNT-}"

# ---- secrets: the values are known here, and in no file -----------------------------------------
[[ -n ${WANDB_API_KEY:-} ]] || fail 'the secret WANDB_API_KEY is not set: export WANDB_API_KEY before sbatch'
export WANDB_API_KEY

VIRTUAL_ENV=/fsx/envs/megatron
[[ -x $VIRTUAL_ENV/bin/python3 ]] || fail "no virtual environment at $VIRTUAL_ENV"
export VIRTUAL_ENV PATH="$VIRTUAL_ENV/bin:$PATH"

# ---- files ----------------------------------------------------------------------------------
mkdir -p -- /fsx/checkpoints/gpt2-7b
cat > "$job_dir"/ds_config.json <<'END'
{
  "train_batch_size": 16,
  "train_micro_batch_size_per_gpu": 4,
  "gradient_accumulation_steps": 1,
  "fp16": {
    "enabled": true
  },
  "zero_optimization": {
    "stage": 1
  },
  "activation_checkpointing": {
    "partition_activations": false,
    "cpu_checkpointing": false
  },
  "optimizer": {
    "type": "Adam",
    "params": {
      "lr": 0.00015,
      "betas": [
        0.9,
        0.95
      ]
    }
  },
  "wandb": {
    "enabled": true,
    "project": "megatron"
  }
}
END

# ---- launch: one deepspeed per node starts the node's ranks
command=(
  pretrain_gpt.py
  --num-layers 32
  --hidden-size 4096
  --num-attention-heads 32
  --seq-length 2024
  --max-position-embeddings 2024
  --fp16
  --tensor-model-parallel-size 1
  --pipeline-model-parallel-size 1
  --no-pipeline-parallel
  --micro-batch-size 4
  --global-batch-size 16
  --save /fsx/checkpoints/gpt2-7b
  --load /fsx/checkpoints/gpt2-7b
  --deepspeed
  --deepspeed_config "$job_dir/ds_config.json"
  --zero-stage 1
  --checkpoint-activations
  --checkpoint-num-layers 1
  --deepspeed-activation-checkpointing
  --train-iters 500000
  --lr 1.5e-4
  --min-lr 1e-5
  --lr-decay-style cosine
  --lr-decay-iters 320000
  --lr-warmup-fraction 0.01
  --adam-beta2 0.95
  --weight-decay 1e-2
  --clip-grad 1.0
  --data-path /fsx/data/bookcorpus/bookcorpus_text_document
  --vocab-file /fsx/data/gpt2/gpt2-vocab.json
  --merge-file /fsx/data/gpt2/gpt2-merges.txt
  --tokenizer-type GPT2BPETokenizer
  --data-impl mmap
  --split '949,50,1'
  --log-interval 100
  --save-interval 10000
  --eval-interval 1000
  --eval-iters 10
)
srun_options=(
  --label # every line says which task wrote it
  --kill-on-bad-exit=1 # one dead task ends the step, not a timeout
  --wait=60 # and so does a task that ended early
  --cpu-bind=none # threads may move; data loaders need it
  --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
)
# Not in the foreground, where bash hears no signal. A signal ends `wait`, not the ranks, who hear
# it too and may be saving a checkpoint: their end is awaited, and their exit code kept.
trap 'printf "clusterjobs: told to end, waiting for the ranks\n"' TERM
# A missing host file would silently train on one node, so it is written here, by this job.
printf '%s slots=4\n' "${nodes[@]}" > "$job_dir/hostfile"
# In single quotes: expanded on each node, not by this script.
srun "${srun_options[@]}" bash -c '
  hostfile=$1
  shift
  exec deepspeed --hostfile="$hostfile" --no_ssh --node_rank="$SLURM_NODEID" --no_local_rank \
    --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" "$@"' \
  node "$job_dir/hostfile" "${command[@]}" &
step=$!
while :; do
  status=0
  wait "$step" || status=$?
  kill -0 "$step" 2>/dev/null || break
done
trap 'exit 143' TERM
(( status == 0 )) || exit "$status"

#!/usr/bin/env bash
# gpt3-175b: 64 nodes x 8 GPUs (p5.48xlarge), megatron-deepspeed started by srun
#
# Written by clusterjobs 0.1.0 from a spec. Change the spec, not this script:
#   clusterjobs plan   spec.yaml
#   clusterjobs render spec.yaml
# The first says why each value is what it is, the second writes this script again.
#
# shellcheck disable=SC1091,SC2016 # values in single quotes are not meant to be expanded

#SBATCH --job-name=gpt3-175b
#SBATCH --partition=train
#SBATCH --nodes=64
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=24
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=5-00:00:00
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

set -euo pipefail

# ---- start: one folder for all that this job writes, and one way out ----------------------
job_dir="/fsx/logs/gpt3-175b/$SLURM_JOB_ID"
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
(( ${#nodes[@]} == 64 )) || fail "planned for 64 nodes, got ${#nodes[@]}"

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
export LOCAL_SIZE=8 # ranks of one node, which no launcher but deepspeed's sets
export TORCH_EXTENSIONS_DIR="/tmp/torch-extensions-${SLURM_JOB_ID-}-${SLURM_RESTART_COUNT-}"

VIRTUAL_ENV=/fsx/envs/megatron
[[ -x $VIRTUAL_ENV/bin/python3 ]] || fail "no virtual environment at $VIRTUAL_ENV"
export VIRTUAL_ENV PATH="$VIRTUAL_ENV/bin:$PATH"

# ---- files ----------------------------------------------------------------------------------
mkdir -p -- /fsx/checkpoints/gpt3-175b
cat > "$job_dir"/ds_config.json <<'END'
{
  "train_batch_size": 1536,
  "train_micro_batch_size_per_gpu": 1,
  "gradient_accumulation_steps": 384,
  "bf16": {
    "enabled": true
  },
  "zero_optimization": {
    "stage": 1
  },
  "activation_checkpointing": {
    "partition_activations": false,
    "cpu_checkpointing": false
  },
  "data_types": {
    "grad_accum_dtype": "fp32"
  },
  "gradient_clipping": 1.0
}
END

# ---- launch: srun starts one task per rank
command=(
  python3 -u pretrain_gpt.py
  --num-layers 96
  --hidden-size 12288
  --num-attention-heads 96
  --seq-length 2048
  --max-position-embeddings 2048
  --bf16
  --tensor-model-parallel-size 8
  --pipeline-model-parallel-size 16
  --micro-batch-size 1
  --global-batch-size 1536
  --save /fsx/checkpoints/gpt3-175b
  --load /fsx/checkpoints/gpt3-175b
  --deepspeed
  --deepspeed_config "$job_dir/ds_config.json"
  --zero-stage 1
  --checkpoint-activations
  --checkpoint-num-layers 1
  --deepspeed-activation-checkpointing
  --train-samples 146484375
  --lr 6e-5
  --min-lr 6e-6
  --lr-decay-style cosine
  --lr-decay-samples 126953125
  --lr-warmup-samples 183105
  --adam-beta2 0.95
  --weight-decay 0.1
  --init-method-std 0.006
  --data-path /fsx/data/corpus/corpus_text_document
  --vocab-file /fsx/data/gpt2/gpt2-vocab.json
  --merge-file /fsx/data/gpt2/gpt2-merges.txt
  --tokenizer-type GPT2BPETokenizer
  --data-impl mmap
  --split '98,2,0'
  --log-interval 10
  --save-interval 500
  --eval-interval 1000
  --eval-iters 10
  --distributed-timeout-minutes 60
)
srun_options=(
  --label # every line says which task wrote it
  --kill-on-bad-exit=1 # one dead task ends the step, not a timeout
  --wait=60 # and so does a task that ended early
  --cpu-bind=none # threads may move; data loaders need it
  --cpus-per-task=24 # not inherited in Slurm 22.05-23.02
)
# Not in the foreground, where bash hears no signal. A signal ends `wait`, not the ranks, who hear
# it too and may be saving a checkpoint: their end is awaited, and their exit code kept.
trap 'printf "clusterjobs: told to end, waiting for the ranks\n"' TERM
# In single quotes: expanded by each task, not by this script.
srun "${srun_options[@]}" bash -c '
  export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID
  export WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=8
  exec "$@"' rank "${command[@]}" &
step=$!
while :; do
  status=0
  wait "$step" || status=$?
  kill -0 "$step" 2>/dev/null || break
done
trap 'exit 143' TERM
(( status == 0 )) || exit "$status"

# ======== command-srun-p5
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=24 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export FI_PROVIDER=efa # plugins before 1.6 do not select it
  export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork runs out of memory
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  export NCCL_DEBUG=INFO
  export NCCL_TESTS_SPLIT_MASK=0x0
  # libfabric and its NCCL plugin, wherever the AMI has them
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/opt/amazon/efa/lib:/opt/amazon/efa/lib64:/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu:/opt/aws-ofi-nccl/lib"

# ======== command-mpirun
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=12 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export FI_PROVIDER=efa # plugins before 1.6 do not select it
  export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork runs out of memory
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  export OMPI_MCA_pml=cm
  # libfabric and its NCCL plugin, wherever the AMI has them
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/opt/amazon/efa/lib:/opt/amazon/efa/lib64:/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu:/opt/aws-ofi-nccl/lib"

  # The spec's own code (setup) is parsed when it runs, so that an error in it ends the job here.
  set +u
  eval "$(cat <<'END'
export PATH=/opt/amazon/openmpi/bin:$PATH
END
)"
  set -u

  # The spec's env has the last word.
  export OMPI_MCA_pml=cm

# ======== array-of-commands
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=4 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  export DATA="${DATA_ROOT:?not set on this node: ${reason:=not_started}}/pile"

# ======== shell-with-arguments
set -euo pipefail +o posix
main() {
  start_job "$SLURM_SUBMIT_DIR/logs/$SLURM_JOB_ID" # job.log is written there

# ======== container-workdir-inside
set -euo pipefail +o posix
main() {
  start_job "/fsx/logs/$SLURM_JOB_ID" "$@" # job.log is written there

# ======== container-setup-inside
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=12 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export FI_PROVIDER=efa # plugins before 1.6 do not select it
  export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork runs out of memory
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  export CLUSTERJOBS_CONTAINER_SETUP="$job_dir/container_setup.bash" # software.container.setup

  set +u # the modules' own code reads unset variables
  type module >/dev/null 2>&1 || . /etc/profile.d/modules.sh || . /etc/profile.d/lmod.sh \
    || fail 'no command `module` on this node: name the file that defines it in software.source'
  module load apptainer/1.3
  set -u

# ======== container-shifter-p4d
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=12 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export FI_PROVIDER=efa # plugins before 1.6 do not select it
  export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork runs out of memory
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  export WANDB_MODE=offline

  # ---- secrets: no value is in this script, in a file of the job or on a command line --------
  # Slurm keeps what was exported before sbatch with the job until it has ended.
  [[ -n ${A_KEY:-} ]] || fail 'the secret A_KEY is not set: export A_KEY before sbatch'
  export A_KEY

# ======== deepspeed-srun-p4d
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=12 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export FI_PROVIDER=efa # plugins before 1.6 do not select it
  export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork runs out of memory
  export TORCH_EXTENSIONS_DIR="/tmp/torch-extensions-$SLURM_JOB_ID-$attempt-$token" # else a killed build's lock stays
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  export WANDB_PROJECT=gpt
  # libfabric and its NCCL plugin, wherever the AMI has them
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/opt/amazon/efa/lib:/opt/amazon/efa/lib64:/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu:/opt/aws-ofi-nccl/lib"
  VIRTUAL_ENV=/fsx/envs/gpt; export VIRTUAL_ENV PATH="$VIRTUAL_ENV/bin:$PATH"
  [[ -x $VIRTUAL_ENV/bin/python3 ]] || fail "no virtual environment at $VIRTUAL_ENV"

# ======== deepspeed-torchrun-p4de
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=12 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export FI_PROVIDER=efa # plugins before 1.6 do not select it
  export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork runs out of memory
  export TORCH_EXTENSIONS_DIR="/tmp/torch-extensions-$SLURM_JOB_ID-$attempt-$token" # else a killed build's lock stays
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  # libfabric and its NCCL plugin, wherever the AMI has them
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/opt/amazon/efa/lib:/opt/amazon/efa/lib64:/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu:/opt/aws-ofi-nccl/lib"

  type conda >/dev/null 2>&1 \
    || fail 'no conda on this node: source its profile.d/conda.sh in software.setup'
  set +u # conda's own code reads unset variables
  eval "$(conda shell.bash hook)"
  conda activate /fsx/envs/llama
  set -u

# ======== deepspeed-launcher-p3dn
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=6 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export FI_PROVIDER=efa # plugins before 1.6 do not select it
  export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork runs out of memory
  export TORCH_EXTENSIONS_DIR="/tmp/torch-extensions-$SLURM_JOB_ID-$attempt-$token" # else a killed build's lock stays
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  # libfabric and its NCCL plugin, wherever the AMI has them
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/opt/amazon/efa/lib:/opt/amazon/efa/lib64:/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu:/opt/aws-ofi-nccl/lib"
  VIRTUAL_ENV=/fsx/envs/bert; export VIRTUAL_ENV PATH="$VIRTUAL_ENV/bin:$PATH"
  [[ -x $VIRTUAL_ENV/bin/python3 ]] || fail "no virtual environment at $VIRTUAL_ENV"

# ======== deepspeed-pdsh-p4d
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=12 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export FI_PROVIDER=efa # plugins before 1.6 do not select it
  export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork runs out of memory
  export TORCH_EXTENSIONS_DIR="/tmp/torch-extensions-$SLURM_JOB_ID-$attempt-$token" # else a killed build's lock stays
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  export NOTE='$(touch /tmp/never)'
  # libfabric and its NCCL plugin, wherever the AMI has them
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/opt/amazon/efa/lib:/opt/amazon/efa/lib64:/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu:/opt/aws-ofi-nccl/lib"
  VIRTUAL_ENV=/fsx/envs/gpt; export VIRTUAL_ENV PATH="$VIRTUAL_ENV/bin:$PATH"
  [[ -x $VIRTUAL_ENV/bin/python3 ]] || fail "no virtual environment at $VIRTUAL_ENV"

# ======== bloom-without-partition
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=10 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export TORCH_EXTENSIONS_DIR="/tmp/torch-extensions-$SLURM_JOB_ID-$attempt-$token" # else a killed build's lock stays
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  export TRANSFORMERS_OFFLINE=1
  export HF_DATASETS_OFFLINE=1

  set +u # the modules' own code reads unset variables
  type module >/dev/null 2>&1 || . /etc/profile.d/modules.sh || . /etc/profile.d/lmod.sh \
    || fail 'no command `module` on this node: name the file that defines it in software.source'
  module purge
  module load pytorch-gpu/py3/2.3.0
  set -u

  # The spec's env has the last word.
  export TRANSFORMERS_OFFLINE=1
  export HF_DATASETS_OFFLINE=1

# ======== deepspeed-without-gres
  # ---- rendezvous: all ranks meet on the first node ------------------------------------------
  mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
  (( ${#nodes[@]} == 4 )) || fail "planned for 4 nodes, got ${#nodes[@]}"
  # A whole node comes with its GPUs, but a step gets only those that it requests: srun reads this.
  [[ -z ${SLURM_JOB_GPUS-} ]] || export SLURM_GPUS_PER_NODE=4
  export MASTER_ADDR=${nodes[0]} MASTER_PORT=$((12000 + SLURM_JOB_ID % 20000))
  while grep -qs "$(printf ':%04X ' "$MASTER_PORT")" /proc/net/tcp /proc/net/tcp6; do # it is in use
    MASTER_PORT=$((12000 + (MASTER_PORT - 12000 + 7919) % 20000))
  done

  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=16 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export TORCH_EXTENSIONS_DIR="/tmp/torch-extensions-$SLURM_JOB_ID-$attempt-$token" # else a killed build's lock stays
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  VIRTUAL_ENV=/beegfs/nlp/env; export VIRTUAL_ENV PATH="$VIRTUAL_ENV/bin:$PATH"
  [[ -x $VIRTUAL_ENV/bin/python3 ]] || fail "no virtual environment at $VIRTUAL_ENV"

# ======== fsdp-gpus-per-task
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=14 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME=hsn # Slingshot's interfaces, for NCCL's first contact
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  # registering buffers of the host with the GPU locks memory, and can block CUDA
  export FI_CXI_DISABLE_HOST_REGISTER="${FI_CXI_DISABLE_HOST_REGISTER:-1}"
  export FI_MR_CACHE_MONITOR="${FI_MR_CACHE_MONITOR:-userfaultfd}" # how libfabric notices memory that was freed
  # room for NCCL's messages; a full queue slows all of them
  export FI_CXI_DEFAULT_CQ_SIZE="${FI_CXI_DEFAULT_CQ_SIZE:-131072}"
  export NCCL_NET_GDR_LEVEL="${NCCL_NET_GDR_LEVEL:-PHB}" # RDMA to GPUs on the NUMA node of the card
  export NCCL_CROSS_NIC="${NCCL_CROSS_NIC:-1}" # the cards of a node share one network
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results

  # The cluster's code (setup) is parsed when it runs, so that an error in it ends the job here.
  set +u
  eval "$(cat <<'END'
module load PrgEnv-gnu rocm/6.2.4 craype-accel-amd-gfx90a
END
)"
  set -u

  type conda >/dev/null 2>&1 \
    || fail 'no conda on this node: source its profile.d/conda.sh in software.setup'
  set +u # conda's own code reads unset variables
  eval "$(conda shell.bash hook)"
  conda activate /lustre/orion/abc123/envs/torch
  set -u

# ======== lightning-in-singularity
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=8 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export PL_TRAINER_NUM_NODES=16 # the Trainer's num_nodes, if the script gives none
  export PL_TRAINER_DEVICES=4 # the Trainer's devices, if the script gives none
  export PL_TRAINER_ACCELERATOR=gpu # the Trainer's accelerator, if the script gives none
  # the Trainer's default_root_dir, if the script gives none
  export PL_TRAINER_DEFAULT_ROOT_DIR=/leonardo_scratch/large/abc/checkpoints/protein-lm
  # where the callback saves, and looks for the newest checkpoint
  export CLUSTERJOBS_CHECKPOINTS=/leonardo_scratch/large/abc/checkpoints/protein-lm
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  # Lightning loads the callback from here, by its entry point
  export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$job_dir/lightning"

# ======== llama-on-amd
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=14 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME=hsn # Slingshot's interfaces, for NCCL's first contact
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  # registering buffers of the host with the GPU locks memory, and can block CUDA
  export FI_CXI_DISABLE_HOST_REGISTER="${FI_CXI_DISABLE_HOST_REGISTER:-1}"
  export FI_MR_CACHE_MONITOR="${FI_MR_CACHE_MONITOR:-userfaultfd}" # how libfabric notices memory that was freed
  # room for NCCL's messages; a full queue slows all of them
  export FI_CXI_DEFAULT_CQ_SIZE="${FI_CXI_DEFAULT_CQ_SIZE:-131072}"
  export NCCL_NET_GDR_LEVEL="${NCCL_NET_GDR_LEVEL:-PHB}" # RDMA to GPUs on the NUMA node of the card
  export NCCL_CROSS_NIC="${NCCL_CROSS_NIC:-1}" # the cards of a node share one network
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  export MIOPEN_USER_DB_PATH="/tmp/miopen-${USER-}" # MIOpen's cache cannot be locked on Lustre
  export MIOPEN_CUSTOM_CACHE_DIR="/tmp/miopen-${USER-}" # likewise
  export HF_HUB_OFFLINE=1

# ======== megatron-on-a3-mega
  # ---- environment ---------------------------------------------------------------------------
  fabric_profile=/var/lib/tcpxo/lib64/nccl-env-profile.sh # of the version of NCCL's plugin on the node
  if [[ -r $fabric_profile ]]; then
    set +u # it reads unset variables
    # shellcheck source=/dev/null
    NCCL_LIB_DIR=${fabric_profile%/*} . "$fabric_profile" \
      || echo "clusterjobs: $fabric_profile ended with exit code $?"
    set -u
  else
    echo "clusterjobs: no $fabric_profile: NCCL will use TCP"
  fi
  export OMP_NUM_THREADS=26 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME=enp0s12 # the first card: NCCL's first contact
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export NCCL_FASTRAK_CTRL_DEV=enp0s12 # the first card: the plugin's control
  # the cards beside the GPUs
  export NCCL_FASTRAK_IFNAME='enp6s0,enp7s0,enp13s0,enp14s0,enp134s0,enp135s0,enp141s0,enp142s0'
  export NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY=/dev/aperture_devices # where the node has the apertures of the cards
  export CUDA_DEVICE_MAX_CONNECTIONS=1 # tensor and context ranks need kernels in launch order; Blackwell does not
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  export NVIDIA_VISIBLE_DEVICES=all # else enroot shows no GPU to an image
  export NVIDIA_DRIVER_CAPABILITIES='compute,utility' # driver libraries of CUDA

# ======== megatron-on-dgx
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=32 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export NCCL_DEBUG=INFO # its log says whether InfiniBand is used
  export NCCL_DEBUG_SUBSYS='INIT,NET' # of that, what is about the network
  export NCCL_DEBUG_FILE="$job_dir/nccl/%h.%p" # a file for each rank
  export CUDA_DEVICE_MAX_CONNECTIONS=1 # tensor and context ranks need kernels in launch order; Blackwell does not
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  export NVIDIA_VISIBLE_DEVICES=all # else enroot shows no GPU to an image
  export NVIDIA_DRIVER_CAPABILITIES='compute,utility' # driver libraries of CUDA
  # mlx5_4 and mlx5_5 are ports of the storage network
  export NCCL_IB_HCA='=mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_6,mlx5_7,mlx5_8,mlx5_9'

  start_attempt

# ======== megatron-on-gpfs
set -euo pipefail +o posix
main() {
  start_job "/p/scratch/abc1/logs/gpt-7b/$SLURM_JOB_ID" "$@" # job.log is written there
  script_folder=$PWD script_arguments=("$@"); set -- # the files neither read nor change them
  # shellcheck disable=SC2043 # there may be one
  for site_file in /etc/profile.d/lmod.sh; do
    [[ -r $site_file ]] || fail "no file $site_file (source: in the cluster's description, or of software)"
    set +u # `+u` and `||`: it may be written for shells without `set -eu`
    # shellcheck source=/dev/null
    . "$site_file" || echo "clusterjobs: $site_file ended with exit code $?"
    set -euo pipefail +aCEfkTvx; IFS=$' \t\n'; trap finish EXIT; trap - ERR
    cd -- "$script_folder"
  done
  set -- "${script_arguments[@]}"
  set +u # `module` is a function of the login shell, which no job inherits; its file reads unset variables
  type module >/dev/null 2>&1 || . /etc/profile.d/modules.sh || . /etc/profile.d/lmod.sh \
    || echo 'clusterjobs: no command `module` on this node: name the file that defines it in software.source'
  set -u
  with_timeout cd -- /p/project/abc1/Megatron-LM && cd -- /p/project/abc1/Megatron-LM # tried first: a dead mount would hang

  # ---- rendezvous: all ranks meet on the first node ------------------------------------------
  mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
  (( ${#nodes[@]} == 16 )) || fail "planned for 16 nodes, got ${#nodes[@]}"
  export MASTER_ADDR=${nodes[0]} MASTER_PORT=$((12000 + SLURM_JOB_ID % 20000))
  MASTER_ADDR+=i # the node's address in the fast network
  while grep -qs "$(printf ':%04X ' "$MASTER_PORT")" /proc/net/tcp /proc/net/tcp6; do # it is in use
    MASTER_PORT=$((12000 + (MASTER_PORT - 12000 + 7919) % 20000))
  done

  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=24 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export CUDA_DEVICE_MAX_CONNECTIONS=1 # tensor and context ranks need kernels in launch order; Blackwell does not
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results

  # The cluster's code (setup) is parsed when it runs, so that an error in it ends the job here.
  set +u
  eval "$(cat <<'END'
module --force purge
module load Stages/2024 GCC CUDA NCCL
END
)"
  set -u
  VIRTUAL_ENV=/p/project/abc1/envs/megatron; export VIRTUAL_ENV PATH="$VIRTUAL_ENV/bin:$PATH"
  [[ -x $VIRTUAL_ENV/bin/python3 ]] || fail "no virtual environment at $VIRTUAL_ENV"

  start_attempt

# ======== roberta-on-ethernet
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=10 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1 # torch 2.6 and later need it for fairseq's checkpoints
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  export NCCL_SOCKET_IFNAME=ens3f0 # the other interface is the management network

  # The cluster's code (setup) is parsed when it runs, so that an error in it ends the job here.
  set +u
  eval "$(cat <<'END'
module purge
END
)"
  set -u

  set +u # the modules' own code reads unset variables
  type module >/dev/null 2>&1 || . /etc/profile.d/modules.sh || . /etc/profile.d/lmod.sh \
    || fail 'no command `module` on this node: name the file that defines it in software.source'
  module load cuda/12.1 python/3.10
  set -u
  VIRTUAL_ENV=/data/envs/fairseq; export VIRTUAL_ENV PATH="$VIRTUAL_ENV/bin:$PATH"
  [[ -x $VIRTUAL_ENV/bin/python3 ]] || fail "no virtual environment at $VIRTUAL_ENV"

# ======== torchrun-on-a3-high
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=26 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME=enp0s12 # the first card: NCCL's first contact
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export NCCL_NET=GPUDirectTCPX_v7 # GPUDirect-TCPX moves data from the cards to the GPUs; NCCL fails without it
  export NCCL_GPUDIRECTTCPX_CTRL_DEV=enp0s12 # the first card: the plugin's control
  export NCCL_GPUDIRECTTCPX_SOCKET_IFNAME='enp6s0,enp12s0,enp134s0,enp140s0' # the four cards beside the GPUs
  # the sockets of the receive manager, which the prolog starts for each job
  export NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX="/run/tcpx-$SLURM_JOB_ID"
  export NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS=1000000 # time to steer a flow to its GPU
  export NCCL_GPUDIRECTTCPX_FORCE_ACK=0 # no acknowledgement of each message
  export NCCL_GPUDIRECTTCPX_TX_COMPLETION_NANOSLEEP=1000 # threads that send sleep
  export NCCL_ALGO=Ring # the plugin supports rings alone
  export NCCL_PROTO=Simple # the plugin supports this protocol alone
  export NCCL_CROSS_NIC=0 # each card has a network of its own
  export NCCL_NET_GDR_LEVEL=PIX # a GPU uses the card on its own PCI switch
  export NCCL_P2P_PXN_LEVEL=0 # likewise, without a detour through another GPU
  export NCCL_NSOCKS_PERTHREAD=4 # sockets of a connection
  export NCCL_SOCKET_NTHREADS=1 # threads of a connection
  export NCCL_MIN_NCHANNELS=12 # channels of the plugin
  export NCCL_MAX_NCHANNELS=12 # likewise
  export NCCL_BUFFSIZE=4194304 # sizes that the plugin is tuned for
  export NCCL_DYNAMIC_CHUNK_SIZE=524288 # likewise
  export NCCL_P2P_NET_CHUNKSIZE=524288 # likewise
  export NCCL_P2P_PCI_CHUNKSIZE=524288 # likewise
  export NCCL_P2P_NVL_CHUNKSIZE=1048576 # likewise
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  export NVIDIA_VISIBLE_DEVICES=all # else enroot shows no GPU to an image
  export NVIDIA_DRIVER_CAPABILITIES='compute,utility' # driver libraries of CUDA

# ======== vit-in-shifter
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=32 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME=hsn # Slingshot's interfaces, for NCCL's first contact
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  # registering buffers of the host with the GPU locks memory, and can block CUDA
  export FI_CXI_DISABLE_HOST_REGISTER="${FI_CXI_DISABLE_HOST_REGISTER:-1}"
  export FI_MR_CACHE_MONITOR="${FI_MR_CACHE_MONITOR:-userfaultfd}" # how libfabric notices memory that was freed
  # room for NCCL's messages; a full queue slows all of them
  export FI_CXI_DEFAULT_CQ_SIZE="${FI_CXI_DEFAULT_CQ_SIZE:-131072}"
  export NCCL_NET_GDR_LEVEL="${NCCL_NET_GDR_LEVEL:-PHB}" # RDMA to GPUs on the NUMA node of the card
  export NCCL_CROSS_NIC="${NCCL_CROSS_NIC:-1}" # the cards of a node share one network
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  export HDF5_USE_FILE_LOCKING=FALSE

# ======== gpt-neox-2node-gcp
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=6 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export LOCAL_WORLD_SIZE=8 # ranks per node, which srun does not set
  export TORCH_EXTENSIONS_DIR="/tmp/torch-extensions-$SLURM_JOB_ID-$attempt-$token" # else a killed build's lock stays
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results

# ======== fabric-infiniband
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=32 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export UCX_NET_DEVICES='mlx5_0:1,mlx5_1:1' # MPI uses the ports of NCCL_IB_HCA
  export NCCL_DEBUG=INFO # its log says whether InfiniBand is used
  export NCCL_DEBUG_SUBSYS='INIT,NET' # of that, what is about the network
  export NCCL_DEBUG_FILE="$job_dir/nccl/%h.%p" # a file for each rank
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  export NCCL_IB_HCA='=mlx5_0,mlx5_1'

# ======== fabric-slingshot
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=72 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_SOCKET_IFNAME=hsn # Slingshot's interfaces, for NCCL's first contact
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  # registering buffers of the host with the GPU locks memory, and can block CUDA
  export FI_CXI_DISABLE_HOST_REGISTER="${FI_CXI_DISABLE_HOST_REGISTER:-1}"
  export FI_MR_CACHE_MONITOR="${FI_MR_CACHE_MONITOR:-userfaultfd}" # how libfabric notices memory that was freed
  export NCCL_NET_GDR_LEVEL="${NCCL_NET_GDR_LEVEL:-PHB}" # RDMA to GPUs on the NUMA node of the card
  export NCCL_CROSS_NIC="${NCCL_CROSS_NIC:-1}" # the cards of a node share one network
  export NCCL_DEBUG=INFO # its log says whether Slingshot is used
  export NCCL_DEBUG_SUBSYS='INIT,NET' # of that, what is about the network
  export NCCL_DEBUG_FILE="$job_dir/nccl/%h.%p" # a file for each rank
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  export FI_CXI_DEFAULT_CQ_SIZE=262144

# ======== fabric-tcpx
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=26 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME=enp0s12 # the first card: NCCL's first contact
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export NCCL_NET=GPUDirectTCPX_v7 # GPUDirect-TCPX moves data from the cards to the GPUs; NCCL fails without it
  export NCCL_GPUDIRECTTCPX_CTRL_DEV=enp0s12 # the first card: the plugin's control
  export NCCL_GPUDIRECTTCPX_SOCKET_IFNAME='enp6s0,enp12s0,enp134s0,enp140s0' # the four cards beside the GPUs
  # the sockets of the receive manager, which the prolog starts for each job
  export NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX="/run/tcpx-$SLURM_JOB_ID"
  export NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS=1000000 # time to steer a flow to its GPU
  export NCCL_GPUDIRECTTCPX_FORCE_ACK=0 # no acknowledgement of each message
  export NCCL_GPUDIRECTTCPX_TX_COMPLETION_NANOSLEEP=1000 # threads that send sleep
  export NCCL_ALGO=Ring # the plugin supports rings alone
  export NCCL_PROTO=Simple # the plugin supports this protocol alone
  export NCCL_CROSS_NIC=0 # each card has a network of its own
  export NCCL_NET_GDR_LEVEL=PIX # a GPU uses the card on its own PCI switch
  export NCCL_P2P_PXN_LEVEL=0 # likewise, without a detour through another GPU
  export NCCL_NSOCKS_PERTHREAD=4 # sockets of a connection
  export NCCL_SOCKET_NTHREADS=1 # threads of a connection
  export NCCL_MIN_NCHANNELS=12 # channels of the plugin
  export NCCL_MAX_NCHANNELS=12 # likewise
  export NCCL_BUFFSIZE=4194304 # sizes that the plugin is tuned for
  export NCCL_DYNAMIC_CHUNK_SIZE=524288 # likewise
  export NCCL_P2P_NET_CHUNKSIZE=524288 # likewise
  export NCCL_P2P_PCI_CHUNKSIZE=524288 # likewise
  export NCCL_P2P_NVL_CHUNKSIZE=1048576 # likewise
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  export NVIDIA_VISIBLE_DEVICES=all # else enroot shows no GPU to an image
  export NVIDIA_DRIVER_CAPABILITIES='compute,utility' # driver libraries of CUDA

# ======== fabric-tcpxo
  # ---- environment ---------------------------------------------------------------------------
  fabric_profile=/var/lib/tcpxo/lib64/nccl-env-profile.sh # of the version of NCCL's plugin on the node
  if [[ -r $fabric_profile ]]; then
    set +u # it reads unset variables
    # shellcheck source=/dev/null
    NCCL_LIB_DIR=${fabric_profile%/*} . "$fabric_profile" \
      || echo "clusterjobs: $fabric_profile ended with exit code $?"
    set -u
  else
    echo "clusterjobs: no $fabric_profile: NCCL will use TCP"
  fi
  export OMP_NUM_THREADS=26 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_SOCKET_IFNAME=enp0s12 # the first card: NCCL's first contact
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export NCCL_FASTRAK_CTRL_DEV=enp0s12 # the first card: the plugin's control
  # the cards beside the GPUs
  export NCCL_FASTRAK_IFNAME='enp6s0,enp7s0,enp13s0,enp14s0,enp134s0,enp135s0,enp141s0,enp142s0'
  export NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY=/dev/aperture_devices # where the node has the apertures of the cards
  export NCCL_DEBUG=INFO # its log says whether GPUDirect-TCPXO is used
  export NCCL_DEBUG_SUBSYS='INIT,NET' # of that, what is about the network
  export NCCL_DEBUG_FILE="$job_dir/nccl/%h.%p" # a file for each rank
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  # NCCL's plugin, which the prolog installs
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/var/lib/tcpxo/lib64"

# ======== trainium
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=4 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export FI_PROVIDER=efa # Neuron's collectives between nodes use EFA
  export FI_EFA_USE_DEVICE_RDMA=1 # device memory without a copy; libfabric before 1.18 has it off
  export FI_EFA_FORK_SAFE=1 # data loaders fork; needed by kernels before 5.13
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  export NEURON_COMPILE_CACHE_URL=/fsx/neuron-cache
  # libfabric, wherever the AMI has it
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/opt/amazon/efa/lib:/opt/amazon/efa/lib64"
  VIRTUAL_ENV=/fsx/envs/neuron; export VIRTUAL_ENV PATH="$VIRTUAL_ENV/bin:$PATH"
  [[ -x $VIRTUAL_ENV/bin/python3 ]] || fail "no virtual environment at $VIRTUAL_ENV"

# ======== megatron-one-gpu
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=96 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export FI_PROVIDER=efa # plugins before 1.6 do not select it
  export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork runs out of memory
  export LOCAL_SIZE=1 # ranks per node, which only deepspeed's launcher sets
  export TORCH_EXTENSIONS_DIR="/tmp/torch-extensions-$SLURM_JOB_ID-$attempt-$token" # else a killed build's lock stays
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  # libfabric and its NCCL plugin, wherever the AMI has them
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/opt/amazon/efa/lib:/opt/amazon/efa/lib64:/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu:/opt/aws-ofi-nccl/lib"

# ======== megatron-lm-torchrun-llama
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=24 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export FI_PROVIDER=efa # plugins before 1.6 do not select it
  export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork runs out of memory
  export CUDA_DEVICE_MAX_CONNECTIONS=1 # tensor and context ranks need kernels in launch order; Blackwell does not
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  # libfabric and its NCCL plugin, wherever the AMI has them
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/opt/amazon/efa/lib:/opt/amazon/efa/lib64:/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu:/opt/aws-ofi-nccl/lib"
  VIRTUAL_ENV=/fsx/envs/megatron; export VIRTUAL_ENV PATH="$VIRTUAL_ENV/bin:$PATH"
  [[ -x $VIRTUAL_ENV/bin/python3 ]] || fail "no virtual environment at $VIRTUAL_ENV"

  start_attempt

# ======== megatron-lm-srun-experts
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=24 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export FI_PROVIDER=efa # plugins before 1.6 do not select it
  export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork runs out of memory
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  export NVIDIA_VISIBLE_DEVICES=all # else enroot shows no GPU to an image
  export NVIDIA_DRIVER_CAPABILITIES='compute,utility' # driver libraries of CUDA

# ======== neox-one-node
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=12 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export FI_PROVIDER=efa # plugins before 1.6 do not select it
  export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork runs out of memory
  export LOCAL_WORLD_SIZE=8 # ranks per node, which srun does not set
  export TORCH_EXTENSIONS_DIR="/tmp/torch-extensions-$SLURM_JOB_ID-$attempt-$token" # else a killed build's lock stays
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  # libfabric and its NCCL plugin, wherever the AMI has them
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/opt/amazon/efa/lib:/opt/amazon/efa/lib64:/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu:/opt/aws-ofi-nccl/lib"

# ======== preflight-megatron-p4d
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=12 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_NCCL_TRACE_BUFFER_SIZE=20000 # collectives in that record (older name)
  export TORCH_NCCL_DEBUG_INFO_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written (older name)
  export FI_PROVIDER=efa # plugins before 1.6 do not select it
  export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork runs out of memory
  export NCCL_DEBUG=INFO # its log says whether EFA is used
  export NCCL_DEBUG_SUBSYS='INIT,NET' # of that, what is about the network
  export NCCL_DEBUG_FILE="$job_dir/nccl/%h.%p" # a file for each rank
  export LOCAL_SIZE=8 # ranks per node, which only deepspeed's launcher sets
  export TORCH_EXTENSIONS_DIR="/tmp/torch-extensions-$SLURM_JOB_ID-$attempt-$token" # else a killed build's lock stays
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  # libfabric and its NCCL plugin, wherever the AMI has them
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/opt/amazon/efa/lib:/opt/amazon/efa/lib64:/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu:/opt/aws-ofi-nccl/lib"
  VIRTUAL_ENV='/fsx/my envs/megatron'; export VIRTUAL_ENV PATH="$VIRTUAL_ENV/bin:$PATH"
  [[ -x $VIRTUAL_ENV/bin/python3 ]] || fail "no virtual environment at $VIRTUAL_ENV"

# ======== whole-nodes-unrequested
  # ---- rendezvous: all ranks meet on the first node ------------------------------------------
  mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
  (( ${#nodes[@]} == 2 )) || fail "planned for 2 nodes, got ${#nodes[@]}"
  # A whole node comes with its GPUs, but a step gets only those that it requests: srun reads this.
  [[ -z ${SLURM_JOB_GPUS-} ]] || export SLURM_GPUS_PER_NODE=8
  export MASTER_ADDR=${nodes[0]} MASTER_PORT=$((12000 + SLURM_JOB_ID % 20000))
  while grep -qs "$(printf ':%04X ' "$MASTER_PORT")" /proc/net/tcp /proc/net/tcp6; do # it is in use
    MASTER_PORT=$((12000 + (MASTER_PORT - 12000 + 7919) % 20000))
  done

# ======== own-config-unknown-instance
set -euo pipefail +o posix
main() {
  start_job "$SLURM_SUBMIT_DIR/logs/lenient/$SLURM_JOB_ID" "$@" # job.log is written there

  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=1 # more ranks than CPUs; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results

# ======== roles-vllm-pyxis
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=24 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export FI_PROVIDER=efa # plugins before 1.6 do not select it
  export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork runs out of memory
  export CLUSTERJOBS_STOP_FILE="$job_dir/stop" # once this file is there: save a checkpoint and end
  export CLUSTERJOBS_HEARTBEAT="$job_dir/heartbeat" # touch this file while a long step makes progress
  export NCCL_DEBUG=INFO # its log says whether EFA is used
  export NCCL_DEBUG_SUBSYS='INIT,NET' # of that, what is about the network
  export NCCL_DEBUG_FILE="$job_dir/nccl/%h.%p" # a file for each rank
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  export NVIDIA_VISIBLE_DEVICES=all # else enroot shows no GPU to an image
  export NVIDIA_DRIVER_CAPABILITIES='compute,utility' # driver libraries of CUDA

  start_attempt

# ======== roles-of-two-kinds
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=12 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export FI_PROVIDER=efa # plugins before 1.6 do not select it
  export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork runs out of memory
  export TORCH_EXTENSIONS_DIR="/tmp/torch-extensions-$SLURM_JOB_ID-$attempt-$token" # else a killed build's lock stays
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  export COLLECTOR="${CLUSTERJOBS_COLLECTOR_ADDR-}"
  export NODE="${SLURM_JOB_ID-}"
  # libfabric and its NCCL plugin, wherever the AMI has them
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/opt/amazon/efa/lib:/opt/amazon/efa/lib64:/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu:/opt/aws-ofi-nccl/lib"

# ======== steps-of-a-sweep
set -euo pipefail +o posix
main() {
  # Sets point_name, lr, content from the table below.
  read_point "${SLURM_ARRAY_TASK_ID-}" \
    || fail "no point for task '${SLURM_ARRAY_TASK_ID-}': submit it as an array"
  start_job "/fsx/logs/steps-of-a-sweep/$point_name/$SLURM_JOB_ID" "$@" # job.log is written there

# ======== sweep-command
set -euo pipefail +o posix
main() {
  # Sets all variables from the table below.
  read_point "${SLURM_ARRAY_TASK_ID-}" \
    || fail "no point for task '${SLURM_ARRAY_TASK_ID-}': submit it as an array"
  read_options SPLIT -- "$@" # `sbatch job.sh --name VALUE`
  set -- "${script_arguments[@]}"
  start_job "$SLURM_SUBMIT_DIR/logs/prompts/$point_name/$SLURM_JOB_ID" "$@" # job.log is written there

  # ---- parameters: change one with `NAME=value sbatch job.sh` --------------------------------
  SPLIT=${SPLIT:-test}

  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=4 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export CLUSTERJOBS_SWEEP=prompts # the name of the sweep
  export CLUSTERJOBS_POINT="$point_name" # the name of this point
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  export PROMPT="${prompt_2-}"

# ======== sweep-packed
set -euo pipefail +o posix
main() {
  # Runs one point of this task: `run_pack` starts the script once for each point, with $1 = TASK.SLOT.
  # Sets point_name, lr, optimizer, content, point_index from the table below.
  read_point "${1-}" || fail "no point '${1-}': submit the script without arguments"
  point_label=${point_name#*-} # unchanged if the sweep gets more points
  start_job "/fsx/logs/lr/$point_name/$SLURM_JOB_ID" # job.log is written there

  # ---- rendezvous: all ranks meet on the first node ------------------------------------------
  mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
  (( ${#nodes[@]} == 1 )) || fail "planned for 1 node, got ${#nodes[@]}"
  # Each slot starts its port search at another number.
  export MASTER_ADDR=${nodes[0]} MASTER_PORT=$((12000 + (SLURM_JOB_ID + ${1#*.} * 2500) % 20000))
  while grep -qs "$(printf ':%04X ' "$MASTER_PORT")" /proc/net/tcp /proc/net/tcp6; do # it is in use
    MASTER_PORT=$((12000 + (MASTER_PORT - 12000 + 7919) % 20000))
  done

  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=12 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export FI_PROVIDER=efa # plugins before 1.6 do not select it
  export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork runs out of memory
  export CLUSTERJOBS_STOP_FILE="$job_dir/stop" # once this file is there: save a checkpoint and end
  export CLUSTERJOBS_SWEEP=lr # the name of the sweep
  export CLUSTERJOBS_POINT="$point_name" # the name of this point
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  # libfabric and its NCCL plugin, wherever the AMI has them
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/opt/amazon/efa/lib:/opt/amazon/efa/lib64:/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu:/opt/aws-ofi-nccl/lib"

  start_attempt

# ======== sweep-shapes
# job-1.sh, job-2.sh:
set -euo pipefail +o posix
main() {
  # Sets point_name, seed, content from the table below.
  read_point "${SLURM_ARRAY_TASK_ID-}" \
    || fail "no point for task '${SLURM_ARRAY_TASK_ID-}': submit it as an array"
  point_label=${point_name#*-} # unchanged if the sweep gets more points
  start_job "/fsx/logs/scaling/$point_name/$SLURM_JOB_ID" "$@" # job.log is written there
  with_timeout cd -- /fsx/code/gpt && cd -- /fsx/code/gpt # tried first: a dead mount would hang

# job-3.sh:
set -euo pipefail +o posix
main() {
  export -n point_name=0006-nodes=4-b92c880c
  export -n point_index=6
  point_label=${point_name#*-} # unchanged if the sweep gets more points
  start_job "/fsx/logs/scaling/$point_name/$SLURM_JOB_ID" "$@" # job.log is written there
  with_timeout cd -- /fsx/code/gpt && cd -- /fsx/code/gpt # tried first: a dead mount would hang

# job-1.sh:
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=12 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export FI_PROVIDER=efa # plugins before 1.6 do not select it
  export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork runs out of memory
  export CLUSTERJOBS_STOP_FILE="$job_dir/stop" # once this file is there: save a checkpoint and end
  export CLUSTERJOBS_SWEEP=scaling # the name of the sweep
  export CLUSTERJOBS_POINT="$point_name" # the name of this point
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  # libfabric and its NCCL plugin, wherever the AMI has them
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/opt/amazon/efa/lib:/opt/amazon/efa/lib64:/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu:/opt/aws-ofi-nccl/lib"

# job-2.sh, job-3.sh:
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=12 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export FI_PROVIDER=efa # plugins before 1.6 do not select it
  export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork runs out of memory
  export CLUSTERJOBS_STOP_FILE="$job_dir/stop" # once this file is there: save a checkpoint and end
  export NCCL_DEBUG=INFO # its log says whether EFA is used
  export NCCL_DEBUG_SUBSYS='INIT,NET' # of that, what is about the network
  export NCCL_DEBUG_FILE="$job_dir/nccl/%h.%p" # a file for each rank
  export CLUSTERJOBS_SWEEP=scaling # the name of the sweep
  export CLUSTERJOBS_POINT="$point_name" # the name of this point
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  # libfabric and its NCCL plugin, wherever the AMI has them
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/opt/amazon/efa/lib:/opt/amazon/efa/lib64:/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu:/opt/aws-ofi-nccl/lib"

# job-1.sh, job-2.sh, job-3.sh:
  # ---- secrets: no value is in this script, in a file of the job or on a command line --------
  # Slurm keeps what was exported before sbatch with the job until it has ended.
  WANDB_API_KEY=$(cat -- /fsx/home/ann/wandb) || fail 'the secret WANDB_API_KEY is empty: its file is missing or has no text'
  [[ -n ${WANDB_API_KEY:-} ]] || fail 'the secret WANDB_API_KEY is empty: its file is missing or has no text'
  export WANDB_API_KEY

  start_attempt

# ======== log-of-all-points
set -euo pipefail +o posix
main() {
  # Sets point_name, lr, seed, content from the table below.
  read_point "${SLURM_ARRAY_TASK_ID-}" \
    || fail "no point for task '${SLURM_ARRAY_TASK_ID-}': submit it as an array"
  start_job "/fsx/logs/points/$point_name/$SLURM_JOB_ID" "$@" # job.log is written there

# ======== torchrun-restarts-small
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=2 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export CLUSTERJOBS_STOP_FILE="$job_dir/stop" # once this file is there: save a checkpoint and end
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  export CLUSTERJOBS_NODE_RANK="node-rank-$token" # placeholder: each node replaces it by its rank
  export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 # a new store for restarted ranks
  export TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE='[rank${rank}]: ' # torchrun's label of a line

  start_attempt

# ======== huggingface-accelerate-fsdp
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=24 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export FI_PROVIDER=efa # plugins before 1.6 do not select it
  export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork runs out of memory
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  # libfabric and its NCCL plugin, wherever the AMI has them
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/opt/amazon/efa/lib:/opt/amazon/efa/lib64:/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu:/opt/aws-ofi-nccl/lib"

# ======== accelerate-restarts-and-logs
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=12 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export FI_PROVIDER=efa # plugins before 1.6 do not select it
  export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork runs out of memory
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  export CLUSTERJOBS_NODE_RANK="node-rank-$token" # placeholder: each node replaces it by its rank
  export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 # a new store for restarted ranks
  export TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE='[rank${rank}]: ' # torchrun's label of a line
  # libfabric and its NCCL plugin, wherever the AMI has them
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/opt/amazon/efa/lib:/opt/amazon/efa/lib64:/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu:/opt/aws-ofi-nccl/lib"

# ======== accelerate-cpu
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=2 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export ACCELERATE_USE_CPU=true # no GPUs; without it, every rank would train alone
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results

# ======== accelerate-launch-zero
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=12 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export FI_PROVIDER=efa # plugins before 1.6 do not select it
  export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork runs out of memory
  export ACCELERATE_GRADIENT_ACCUMULATION_STEPS=4 # batch: Accelerator accumulates as often
  export TORCH_EXTENSIONS_DIR="/tmp/torch-extensions-$SLURM_JOB_ID-$attempt-$token" # else a killed build's lock stays
  export ACCELERATE_DEEPSPEED_CONFIG_FILE="$job_dir/ds_config.json" # batch, precision, zero and ds_config
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  # libfabric and its NCCL plugin, wherever the AMI has them
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/opt/amazon/efa/lib:/opt/amazon/efa/lib64:/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu:/opt/aws-ofi-nccl/lib"

# ======== accelerate-srun-fsdp
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=12 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export FI_PROVIDER=efa # plugins before 1.6 do not select it
  export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork runs out of memory
  export ACCELERATE_MIXED_PRECISION=bf16 # precision, as accelerate launch passes it on
  export ACCELERATE_GRADIENT_ACCUMULATION_STEPS=4 # batch: Accelerator accumulates as often
  export ACCELERATE_USE_FSDP=true # fsdp, as accelerate launch passes it on
  export FSDP_VERSION=2 # fsdp, as accelerate launch passes it on
  export FSDP_RESHARD_AFTER_FORWARD=true # fsdp, as accelerate launch passes it on
  export FSDP_AUTO_WRAP_POLICY=TRANSFORMER_BASED_WRAP # fsdp, as accelerate launch passes it on
  export FSDP_TRANSFORMER_CLS_TO_WRAP=LlamaDecoderLayer # fsdp, as accelerate launch passes it on
  export FSDP_OFFLOAD_PARAMS=false # fsdp, as accelerate launch passes it on
  export FSDP_ACTIVATION_CHECKPOINTING=true # fsdp, as accelerate launch passes it on
  export FSDP_STATE_DICT_TYPE=SHARDED_STATE_DICT # fsdp, as accelerate launch passes it on
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  # libfabric and its NCCL plugin, wherever the AMI has them
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/opt/amazon/efa/lib:/opt/amazon/efa/lib64:/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu:/opt/aws-ofi-nccl/lib"

# ======== lightning-p4d
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=12 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export FI_PROVIDER=efa # plugins before 1.6 do not select it
  export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork runs out of memory
  export CLUSTERJOBS_STOP_FILE="$job_dir/stop" # once this file is there: save a checkpoint and end
  export PL_TRAINER_NUM_NODES=2 # the Trainer's num_nodes, if the script gives none
  export PL_TRAINER_DEVICES=8 # the Trainer's devices, if the script gives none
  export PL_TRAINER_ACCELERATOR=gpu # the Trainer's accelerator, if the script gives none
  export PL_TRAINER_PRECISION=bf16-mixed # the Trainer's precision, if the script gives none
  export PL_TRAINER_ACCUMULATE_GRAD_BATCHES=2 # the Trainer's accumulate_grad_batches, if the script gives none
  export PL_TRAINER_DEFAULT_ROOT_DIR=/fsx/checkpoints/vit # the Trainer's default_root_dir, if the script gives none
  export CLUSTERJOBS_CHECKPOINTS=/fsx/checkpoints/vit # where the callback saves, and looks for the newest checkpoint
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  # libfabric and its NCCL plugin, wherever the AMI has them
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/opt/amazon/efa/lib:/opt/amazon/efa/lib64:/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu:/opt/aws-ofi-nccl/lib"
  # Lightning loads the callback from here, by its entry point
  export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$job_dir/lightning"
  VIRTUAL_ENV=/fsx/envs/vit; export VIRTUAL_ENV PATH="$VIRTUAL_ENV/bin:$PATH"
  [[ -x $VIRTUAL_ENV/bin/python3 ]] || fail "no virtual environment at $VIRTUAL_ENV"

  start_attempt

# ======== composer-torchrun
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=12 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export FI_PROVIDER=efa # plugins before 1.6 do not select it
  export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork runs out of memory
  export COMPOSER_RUN_NAME=mpt # the same in each attempt, for Trainer(autoresume=True)
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  # libfabric and its NCCL plugin, wherever the AMI has them
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/opt/amazon/efa/lib:/opt/amazon/efa/lib64:/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu:/opt/aws-ofi-nccl/lib"

# ======== fairseq-train-cpu
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=2 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1 # torch 2.6 and later need it for fairseq's checkpoints
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results

# ======== jax-p4d
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=96 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export FI_PROVIDER=efa # plugins before 1.6 do not select it
  export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork runs out of memory
  export CLUSTERJOBS_STOP_FILE="$job_dir/stop" # once this file is there: save a checkpoint and end
  # a port that is free: JAX's own, 61440 + job id % 4096, may be taken
  export JAX_COORDINATOR_ADDRESS="$MASTER_ADDR:$MASTER_PORT"
  export JAX_LOCAL_DEVICE_IDS='0,1,2,3,4,5,6,7' # in Slurm, JAX gives a rank one GPU by default
  # JAX would call the first node through the proxy, and hang
  [[ -z ${grpc_proxy:-}${https_proxy:-}${http_proxy:-} ]] || export no_grpc_proxy="$MASTER_ADDR"
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  # libfabric and its NCCL plugin, wherever the AMI has them
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/opt/amazon/efa/lib:/opt/amazon/efa/lib64:/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu:/opt/aws-ofi-nccl/lib"
  VIRTUAL_ENV=/fsx/envs/jax; export VIRTUAL_ENV PATH="$VIRTUAL_ENV/bin:$PATH"
  [[ -x $VIRTUAL_ENV/bin/python3 ]] || fail "no virtual environment at $VIRTUAL_ENV"

  start_attempt

# ======== horovod-horovodrun
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=12 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export FI_PROVIDER=efa # plugins before 1.6 do not select it
  export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork runs out of memory
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  export HOROVOD_FUSION_THRESHOLD=67108864
  # libfabric and its NCCL plugin, wherever the AMI has them
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/opt/amazon/efa/lib:/opt/amazon/efa/lib64:/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu:/opt/aws-ofi-nccl/lib"
  VIRTUAL_ENV=/fsx/envs/horovod; export VIRTUAL_ENV PATH="$VIRTUAL_ENV/bin:$PATH"
  [[ -x $VIRTUAL_ENV/bin/python3 ]] || fail "no virtual environment at $VIRTUAL_ENV"

# ======== horovod-mpirun
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=6 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export FI_PROVIDER=efa # plugins before 1.6 do not select it
  export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork runs out of memory
  export OMPI_MCA_pml=ob1 # TCP: with RDMA, Open MPI may crash
  export OMPI_MCA_btl=^openib # likewise
  export OMPI_MCA_btl_tcp_if_exclude='lo,docker0' # these interfaces lead to no other node
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  # libfabric and its NCCL plugin, wherever the AMI has them
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/opt/amazon/efa/lib:/opt/amazon/efa/lib64:/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu:/opt/aws-ofi-nccl/lib"

# ======== everything
set -euo pipefail +o posix
main() {
  read_options LR SEED OPTIMIZER NOTE WARMUP -- "$@" # `sbatch job.sh --name VALUE`
  set -- "${script_arguments[@]}"
  start_job "$HOME/logs/every key/$SLURM_JOB_ID" "$@" # job.log is written there
  with_timeout cd -- "$HOME/my code" && cd -- "$HOME/my code" # tried first: a dead mount would hang

  # ---- parameters: change one with `NAME=value sbatch job.sh` --------------------------------
  LR=${LR:-1e-4}
  SEED=${SEED:-1234}
  OPTIMIZER=${OPTIMIZER:-adam}
  NOTE=${NOTE:-'it'\''s a "test" $X'}
  WARMUP=${WARMUP:-.5}
  [[ $LR =~ ^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$ ]] \
    || fail 'the parameter LR is not a number'
  [[ $SEED =~ ^[-+]?[0-9]+$ ]] \
    || fail 'the parameter SEED is not an integer'
  case $OPTIMIZER in
    adam | lamb | 'no 8bit') ;;
    *) fail 'the parameter OPTIMIZER is not one of adam, lamb, no 8bit' ;;
  esac
  [[ $WARMUP =~ ^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$ ]] \
    || fail 'the parameter WARMUP is not a number'

  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=12 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export FI_PROVIDER=efa # plugins before 1.6 do not select it
  export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork runs out of memory
  export TORCH_EXTENSIONS_DIR="/tmp/torch-extensions-$SLURM_JOB_ID-$attempt-$token" # else a killed build's lock stays
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  export WANDB_PROJECT='my project'
  export WANDB_DIR="${SLURM_SUBMIT_DIR-}/wandb"
  export TRITON_CACHE_DIR="/tmp/triton-${USER-}"
  export PATH_LIKE="a:${PATH-}:\${NOT_ME}:\$PLAIN"
  export EMPTY=''
  export DEBUG=1
  export NCCL_DEBUG=INFO
  # libfabric and its NCCL plugin, wherever the AMI has them
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/opt/amazon/efa/lib:/opt/amazon/efa/lib64:/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu:/opt/aws-ofi-nccl/lib"

  set +u # the modules' own code reads unset variables
  type module >/dev/null 2>&1 || . /etc/profile.d/modules.sh || . /etc/profile.d/lmod.sh \
    || fail 'no command `module` on this node: name the file that defines it in software.source'
  module load cuda/12.4 openmpi/4.1
  set -u

  # The spec's own code (software.setup) is parsed when it runs, so that an error in it ends the job here.
  set +u
  eval "$(cat <<'END'
ulimit -n 65536
export HF_HOME=/fsx/hf
END
)"
  set -u

  type conda >/dev/null 2>&1 \
    || fail 'no conda on this node: source its profile.d/conda.sh in software.setup'
  set +u # conda's own code reads unset variables
  eval "$(conda shell.bash hook)"
  conda activate 'base env'
  set -u

  # The spec's own code (setup) is parsed when it runs, so that an error in it ends the job here.
  set +u
  eval "$(cat <<'END'
echo "starting on $(hostname)"
if [[ -n ${DEBUG:-} ]]; then
  env | sort
fi
END
)"
  set -u

  # The spec's env has the last word.
  export WANDB_PROJECT='my project'
  export WANDB_DIR="${SLURM_SUBMIT_DIR-}/wandb"
  export TRITON_CACHE_DIR="/tmp/triton-${USER-}"
  export PATH_LIKE="a:${PATH-}:\${NOT_ME}:\$PLAIN"
  export EMPTY=''
  export DEBUG=1
  export NCCL_DEBUG=INFO

# ======== references-of-all-kinds
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=12 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export FI_PROVIDER=efa # plugins before 1.6 do not select it
  export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork runs out of memory
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  export CLUSTERJOBS_NODE_RANK="node-rank-$token" # placeholder: each node replaces it by its rank
  # libfabric and its NCCL plugin, wherever the AMI has them
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/opt/amazon/efa/lib:/opt/amazon/efa/lib64:/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu:/opt/aws-ofi-nccl/lib"

# ======== forced-variables-p4d
  # ---- parameters: change one with `NAME=value sbatch job.sh` --------------------------------
  LR=${LR:-1e-4}
  EPOCHS=${EPOCHS:-3}
  [[ $LR =~ ^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$ ]] \
    || fail 'the parameter LR is not a number'
  [[ $EPOCHS =~ ^[-+]?[0-9]+$ ]] \
    || fail 'the parameter EPOCHS is not an integer'

  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=96 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export FI_PROVIDER=efa # plugins before 1.6 do not select it
  export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork runs out of memory
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  export LR="$LR" # the parameter
  export MASTER_PORT=29500 # forced: the firewall lets no other port through
  # libfabric and its NCCL plugin, wherever the AMI has them
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/opt/amazon/efa/lib:/opt/amazon/efa/lib64:/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu:/opt/aws-ofi-nccl/lib"

# ======== names-in-other-scripts
set -euo pipefail +o posix
main() {
  start_job "/fsx/logs/Übung-größe-日本語/$SLURM_JOB_ID" "$@" # job.log is written there
  with_timeout cd -- '/fsx/código' && cd -- '/fsx/código' # tried first: a dead mount would hang

  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=4 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  export GREETING="Grüß Gott, ${USER-}"

# ======== secrets
  # ---- secrets: no value is in this script, in a file of the job or on a command line --------
  # Slurm keeps what was exported before sbatch with the job until it has ended.
  [[ -n ${WANDB_API_KEY:-} ]] || fail 'the secret WANDB_API_KEY is not set: export WANDB_API_KEY before sbatch'
  export WANDB_API_KEY
  HF_TOKEN=$(cat -- "$HOME/.cache/huggingface/token") || fail 'the secret HF_TOKEN is empty: its file is missing or has no text'
  [[ -n ${HF_TOKEN:-} ]] || fail 'the secret HF_TOKEN is empty: its file is missing or has no text'
  export HF_TOKEN
  DATABASE_PASSWORD=$(aws secretsmanager get-secret-value --secret-id 'my db' --query SecretString) || fail 'the secret DATABASE_PASSWORD is empty: its command printed nothing'
  [[ -n ${DATABASE_PASSWORD:-} ]] || fail 'the secret DATABASE_PASSWORD is empty: its command printed nothing'
  export DATABASE_PASSWORD

# ======== modules-and-site-files
set -euo pipefail +o posix
main() {
  start_job "$SLURM_SUBMIT_DIR/logs/$SLURM_JOB_ID" "$@" # job.log is written there
  script_folder=$PWD script_arguments=("$@"); set -- # the files neither read nor change them
  # shellcheck disable=SC2043 # there may be one
  for site_file in /etc/profile.d/site.sh "$HOME/env of mine.sh"; do
    [[ -r $site_file ]] || fail "no file $site_file (source: in the cluster's description, or of software)"
    set +u # `+u` and `||`: it may be written for shells without `set -eu`
    # shellcheck source=/dev/null
    . "$site_file" || echo "clusterjobs: $site_file ended with exit code $?"
    set -euo pipefail +aCEfkTvx; IFS=$' \t\n'; trap finish EXIT; trap - ERR
    cd -- "$script_folder"
  done
  set -- "${script_arguments[@]}"
  with_timeout cd -- "${PROJECT:?not set on this node: ${reason:=not_started}}/code" && cd -- "${PROJECT:?not set on this node: ${reason:=not_started}}/code" # tried first: a dead mount would hang

  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=4 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results

  set +u # the modules' own code reads unset variables
  type module >/dev/null 2>&1 || . /etc/profile.d/modules.sh || . /etc/profile.d/lmod.sh \
    || fail 'no command `module` on this node: name the file that defines it in software.source'
  module purge
  module restore my-tools
  module use /opt/site/modulefiles
  module load gcc/13 openmpi/5.0
  module swap gcc/13 gcc/14
  module unload cuda
  module load hdf5
  set -u

# ======== modules-in-setup
set -euo pipefail +o posix
main() {
  start_job "$SLURM_SUBMIT_DIR/logs/$SLURM_JOB_ID" "$@" # job.log is written there
  set +u # `module` is a function of the login shell, which no job inherits; its file reads unset variables
  type module >/dev/null 2>&1 || . /etc/profile.d/modules.sh || . /etc/profile.d/lmod.sh \
    || echo 'clusterjobs: no command `module` on this node: name the file that defines it in software.source'
  set -u

  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=4 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results

  # The spec's own code (setup) is parsed when it runs, so that an error in it ends the job here.
  set +u
  eval "$(cat <<'END'
module load cuda/12.4
END
)"
  set -u

# ======== log-of-all-jobs
set -euo pipefail +o posix
main() {
  start_job "/fsx/logs/$SLURM_JOB_ID" "$@" # job.log is written there
  with_timeout cd -- /fsx/code && cd -- /fsx/code # tried first: a dead mount would hang

# ======== limits-of-the-ranks
  # ---- limits: srun --propagate sets them for the ranks of all nodes ---------------------------
  ulimit -Sl unlimited 2>/dev/null || fail "ulimit: memlock: unlimited is more than this node allows: $(ulimit -Hl)"
  ulimit -Ss 8192 2>/dev/null || fail "ulimit: stack: 8192 is more than this node allows: $(ulimit -Hs)"

# ======== values-that-commands-print
  # ---- environment ---------------------------------------------------------------------------
  export OMP_NUM_THREADS=12 # CPUs of one rank; by default every rank uses all
  export PYTHONUNBUFFERED=1 # log lines appear when they are written
  export NCCL_DEBUG=WARN # log why a collective failed
  export NCCL_SOCKET_IFNAME='^lo,docker,veth' # for NCCL's first contact; eth0 has other names
  export TORCH_NCCL_DUMP_ON_TIMEOUT=1 # record which rank waits in a hang
  export TORCH_FR_BUFFER_SIZE=20000 # collectives in that record
  export TORCH_FR_DUMP_TEMP_FILE="$job_dir/nccl-trace-rank-" # where the record is written
  export FI_PROVIDER=efa # plugins before 1.6 do not select it
  export FI_EFA_USE_HUGE_PAGE=0 # with huge pages a fork runs out of memory
  export CLUSTERJOBS_RESULT="$job_dir/result.json" # the file for results
  export OTHER=1
  # libfabric and its NCCL plugin, wherever the AMI has them
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/opt/amazon/efa/lib:/opt/amazon/efa/lib64:/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu:/opt/aws-ofi-nccl/lib"

  # The spec's own code (setup) is parsed when it runs, so that an error in it ends the job here.
  set +u
  eval "$(cat <<'END'
ulimit -c 0
END
)"
  set -u

  # ---- values that commands print --------------------------------------------------------------
  compute_value steps yq .steps 'config file.yaml'; computed_steps=$result
  compute_value seed bash -c 'echo $RANDOM'; computed_seed=$result
  compute_value warmup bash -c 'echo $(( $1 / 100 ))' bash "$computed_steps"; computed_warmup=$result

  # The spec's env has the last word.
  export RUN_SEED="${computed_seed-}"
  export OTHER=1

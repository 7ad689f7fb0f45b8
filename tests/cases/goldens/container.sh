# ======== container-mounts-given-again
  # ---- container: pyxis starts it on every node, by srun -------------------------------------
  mounts=( # from the node into the container
    /fsx:/fsx # shared storage of p4d-a100
    "$job_dir:$job_dir" # the job's own folder: its configs and records
    /dev/infiniband:/dev/infiniband # EFA's devices
    /scratch:/scratch # mounts: of the spec
    /fsx/data:/data:ro # mounts: of the spec
  )
  inside=( # variables that the ranks get, whatever the image sets; by name, so that no value shows
    MASTER_ADDR MASTER_PORT OMP_NUM_THREADS PYTHONUNBUFFERED NCCL_DEBUG NCCL_SOCKET_IFNAME
    TORCH_NCCL_DUMP_ON_TIMEOUT TORCH_FR_BUFFER_SIZE TORCH_FR_DUMP_TEMP_FILE FI_PROVIDER
    FI_EFA_USE_HUGE_PAGE CLUSTERJOBS_RESULT NVIDIA_VISIBLE_DEVICES NVIDIA_DRIVER_CAPABILITIES
  )
  container_mounts=$(IFS=, && printf '%s' "${mounts[*]}")
  container_env=$(IFS=, && printf '%s' "${inside[*]}")

# ======== container-workdir-inside
  # ---- container: pyxis starts it on every node, by srun -------------------------------------
  mounts=( # from the node into the container
    /fsx:/fsx # shared storage of p4d-a100
    /dev/infiniband:/dev/infiniband # EFA's devices
    /fsx/corpus:/data:ro # mounts: of the spec
  )
  inside=( # variables that the ranks get, whatever the image sets; by name, so that no value shows
    MASTER_ADDR MASTER_PORT OMP_NUM_THREADS PYTHONUNBUFFERED NCCL_DEBUG NCCL_SOCKET_IFNAME
    TORCH_NCCL_DUMP_ON_TIMEOUT TORCH_FR_BUFFER_SIZE TORCH_FR_DUMP_TEMP_FILE FI_PROVIDER
    FI_EFA_USE_HUGE_PAGE CLUSTERJOBS_RESULT NVIDIA_VISIBLE_DEVICES NVIDIA_DRIVER_CAPABILITIES
  )
  container_mounts=$(IFS=, && printf '%s' "${mounts[*]}")
  container_env=$(IFS=, && printf '%s' "${inside[*]}")

# ======== container-apptainer-p4d
  # ---- container: apptainer starts each rank in it -------------------------------------------
  mounts=( # from the node into the container
    /fsx:/fsx # shared storage of p4d-a100
    "$job_dir:$job_dir" # the job's own folder: its configs and records
  )
  inside=( # variables that the ranks get, whatever the image sets; by name, so that no value shows
    MASTER_ADDR MASTER_PORT OMP_NUM_THREADS PYTHONUNBUFFERED NCCL_DEBUG NCCL_SOCKET_IFNAME
    TORCH_NCCL_DUMP_ON_TIMEOUT TORCH_FR_BUFFER_SIZE TORCH_FR_DUMP_TEMP_FILE FI_PROVIDER
    FI_EFA_USE_HUGE_PAGE TORCH_EXTENSIONS_DIR CLUSTERJOBS_RESULT HF_TOKEN VIRTUAL_ENV
  )
  export VIRTUAL_ENV=/opt/venv # in the container
  for name in "${inside[@]}"; do
    [[ ! -v $name ]] || export "APPTAINERENV_$name=${!name}"
  done
  container=(
    apptainer exec
    --nv # NVIDIA's devices and the driver's libraries of the node
    --no-home # packages in it would mix with the image's
    --writable-tmpfs # software.container.writable; in memory, 64 MB
    --no-eval # else a shell evaluates the values of variables
    "--pwd=$PWD" # where the job runs
    "${mounts[@]/#/--bind=}"
    /fsx/images/train.sif
  )

# ======== container-setup-inside
  # ---- container: apptainer starts each rank in it -------------------------------------------
  mounts=( # from the node into the container
    /fsx:/fsx # shared storage of p4d-a100
    "$SLURM_SUBMIT_DIR/.:$SLURM_SUBMIT_DIR/." # where the program runs
    "$job_dir:$job_dir" # the job's own folder: its configs and records
  )
  inside=( # variables that the ranks get, whatever the image sets; by name, so that no value shows
    MASTER_ADDR MASTER_PORT OMP_NUM_THREADS PYTHONUNBUFFERED NCCL_DEBUG NCCL_SOCKET_IFNAME
    TORCH_NCCL_DUMP_ON_TIMEOUT TORCH_FR_BUFFER_SIZE TORCH_FR_DUMP_TEMP_FILE FI_PROVIDER
    FI_EFA_USE_HUGE_PAGE CLUSTERJOBS_RESULT CLUSTERJOBS_CONTAINER_SETUP
  )
  for name in "${inside[@]}"; do
    [[ ! -v $name ]] || export "APPTAINERENV_$name=${!name}"
  done
  container=(
    apptainer exec
    --nv # NVIDIA's devices and the driver's libraries of the node
    --no-home # packages in it would mix with the image's
    --no-eval # else a shell evaluates the values of variables
    "--pwd=$PWD" # where the job runs
    "${mounts[@]/#/--bind=}"
    /fsx/images/pytorch.sif
  )

# ======== container-singularity-p4d
  # ---- container: singularity starts each rank in it -----------------------------------------
  mounts=( # from the node into the container
    /fsx:/fsx # shared storage of p4d-a100
    "$job_dir:$job_dir" # the job's own folder: its configs and records
    /fsx/corpus:/data:ro # mounts: of the spec
  )
  inside=( # variables that the ranks get, whatever the image sets; by name, so that no value shows
    MASTER_ADDR MASTER_PORT OMP_NUM_THREADS PYTHONUNBUFFERED NCCL_DEBUG NCCL_SOCKET_IFNAME
    TORCH_NCCL_DUMP_ON_TIMEOUT TORCH_FR_BUFFER_SIZE TORCH_FR_DUMP_TEMP_FILE FI_PROVIDER
    FI_EFA_USE_HUGE_PAGE TORCH_EXTENSIONS_DIR CLUSTERJOBS_RESULT WANDB_MODE VIRTUAL_ENV
  )
  export VIRTUAL_ENV=/opt/venv # in the container
  for name in "${inside[@]}"; do
    [[ ! -v $name ]] || export "SINGULARITYENV_$name=${!name}"
  done
  container=(
    singularity exec
    --nv # NVIDIA's devices and the driver's libraries of the node
    --no-home # packages in it would mix with the image's
    --no-eval # else a shell evaluates the values of variables
    --pwd=/workspace # where the job runs
    "${mounts[@]/#/--bind=}"
    "$SLURM_SUBMIT_DIR/./images/train.sif"
  )

# ======== container-shifter-p4d
  # ---- container: shifter starts each rank in it ---------------------------------------------
  mounts=( # from the node into the container
    /fsx/corpus:/data:ro # mounts: of the spec
  )
  inside=( # variables that the ranks get, whatever the image sets; by name, so that no value shows
    MASTER_ADDR MASTER_PORT OMP_NUM_THREADS PYTHONUNBUFFERED NCCL_DEBUG NCCL_SOCKET_IFNAME
    TORCH_NCCL_DUMP_ON_TIMEOUT TORCH_FR_BUFFER_SIZE TORCH_FR_DUMP_TEMP_FILE FI_PROVIDER
    FI_EFA_USE_HUGE_PAGE CLUSTERJOBS_RESULT WANDB_MODE A_KEY
  )
  # The image's variables win: the job's get other names outside, and their own again inside.
  unset "${!CLUSTERJOBS__@}"
  for name in "${inside[@]}"; do
    [[ ! -v $name ]] || export "CLUSTERJOBS__$name=${!name}"
  done
  container=(
    shifter
    --image=docker:nvcr.io/nvidia/pytorch:24.01-py3 # software.container
    "--workdir=$PWD" # else the image's own
    "${mounts[@]/#/--volume=}"
  )

# ======== container-docker-deepspeed
  # ---- container: docker starts one on every node --------------------------------------------
  mounts=( # from the node into the container
    'type=bind,source=/fsx,target=/fsx' # shared storage of p4de-a100
    "type=bind,source=$HOME/bert,target=$HOME/bert" # where the program runs
    "type=bind,source=$job_dir,target=$job_dir" # the job's own folder: its configs and records
    'type=bind,source=/opt/amazon,target=/opt/amazon,readonly' # EFA's libraries, by efa: host
  )
  inside=( # variables that the ranks get, whatever the image sets; by name, so that no value shows
    MASTER_ADDR MASTER_PORT OMP_NUM_THREADS PYTHONUNBUFFERED NCCL_DEBUG NCCL_SOCKET_IFNAME
    TORCH_NCCL_DUMP_ON_TIMEOUT TORCH_FR_BUFFER_SIZE TORCH_FR_DUMP_TEMP_FILE FI_PROVIDER
    FI_EFA_USE_HUGE_PAGE TORCH_EXTENSIONS_DIR CLUSTERJOBS_RESULT WANDB_API_KEY VIRTUAL_ENV
    SLURM_JOB_ID SLURM_JOB_NODELIST SLURM_NNODES SLURM_NODEID SLURMD_NODENAME
    SLURM_RESTART_COUNT USER
  )
  export VIRTUAL_ENV=/opt/venv # in the container
  exec {lifeline}<> <(:) # an input that ends with this script, and not before
  container=(
    docker run
    --rm --init # removed when it ends; signals are forwarded
    --interactive # it lives as long as its input, which is this script
    --name="clusterjobs-$SLURM_JOB_ID" --label=clusterjobs.user="$UID"
    --user="$UID:$(id -g)" "${GROUPS[@]/#/--group-add=}" # files belong to the user of the job
    --network=host # the nodes' own addresses and network cards
    --gpus=all # by NVIDIA's container toolkit
    --device=/dev/infiniband # EFA; without it NCCL takes TCP (aws-ofi-nccl issue 1020)
    --shm-size=547g # Docker's own 64 MB break NCCL
    --ulimit=memlock=-1:-1 # the network and NCCL pin memory
    "--workdir=$PWD" # where the job runs
    "${mounts[@]/#/--mount=}"
    "${inside[@]/#/--env=}"
    --env=HOME=/tmp # the image has no home folder of this user
    nvcr.io/nvidia/pytorch:24.01-py3
  )
  remove_old_containers

# ======== container-docker-horovod
  # ---- container: docker starts one on every node --------------------------------------------
  mounts=( # from the node into the container
    'type=bind,source=/fsx,target=/fsx' # shared storage of p4d-a100
    'type=bind,source=/opt/amazon,target=/opt/amazon,readonly' # EFA's libraries, by efa: host
  )
  inside=( # variables that the ranks get, whatever the image sets; by name, so that no value shows
    MASTER_ADDR MASTER_PORT OMP_NUM_THREADS PYTHONUNBUFFERED NCCL_DEBUG NCCL_SOCKET_IFNAME
    TORCH_NCCL_DUMP_ON_TIMEOUT TORCH_FR_BUFFER_SIZE TORCH_FR_DUMP_TEMP_FILE FI_PROVIDER
    FI_EFA_USE_HUGE_PAGE CLUSTERJOBS_STOP_FILE CLUSTERJOBS_RESULT HOROVOD_FUSION_THRESHOLD
    VIRTUAL_ENV SLURM_JOB_ID SLURM_JOB_NODELIST SLURM_NNODES SLURM_NODEID SLURMD_NODENAME
    SLURM_RESTART_COUNT USER
  )
  export VIRTUAL_ENV=/opt/horovod # in the container
  exec {lifeline}<> <(:) # an input that ends with this script, and not before
  # sshd and ssh look up their user, whom the image does not know.
  printf '%s\n' 'sshd:x:65533:65533::/run/sshd:/usr/sbin/nologin' \
    "$(id -un):x:$UID:$(id -g)::/tmp:/bin/bash" > "$job_dir/passwd"
  mounts+=("type=bind,source=$job_dir/passwd,target=/etc/passwd,readonly")
  container=(
    docker run
    --rm --init # removed when it ends; signals are forwarded
    --interactive # it lives as long as its input, which is this script
    --name="clusterjobs-$SLURM_JOB_ID" --label=clusterjobs.user="$UID"
    --user="$UID:$(id -g)" "${GROUPS[@]/#/--group-add=}" # files belong to the user of the job
    --network=host # the nodes' own addresses and network cards
    --gpus=all # by NVIDIA's container toolkit
    --device=/dev/infiniband # EFA; without it NCCL takes TCP (aws-ofi-nccl issue 1020)
    --shm-size=547g # Docker's own 64 MB break NCCL
    --ulimit=memlock=-1:-1 # the network and NCCL pin memory
    "--workdir=$PWD" # where the job runs
    "${mounts[@]/#/--mount=}"
    "${inside[@]/#/--env=}"
    --env=HOME=/tmp # the image has no home folder of this user
    nvcr.io/nvidia/pytorch:24.01-py3
  )
  remove_old_containers

# ======== container-docker-neox
  # ---- container: docker starts one on every node --------------------------------------------
  mounts=( # from the node into the container
    'type=bind,source=/fsx,target=/fsx' # shared storage of p4d-a100
  )
  inside=( # variables that the ranks get, whatever the image sets; by name, so that no value shows
    MASTER_ADDR MASTER_PORT OMP_NUM_THREADS PYTHONUNBUFFERED NCCL_DEBUG NCCL_SOCKET_IFNAME
    TORCH_NCCL_DUMP_ON_TIMEOUT TORCH_FR_BUFFER_SIZE TORCH_FR_DUMP_TEMP_FILE FI_PROVIDER
    FI_EFA_USE_HUGE_PAGE LOCAL_WORLD_SIZE TORCH_EXTENSIONS_DIR CLUSTERJOBS_RESULT SLURM_JOB_ID
    SLURM_JOB_NODELIST SLURM_NNODES SLURM_NODEID SLURMD_NODENAME SLURM_RESTART_COUNT USER
  )
  exec {lifeline}<> <(:) # an input that ends with this script, and not before
  # sshd and ssh look up their user, whom the image does not know.
  printf '%s\n' 'sshd:x:65533:65533::/run/sshd:/usr/sbin/nologin' \
    "$(id -un):x:$UID:$(id -g)::/tmp:/bin/bash" > "$job_dir/passwd"
  mounts+=("type=bind,source=$job_dir/passwd,target=/etc/passwd,readonly")
  container=(
    docker run
    --rm --init # removed when it ends; signals are forwarded
    --interactive # it lives as long as its input, which is this script
    --name="clusterjobs-$SLURM_JOB_ID" --label=clusterjobs.user="$UID"
    --user="$UID:$(id -g)" "${GROUPS[@]/#/--group-add=}" # files belong to the user of the job
    --network=host # the nodes' own addresses and network cards
    --gpus=all # by NVIDIA's container toolkit
    --device=/dev/infiniband # EFA; without it NCCL takes TCP (aws-ofi-nccl issue 1020)
    --shm-size=16g # Docker's own 64 MB break NCCL
    --ulimit=memlock=-1:-1 # the network and NCCL pin memory
    "--workdir=$PWD" # where the job runs
    "${mounts[@]/#/--mount=}"
    "${inside[@]/#/--env=}"
    --env=HOME=/tmp # the image has no home folder of this user
    my.registry:5000/gpt-neox:2.0
  )
  remove_old_containers

# ======== lightning-in-singularity
  # ---- container: singularity starts each rank in it -----------------------------------------
  mounts=( # from the node into the container
    /leonardo:/leonardo # shared storage of accounts-and-qos
    /leonardo_work:/leonardo_work # shared storage of accounts-and-qos
    /leonardo_scratch:/leonardo_scratch # shared storage of accounts-and-qos
  )
  inside=( # variables that the ranks get, whatever the image sets; by name, so that no value shows
    MASTER_ADDR MASTER_PORT OMP_NUM_THREADS PYTHONUNBUFFERED NCCL_DEBUG NCCL_SOCKET_IFNAME
    TORCH_NCCL_DUMP_ON_TIMEOUT TORCH_FR_BUFFER_SIZE TORCH_FR_DUMP_TEMP_FILE
    PL_TRAINER_NUM_NODES PL_TRAINER_DEVICES PL_TRAINER_ACCELERATOR PL_TRAINER_DEFAULT_ROOT_DIR
    CLUSTERJOBS_CHECKPOINTS CLUSTERJOBS_RESULT PYTHONPATH
  )
  for name in "${inside[@]}"; do
    [[ ! -v $name ]] || export "SINGULARITYENV_$name=${!name}"
  done
  container=(
    singularity exec
    --nv # NVIDIA's devices and the driver's libraries of the node
    --no-home # packages in it would mix with the image's
    --no-eval # else a shell evaluates the values of variables
    "--pwd=$PWD" # where the job runs
    "${mounts[@]/#/--bind=}"
    /leonardo_work/Abc_Tokens/images/lightning.sif
  )

# ======== llama-on-amd
  # ---- container: singularity starts each rank in it -----------------------------------------
  mounts=( # from the node into the container
    /users:/users # shared storage of slingshot-mi250x
    /project:/project # shared storage of slingshot-mi250x
    /scratch:/scratch # shared storage of slingshot-mi250x
    /flash:/flash # shared storage of slingshot-mi250x
  )
  inside=( # variables that the ranks get, whatever the image sets; by name, so that no value shows
    MASTER_ADDR MASTER_PORT OMP_NUM_THREADS PYTHONUNBUFFERED NCCL_DEBUG NCCL_SOCKET_IFNAME
    TORCH_NCCL_DUMP_ON_TIMEOUT TORCH_FR_BUFFER_SIZE TORCH_FR_DUMP_TEMP_FILE
    FI_CXI_DISABLE_HOST_REGISTER FI_MR_CACHE_MONITOR FI_CXI_DEFAULT_CQ_SIZE NCCL_NET_GDR_LEVEL
    NCCL_CROSS_NIC CLUSTERJOBS_RESULT MIOPEN_USER_DB_PATH MIOPEN_CUSTOM_CACHE_DIR
    HF_HUB_OFFLINE
  )
  for name in "${inside[@]}"; do
    [[ ! -v $name ]] || export "SINGULARITYENV_$name=${!name}"
  done
  container=(
    singularity exec
    --rocm # AMD's devices and the driver's libraries of the node
    --no-home # packages in it would mix with the image's
    --no-eval # else a shell evaluates the values of variables
    "--pwd=$PWD" # where the job runs
    "${mounts[@]/#/--bind=}"
    /project/project_465000001/images/pytorch-rocm.sif
  )

# ======== llama-on-hyperpod
  # ---- container: pyxis starts it on every node, by srun -------------------------------------
  mounts=( # from the node into the container
    /fsx:/fsx # shared storage of hyperpod-p5
    /dev/infiniband:/dev/infiniband # EFA's devices
  )
  inside=( # variables that the ranks get, whatever the image sets; by name, so that no value shows
    MASTER_ADDR MASTER_PORT OMP_NUM_THREADS PYTHONUNBUFFERED NCCL_SOCKET_IFNAME
    TORCH_NCCL_DUMP_ON_TIMEOUT TORCH_FR_BUFFER_SIZE TORCH_FR_DUMP_TEMP_FILE FI_PROVIDER
    FI_EFA_USE_HUGE_PAGE CLUSTERJOBS_STOP_FILE NCCL_DEBUG NCCL_DEBUG_SUBSYS NCCL_DEBUG_FILE
    CLUSTERJOBS_RESULT NVIDIA_VISIBLE_DEVICES NVIDIA_DRIVER_CAPABILITIES
  )
  container_mounts=$(IFS=, && printf '%s' "${mounts[*]}")
  container_env=$(IFS=, && printf '%s' "${inside[*]}")

# ======== megatron-on-a3-mega
  # ---- container: pyxis starts it on every node, by srun -------------------------------------
  mounts=( # from the node into the container
    /home:/home # shared storage of gcp-a3-mega
    /gcs:/gcs # shared storage of gcp-a3-mega
    /var/lib/tcpxo/lib64:/var/lib/tcpxo/lib64 # GPUDirect-TCPXO: NCCL's plugin and its devices
    /dev/aperture_devices:/dev/aperture_devices # GPUDirect-TCPXO: NCCL's plugin and its devices
  )
  inside=( # variables that the ranks get, whatever the image sets; by name, so that no value shows
    MASTER_ADDR MASTER_PORT OMP_NUM_THREADS PYTHONUNBUFFERED NCCL_DEBUG NCCL_SOCKET_IFNAME
    TORCH_NCCL_DUMP_ON_TIMEOUT TORCH_FR_BUFFER_SIZE TORCH_FR_DUMP_TEMP_FILE
    NCCL_FASTRAK_CTRL_DEV NCCL_FASTRAK_IFNAME NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY
    CUDA_DEVICE_MAX_CONNECTIONS CLUSTERJOBS_RESULT NVIDIA_VISIBLE_DEVICES
    NVIDIA_DRIVER_CAPABILITIES
  )
  container_mounts=$(IFS=, && printf '%s' "${mounts[*]}")
  container_env=$(IFS=, && printf '%s' "${inside[*]}")

# ======== megatron-on-dgx
  # ---- container: pyxis starts it on every node, by srun -------------------------------------
  mounts=( # from the node into the container
    /home:/home # shared storage of dgx-pod
    /lustre:/lustre # shared storage of dgx-pod
    /dev/infiniband:/dev/infiniband # InfiniBand's devices
  )
  inside=( # variables that the ranks get, whatever the image sets; by name, so that no value shows
    MASTER_ADDR MASTER_PORT OMP_NUM_THREADS PYTHONUNBUFFERED NCCL_SOCKET_IFNAME
    TORCH_NCCL_DUMP_ON_TIMEOUT TORCH_FR_BUFFER_SIZE TORCH_FR_DUMP_TEMP_FILE NCCL_DEBUG
    NCCL_DEBUG_SUBSYS NCCL_DEBUG_FILE CUDA_DEVICE_MAX_CONNECTIONS CLUSTERJOBS_RESULT
    NVIDIA_VISIBLE_DEVICES NVIDIA_DRIVER_CAPABILITIES NCCL_IB_HCA
  )
  container_mounts=$(IFS=, && printf '%s' "${mounts[*]}")
  container_env=$(IFS=, && printf '%s' "${inside[*]}")

# ======== torchrun-on-a3-high
  # ---- container: pyxis starts it on every node, by srun -------------------------------------
  mounts=( # from the node into the container
    /home:/home # shared storage of gcp-a3-high
    /var/lib/tcpx/lib64:/var/lib/tcpx/lib64 # GPUDirect-TCPX: NCCL's plugin and its devices
    "/run/tcpx-$SLURM_JOB_ID:/run/tcpx-$SLURM_JOB_ID" # GPUDirect-TCPX: NCCL's plugin and its devices
  )
  inside=( # variables that the ranks get, whatever the image sets; by name, so that no value shows
    MASTER_ADDR MASTER_PORT OMP_NUM_THREADS PYTHONUNBUFFERED NCCL_DEBUG NCCL_SOCKET_IFNAME
    TORCH_NCCL_DUMP_ON_TIMEOUT TORCH_FR_BUFFER_SIZE TORCH_FR_DUMP_TEMP_FILE NCCL_NET
    NCCL_GPUDIRECTTCPX_CTRL_DEV NCCL_GPUDIRECTTCPX_SOCKET_IFNAME
    NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS
    NCCL_GPUDIRECTTCPX_FORCE_ACK NCCL_GPUDIRECTTCPX_TX_COMPLETION_NANOSLEEP NCCL_ALGO
    NCCL_PROTO NCCL_CROSS_NIC NCCL_NET_GDR_LEVEL NCCL_P2P_PXN_LEVEL NCCL_NSOCKS_PERTHREAD
    NCCL_SOCKET_NTHREADS NCCL_MIN_NCHANNELS NCCL_MAX_NCHANNELS NCCL_BUFFSIZE
    NCCL_DYNAMIC_CHUNK_SIZE NCCL_P2P_NET_CHUNKSIZE NCCL_P2P_PCI_CHUNKSIZE
    NCCL_P2P_NVL_CHUNKSIZE CLUSTERJOBS_RESULT NVIDIA_VISIBLE_DEVICES
    NVIDIA_DRIVER_CAPABILITIES
  )
  container_mounts=$(IFS=, && printf '%s' "${mounts[*]}")
  container_env=$(IFS=, && printf '%s' "${inside[*]}")

# ======== vit-in-shifter
  # ---- container: shifter starts each rank in it ---------------------------------------------
  mounts=( # from the node into the container
  )
  inside=( # variables that the ranks get, whatever the image sets; by name, so that no value shows
    MASTER_ADDR MASTER_PORT OMP_NUM_THREADS PYTHONUNBUFFERED NCCL_DEBUG NCCL_SOCKET_IFNAME
    TORCH_NCCL_DUMP_ON_TIMEOUT TORCH_FR_BUFFER_SIZE TORCH_FR_DUMP_TEMP_FILE
    FI_CXI_DISABLE_HOST_REGISTER FI_MR_CACHE_MONITOR FI_CXI_DEFAULT_CQ_SIZE NCCL_NET_GDR_LEVEL
    NCCL_CROSS_NIC CLUSTERJOBS_RESULT HDF5_USE_FILE_LOCKING
  )
  # The image's variables win: the job's get other names outside, and their own again inside.
  unset "${!CLUSTERJOBS__@}"
  for name in "${inside[@]}"; do
    [[ ! -v $name ]] || export "CLUSTERJOBS__$name=${!name}"
  done
  container=(
    shifter
    --image=docker:nersc/pytorch:24.08.01 # software.container
    "--workdir=$PWD" # else the image's own
    "${mounts[@]/#/--volume=}"
  )

# ======== gpt-neox-2node-gcp
  # ---- container: docker starts one on every node --------------------------------------------
  mounts=( # from the node into the container
    'type=bind,source=/home,target=/home' # shared storage of gcp-a2
  )
  inside=( # variables that the ranks get, whatever the image sets; by name, so that no value shows
    MASTER_ADDR MASTER_PORT OMP_NUM_THREADS PYTHONUNBUFFERED NCCL_DEBUG NCCL_SOCKET_IFNAME
    TORCH_NCCL_DUMP_ON_TIMEOUT TORCH_FR_BUFFER_SIZE TORCH_FR_DUMP_TEMP_FILE LOCAL_WORLD_SIZE
    TORCH_EXTENSIONS_DIR CLUSTERJOBS_RESULT SLURM_JOB_ID SLURM_JOB_NODELIST SLURM_NNODES
    SLURM_NODEID SLURMD_NODENAME SLURM_RESTART_COUNT USER
  )
  exec {lifeline}<> <(:) # an input that ends with this script, and not before
  # sshd and ssh look up their user, whom the image does not know.
  printf '%s\n' 'sshd:x:65533:65533::/run/sshd:/usr/sbin/nologin' \
    "$(id -un):x:$UID:$(id -g)::/tmp:/bin/bash" > "$job_dir/passwd"
  mounts+=("type=bind,source=$job_dir/passwd,target=/etc/passwd,readonly")
  container=(
    docker run
    --rm --init # removed when it ends; signals are forwarded
    --interactive # it lives as long as its input, which is this script
    --name="clusterjobs-$SLURM_JOB_ID" --label=clusterjobs.user="$UID"
    --user="$UID:$(id -g)" "${GROUPS[@]/#/--group-add=}" # files belong to the user of the job
    --network=host # the nodes' own addresses and network cards
    --gpus=all # by NVIDIA's container toolkit
    --shm-size=16g # Docker's own 64 MB break NCCL
    --ulimit=memlock=-1:-1 # the network and NCCL pin memory
    "--workdir=$PWD" # where the job runs
    "${mounts[@]/#/--mount=}"
    "${inside[@]/#/--env=}"
    --env=HOME=/tmp # the image has no home folder of this user
    my.registry:5000/gpt-neox:2.0
  )
  remove_old_containers

# ======== horovod-2node-docker
  # ---- container: docker starts one on every node --------------------------------------------
  mounts=( # from the node into the container
    'type=bind,source=/fsx,target=/fsx' # shared storage of one-gpu
  )
  inside=( # variables that the ranks get, whatever the image sets; by name, so that no value shows
    MASTER_ADDR MASTER_PORT OMP_NUM_THREADS PYTHONUNBUFFERED NCCL_DEBUG NCCL_SOCKET_IFNAME
    TORCH_NCCL_DUMP_ON_TIMEOUT TORCH_FR_BUFFER_SIZE TORCH_FR_DUMP_TEMP_FILE CLUSTERJOBS_RESULT
    SLURM_JOB_ID SLURM_JOB_NODELIST SLURM_NNODES SLURM_NODEID SLURMD_NODENAME
    SLURM_RESTART_COUNT USER
  )
  exec {lifeline}<> <(:) # an input that ends with this script, and not before
  # sshd and ssh look up their user, whom the image does not know.
  printf '%s\n' 'sshd:x:65533:65533::/run/sshd:/usr/sbin/nologin' \
    "$(id -un):x:$UID:$(id -g)::/tmp:/bin/bash" > "$job_dir/passwd"
  mounts+=("type=bind,source=$job_dir/passwd,target=/etc/passwd,readonly")
  container=(
    docker run
    --rm --init # removed when it ends; signals are forwarded
    --interactive # it lives as long as its input, which is this script
    --name="clusterjobs-$SLURM_JOB_ID" --label=clusterjobs.user="$UID"
    --user="$UID:$(id -g)" "${GROUPS[@]/#/--group-add=}" # files belong to the user of the job
    --network=host # the nodes' own addresses and network cards
    --gpus=all # by NVIDIA's container toolkit
    --shm-size=7g # Docker's own 64 MB break NCCL
    --ulimit=memlock=-1:-1 # the network and NCCL pin memory
    "--workdir=$PWD" # where the job runs
    "${mounts[@]/#/--mount=}"
    "${inside[@]/#/--env=}"
    --env=HOME=/tmp # the image has no home folder of this user
    my.registry:5000/horovod:0.28.1
  )
  remove_old_containers

# ======== fabric-tcpx
  # ---- container: pyxis starts it on every node, by srun -------------------------------------
  mounts=( # from the node into the container
    /home:/home # shared storage of a3high
    /var/lib/tcpx/lib64:/var/lib/tcpx/lib64 # GPUDirect-TCPX: NCCL's plugin and its devices
    "/run/tcpx-$SLURM_JOB_ID:/run/tcpx-$SLURM_JOB_ID" # GPUDirect-TCPX: NCCL's plugin and its devices
  )
  inside=( # variables that the ranks get, whatever the image sets; by name, so that no value shows
    MASTER_ADDR MASTER_PORT OMP_NUM_THREADS PYTHONUNBUFFERED NCCL_DEBUG NCCL_SOCKET_IFNAME
    TORCH_NCCL_DUMP_ON_TIMEOUT TORCH_FR_BUFFER_SIZE TORCH_FR_DUMP_TEMP_FILE NCCL_NET
    NCCL_GPUDIRECTTCPX_CTRL_DEV NCCL_GPUDIRECTTCPX_SOCKET_IFNAME
    NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS
    NCCL_GPUDIRECTTCPX_FORCE_ACK NCCL_GPUDIRECTTCPX_TX_COMPLETION_NANOSLEEP NCCL_ALGO
    NCCL_PROTO NCCL_CROSS_NIC NCCL_NET_GDR_LEVEL NCCL_P2P_PXN_LEVEL NCCL_NSOCKS_PERTHREAD
    NCCL_SOCKET_NTHREADS NCCL_MIN_NCHANNELS NCCL_MAX_NCHANNELS NCCL_BUFFSIZE
    NCCL_DYNAMIC_CHUNK_SIZE NCCL_P2P_NET_CHUNKSIZE NCCL_P2P_PCI_CHUNKSIZE
    NCCL_P2P_NVL_CHUNKSIZE CLUSTERJOBS_RESULT NVIDIA_VISIBLE_DEVICES
    NVIDIA_DRIVER_CAPABILITIES
  )
  container_mounts=$(IFS=, && printf '%s' "${mounts[*]}")
  container_env=$(IFS=, && printf '%s' "${inside[*]}")

# ======== roles-vllm-pyxis
  # ---- container: pyxis starts it on every node, by srun -------------------------------------
  mounts=( # from the node into the container
    /fsx:/fsx # shared storage of p5-h100
    /dev/infiniband:/dev/infiniband # EFA's devices
  )
  inside=( # variables that the ranks get, whatever the image sets; by name, so that no value shows
    MASTER_ADDR MASTER_PORT OMP_NUM_THREADS PYTHONUNBUFFERED NCCL_SOCKET_IFNAME
    TORCH_NCCL_DUMP_ON_TIMEOUT TORCH_FR_BUFFER_SIZE TORCH_FR_DUMP_TEMP_FILE FI_PROVIDER
    FI_EFA_USE_HUGE_PAGE CLUSTERJOBS_STOP_FILE CLUSTERJOBS_HEARTBEAT NCCL_DEBUG
    NCCL_DEBUG_SUBSYS NCCL_DEBUG_FILE CLUSTERJOBS_RESULT NVIDIA_VISIBLE_DEVICES
    NVIDIA_DRIVER_CAPABILITIES CLUSTERJOBS_TRAINING_NODES CLUSTERJOBS_SERVER_NODES
    CLUSTERJOBS_SERVER_ADDR CLUSTERJOBS_SERVER_PORT
  )
  container_mounts=$(IFS=, && printf '%s' "${mounts[*]}")
  container_env=$(IFS=, && printf '%s' "${inside[*]}")

# ======== roles-docker
  # ---- container: docker starts one on every node --------------------------------------------
  mounts=( # from the node into the container
    'type=bind,source=/fsx,target=/fsx' # shared storage of p4d-a100
  )
  inside=( # variables that the ranks get, whatever the image sets; by name, so that no value shows
    MASTER_ADDR MASTER_PORT OMP_NUM_THREADS PYTHONUNBUFFERED NCCL_DEBUG NCCL_SOCKET_IFNAME
    TORCH_NCCL_DUMP_ON_TIMEOUT TORCH_FR_BUFFER_SIZE TORCH_FR_DUMP_TEMP_FILE FI_PROVIDER
    FI_EFA_USE_HUGE_PAGE TORCH_EXTENSIONS_DIR CLUSTERJOBS_RESULT VIRTUAL_ENV
    CLUSTERJOBS_TRAINING_NODES CLUSTERJOBS_SERVER_NODES CLUSTERJOBS_SERVER_ADDR
    CLUSTERJOBS_SERVER_PORT SLURM_JOB_ID SLURM_JOB_NODELIST SLURM_NNODES SLURM_NODEID
    SLURMD_NODENAME SLURM_RESTART_COUNT USER
  )
  export VIRTUAL_ENV=/opt/venv # in the container
  exec {lifeline}<> <(:) # an input that ends with this script, and not before
  container=(
    docker run
    --rm --init # removed when it ends; signals are forwarded
    --interactive # it lives as long as its input, which is this script
    --name="clusterjobs-$SLURM_JOB_ID" --label=clusterjobs.user="$UID"
    --user="$UID:$(id -g)" "${GROUPS[@]/#/--group-add=}" # files belong to the user of the job
    --network=host # the nodes' own addresses and network cards
    --gpus=all # by NVIDIA's container toolkit
    --device=/dev/infiniband # EFA; without it NCCL takes TCP (aws-ofi-nccl issue 1020)
    --shm-size=547g # Docker's own 64 MB break NCCL
    --ulimit=memlock=-1:-1 # the network and NCCL pin memory
    "--workdir=$PWD" # where the job runs
    "${mounts[@]/#/--mount=}"
    "${inside[@]/#/--env=}"
    --env=HOME=/tmp # the image has no home folder of this user
    nvcr.io/nvidia/pytorch:24.01-py3
  )
  remove_old_containers

# ======== limits-of-a-docker-container
  # ---- container: docker starts one on every node --------------------------------------------
  mounts=( # from the node into the container
    'type=bind,source=/fsx,target=/fsx' # shared storage of p4d-a100
    "type=bind,source=$SLURM_SUBMIT_DIR/.,target=$SLURM_SUBMIT_DIR/." # where the program runs
    "type=bind,source=$job_dir,target=$job_dir" # the job's own folder: its configs and records
  )
  inside=( # variables that the ranks get, whatever the image sets; by name, so that no value shows
    MASTER_ADDR MASTER_PORT OMP_NUM_THREADS PYTHONUNBUFFERED NCCL_DEBUG NCCL_SOCKET_IFNAME
    TORCH_NCCL_DUMP_ON_TIMEOUT TORCH_FR_BUFFER_SIZE TORCH_FR_DUMP_TEMP_FILE FI_PROVIDER
    FI_EFA_USE_HUGE_PAGE CLUSTERJOBS_RESULT SLURM_JOB_ID SLURM_JOB_NODELIST SLURM_NNODES
    SLURM_NODEID SLURMD_NODENAME SLURM_RESTART_COUNT USER
  )
  exec {lifeline}<> <(:) # an input that ends with this script, and not before
  container=(
    docker run
    --rm --init # removed when it ends; signals are forwarded
    --interactive # it lives as long as its input, which is this script
    --name="clusterjobs-$SLURM_JOB_ID" --label=clusterjobs.user="$UID"
    --user="$UID:$(id -g)" "${GROUPS[@]/#/--group-add=}" # files belong to the user of the job
    --network=host # the nodes' own addresses and network cards
    --gpus=all # by NVIDIA's container toolkit
    --device=/dev/infiniband # EFA; without it NCCL takes TCP (aws-ofi-nccl issue 1020)
    --shm-size=547g # Docker's own 64 MB break NCCL
    --ulimit=memlock=65536:65536 --ulimit=nofile=65536:65536 # ulimit; Docker does not pass on the job's
    "--workdir=$PWD" # where the job runs
    "${mounts[@]/#/--mount=}"
    "${inside[@]/#/--env=}"
    --env=HOME=/tmp # the image has no home folder of this user
    my/image:1
  )
  remove_old_containers

# ======== command-torchrun-small
  # ---- launch: one torchrun per node starts the node's ranks ---------------------------------
  command=(
    python3 -c 'import os; print(os.environ['\''RANK'\''], "of", os.environ['\''WORLD_SIZE'\''])'
  )
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=4 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=2 --nproc-per-node=2 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" --no-python "$@"' \
    node "${command[@]}"
  reason=completed
}

# ======== command-args-small
  # ---- launch: srun starts one task per rank -------------------------------------------------
  command=(
    ./count
    --from 1
    --to 10
    --quiet -x 0x10
    --names 'a b' '' "c'd"
  )
  srun_options=(
    --nodes=1 --ntasks=1 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=4 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=1
    exec "$@"' rank "${command[@]}"
  reason=completed
}

# ======== command-srun-p5
  # ---- launch: srun starts one task per rank -------------------------------------------------
  command=(
    /opt/nccl-tests/build/all_reduce_perf -b 8 -e 16G -f 2 -g 1
  )
  srun_options=(
    --nodes=2 --ntasks=16 --ntasks-per-node=8 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=24 # not inherited in Slurm 22.05-23.02
    --mpi=pmix
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=8
    exec "$@"' rank "${command[@]}"
  reason=completed
}

# ======== command-srun-pmix
  # ---- preflight: check every node before the training ---------------------------------------
  python=$(find_python) || fail 'the preflight needs Python 3.7 or newer'
  checks=(
    seconds=60 # for all checks; a node that does not answer in time is bad
    packages=mpi4py==4.1 # what the job's Python must have
  )
  check_nodes

  # ---- launch: srun starts one task per rank -------------------------------------------------
  command=(
    python3 -m mpi4py simulate.py
  )
  srun_options=(
    --nodes=2 --ntasks=4 --ntasks-per-node=2 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=2 # not inherited in Slurm 22.05-23.02
    --mpi=pmix
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=2
    exec "$@"' rank "${command[@]}"
  reason=completed
}

# ======== command-mpirun
  # ---- launch: one mpirun has Slurm start its daemons, and they start the ranks --------------
  command=(
    ./simulate
    --fast
    --steps 1000
  )
  # mpirun has Slurm start one daemon on each node, without ssh. The ranks get the environment of
  # this script; each daemon's step gets the whole node, and the threads of a rank may move.
  export SLURM_WHOLE=1 SLURM_CPU_BIND=none
  [[ $(mpirun --version 2>&1) == *open-mpi.org* ]] ||
    fail "mpirun is not Open MPI's: $(type -P mpirun || echo none). For other MPIs: launcher: srun, srun: {mpi: pmi2}"
  mpirun=(
    mpirun -np 16 --map-by ppr:8:node --bind-to none --tag-output
    -mca plm slurm
  )
  (( EUID )) || mpirun+=(--allow-run-as-root) # in a container
  run_ranks "${mpirun[@]}" bash -c '
    export RANK=$OMPI_COMM_WORLD_RANK LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK
    export WORLD_SIZE=$OMPI_COMM_WORLD_SIZE LOCAL_WORLD_SIZE=8
    export NODE_RANK=$((RANK / LOCAL_WORLD_SIZE)) # the ranks of a node follow one another
    exec "$@"' rank "${command[@]}"
  reason=completed
}

# ======== array-of-commands
  # ---- launch: srun starts one task per rank -------------------------------------------------
  command=(
    ./tokenize
    --shard "${SLURM_ARRAY_TASK_ID:?not set on this node: ${reason:=not_started}}"
    --tmp "${SCRATCH:-/tmp}/$SLURM_JOB_ID"
    --log "$job_dir/attempt-$attempt"
  )
  srun_options=(
    --nodes=1 --ntasks=1 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=4 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=1
    exec "$@"' rank "${command[@]}"
  reason=completed
}

# ======== shell-with-arguments
  # ---- launch: srun starts one task per rank -------------------------------------------------
  command=(
    bash -c 'exec ./run --rank="$SLURM_PROCID" --scratch="$TMPDIR" "$@"' run
    --job "$SLURM_JOB_ID"
    --data "${DATA:-/fsx/data}"
    "$@" # the arguments of this script
  )
  srun_options=(
    --nodes=1 --ntasks=1 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=4 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=1
    exec "$@"' rank "${command[@]}"
  reason=completed
}

# ======== container-workdir-inside
  # ---- launch: one torchrun per node starts the node's ranks ---------------------------------
  command=(
    train.py
    --data /data
    --out /fsx/out
  )
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
    '--container-image=nvcr.io#nvidia/pytorch:24.01-py3' # software.container
    "--container-mounts=$container_mounts"
    '--container-workdir=/workspace/my code' # else the image's own
    "--container-env=$container_env" # else the image's values win
    --no-container-mount-home # packages in it would mix with the image's
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=2 --nproc-per-node=8 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@"' \
    node "${command[@]}"
  reason=completed
}

# ======== container-apptainer-p4d
  # ---- launch: srun starts one task per rank -------------------------------------------------
  command=(
    python3 train.py
    --deepspeed
    --deepspeed_config "$job_dir/ds_config.json"
  )
  srun_options=(
    --nodes=2 --ntasks=16 --ntasks-per-node=8 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=12 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" "${container[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    [[ -x $VIRTUAL_ENV/bin/python3 ]] || { echo "no virtual environment at $VIRTUAL_ENV" >&2; exit 1; }
    export PATH="$VIRTUAL_ENV/bin:$PATH"
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=8
    exec "$@"' rank "${command[@]}"
  reason=completed
}

# ======== container-setup-inside
  # ---- launch: one torchrun per node starts the node's ranks ---------------------------------
  command=(
    train.py
  )
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" "${container[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    clusterjobs_words=("$@") && set -- # a file that the lines source would get them
    trap "echo \"clusterjobs: software.container.setup has ended with exit code \$?\" >&2" EXIT
    set -e
    eval "$(< "$CLUSTERJOBS_CONTAINER_SETUP")"
    set +e
    trap - EXIT
    set -- "${clusterjobs_words[@]}"
    exec torchrun --nnodes=2 --nproc-per-node=8 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@"' \
    node "${command[@]}"
  reason=completed
}

# ======== container-singularity-p4d
  # ---- launch: srun starts one task per rank -------------------------------------------------
  command=(
    python3 train.py
    --deepspeed
    --deepspeed_config "$job_dir/ds_config.json"
  )
  srun_options=(
    --nodes=2 --ntasks=16 --ntasks-per-node=8 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=12 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" "${container[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    [[ -x $VIRTUAL_ENV/bin/python3 ]] || { echo "no virtual environment at $VIRTUAL_ENV" >&2; exit 1; }
    export PATH="$VIRTUAL_ENV/bin:$PATH"
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=8
    exec "$@"' rank "${command[@]}"
  reason=completed
}

# ======== container-shifter-p4d
  # ---- launch: one torchrun per node starts the node's ranks ---------------------------------
  command=(
    train.py
  )
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" "${container[@]}" bash -c '
    for name in "${!CLUSTERJOBS__@}"; do
      export "${name#CLUSTERJOBS__}=${!name}"
      unset "$name"
    done
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=2 --nproc-per-node=8 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@"' \
    node "${command[@]}"
  reason=completed
}

# ======== container-docker-deepspeed
  # ---- launch: one deepspeed per node starts the node's ranks --------------------------------
  command=(
    train.py
    --deepspeed
    --deepspeed_config "$job_dir/ds_config.json"
  )
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
  )
  # Without a host file DeepSpeed would train on one node and report no error.
  printf '%s slots=8\n' "${nodes[@]}" > "$job_dir/hostfile"
  run_ranks srun "${srun_options[@]}" "${container[@]}" bash -c '
    { cat > /dev/null; kill -KILL -1; } <&0 & # the container ends with its input
    exec < /dev/null
    export NODE_RANK=$SLURM_NODEID
    [[ -x $VIRTUAL_ENV/bin/python3 ]] || { echo "no virtual environment at $VIRTUAL_ENV" >&2; exit 1; }
    export PATH="$VIRTUAL_ENV/bin:$PATH"
    export LD_LIBRARY_PATH=/opt/amazon/efa/lib:/opt/amazon/efa/lib64:/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu:/opt/aws-ofi-nccl/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    hostfile=$1
    shift
    exec deepspeed --hostfile="$hostfile" --no_ssh --node_rank="$SLURM_NODEID" --no_local_rank \
      --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" "$@"' \
    node "$job_dir/hostfile" "${command[@]}" <&"$lifeline"
  reason=completed
}

# ======== container-docker-horovod
  # ---- launch: one horovodrun starts the ranks of all nodes over ssh -------------------------
  command=(
    python3 train.py
    --epochs 90
    --note 'it'\''s $HOME'
  )
  export CLUSTERJOBS_ATTEMPT=$attempt # the watchdog knows the ranks by it
ssh_dir="$job_dir/ssh.$attempt" # removed when the launcher has ended
  rm -rf -- "$ssh_dir" # of an older job with this id: a new cluster reuses them
  mkdir -m 700 -- "$ssh_dir"
  # horovodrun gives all ranks the name that the interface has on the first node; names differ.
  interface=$(python3 "$job_dir/ssh_interface.py" "${nodes[-1]}")
  with_interface=(python3 "$job_dir/ssh_interface.py" "$MASTER_ADDR,${nodes[-1]}")
  printf '%s\0' "${with_interface[@]}" "${command[@]}" > "$ssh_dir/command" # what a rank runs
  hosts=$(printf '%s:8,' "${nodes[@]}")
  launcher=(
    horovodrun --gloo --disable-cache --start-timeout 300
    -np 16 -H "${hosts%,}" --network-interfaces "$interface" "$ssh_dir/rank"
  )
  run_ranks launch_over_ssh
  reason=completed
}

# ======== container-docker-neox
  # ---- launch: deepy.py has DeepSpeed start the ranks by ssh ---------------------------------
  repair_checkpoints /fsx/checkpoints/neox latest '(global_step\d+)'
  command=(
    python3 deepy.py train.py -d configs small.yml "$job_dir/clusterjobs_launch.yml" "$job_dir/clusterjobs_master.yml"
  )
ssh_dir="$job_dir/ssh.$attempt" # removed when the launcher has ended
  rm -rf -- "$ssh_dir" # of an older job with this id: a new cluster reuses them
  mkdir -m 700 -- "$ssh_dir"
  # Without a host file DeepSpeed would train on one node and report no error.
  printf '%s slots=8\n' "${nodes[@]}" > "$ssh_dir/hostfile"
  # Without the address DeepSpeed would ask the first node for it by ssh.
  printf '{"master_addr": "%s", "master_port": %s}\n' "$MASTER_ADDR" "$MASTER_PORT" \
    > "$job_dir/clusterjobs_master.yml"
  # deepy.py runs in the first node's container, and reaches the others with pdsh.
  launcher=(env DLTS_HOSTFILE="$ssh_dir/hostfile" "${command[@]}")
  run_ranks launch_over_ssh
  reason=completed
}

# ======== deepspeed-torchrun-p4de
  # ---- launch: one torchrun per node starts the node's ranks ---------------------------------
  command=(
    train.py
    --model meta-llama/Llama-2-7b
    --seq-len 4096
    --deepspeed
    --deepspeed_config "$job_dir/ds_config.json"
  )
  srun_options=(
    --nodes=4 --ntasks=4 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=4 --nproc-per-node=8 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@"' \
    node "${command[@]}"
  reason=completed
}

# ======== deepspeed-launcher-p3dn
  # ---- launch: one deepspeed per node starts the node's ranks --------------------------------
  repair_checkpoints /fsx/checkpoints/bert-large/fp16 latest '(global_step\d+)'
  command=(
    deepspeed_train.py
    --max-seq-length 512
    --data-path /fsx/data/books /fsx/data/wiki
    --fp16-opt
    --deepspeed
    --deepspeed_config "$job_dir/ds_config.json"
  )
  srun_options=(
    --nodes=4 --ntasks=4 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=48 # not inherited in Slurm 22.05-23.02
  )
  # Without a host file DeepSpeed would train on one node and report no error.
  printf '%s slots=8\n' "${nodes[@]}" > "$job_dir/hostfile"
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    hostfile=$1
    shift
    exec deepspeed --hostfile="$hostfile" --no_ssh --node_rank="$SLURM_NODEID" --no_local_rank \
      --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" "$@"' \
    node "$job_dir/hostfile" "${command[@]}"
  reason=completed
}

# ======== deepspeed-launcher-with-prefix
  # ---- launch: one deepspeed per node starts the node's ranks --------------------------------
  command=(
    numactl --cpunodebind=0
    python3 train.py
    --deepspeed
    --deepspeed_config "$job_dir/ds_config.json"
  )
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=48 # not inherited in Slurm 22.05-23.02
  )
  # Without a host file DeepSpeed would train on one node and report no error.
  printf '%s slots=8\n' "${nodes[@]}" > "$job_dir/hostfile"
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    hostfile=$1
    shift
    exec deepspeed --hostfile="$hostfile" --no_ssh --node_rank="$SLURM_NODEID" --no_local_rank \
      --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" --no_python "$@"' \
    node "$job_dir/hostfile" "${command[@]}"
  reason=completed
}

# ======== deepspeed-pdsh-p4d
  # ---- launch: one deepspeed starts the ranks of all nodes over pdsh and ssh -----------------
  command=(
    python3 train.py
    --lr 1.5e-4
    --title 'it'\''s $(here)'
    --deepspeed
    --deepspeed_config "$job_dir/ds_config.json"
  )
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
  )
ssh_dir="$job_dir/ssh.$attempt" # removed when the launcher has ended
  rm -rf -- "$ssh_dir" # of an older job with this id: a new cluster reuses them
  mkdir -m 700 -- "$ssh_dir"
  exec {lifeline}<> <(:) # an input that ends with this script, and not before
  [[ $ssh_dir =~ ^[A-Za-z0-9_@+=:,./-]+$ ]] \
    || fail "deepspeed-pdsh cannot take the folder $ssh_dir: plain letters and digits in logs:"
  printf '%s\0' "${command[@]}" > "$ssh_dir/command" # what a rank runs
  # Without a host file DeepSpeed would train on one node and report no error.
  printf '%s slots=8\n' "${nodes[@]}" > "$ssh_dir/hostfile"
  # DeepSpeed's own program needs these on a node; the ranks have all. No blank line.
  for name in PATH LD_LIBRARY_PATH; do
    [[ ${!name:-} =~ ^[]A-Za-z0-9_@%+=:,./[-]+$ ]] && printf '%s=%s\n' "$name" "${!name}"
  done > "$ssh_dir/deepspeed_env"
  launcher=( # its own check of ssh knows no settings
    env DS_ENV_FILE="$ssh_dir/deepspeed_env" deepspeed
    --hostfile="$ssh_dir/hostfile" --launcher=pdsh --force_multi --no_ssh_check
    --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" --no_local_rank
    --no_python "$ssh_dir/rank"
  )
  run_ranks launch_over_ssh
  reason=completed
}

# ======== accelerate-on-pcs
  # ---- launch: one accelerate launch per node starts the node's ranks ------------------------
  command=(
    sft.py
    --model_name_or_path /fsx/models/mistral-7b
    --dataset_name /fsx/data/ultrachat
    --per_device_train_batch_size 2
    --gradient_accumulation_steps 4
    --bf16 True
    --output_dir /fsx/checkpoints/sft-mistral
    --deepspeed "$job_dir/ds_config.json"
  )
  newest=$(newest_checkpoint /fsx/checkpoints/sft-mistral) # "" without one; of an earlier attempt, or of an earlier job
  [[ -z $newest ]] || command+=(--resume_from_checkpoint /fsx/checkpoints/sft-mistral/"$newest")
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
  )
  # With a config file of its own, accelerate does not read the user's default_config.yaml.
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec accelerate launch --config_file="$1" \
      --num_machines=2 --num_processes=16 --machine_rank="$SLURM_NODEID" \
      --main_process_ip="$MASTER_ADDR" --main_process_port="$MASTER_PORT" \
      --rdzv_backend=static --same_network "${@:2}"' \
    node "$job_dir/accelerate.json" "${command[@]}"
  reason=completed
}

# ======== deepspeed-without-gres
  # ---- launch: srun starts one task per rank -------------------------------------------------
  repair_checkpoints /beegfs/nlp/checkpoints/bert-zero latest '(global_step\d+)'
  command=(
    python3 train.py
    --data /beegfs/nlp/wikipedia
    --deepspeed
    --deepspeed_config "$job_dir/ds_config.json"
  )
  srun_options=(
    --nodes=4 --ntasks=16 --ntasks-per-node=4 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=16 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=4
    exec "$@"' rank "${command[@]}"
  reason=completed
}

# ======== fsdp-gpus-per-task
  # ---- launch: srun starts one task per rank -------------------------------------------------
  command=(
    python3 train.py
    --shards /lustre/orion/abc123/data
  )
  srun_options=(
    --nodes=32 --ntasks=256 --ntasks-per-node=8 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=14 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=8
    exec "$@"' rank "${command[@]}"
  reason=completed
}

# ======== llama-on-amd
  # ---- launch: srun starts one task per rank -------------------------------------------------
  command=(
    python3 train.py
    --model /scratch/project_465000001/models/llama-8b
    --output /scratch/project_465000001/checkpoints/llama-sft
  )
  srun_options=(
    --nodes=4 --ntasks=32 --ntasks-per-node=8 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=14 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" "${container[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=8
    exec "$@"' rank "${command[@]}"
  reason=completed
}

# ======== llama-on-hyperpod
  # ---- preflight: check every node before the training ---------------------------------------
  python=$(find_python) || fail 'the preflight needs Python 3.7 or newer'
  clear_nccl_logs
  checks=(
    seconds=60 # for all checks; a node that does not answer in time is bad
    gpus=8 # the job's GPUs of a p5.48xlarge
    processes # a whole node: no other process uses its GPUs
    efa=32 # the EFA interfaces of a p5.48xlarge
    memlock # EFA pins memory
    shm=1 # GiB of /dev/shm: NCCL, and loaders of data, share it
    lustre=/fsx # lustre of hyperpod-p5
    "folder=$job_dir" # the job's own folder: the same for all nodes
    "space=10:$job_dir" # GiB free: the job's own folder
    folder=/fsx/checkpoints/llama-8b # checkpoints: the same for all nodes
    space=10:/fsx/checkpoints/llama-8b # GiB free: checkpoints
    space=1:/tmp # GiB free: programs keep temporary files there
    clock=5 # seconds apart: logs, file times, signed requests
    network # an interface that NCCL_SOCKET_IFNAME takes
    names # every node finds MASTER_ADDR by its name
    port # MASTER_PORT is free, and every node can call it
    containers # the ranks run in a container
  )
  check_nodes

  # ---- launch: one torchrun per node starts the node's ranks ---------------------------------
  command=(
    train.py
    --config configs/8b.yaml
    --resume /fsx/checkpoints/llama-8b
  )
  srun_options=(
    --nodes=8 --ntasks=8 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=192 # not inherited in Slurm 22.05-23.02
    --auto-resume=1 # HyperPod restarts the ranks on healthy nodes
    --container-image=/fsx/images/pytorch.sqsh # software.container
    "--container-mounts=$container_mounts"
    "--container-workdir=$PWD" # else the image's own
    "--container-env=$container_env" # else the image's values win
    --no-container-mount-home # packages in it would mix with the image's
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=8 --nproc-per-node=8 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@"' \
    node "${command[@]}"

# ======== megatron-on-dgx
  # ---- preflight: check every node before the training ---------------------------------------
  python=$(find_python) || fail 'the preflight needs Python 3.7 or newer'
  clear_nccl_logs
  checks=(
    seconds=60 # for all checks; a node that does not answer in time is bad
    gpus=8 # the job's GPUs of a node of type dgx-a100
    processes # a whole node: no other process uses its GPUs
    infiniband=8 # the InfiniBand interfaces of a node of type dgx-a100
    memlock # InfiniBand pins memory
    shm=1 # GiB of /dev/shm: NCCL, and loaders of data, share it
    mount=/home # nfs of dgx-pod
    lustre=/lustre # lustre of dgx-pod
    "folder=$job_dir" # the job's own folder: the same for all nodes
    "space=10:$job_dir" # GiB free: the job's own folder
    folder=/lustre/research/checkpoints/gpt-20b # checkpoints: the same for all nodes
    space=10:/lustre/research/checkpoints/gpt-20b # GiB free: checkpoints
    space=1:/tmp # GiB free: programs keep temporary files there
    clock=5 # seconds apart: logs, file times, signed requests
    network # an interface that NCCL_SOCKET_IFNAME takes
    names # every node finds MASTER_ADDR by its name
    port # MASTER_PORT is free, and every node can call it
    containers # the ranks run in a container
  )
  check_nodes
  # The framework's own parser, in the job's Python: a wrong argument ends the job here.
  check_arguments exit_minutes="${exit_minutes-}" job_dir="${job_dir-}"

  # ---- beside the training, until the job ends -----------------------------------------------
  "$python" -BEsS "$job_dir/nccl_log.py" watch "$slurm_job_id" "$job_dir/nccl" 64 InfiniBand IB &
  background_pids+=("$!")

check_arguments() { # NAME=VALUE...: the variables in the request
  local mounts inside container_mounts container_env

  # as that of the ranks below, without the data, which is not staged yet
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
  run_child srun --overlap --cpu-bind=none --cpus-per-task="$SLURM_CPUS_ON_NODE" --nodes=1 \
    --ntasks=1 --ntasks-per-node=1 '--container-image=nvcr.io#nvidia/pytorch:24.07-py3' \
    "--container-mounts=$container_mounts" "--container-workdir=$PWD" \
    "--container-env=$container_env" --no-container-mount-home bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec "$@"' check python3 -B "$job_dir/argument_check.py" "$job_dir/argument_check.json" "$@"
  (( child_status == 0 || child_status == 69 )) \
    || printf 'clusterjobs: the arguments could not be checked: the container ended with exit code %s\n' "$child_status"
  (( child_status == 69 )) || return 0 # it has said why it cannot answer
  end_if_stopped
  reason=not_started
  exit 69
}

# ======== megatron-on-gpfs
  # ---- launch: one torchrun per node starts the node's ranks ---------------------------------
  set_exit_time # exit_minutes: the training saves and ends by itself before the time limit
  repair_checkpoints /p/scratch/abc1/checkpoints/gpt-7b latest_checkpointed_iteration.txt 'iter_0*(\d+)'
  command=(
    pretrain_gpt.py
    --num-layers 32
    --hidden-size 4096
    --num-attention-heads 32
    --seq-length 4096
    --max-position-embeddings 4096
    --bf16
    --tensor-model-parallel-size 4
    --pipeline-model-parallel-size 1
    --micro-batch-size 1
    --global-batch-size 512
    --save /p/scratch/abc1/checkpoints/gpt-7b
    --load /p/scratch/abc1/checkpoints/gpt-7b
    --exit-duration-in-mins "$exit_minutes"
    --train-iters 100000
    --save-interval 1000
    --lr 3e-4
    --data-path /p/scratch/abc1/data/corpus_text_document
    --tokenizer-type SentencePieceTokenizer
    --tokenizer-model /p/scratch/abc1/data/tokenizer.model
  )
  srun_options=(
    --nodes=16 --ntasks=16 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
  )
  export CLUSTERJOBS_ATTEMPT=$attempt # the watchdog knows the ranks by it
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=16 --nproc-per-node=4 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@"' \
    node "${command[@]}"
  reason=completed
}

# ======== roberta-on-ethernet
  # ---- launch: srun starts one task per rank -------------------------------------------------
  repair_checkpoints /data/roberta/checkpoints/roberta checkpoint_last.pt 'checkpoint(?:_best|\d+|_\d+_\d+)\.pt'
  command=(
    fairseq-train /data/roberta/wikitext-bin
    --task masked_lm
    --criterion masked_lm
    --arch roberta_base
    --fp16
    --batch-size 16
    --required-batch-size-multiple 1
    --update-freq 16
    --save-dir /data/roberta/checkpoints/roberta
    --distributed-world-size 8
    --optimizer adam
    --lr 5e-4
    --lr-scheduler polynomial_decay
    --total-num-update 125000
    --max-update 125000
  )
  srun_options=(
    --nodes=2 --ntasks=8 --ntasks-per-node=4 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=10 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=4
    exec "$@"' rank "${command[@]}"
  reason=completed
}

# ======== torchtitan-on-grace-hopper
  # ---- launch: srun starts one task per rank -------------------------------------------------
  command=(
    python3 -m torchtitan.train
    --module llama3
    --config llama3_8b
    --parallelism.tensor_parallel_degree 1
    --parallelism.pipeline_parallel_degree 1
    --parallelism.context_parallel_degree 1
    --training.local_batch_size 2
    --training.global_batch_size 128
    --checkpoint.enable
    --checkpoint.folder /iopsstor/g123/checkpoints/llama3-8b
  )
  srun_options=(
    --nodes=16 --ntasks=64 --ntasks-per-node=4 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=72 # not inherited in Slurm 22.05-23.02
    --environment=/capstor/g123/torchtitan.toml
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=4
    exec "$@"' rank "${command[@]}"
  reason=completed
}

# ======== vit-in-shifter
  # ---- launch: srun starts one task per rank -------------------------------------------------
  command=(
    python3 train.py
    --config configs/base.yaml
    --data /pscratch/sd/imagenet
  )
  srun_options=(
    --nodes=8 --ntasks=32 --ntasks-per-node=4 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=32 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" "${container[@]}" bash -c '
    for name in "${!CLUSTERJOBS__@}"; do
      export "${name#CLUSTERJOBS__}=${!name}"
      unset "$name"
    done
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=4
    exec "$@"' rank "${command[@]}"
  reason=completed
}

# ======== gpt-neox-2node-gcp
  # ---- preflight: check every node before the training ---------------------------------------
  python=$(find_python) || fail 'the preflight needs Python 3.7 or newer'
  checks=(
    seconds=60 # for all checks; a node that does not answer in time is bad
    gpus=8 # the job's GPUs of a node of type a2-highgpu-8g
    processes # a whole node: no other process uses its GPUs
    gvnic # Google's virtual network card, and Fast Socket
    shm=1 # GiB of /dev/shm: NCCL, and loaders of data, share it
    mount=/home # nfs of gcp-a2
    "folder=$job_dir" # the job's own folder: the same for all nodes
    "space=10:$job_dir" # GiB free: the job's own folder
    folder=/home/research/checkpoints/gpt-neox-gcp # checkpoints: the same for all nodes
    space=10:/home/research/checkpoints/gpt-neox-gcp # GiB free: checkpoints
    space=1:/tmp # GiB free: programs keep temporary files there
    clock=5 # seconds apart: logs, file times, signed requests
    network # an interface that NCCL_SOCKET_IFNAME takes
    names # every node finds MASTER_ADDR by its name
    port # MASTER_PORT is free, and every node can call it
  )
  check_nodes
  # The framework's own parser, in the job's Python: a wrong argument ends the job here.
  check_arguments job_dir="${job_dir-}"

# ======== bert-large-p3dn
  # ---- preflight: check every node before the training ---------------------------------------
  python=$(find_python) || fail 'the preflight needs Python 3.7 or newer'
  clear_nccl_logs
  checks=(
    seconds=60 # for all checks; a node that does not answer in time is bad
    gpus=8 # the job's GPUs of a p3dn.24xlarge
    processes # a whole node: no other process uses its GPUs
    efa=1 # the EFA interfaces of a p3dn.24xlarge
    memlock # EFA pins memory
    shm=1 # GiB of /dev/shm: NCCL, and loaders of data, share it
    lustre=/fsx # fsx of p3dn-v100
    "folder=$job_dir" # the job's own folder: the same for all nodes
    "space=10:$job_dir" # GiB free: the job's own folder
    folder=/fsx/checkpoints/bert-large # checkpoints: the same for all nodes
    space=10:/fsx/checkpoints/bert-large # GiB free: checkpoints
    space=1:/tmp # GiB free: programs keep temporary files there
    clock=5 # seconds apart: logs, file times, signed requests
    network # an interface that NCCL_SOCKET_IFNAME takes
    names # every node finds MASTER_ADDR by its name
    port # MASTER_PORT is free, and every node can call it
  )
  check_nodes
  # The framework's own parser, in the job's Python: a wrong argument ends the job here.
  check_arguments job_dir="${job_dir-}"

# ======== gpt-neox-2node
  # ---- launch: deepy.py has DeepSpeed start the ranks with srun ------------------------------
  repair_checkpoints /fsx/checkpoints/gpt-neox-small latest '(global_step\d+)'
  command=(
    python3 deepy.py train.py -d configs small.yml local_setup.yml "$job_dir/clusterjobs_launch.yml" "$job_dir/clusterjobs_master.yml"
  )
  # Without a host file DeepSpeed would train on one node and report no error.
  export DLTS_HOSTFILE="$job_dir/hostfile"
  printf '%s slots=8\n' "${nodes[@]}" > "$DLTS_HOSTFILE"
  # Without the address DeepSpeed would ask the first node for it by ssh.
  printf '{"master_addr": "%s", "master_port": %s}\n' "$MASTER_ADDR" "$MASTER_PORT" \
    > "$job_dir/clusterjobs_master.yml"
  # deepy.py reads these two before there are ranks; srun sets them anew for each rank.
  export SLURM_PROCID=0 SLURM_LOCALID=0
  # DeepSpeed calls srun without options; these variables set them: --label, --kill-on-bad-exit,
  # --wait=0, --cpu-bind=none and --cpus-per-task (which Slurm 22.05 and later do not inherit).
  export SLURM_LABELIO=1 SLURM_KILL_BAD_EXIT=1 SLURM_WAIT=0 SLURM_CPU_BIND=none
  export SRUN_CPUS_PER_TASK=12
  run_ranks "${command[@]}"

  # ---- preflight: check every node before the training ---------------------------------------
  python=$(find_python) || fail 'the preflight needs Python 3.7 or newer'
  clear_nccl_logs
  checks=(
    seconds=60 # for all checks; a node that does not answer in time is bad
    gpus=8 # the job's GPUs of a p4d.24xlarge
    processes # a whole node: no other process uses its GPUs
    efa=4 # the EFA interfaces of a p4d.24xlarge
    memlock # EFA pins memory
    shm=1 # GiB of /dev/shm: NCCL, and loaders of data, share it
    lustre=/fsx # fsx of p4d-a100
    "folder=$job_dir" # the job's own folder: the same for all nodes
    "space=10:$job_dir" # GiB free: the job's own folder
    folder=/fsx/checkpoints/gpt-neox-small # checkpoints: the same for all nodes
    space=10:/fsx/checkpoints/gpt-neox-small # GiB free: checkpoints
    space=1:/tmp # GiB free: programs keep temporary files there
    clock=5 # seconds apart: logs, file times, signed requests
    network # an interface that NCCL_SOCKET_IFNAME takes
    names # every node finds MASTER_ADDR by its name
    port # MASTER_PORT is free, and every node can call it
    'packages=torch,deepspeed' # what the job's Python must have
    build # gpt-neox compiles extensions when it starts
    "helpers=$PWD/megatron/data" # gpt-neox compiles helpers.cpp there when it starts
  )
  check_nodes
  # The framework's own parser, in the job's Python: a wrong argument ends the job here.
  check_arguments job_dir="${job_dir-}"

# ======== gpt2-345m-4gpu
  # ---- launch: one deepspeed per node starts the node's ranks --------------------------------
  repair_checkpoints /fsx/checkpoints/gpt2-345m-4gpu latest_checkpointed_iteration.txt 'global_step(\d+)' latest '(global_step\d+)'
  command=(
    pretrain_gpt.py
    --num-layers 24
    --hidden-size 1024
    --num-attention-heads 16
    --seq-length 1024
    --max-position-embeddings 1024
    --fp16
    --tensor-model-parallel-size 1
    --pipeline-model-parallel-size 1
    --no-pipeline-parallel
    --micro-batch-size 8
    --global-batch-size 32
    --save /fsx/checkpoints/gpt2-345m-4gpu
    --load /fsx/checkpoints/gpt2-345m-4gpu
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
    --lr-warmup-iters 32000
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
    --eval-interval 100
    --eval-iters 10
    --seed 1234
    --no-masked-softmax-fusion
    --override-opt_param-scheduler
  )
  srun_options=(
    --nodes=1 --ntasks=1 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
  )
  # Without a host file DeepSpeed would train on one node and report no error.
  printf '%s slots=4\n' "${nodes[@]}" > "$job_dir/hostfile"
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    hostfile=$1
    shift
    exec deepspeed --hostfile="$hostfile" --no_ssh --node_rank="$SLURM_NODEID" --no_local_rank \
      --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" "$@"' \
    node "$job_dir/hostfile" "${command[@]}"
  reason=completed
}

  # ---- preflight: check every node before the training ---------------------------------------
  python=$(find_python) || fail 'the preflight needs Python 3.7 or newer'
  checks=(
    seconds=60 # for all checks; a node that does not answer in time is bad
    gpus=4 # the job's GPUs of a p4de.24xlarge
    processes # a whole node: no other process uses its GPUs
    efa=4 # the EFA interfaces of a p4de.24xlarge
    memlock # EFA pins memory
    shm=1 # GiB of /dev/shm: NCCL, and loaders of data, share it
    lustre=/fsx # fsx of p4de-a100
    "space=10:$job_dir" # GiB free: the job's own folder
    space=10:/fsx/checkpoints/gpt2-345m-4gpu # GiB free: checkpoints
    space=1:/tmp # GiB free: programs keep temporary files there
    clock=5 # seconds apart: logs, file times, signed requests
    network # an interface that NCCL_SOCKET_IFNAME takes
    names # every node finds MASTER_ADDR by its name
    port # MASTER_PORT is free, and every node can call it
    'packages=torch,deepspeed' # what the job's Python must have
    'imports=torch,apex.multi_tensor_apply,amp_C' # megatron-deepspeed imports them on GPUs
    build # megatron-deepspeed compiles extensions when it starts
    "helpers=$PWD/megatron/data" # megatron-deepspeed compiles helpers.cpp there when it starts
  )
  check_nodes
  # The framework's own parser, in the job's Python: a wrong argument ends the job here.
  check_arguments job_dir="${job_dir-}"

# ======== horovod-2node
  # ---- preflight: check every node before the training ---------------------------------------
  python=$(find_python) || fail 'the preflight needs Python 3.7 or newer'
  checks=(
    seconds=60 # for all checks; a node that does not answer in time is bad
    gpus=1 # the job's GPUs of a g5.xlarge
    processes # a whole node: no other process uses its GPUs
    mount=/fsx # fsx of one-gpu
    "folder=$job_dir" # the job's own folder: the same for all nodes
    "space=10:$job_dir" # GiB free: the job's own folder
    space=1:/tmp # GiB free: programs keep temporary files there
    clock=5 # seconds apart: logs, file times, signed requests
    network # an interface that NCCL_SOCKET_IFNAME takes
    names # every node finds MASTER_ADDR by its name
    port # MASTER_PORT is free, and every node can call it
  )
  check_nodes
  # An all-reduce of all ranks has to reach the rate that the network of the nodes allows.
  srun_options=(
    --nodes=2 # all of the job's
    --ntasks=2 # a task for each rank
    --ntasks-per-node=1 # likewise
    --overlap # beside what else this job may run
    --cpu-bind=none # as for the training
    --kill-on-bad-exit=1 # one dead task ends them all
    --cpus-per-task=4 # a rank's; else srun takes the job's
  )
  check_all_reduce 10 50 240

# ======== fabric-infiniband
  # ---- preflight: check every node before the training ---------------------------------------
  python=$(find_python) || fail 'the preflight needs Python 3.7 or newer'
  clear_nccl_logs
  checks=(
    seconds=60 # for all checks; a node that does not answer in time is bad
    gpus=4 # the job's GPUs of a node of type a100
    processes # a whole node: no other process uses its GPUs
    infiniband=4 # the InfiniBand interfaces of a node of type a100
    memlock # InfiniBand pins memory
  )
  check_nodes

  # ---- beside the training, until the job ends -----------------------------------------------
  "$python" -BEsS "$job_dir/nccl_log.py" watch "$slurm_job_id" "$job_dir/nccl" 8 InfiniBand IB &
  background_pids+=("$!")

  # ---- after a training that ended well ------------------------------------------------------
  reason=after_failure # until all commands have ended well
  "$python" -BEsS "$job_dir/nccl_log.py" "$job_dir/nccl" 8 InfiniBand IB
  reason=completed
}

# ======== fabric-slingshot
  # ---- preflight: check every node before the training ---------------------------------------
  python=$(find_python) || fail 'the preflight needs Python 3.7 or newer'
  clear_nccl_logs
  checks=(
    seconds=60 # for all checks; a node that does not answer in time is bad
    cxi=4 # the Slingshot interfaces of a node of type gh200
  )
  check_nodes

  # ---- beside the training, until the job ends -----------------------------------------------
  "$python" -BEsS "$job_dir/nccl_log.py" watch "$slurm_job_id" "$job_dir/nccl" 16 Slingshot Libfabric cxi &
  background_pids+=("$!")

  # ---- after a training that ended well ------------------------------------------------------
  reason=after_failure # until all commands have ended well
  "$python" -BEsS "$job_dir/nccl_log.py" "$job_dir/nccl" 16 Slingshot Libfabric cxi
  reason=completed
}

# ======== fabric-tcpx
  # ---- launch: one torchrun per node starts the node's ranks ---------------------------------
  command=(
    train.py
  )
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=208 # not inherited in Slurm 22.05-23.02
    '--container-image=nvcr.io#nvidia/pytorch:24.04-py3' # software.container
    "--container-mounts=$container_mounts"
    "--container-workdir=$PWD" # else the image's own
    "--container-env=$container_env" # else the image's values win
    --no-container-mount-home # packages in it would mix with the image's
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    export LD_LIBRARY_PATH=/var/lib/tcpx/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    exec torchrun --nnodes=2 --nproc-per-node=8 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@"' \
    node "${command[@]}"
  reason=completed
}

# ======== fabric-tcpxo
  # ---- preflight: check every node before the training ---------------------------------------
  python=$(find_python) || fail 'the preflight needs Python 3.7 or newer'
  clear_nccl_logs
  checks=(
    seconds=60 # for all checks; a node that does not answer in time is bad
    plugin=/var/lib/tcpxo/lib64 # NCCL's plugin for GPUDirect-TCPXO
  )
  check_nodes

  # ---- beside the training, until the job ends -----------------------------------------------
  "$python" -BEsS "$job_dir/nccl_log.py" watch "$slurm_job_id" "$job_dir/nccl" 16 GPUDirect-TCPXO FasTrak &
  background_pids+=("$!")

  # ---- after a training that ended well ------------------------------------------------------
  reason=after_failure # until all commands have ended well
  "$python" -BEsS "$job_dir/nccl_log.py" "$job_dir/nccl" 16 GPUDirect-TCPXO FasTrak
  reason=completed
}

# ======== trainium
  # ---- preflight: check every node before the training ---------------------------------------
  python=$(find_python) || fail 'the preflight needs Python 3.7 or newer'
  checks=(
    seconds=60 # for all checks; a node that does not answer in time is bad
    efa=8 # the EFA interfaces of a trn1.32xlarge
    memlock # EFA pins memory
  )
  check_nodes

  # ---- launch: one torchrun per node starts the node's ranks ---------------------------------
  command=(
    train.py
  )
  srun_options=(
    --nodes=4 --ntasks=4 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=128 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=4 --nproc-per-node=32 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@"' \
    node "${command[@]}"
  reason=completed
}

# ======== megatron-torchrun-345m
  # ---- launch: one torchrun per node starts the node's ranks ---------------------------------
  repair_checkpoints /fsx/checkpoints/gpt2-345m latest_checkpointed_iteration.txt 'global_step(\d+)' latest '(global_step\d+)'
  command=(
    pretrain_gpt.py
    --num-layers 24
    --hidden-size 1024
    --num-attention-heads 16
    --seq-length 1024
    --max-position-embeddings 1024
    --fp16
    --tensor-model-parallel-size 1
    --pipeline-model-parallel-size 1
    --no-pipeline-parallel
    --micro-batch-size 8
    --global-batch-size 64
    --save /fsx/checkpoints/gpt2-345m
    --load /fsx/checkpoints/gpt2-345m
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
    --nodes=1 --ntasks=1 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=1 --nproc-per-node=8 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@"' \
    node "${command[@]}"
  reason=completed
}

# ======== megatron-one-gpu
  # ---- launch: srun starts one task per rank -------------------------------------------------
  repair_checkpoints /fsx/checkpoints/gpt2-345m-1gpu latest_checkpointed_iteration.txt 'global_step(\d+)' latest '(global_step\d+)'
  command=(
    python3 pretrain_gpt.py
    --num-layers 24
    --hidden-size 1024
    --num-attention-heads 16
    --seq-length 1024
    --max-position-embeddings 1024
    --fp16
    --tensor-model-parallel-size 1
    --pipeline-model-parallel-size 1
    --no-pipeline-parallel
    --micro-batch-size 8
    --global-batch-size 8
    --save /fsx/checkpoints/gpt2-345m-1gpu
    --load /fsx/checkpoints/gpt2-345m-1gpu
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
    --nodes=1 --ntasks=1 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=1
    exec "$@"' rank "${command[@]}"
  reason=completed
}

# ======== megatron-launcher-7b
  # ---- launch: one deepspeed per node starts the node's ranks --------------------------------
  repair_checkpoints /fsx/checkpoints/gpt2-7b latest_checkpointed_iteration.txt 'global_step(\d+)' latest '(global_step\d+)'
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
    --nodes=1 --ntasks=1 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
  )
  # Without a host file DeepSpeed would train on one node and report no error.
  printf '%s slots=4\n' "${nodes[@]}" > "$job_dir/hostfile"
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    hostfile=$1
    shift
    exec deepspeed --hostfile="$hostfile" --no_ssh --node_rank="$SLURM_NODEID" --no_local_rank \
      --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" "$@"' \
    node "$job_dir/hostfile" "${command[@]}"
  reason=completed
}

# ======== megatron-srun-175b
  # ---- launch: srun starts one task per rank -------------------------------------------------
  repair_checkpoints /fsx/checkpoints/gpt3-175b latest_checkpointed_iteration.txt 'global_step(\d+)' latest '(global_step\d+)'
  command=(
    python3 pretrain_gpt.py
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
    --clip-grad 1.0
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
    --nodes=64 --ntasks=512 --ntasks-per-node=8 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=24 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=8
    exec "$@"' rank "${command[@]}"
  reason=completed
}

# ======== megatron-lm-torchrun-llama
  # ---- launch: one torchrun per node starts the node's ranks ---------------------------------
  set_exit_time # exit_minutes: the training saves and ends by itself before the time limit
  repair_checkpoints /fsx/checkpoints/llama-8b latest_checkpointed_iteration.txt 'iter_0*(\d+)'
  command=(
    pretrain_gpt.py
    --num-layers 32
    --hidden-size 4096
    --num-attention-heads 32
    --seq-length 8192
    --max-position-embeddings 8192
    --bf16
    --tensor-model-parallel-size 4
    --pipeline-model-parallel-size 2
    --num-virtual-stages-per-pipeline-rank 2
    --context-parallel-size 2
    --sequence-parallel
    --micro-batch-size 1
    --global-batch-size 128
    --save /fsx/checkpoints/llama-8b
    --load /fsx/checkpoints/llama-8b
    --exit-duration-in-mins "$exit_minutes"
    --train-iters 100000
    --lr 3e-4
    --use-distributed-optimizer
    --overlap-grad-reduce
    --overlap-param-gather
    --data-path 0.3 /fsx/data/a_text_document 0.7 /fsx/data/b_text_document
    --save-interval 1000
    --tensorboard-dir /fsx/logs/tp4-cp2-vp2
  )
  srun_options=(
    --nodes=4 --ntasks=4 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=192 # not inherited in Slurm 22.05-23.02
  )
  export CLUSTERJOBS_ATTEMPT=$attempt # the watchdog knows the ranks by it
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=4 --nproc-per-node=8 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@"' \
    node "${command[@]}"
  reason=completed
}

# ======== megatron-lm-srun-experts
  # ---- launch: srun starts one task per rank -------------------------------------------------
  repair_checkpoints /fsx/checkpoints/moe latest_checkpointed_iteration.txt 'iter_0*(\d+)'
  command=(
    python3 pretrain_gpt.py
    --num-layers 24
    --hidden-size 2048
    --num-attention-heads 16
    --seq-length 4096
    --max-position-embeddings 4096
    --bf16
    --tensor-model-parallel-size 1
    --pipeline-model-parallel-size 1
    --expert-model-parallel-size 8
    --micro-batch-size 1
    --global-batch-size 256
    --save /fsx/checkpoints/moe
    --load /fsx/checkpoints/moe
    --train-samples 1000000
    --lr 3e-4
    --num-experts 64
    --moe-router-topk 6
    --moe-grouped-gemm
    --moe-token-dispatcher-type alltoall
    --mock-data
    --save-interval 500
    --exit-signal-handler
  )
  srun_options=(
    --nodes=2 --ntasks=16 --ntasks-per-node=8 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=24 # not inherited in Slurm 22.05-23.02
    --container-image=/fsx/images/pytorch.sqsh # software.container
    "--container-mounts=$container_mounts"
    "--container-workdir=$PWD" # else the image's own
    "--container-env=$container_env" # else the image's values win
    --no-container-mount-home # packages in it would mix with the image's
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=8
    exec "$@"' rank "${command[@]}"
  reason=completed
}

# ======== neox-one-node
  # ---- launch: deepy.py has DeepSpeed start the ranks with srun ------------------------------
  command=(
    python3 deepy.py train.py configs/small.yml "$job_dir/clusterjobs_launch.yml" "$job_dir/clusterjobs_master.yml"
  )
  # Without a host file DeepSpeed would train on one node and report no error.
  export DLTS_HOSTFILE="$job_dir/hostfile"
  printf '%s slots=8\n' "${nodes[@]}" > "$DLTS_HOSTFILE"
  # Without the address DeepSpeed would ask the first node for it by ssh.
  printf '{"master_addr": "%s", "master_port": %s}\n' "$MASTER_ADDR" "$MASTER_PORT" \
    > "$job_dir/clusterjobs_master.yml"
  # deepy.py reads these two before there are ranks; srun sets them anew for each rank.
  export SLURM_PROCID=0 SLURM_LOCALID=0
  # DeepSpeed calls srun without options; these variables set them: --label, --kill-on-bad-exit,
  # --wait=0, --cpu-bind=none and --cpus-per-task (which Slurm 22.05 and later do not inherit).
  export SLURM_LABELIO=1 SLURM_KILL_BAD_EXIT=1 SLURM_WAIT=0 SLURM_CPU_BIND=none
  export SRUN_CPUS_PER_TASK=12
  run_ranks "${command[@]}"
  reason=completed
}

# ======== neox-two-nodes
  # ---- launch: deepy.py has DeepSpeed start the ranks with srun ------------------------------
  repair_checkpoints /fsx/checkpoints/gpt-neox-small latest '(global_step\d+)'
  command=(
    python3 deepy.py train.py -d configs small.yml local_setup.yml "$job_dir/clusterjobs_launch.yml" "$job_dir/clusterjobs_master.yml"
  )
  # Without a host file DeepSpeed would train on one node and report no error.
  export DLTS_HOSTFILE="$job_dir/hostfile"
  printf '%s slots=8\n' "${nodes[@]}" > "$DLTS_HOSTFILE"
  # Without the address DeepSpeed would ask the first node for it by ssh.
  printf '{"master_addr": "%s", "master_port": %s}\n' "$MASTER_ADDR" "$MASTER_PORT" \
    > "$job_dir/clusterjobs_master.yml"
  # deepy.py reads these two before there are ranks; srun sets them anew for each rank.
  export SLURM_PROCID=0 SLURM_LOCALID=0
  # DeepSpeed calls srun without options; these variables set them: --label, --kill-on-bad-exit,
  # --wait=0, --cpu-bind=none and --cpus-per-task (which Slurm 22.05 and later do not inherit).
  export SLURM_LABELIO=1 SLURM_KILL_BAD_EXIT=1 SLURM_WAIT=0 SLURM_CPU_BIND=none
  export SRUN_CPUS_PER_TASK=12
  run_ranks "${command[@]}"
  reason=completed
}

# ======== neox-20b
  # ---- launch: deepy.py has DeepSpeed start the ranks with srun ------------------------------
  repair_checkpoints /fsx/checkpoints/neox-20b latest '(global_step\d+)'
  command=(
    python3 deepy.py train.py
    --wandb_group neox-20b -d configs 20B_rest /fsx/configs/data.yml "$job_dir/clusterjobs_launch.yml" "$job_dir/clusterjobs_master.yml"
  )
  # Without a host file DeepSpeed would train on one node and report no error.
  export DLTS_HOSTFILE="$job_dir/hostfile"
  printf '%s slots=8\n' "${nodes[@]}" > "$DLTS_HOSTFILE"
  # Without the address DeepSpeed would ask the first node for it by ssh.
  printf '{"master_addr": "%s", "master_port": %s}\n' "$MASTER_ADDR" "$MASTER_PORT" \
    > "$job_dir/clusterjobs_master.yml"
  # deepy.py reads these two before there are ranks; srun sets them anew for each rank.
  export SLURM_PROCID=0 SLURM_LOCALID=0
  # DeepSpeed calls srun without options; these variables set them: --label, --kill-on-bad-exit,
  # --wait=0, --cpu-bind=none and --cpus-per-task (which Slurm 22.05 and later do not inherit).
  export SLURM_LABELIO=1 SLURM_KILL_BAD_EXIT=1 SLURM_WAIT=0 SLURM_CPU_BIND=none
  export SRUN_CPUS_PER_TASK=12
  run_ranks "${command[@]}"
  reason=completed
}

# ======== preflight-megatron-p4d
  # ---- preflight: check every node before the training ---------------------------------------
  python=$(find_python) || fail 'the preflight needs Python 3.7 or newer'
  clear_nccl_logs
  checks=(
    seconds=120 # for all checks; a node that does not answer in time is bad
    gpus=8 # the job's GPUs of a p4d.24xlarge
    processes # a whole node: no other process uses its GPUs
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
    'imports=torch,apex.multi_tensor_apply,amp_C' # megatron-deepspeed imports them on GPUs
    build # megatron-deepspeed compiles extensions when it starts
    "helpers=$PWD/megatron/data" # megatron-deepspeed compiles helpers.cpp there when it starts
  )
  check_nodes
  # The framework's own parser, in the job's Python: a wrong argument ends the job here.
  check_arguments job_dir="${job_dir-}"

  # ---- beside the training, until the job ends -----------------------------------------------
  "$python" -BEsS "$job_dir/nccl_log.py" watch "$slurm_job_id" "$job_dir/nccl" 128 &
  background_pids+=("$!")
  tensorboard --logdir /fsx/tb &
  background_pids+=("$!")

  # ---- after a training that ended well ------------------------------------------------------
  reason=after_failure # until all commands have ended well
  "$python" -BEsS "$job_dir/nccl_log.py" "$job_dir/nccl" 128
  python3 evaluate.py
  reason=completed
}

# ======== preflight-of-some-checks
  # ---- preflight: check every node before the training ---------------------------------------
  python=$(find_python) || fail 'the preflight needs Python 3.7 or newer'
  clear_nccl_logs
  checks=(
    seconds=60 # for all checks; a node that does not answer in time is bad
    gpus=8 # the job's GPUs of a p5.48xlarge
    processes # a whole node: no other process uses its GPUs
    efa=32 # the EFA interfaces of a p5.48xlarge
  )
  check_nodes
  # An all-reduce of all ranks has to reach the rate that the network of the nodes allows.
  srun_options=(
    --nodes=2 # all of the job's
    --ntasks=16 # a task for each rank
    --ntasks-per-node=8 # likewise
    --overlap # beside what else this job may run
    --cpu-bind=none # as for the training
    --kill-on-bad-exit=1 # one dead task ends them all
    --cpus-per-task=24 # a rank's; else srun takes the job's
  )
  check_all_reduce 3200 50 240
  clear_nccl_logs # what is checked later is the network of the training

# ======== preflight-on-cpus
  # ---- preflight: check every node before the training ---------------------------------------
  python=$(find_python) || fail 'the preflight needs Python 3.7 or newer'
  checks=(
    seconds=60 # for all checks; a node that does not answer in time is bad
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
  check_nodes

# ======== typed-gpus
  # ---- launch: one torchrun per node starts the node's ranks ---------------------------------
  command=(
    train.py
    --workers a100:4
  )
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=2 --nproc-per-node=4 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@"' \
    node "${command[@]}"
  reason=completed
}

# ======== gpus-by-gres
  # ---- launch: one torchrun per node starts the node's ranks ---------------------------------
  command=(
    train.py
  )
  srun_options=(
    --nodes=1 --ntasks=1 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=1 --nproc-per-node=8 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@"' \
    node "${command[@]}"
  reason=completed
}

# ======== whole-nodes-unrequested
  # ---- launch: srun starts one task per rank -------------------------------------------------
  command=(
    python3 train.py
  )
  srun_options=(
    --nodes=2 --ntasks=16 --ntasks-per-node=8 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=12 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=8
    exec "$@"' rank "${command[@]}"
  reason=completed
}

# ======== hint-nomultithread-small
  # ---- launch: srun starts one task per rank -------------------------------------------------
  command=(
    ./run
  )
  srun_options=(
    --nodes=2 --ntasks=4 --ntasks-per-node=2 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpus-per-task=2 # not inherited in Slurm 22.05-23.02
    --hint=nomultithread # sbatch's; it binds each rank to its CPUs
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=2
    exec "$@"' rank "${command[@]}"
  reason=completed
}

# ======== own-config-unknown-instance
  # ---- launch: one torchrun per node starts the node's ranks ---------------------------------
  command=(
    train.py
  )
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=6 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=2 --nproc-per-node=16 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@"' \
    node "${command[@]}"
  reason=completed
}

# ======== own-site
  # ---- launch: srun starts one task per rank -------------------------------------------------
  command=(
    true
  )
  srun_options=(
    --nodes=1 --ntasks=1 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=4 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=1
    exec "$@"' rank "${command[@]}"
  reason=completed
}

# ======== binding-beside-the-hint-of-sbatch
  # ---- launch: srun starts one task per rank -------------------------------------------------
  command=(
    ./run
  )
  srun_options=(
    --nodes=1 --ntasks=1 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpus-per-task=4 # not inherited in Slurm 22.05-23.02
    '--cpu-bind=verbose,cores'
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=1
    exec "$@"' rank "${command[@]}"
  reason=completed
}

# ======== restarts-megatron
  # ---- launch: srun starts one task per rank -------------------------------------------------
  set_exit_time # exit_minutes: the training saves and ends by itself before the time limit
  repair_checkpoints /fsx/checkpoints/gpt2-345m latest_checkpointed_iteration.txt 'global_step(\d+)' latest '(global_step\d+)'
  command=(
    python3 pretrain_gpt.py
    --num-layers 24
    --hidden-size 1024
    --num-attention-heads 16
    --seq-length 1024
    --max-position-embeddings 1024
    --fp16
    --tensor-model-parallel-size 1
    --pipeline-model-parallel-size 1
    --no-pipeline-parallel
    --micro-batch-size 8
    --global-batch-size 128
    --save /fsx/checkpoints/gpt2-345m
    --load /fsx/checkpoints/gpt2-345m
    --exit-duration-in-mins "$exit_minutes"
    --deepspeed
    --deepspeed_config "$job_dir/ds_config.json"
    --zero-stage 0
    --train-iters 500000
    --save-interval 1000
    --lr 1.5e-4
  )
  srun_options=(
    --nodes=2 --ntasks=16 --ntasks-per-node=8 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=12 # not inherited in Slurm 22.05-23.02
  )
  export CLUSTERJOBS_ATTEMPT=$attempt # the watchdog knows the ranks by it
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=8
    exec "$@"' rank "${command[@]}"
  reason=completed
}

# ======== restarts-own-script
  # ---- beside the training, until the job ends -----------------------------------------------
  nvidia-smi dmon &
  background_pids+=("$!")

# ======== hyperpod-restarts
  # ---- launch: one torchrun per node starts the node's ranks ---------------------------------
  command=(
    train.py
  )
  srun_options=(
    --nodes=4 --ntasks=4 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=192 # not inherited in Slurm 22.05-23.02
    --auto-resume=1 # HyperPod restarts the ranks on healthy nodes
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=4 --nproc-per-node=8 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@"' \
    node "${command[@]}"
  reason=completed
}

# ======== roles-vllm-pyxis
  # ---- roles: the first nodes train, the others have roles -----------------------------------
  all_nodes=("${nodes[@]}") nodes=("${nodes[@]:0:2}")
  join_names CLUSTERJOBS_TRAINING_NODES "${nodes[@]}"
  join_names CLUSTERJOBS_SERVER_NODES "${all_nodes[@]:2:1}"
  export CLUSTERJOBS_SERVER_ADDR=${all_nodes[2]}
  export CLUSTERJOBS_SERVER_PORT=8000

  # ---- server: on 1 node, until the training ends --------------------------------------------
  srun_options=(
    --job-name=role-server # the step's name, used to send it signals
    --nodes=1 --ntasks=1 --ntasks-per-node=1 # one task on each node of the role
    "--nodelist=$CLUSTERJOBS_SERVER_NODES" # the nodes of the role
    "--cpus-per-task=$SLURM_CPUS_ON_NODE" # all CPUs of the node
    --cpu-bind=none # threads may move
    --overlap # beside steps such as sidecars
    --label # every line says which node of the role wrote it
    --kill-on-bad-exit=1 # one dead task ends the role
    --wait=1 # one ended task ends the role
    --container-image=/fsx/images/trl.sqsh # software.container
    "--container-mounts=$container_mounts"
    "--container-workdir=$PWD" # else the image's own
    "--container-env=$container_env" # else the image's values win
    --no-container-mount-home # packages in it would mix with the image's
  )
  start_role server srun "${srun_options[@]}" bash -c '
    unset NCCL_DEBUG_FILE # the preflight reads the log of the training alone
    export NODE_RANK=$SLURM_NODEID
    exec "$@"' server env VLLM_SERVER_DEV_MODE=1 vllm serve Qwen/Qwen2.5-7B --port 8000 --tensor-parallel-size 8 --weight-transfer-config '{"backend": "nccl"}'
  wait_for_role server 8000 1800 "${all_nodes[@]:2:1}"

  # ---- launch: one torchrun per node starts the node's ranks ---------------------------------
  command=(
    train_grpo.py
    --use_vllm true
    --vllm_mode server
    --vllm_server_host "$CLUSTERJOBS_SERVER_ADDR"
    --vllm_server_port 8000
  )
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=192 # not inherited in Slurm 22.05-23.02
    "--nodelist=$CLUSTERJOBS_TRAINING_NODES" # the other nodes have roles
    --container-image=/fsx/images/trl.sqsh # software.container
    "--container-mounts=$container_mounts"
    "--container-workdir=$PWD" # else the image's own
    "--container-env=$container_env" # else the image's values win
    --no-container-mount-home # packages in it would mix with the image's
  )
  export CLUSTERJOBS_ATTEMPT=$attempt # the watchdog knows the ranks by it
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=2 --nproc-per-node=8 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@"' \
    node "${command[@]}"

  # ---- preflight: check every node before the training ---------------------------------------
  python=$(find_python) || fail 'the preflight needs Python 3.7 or newer'
  clear_nccl_logs
  checks=(
    seconds=60 # for all checks; a node that does not answer in time is bad
    gpus=8 # the job's GPUs of a p5.48xlarge
    processes # a whole node: no other process uses its GPUs
    efa=32 # the EFA interfaces of a p5.48xlarge
    memlock # EFA pins memory
    shm=1 # GiB of /dev/shm: NCCL, and loaders of data, share it
    lustre=/fsx # fsx of p5-h100
    "folder=$job_dir" # the job's own folder: the same for all nodes
    "space=10:$job_dir" # GiB free: the job's own folder
    folder=/fsx/checkpoints/grpo # checkpoints: the same for all nodes
    space=10:/fsx/checkpoints/grpo # GiB free: checkpoints
    space=1:/tmp # GiB free: programs keep temporary files there
    clock=5 # seconds apart: logs, file times, signed requests
    network # an interface that NCCL_SOCKET_IFNAME takes
    names # every node finds MASTER_ADDR by its name
    port # MASTER_PORT is free, and every node can call it
    containers # the ranks run in a container
  )
  check_nodes

# ======== roles-docker
  # ---- roles: the first nodes train, the others have roles -----------------------------------
  all_nodes=("${nodes[@]}") nodes=("${nodes[@]:0:1}")
  join_names CLUSTERJOBS_TRAINING_NODES "${nodes[@]}"
  join_names CLUSTERJOBS_SERVER_NODES "${all_nodes[@]:1:1}"
  export CLUSTERJOBS_SERVER_ADDR=${all_nodes[1]}
  export CLUSTERJOBS_SERVER_PORT=8000

  # ---- server: on 1 node, until the training ends --------------------------------------------
  srun_options=(
    --job-name=role-server # the step's name, used to send it signals
    --nodes=1 --ntasks=1 --ntasks-per-node=1 # one task on each node of the role
    "--nodelist=$CLUSTERJOBS_SERVER_NODES" # the nodes of the role
    "--cpus-per-task=$SLURM_CPUS_ON_NODE" # all CPUs of the node
    --cpu-bind=none # threads may move
    --overlap # beside steps such as sidecars
    --label # every line says which node of the role wrote it
    --kill-on-bad-exit=1 # one dead task ends the role
    --wait=1 # one ended task ends the role
  )
  start_role server srun "${srun_options[@]}" "${container[@]}" bash -c '
    { cat > /dev/null; kill -KILL -1; } <&0 & # the container ends with its input
    exec < /dev/null
    export NODE_RANK=$SLURM_NODEID
    [[ -x $VIRTUAL_ENV/bin/python3 ]] || { echo "no virtual environment at $VIRTUAL_ENV" >&2; exit 1; }
    export PATH="$VIRTUAL_ENV/bin:$PATH"
    exec "$@"' server python3 -m http.server 8000 <&"$lifeline"
  wait_for_role server 8000 600 "${all_nodes[@]:1:1}"

# ======== roles-of-two-kinds
  # ---- roles: the first nodes train, the others have roles -----------------------------------
  all_nodes=("${nodes[@]}") nodes=("${nodes[@]:0:2}")
  join_names CLUSTERJOBS_TRAINING_NODES "${nodes[@]}"
  join_names CLUSTERJOBS_ACTORS_NODES "${all_nodes[@]:2:2}"
  export CLUSTERJOBS_ACTORS_ADDR=${all_nodes[2]}
  export CLUSTERJOBS_ACTORS_PORT=5000
  join_names CLUSTERJOBS_COLLECTOR_NODES "${all_nodes[@]:4:1}"
  export CLUSTERJOBS_COLLECTOR_ADDR=${all_nodes[4]}

  # ---- actors: on 2 nodes, until the training ends -------------------------------------------
  srun_options=(
    --job-name=role-actors # the step's name, used to send it signals
    --nodes=2 --ntasks=2 --ntasks-per-node=1 # one task on each node of the role
    "--nodelist=$CLUSTERJOBS_ACTORS_NODES" # the nodes of the role
    "--cpus-per-task=$SLURM_CPUS_ON_NODE" # all CPUs of the node
    --cpu-bind=none # threads may move
    --overlap # beside steps such as sidecars
    --label # every line says which node of the role wrote it
    --kill-on-bad-exit=1 # one dead task ends the role
    --wait=1 # one ended task ends the role
  )
  start_role actors srun "${srun_options[@]}" bash -c '
    exec "$@"' actors ./act 'it'\''s $HOME' --trainers 16

  # ---- collector: on 1 node, until the training ends -----------------------------------------
  srun_options=(
    --job-name=role-collector # the step's name, used to send it signals
    --nodes=1 --ntasks=1 --ntasks-per-node=1 # one task on each node of the role
    "--nodelist=$CLUSTERJOBS_COLLECTOR_NODES" # the nodes of the role
    "--cpus-per-task=$SLURM_CPUS_ON_NODE" # all CPUs of the node
    --cpu-bind=none # threads may move
    --overlap # beside steps such as sidecars
    --label # every line says which node of the role wrote it
    --kill-on-bad-exit=1 # one dead task ends the role
    --wait=1 # one ended task ends the role
  )
  start_role collector srun "${srun_options[@]}" bash -c '
    exec "$@"' collector ./collect --to /fsx/collected
  wait_for_role actors 5000 60 "${all_nodes[@]:2:2}"

  # ---- before the training -------------------------------------------------------------------
  srun --overlap --cpu-bind=none --cpus-per-task="$SLURM_CPUS_ON_NODE" \
    --nodes=5 --ntasks=5 --ntasks-per-node=1 ./warm

  # A command above, or the data, may have made these.
  [[ -r train.py ]] || fail "no script train.py in $PWD: correct the spec's script or workdir, or put it there"

  # ---- launch: one deepspeed starts the ranks of all nodes over pdsh and ssh -----------------
  command=(
    python3 train.py
    --actors "$CLUSTERJOBS_ACTORS_NODES"
    --nodes 5
    --ranks 16
    --deepspeed
    --deepspeed_config "$job_dir/ds_config.json"
  )
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
    "--nodelist=$CLUSTERJOBS_TRAINING_NODES" # the other nodes have roles
  )
ssh_dir="$job_dir/ssh.$attempt" # removed when the launcher has ended
  rm -rf -- "$ssh_dir" # of an older job with this id: a new cluster reuses them
  mkdir -m 700 -- "$ssh_dir"
  exec {lifeline}<> <(:) # an input that ends with this script, and not before
  [[ $ssh_dir =~ ^[A-Za-z0-9_@+=:,./-]+$ ]] \
    || fail "deepspeed-pdsh cannot take the folder $ssh_dir: plain letters and digits in logs:"
  printf '%s\0' "${command[@]}" > "$ssh_dir/command" # what a rank runs
  # Without a host file DeepSpeed would train on one node and report no error.
  printf '%s slots=8\n' "${nodes[@]}" > "$ssh_dir/hostfile"
  # DeepSpeed's own program needs these on a node; the ranks have all. No blank line.
  for name in PATH LD_LIBRARY_PATH; do
    [[ ${!name:-} =~ ^[]A-Za-z0-9_@%+=:,./[-]+$ ]] && printf '%s=%s\n' "$name" "${!name}"
  done > "$ssh_dir/deepspeed_env"
  launcher=( # its own check of ssh knows no settings
    env DS_ENV_FILE="$ssh_dir/deepspeed_env" deepspeed
    --hostfile="$ssh_dir/hostfile" --launcher=pdsh --force_multi --no_ssh_check
    --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" --no_local_rank
    --no_python "$ssh_dir/rank"
  )
  run_ranks launch_over_ssh

  # ---- after a training that ended well ------------------------------------------------------
  reason=after_failure # until all commands have ended well
  stop_roles
  ./evaluate
  reason=completed
}

# ======== sidecars-and-steps
  # ---- before the training -------------------------------------------------------------------
  ./fetch
  srun --overlap --cpu-bind=none --cpus-per-task="$SLURM_CPUS_ON_NODE" \
    --nodes=2 --ntasks=2 --ntasks-per-node=1 ./warm --cache

  # A command above, or the data, may have made these.
  [[ -x ./work ]] || fail "no executable program ./work in $PWD: correct the spec's command or workdir, or put it there"

  # ---- beside the training, until the job ends -----------------------------------------------
  srun --overlap --cpu-bind=none --cpus-per-task="$SLURM_CPUS_ON_NODE" \
    --nodes=2 --ntasks=2 --ntasks-per-node=1 ./watch &
  background_pids+=("$!")

  # ---- after a training that ended well ------------------------------------------------------
  reason=after_failure # until all commands have ended well
  ./report 'the end'
  reason=completed
}

# ======== steps-in-a-row
  # ---- before the training -------------------------------------------------------------------
  step=fetch once=1 step_seconds=3600
  run_step timeout --kill-after=10 3600 ./fetch

  step=pretraining once=2 step_seconds=0
  command=(env "NODE=$CLUSTERJOBS_NODE_RANK" python3 pretrain.py --ranks 32)
  srun_options=(
    --nodes=4 --ntasks=32 --ntasks-per-node=8 --label --kill-on-bad-exit=1 --wait=0
    --cpu-bind=none --cpus-per-task=12
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    set -- "${@//"$CLUSTERJOBS_NODE_RANK"/$SLURM_NODEID}" # replace the placeholder in the command below
    export CLUSTERJOBS_NODE_RANK=$SLURM_NODEID
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=8
    exec "$@"' rank "${command[@]}"

  # A command above, or the data, may have made these.
  [[ -r finetune.py ]] || fail "no script finetune.py in $PWD: correct the spec's command or workdir, or put it there"

  # ---- launch: srun starts one task per rank -------------------------------------------------
  command=(
    env "NODE=$CLUSTERJOBS_NODE_RANK"
    python3 finetune.py
  )
  srun_options=(
    --nodes=4 --ntasks=32 --ntasks-per-node=8 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=12 # not inherited in Slurm 22.05-23.02
  )
  export CLUSTERJOBS_ATTEMPT=$attempt # the watchdog knows the ranks by it
  run_ranks srun "${srun_options[@]}" bash -c '
    set -- "${@//"$CLUSTERJOBS_NODE_RANK"/$SLURM_NODEID}" # replace the placeholder in the command below
    export CLUSTERJOBS_NODE_RANK=$SLURM_NODEID
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=8
    exec "$@"' rank "${command[@]}"

  # ---- after a training that ended well ------------------------------------------------------
  trap '' USR1; budgets=() # the training is complete: never run it again
  reason=after_failure # until all commands have ended well
  step='python3 evaluate.py' once=0 step_seconds=1800
  command=(env "NODE=$CLUSTERJOBS_NODE_RANK" timeout --kill-after=300 1800 python3 evaluate.py)
  srun_options=(
    --nodes=4 --ntasks=32 --ntasks-per-node=8 --label --kill-on-bad-exit=1 --wait=0
    --cpu-bind=none --cpus-per-task=12
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    set -- "${@//"$CLUSTERJOBS_NODE_RANK"/$SLURM_NODEID}" # replace the placeholder in the command below
    export CLUSTERJOBS_NODE_RANK=$SLURM_NODEID
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=8
    exec "$@"' rank "${command[@]}"
  reason=completed
}

# ======== steps-before-by-srun
  # ---- before the training -------------------------------------------------------------------
  srun --nodes=1 --ntasks=1 --cpus-per-task=8 ./index /fsx/data

  step=warm
  command=(./warm)
  srun_options=(
    --nodes=2 --ntasks=16 --ntasks-per-node=8 --label --kill-on-bad-exit=1 --wait=0
    --cpu-bind=none --cpus-per-task=12
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=8
    exec "$@"' rank "${command[@]}"

  # A command above, or the data, may have made these.
  [[ -r train.py ]] || fail "no script train.py in $PWD: correct the spec's script or workdir, or put it there"

  # ---- after a training that ended well ------------------------------------------------------
  reason=after_failure # until all commands have ended well
  srun -N2 -n2 -c96 ./collect
  reason=completed
}

# ======== steps-in-docker
  # ---- before the training -------------------------------------------------------------------
  step=all_reduce_perf min_bus_bandwidth=200 reports=2
  run_step srun --overlap --cpu-bind=none --cpus-per-task="$SLURM_CPUS_ON_NODE" --nodes=2 \
    --ntasks=2 --ntasks-per-node=1 "${container[@]}" bash -c '
    { cat > /dev/null; kill -KILL -1; } <&0 & # the container ends with its input
    exec < /dev/null
    export NODE_RANK=$SLURM_NODEID
    exec "$@"' step all_reduce_perf -b 1G -e 8G -f 2 -g 8 <&"$lifeline"

  step='python3 warm.py' min_bus_bandwidth=0 reports=1
  command=(python3 warm.py)
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 --label --kill-on-bad-exit=1 --wait=0
    --cpu-bind=none --cpus-per-task=96
  )
  run_ranks srun "${srun_options[@]}" "${container[@]}" bash -c '
    { cat > /dev/null; kill -KILL -1; } <&0 & # the container ends with its input
    exec < /dev/null
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=2 --nproc-per-node=8 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" --no-python "$@"' \
    node "${command[@]}" <&"$lifeline"

  step=outside min_bus_bandwidth=0 reports=1
  command=(./outside)
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 --label --kill-on-bad-exit=1 --wait=0
    --cpu-bind=none --cpus-per-task=96
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=2 --nproc-per-node=8 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" --no-python "$@"' \
    node "${command[@]}"

  # A command above, or the data, may have made these.
  [[ -r train.py ]] || fail "no script train.py in $PWD: correct the spec's script or workdir, or put it there"

# ======== steps-nccl-p5
  # ---- before the training -------------------------------------------------------------------
  step='NCCL test' step_seconds=600 min_bus_bandwidth=300 reports=1
  command=(timeout --kill-after=30 600 all_reduce_perf -b 1G -e 8G -f 2)
  srun_options=(
    --nodes=2 --ntasks=16 --ntasks-per-node=8 --label --kill-on-bad-exit=1 --wait=0
    --cpu-bind=none --cpus-per-task=24 --mpi=pmix --container-image=/fsx/images/pytorch.sqsh
    "--container-mounts=$container_mounts" "--container-workdir=$PWD"
    "--container-env=$container_env" --no-container-mount-home
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=8
    exec "$@"' rank "${command[@]}"
  srun --overlap --cpu-bind=none --cpus-per-task="$SLURM_CPUS_ON_NODE" \
    --nodes=2 --ntasks=2 --ntasks-per-node=1 nvidia-smi -q

  step='python3 check.py' step_seconds=0 min_bus_bandwidth=0 reports=1
  run_step srun --overlap --cpu-bind=none --cpus-per-task="$SLURM_CPUS_ON_NODE" --nodes=1 \
    --ntasks=1 --ntasks-per-node=1 --container-image=/fsx/images/pytorch.sqsh \
    "--container-mounts=$container_mounts" "--container-workdir=$PWD" \
    "--container-env=$container_env" --no-container-mount-home bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec "$@"' step python3 check.py

  # A command above, or the data, may have made these.
  [[ -r train.py ]] || fail "no script train.py in $PWD: correct the spec's script or workdir, or put it there"

  # ---- beside the training, until the job ends -----------------------------------------------
  echo 'clusterjobs: beside the training:' GPUs
  srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --label --kill-on-bad-exit=1 --wait=0 \
    --cpu-bind=none --cpus-per-task=24 --mpi=pmix --overlap bash -c '
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID
    export WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=8
    exec "$@"' rank nvidia-smi dmon -s pucm &
  background_pids+=("$!")

  # ---- after a training that ended well ------------------------------------------------------
  reason=after_failure # until all commands have ended well
  step=evaluation step_seconds=0 min_bus_bandwidth=0 reports=1
  command=(python3 evaluate.py)
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 --label --kill-on-bad-exit=1 --wait=0
    --cpu-bind=none --cpus-per-task=192 --mpi=pmix
    --container-image=/fsx/images/pytorch.sqsh "--container-mounts=$container_mounts"
    "--container-workdir=$PWD" "--container-env=$container_env" --no-container-mount-home
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=2 --nproc-per-node=8 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" --no-python "$@"' \
    node "${command[@]}"
  reason=completed
}

# ======== sidecar-in-a-container
  # ---- beside the training, until the job ends -----------------------------------------------
  echo 'clusterjobs: beside the training:' 'python3 watch.py'
  srun --overlap --cpu-bind=none --cpus-per-task="$SLURM_CPUS_ON_NODE" --nodes=1 \
    --ntasks=1 --ntasks-per-node=1 --container-image=/fsx/images/pytorch.sqsh \
    "--container-mounts=$container_mounts" "--container-workdir=$PWD" \
    "--container-env=$container_env" --no-container-mount-home bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec "$@"' step python3 watch.py &
  background_pids+=("$!")

# ======== steps-of-a-sweep
  # ---- before the training -------------------------------------------------------------------
  step="lr $lr" once=1
  command=(./prepare "$lr")
  srun_options=(
    --nodes=1 --ntasks=8 --ntasks-per-node=8 --label --kill-on-bad-exit=1 --wait=0
    --cpu-bind=none --cpus-per-task=12
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=8
    exec "$@"' rank "${command[@]}"

  # A command above, or the data, may have made these.
  [[ -x ./train ]] || fail "no executable program ./train in $PWD: correct the spec's command or workdir, or put it there"

  # ---- after a training that ended well ------------------------------------------------------
  reason=after_failure # until all commands have ended well
  step=evaluate once=0
  command=(./evaluate "$lr")
  srun_options=(
    --nodes=1 --ntasks=8 --ntasks-per-node=8 --label --kill-on-bad-exit=1 --wait=0
    --cpu-bind=none --cpus-per-task=12
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=8
    exec "$@"' rank "${command[@]}"
  reason=completed
}

# ======== steps-whose-result-is-there
  # ---- before the training -------------------------------------------------------------------
  step='python3 tokenize.py' creates="${DATA:-/fsx}/tokens of prepared"
  run_step python3 tokenize.py --out /fsx/tokens

  step='python3 index.py' creates=index
  command=(python3 index.py)
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 --label --kill-on-bad-exit=1 --wait=0
    --cpu-bind=none --cpus-per-task=96
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=2 --nproc-per-node=8 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" --no-python "$@"' \
    node "${command[@]}"

  # A command above, or the data, may have made these.
  [[ -r train.py ]] || fail "no script train.py in $PWD: correct the spec's script or workdir, or put it there"

# ======== header-in-a-container
  # ---- before the training -------------------------------------------------------------------
  step='nodes and versions'
  run_step srun --overlap --cpu-bind=none --cpus-per-task="$SLURM_CPUS_ON_NODE" --nodes=2 \
    --ntasks=2 --ntasks-per-node=1 --container-image=/fsx/images/pytorch.sqsh \
    "--container-mounts=$container_mounts" "--container-workdir=$PWD" \
    "--container-env=$container_env" --no-container-mount-home bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec "$@"' step bash "$job_dir/describe_node.sh" torch

# ======== sweep-command
  # ---- launch: srun starts one task per rank -------------------------------------------------
  command=(
    python3 answer.py
    --prompt "$prompt_2"
    "--out=/fsx/$point_name.txt"
    --limit "$command_6" "$SPLIT" "$args_1"
  )
  srun_options=(
    --nodes=1 --ntasks=1 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=4 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=1
    exec "$@"' rank "${command[@]}"
  reason=completed
}

# ======== sweep-packed
  # ---- launch: one torchrun per node starts the node's ranks ---------------------------------
  command=(
    train.py
    --lr "$lr"
    --optimizer "$optimizer"
    --save-dir "/fsx/checkpoints/$point_label"
  )
  srun_options=(
    --nodes=1 --ntasks=1 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=12 # not inherited in Slurm 22.05-23.02
    --exact # use only this point's share of the node
    --gpus-per-node=1 # GPUs for this point only
    --mem=0 # reserve no memory: otherwise the first point gets all of it
    "--job-name=$point_name" # step name, used to send it signals
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=1 --nproc-per-node=1 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@"' \
    node "${command[@]}"
  reason=completed
}

# ======== sweep-shapes
# job-1.sh:
  # ---- preflight: check every node before the training ---------------------------------------
  python=$(find_python) || fail 'the preflight needs Python 3.7 or newer'
  checks=(
    seconds=60 # for all checks; a node that does not answer in time is bad
    gpus=8 # the job's GPUs of a p4d.24xlarge
    processes # a whole node: no other process uses its GPUs
    efa=4 # the EFA interfaces of a p4d.24xlarge
    memlock # EFA pins memory
    shm=1 # GiB of /dev/shm: NCCL, and loaders of data, share it
    lustre=/fsx # fsx of p4d-a100
    "space=10:$job_dir" # GiB free: the job's own folder
    "space=10:/fsx/checkpoints/scaling/$point_label" # GiB free: checkpoints
    space=1:/tmp # GiB free: programs keep temporary files there
    clock=5 # seconds apart: logs, file times, signed requests
    network # an interface that NCCL_SOCKET_IFNAME takes
    names # every node finds MASTER_ADDR by its name
    port # MASTER_PORT is free, and every node can call it
    packages=torch # what the job's Python must have
  )
  check_nodes

# job-2.sh, job-3.sh:
  # ---- preflight: check every node before the training ---------------------------------------
  python=$(find_python) || fail 'the preflight needs Python 3.7 or newer'
  clear_nccl_logs
  checks=(
    seconds=60 # for all checks; a node that does not answer in time is bad
    gpus=8 # the job's GPUs of a p4d.24xlarge
    processes # a whole node: no other process uses its GPUs
    efa=4 # the EFA interfaces of a p4d.24xlarge
    memlock # EFA pins memory
    shm=1 # GiB of /dev/shm: NCCL, and loaders of data, share it
    lustre=/fsx # fsx of p4d-a100
    "folder=$job_dir" # the job's own folder: the same for all nodes
    "space=10:$job_dir" # GiB free: the job's own folder
    "folder=/fsx/checkpoints/scaling/$point_label" # checkpoints: the same for all nodes
    "space=10:/fsx/checkpoints/scaling/$point_label" # GiB free: checkpoints
    space=1:/tmp # GiB free: programs keep temporary files there
    clock=5 # seconds apart: logs, file times, signed requests
    network # an interface that NCCL_SOCKET_IFNAME takes
    names # every node finds MASTER_ADDR by its name
    port # MASTER_PORT is free, and every node can call it
    packages=torch # what the job's Python must have
  )
  check_nodes

# job-1.sh:
  # ---- launch: one torchrun per node starts the node's ranks ---------------------------------
  command=(
    train.py
    --lr 1e-4
    --seed "$seed"
  )
  srun_options=(
    --nodes=1 --ntasks=1 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
  )
  export CLUSTERJOBS_ATTEMPT=$attempt # the watchdog knows the ranks by it
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=1 --nproc-per-node=8 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@"' \
    node "${command[@]}"
  reason=completed
}

# job-2.sh:
  # ---- launch: one torchrun per node starts the node's ranks ---------------------------------
  command=(
    train.py
    --lr 1e-4
    --seed "$seed"
  )
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
  )
  export CLUSTERJOBS_ATTEMPT=$attempt # the watchdog knows the ranks by it
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=2 --nproc-per-node=8 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@"' \
    node "${command[@]}"

# job-3.sh:
  # ---- launch: one torchrun per node starts the node's ranks ---------------------------------
  command=(
    train.py
    --lr 1e-4
    --seed 1
  )
  srun_options=(
    --nodes=4 --ntasks=4 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
  )
  export CLUSTERJOBS_ATTEMPT=$attempt # the watchdog knows the ranks by it
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=4 --nproc-per-node=8 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@"' \
    node "${command[@]}"

# ======== torchrun-srun-p4d
  # ---- launch: srun starts one task per rank -------------------------------------------------
  command=(
    python3 finetune.py
  )
  srun_options=(
    --nodes=1 --ntasks=4 --ntasks-per-node=4 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=12 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=4
    exec "$@"' rank "${command[@]}"
  reason=completed
}

# ======== torchrun-torchrun-p5
  # ---- launch: one torchrun per node starts the node's ranks ---------------------------------
  command=(
    train_fsdp.py
    --sharding hybrid
    --tokens-per-batch 4194304
  )
  srun_options=(
    --nodes=64 --ntasks=64 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=192 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=64 --nproc-per-node=8 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@"' \
    node "${command[@]}"
  reason=completed
}

# ======== torchrun-restarts-small
  # ---- launch: one torchrun per node starts the node's ranks ---------------------------------
  command=(
    train.py
  )
  launcher_options=(
    "--rdzv-id=$SLURM_JOB_ID"
    --max-restarts=3
    --monitor-interval=0.5
    "--role=node-$CLUSTERJOBS_NODE_RANK"
    "--log-dir=$job_dir/ranks"
    --tee=3
    --local-ranks-filter=0
  )
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=4 # not inherited in Slurm 22.05-23.02
  )
  export CLUSTERJOBS_ATTEMPT=$attempt # the watchdog knows the ranks by it
  run_ranks srun "${srun_options[@]}" bash -c '
    set -- "${@//"$CLUSTERJOBS_NODE_RANK"/$SLURM_NODEID}" # replace the placeholder in the command below
    export CLUSTERJOBS_NODE_RANK=$SLURM_NODEID
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=2 --nproc-per-node=2 --local-addr="$SLURMD_NODENAME" \
      --rdzv-backend=c10d --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" \
      --rdzv-conf="is_host=$((SLURM_NODEID == 0)),join_timeout=900" "$@"' \
    node "${launcher_options[@]}" "${command[@]}"
  reason=completed
}

# ======== launcher-with-prefix
  # ---- launch: one torchrun per node starts the node's ranks ---------------------------------
  command=(
    nsys profile '--output=/fsx/traces/%q{SLURM_JOB_ID}.%q{RANK}' '--trace=cuda,nvtx'
    python3 train.py
  )
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=2 --nproc-per-node=8 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" --no-python "$@"' \
    node "${command[@]}"
  reason=completed
}

# ======== huggingface-torchrun-zero
  # ---- launch: one torchrun per node starts the node's ranks ---------------------------------
  command=(
    run_clm.py
    --model_name_or_path /fsx/models/llama
    --do_train
    --save_steps 200
    --per_device_train_batch_size 4
    --gradient_accumulation_steps 4
    --bf16 True
    --output_dir /fsx/checkpoints/sft
    --deepspeed "$job_dir/ds_config.json"
  )
  newest=$(newest_checkpoint /fsx/checkpoints/sft) # "" without one; of an earlier attempt, or of an earlier job
  [[ -z $newest ]] || command+=(--resume_from_checkpoint /fsx/checkpoints/sft/"$newest")
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
  )
  export CLUSTERJOBS_ATTEMPT=$attempt # the watchdog knows the ranks by it
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=2 --nproc-per-node=8 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@"' \
    node "${command[@]}"
  reason=completed
}

# ======== huggingface-accelerate-fsdp
  # ---- launch: one accelerate launch per node starts the node's ranks ------------------------
  command=(
    /fsx/code/sft.py
    --config sft.yaml
    --per_device_train_batch_size 2
    --gradient_accumulation_steps 2
    --bf16 False
    --output_dir /fsx/checkpoints/sft
    --fsdp 'full_shard offload auto_wrap'
    --fsdp_config "$job_dir/fsdp_config.json"
  )
  newest=$(newest_checkpoint /fsx/checkpoints/sft) # "" without one; of an earlier attempt, or of an earlier job
  [[ -z $newest ]] || command+=(--resume_from_checkpoint /fsx/checkpoints/sft/"$newest")
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=192 # not inherited in Slurm 22.05-23.02
  )
  # With a config file of its own, accelerate does not read the user's default_config.yaml.
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec accelerate launch --config_file="$1" \
      --num_machines=2 --num_processes=16 --machine_rank="$SLURM_NODEID" \
      --main_process_ip="$MASTER_ADDR" --main_process_port="$MASTER_PORT" \
      --rdzv_backend=static --same_network "${@:2}"' \
    node "$job_dir/accelerate.json" "${command[@]}"
  reason=completed
}

# ======== huggingface-own-launch-config
  # ---- launch: one accelerate launch per node starts the node's ranks ------------------------
  command=(
    sft.py
    --per_device_train_batch_size 2
    --gradient_accumulation_steps 2
  )
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=192 # not inherited in Slurm 22.05-23.02
  )
  # With a config file of its own, accelerate does not read the user's default_config.yaml.
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec accelerate launch --config_file="$1" \
      --num_machines=2 --num_processes=16 --machine_rank="$SLURM_NODEID" \
      --main_process_ip="$MASTER_ADDR" --main_process_port="$MASTER_PORT" \
      --rdzv_backend=static --same_network "${@:2}"' \
    node "$job_dir/accelerate.json" "${command[@]}"
  reason=completed
}

# ======== accelerate-own-launch-config-zero
  # ---- launch: one accelerate launch per node starts the node's ranks ------------------------
  command=(
    train.py
  )
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
  )
  # With a config file of its own, accelerate does not read the user's default_config.yaml.
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec accelerate launch --config_file="$1" \
      --num_machines=2 --num_processes=16 --machine_rank="$SLURM_NODEID" \
      --main_process_ip="$MASTER_ADDR" --main_process_port="$MASTER_PORT" \
      --rdzv_backend=static --same_network "${@:2}"' \
    node "$job_dir/accelerate.json" "${command[@]}"
  reason=completed
}

# ======== accelerate-restarts-and-logs
  # ---- launch: one accelerate launch per node starts the node's ranks ------------------------
  command=(
    train.py
  )
  launcher_options=(
    --tee=3
    "--log_dir=$job_dir/ranks"
    "--role=node $CLUSTERJOBS_NODE_RANK"
    --max_restarts=1
    "--gradient_accumulation_steps=$computed_steps"
  )
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
  )
  # With a config file of its own, accelerate does not read the user's default_config.yaml.
  run_ranks srun "${srun_options[@]}" bash -c '
    set -- "${@//"$CLUSTERJOBS_NODE_RANK"/$SLURM_NODEID}" # replace the placeholder in the command below
    export CLUSTERJOBS_NODE_RANK=$SLURM_NODEID
    export NODE_RANK=$SLURM_NODEID
    exec accelerate launch --config_file="$1" \
      --num_machines=2 --num_processes=16 --machine_rank="$SLURM_NODEID" \
      --main_process_ip="$MASTER_ADDR" --main_process_port="$MASTER_PORT" \
      --rdzv_backend=c10d --rdzv_conf="is_host=$((SLURM_NODEID == 0))" "${@:2}"' \
    node "$job_dir/accelerate.json" "${launcher_options[@]}" "${command[@]}"
  reason=completed
}

# ======== accelerate-cpu
  # ---- launch: one accelerate launch per node starts the node's ranks ------------------------
  command=(
    train.py
  )
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=4 # not inherited in Slurm 22.05-23.02
  )
  # With a config file of its own, accelerate does not read the user's default_config.yaml.
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec accelerate launch --config_file="$1" \
      --num_machines=2 --num_processes=4 --machine_rank="$SLURM_NODEID" \
      --main_process_ip="$MASTER_ADDR" --main_process_port="$MASTER_PORT" \
      --rdzv_backend=static --same_network "${@:2}"' \
    node "$job_dir/accelerate.json" "${command[@]}"
  reason=completed
}

# ======== accelerate-launch-zero
  # ---- launch: one accelerate launch per node starts the node's ranks ------------------------
  command=(
    train.py
    --batch-size 4
  )
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
  )
  # With a config file of its own, accelerate does not read the user's default_config.yaml.
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec accelerate launch --config_file="$1" \
      --num_machines=2 --num_processes=16 --machine_rank="$SLURM_NODEID" \
      --main_process_ip="$MASTER_ADDR" --main_process_port="$MASTER_PORT" \
      --rdzv_backend=static --same_network "${@:2}"' \
    node "$job_dir/accelerate.json" "${command[@]}"
  reason=completed
}

# ======== accelerate-srun-fsdp
  # ---- launch: srun starts one task per rank -------------------------------------------------
  command=(
    python3 train.py
  )
  srun_options=(
    --nodes=2 --ntasks=16 --ntasks-per-node=8 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=12 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=8
    exec "$@"' rank "${command[@]}"
  reason=completed
}

# ======== lightning-p4d
  # ---- launch: srun starts one task per rank -------------------------------------------------
  command=(
    python3 train.py
    --batch-size 64
  )
  srun_options=(
    --nodes=2 --ntasks=16 --ntasks-per-node=8 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=12 # not inherited in Slurm 22.05-23.02
  )
  export CLUSTERJOBS_ATTEMPT=$attempt # the watchdog knows the ranks by it
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=8
    exec "$@"' rank "${command[@]}"
  reason=completed
}

# ======== lightning-cli
  # ---- launch: srun starts one task per rank -------------------------------------------------
  command=(
    python3 main.py fit
    --config configs/vit.yaml
    --trainer.num_nodes 2
    --trainer.devices 8
    --trainer.accelerator gpu
    --trainer.precision 16-mixed
    --trainer.accumulate_grad_batches 2
    --data.batch_size 64
    --trainer.max_steps 10000
  )
  srun_options=(
    --nodes=2 --ntasks=16 --ntasks-per-node=8 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=12 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=8
    exec "$@"' rank "${command[@]}"
  reason=completed
}

# ======== composer-p4d
  # ---- launch: one composer per node starts the node's ranks ---------------------------------
  command=(
    train.py
    --batch-size 512
    --save-folder /fsx/checkpoints/mpt
  )
  launcher_options=(
    '--stdout=/fsx/logs/mpt/{rank}.out'
    '--stderr=/fsx/logs/mpt/{rank}.err'
  )
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
  )
  export CLUSTERJOBS_ATTEMPT=$attempt # the watchdog knows the ranks by it
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec composer --nproc=8 --world_size=16 --node_rank="$SLURM_NODEID" \
      --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" "$@"' \
    node "${launcher_options[@]}" "${command[@]}"
  reason=completed
}

# ======== composer-torchrun
  # ---- launch: one torchrun per node starts the node's ranks ---------------------------------
  command=(
    train.py config.yaml
    max_duration=100ba
  )
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=2 --nproc-per-node=8 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@"' \
    node "${command[@]}"
  reason=completed
}

# ======== torchtitan-p5
  # ---- launch: one torchrun per node starts the node's ranks ---------------------------------
  command=(
    -m torchtitan.train
    --module llama3
    --config llama3_8b
    --parallelism.tensor_parallel_degree 4
    --parallelism.pipeline_parallel_degree 1
    --parallelism.context_parallel_degree 2
    --training.local_batch_size 2
    --training.global_batch_size 64
    --training.mixed_precision_param bfloat16
    --checkpoint.enable
    --checkpoint.folder /fsx/checkpoints/llama3-8b
    --training.steps 10000
    --checkpoint.interval 200
    --parallelism.data_parallel_replicate_degree 2
  )
  srun_options=(
    --nodes=4 --ntasks=4 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=192 # not inherited in Slurm 22.05-23.02
  )
  export CLUSTERJOBS_ATTEMPT=$attempt # the watchdog knows the ranks by it
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=4 --nproc-per-node=8 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@"' \
    node "${command[@]}"
  reason=completed
}

# ======== torchtitan-0.2-srun
  # ---- launch: srun starts one task per rank -------------------------------------------------
  command=(
    python3 my_train.py
    --job.config_file train_configs/debug_model.toml
    --parallelism.tensor_parallel_degree 1
    --parallelism.pipeline_parallel_degree 1
    --parallelism.context_parallel_degree 1
    --training.local_batch_size 8
    --training.global_batch_size 64
    --metrics.enable-wandb
  )
  srun_options=(
    --nodes=1 --ntasks=8 --ntasks-per-node=8 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=12 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=8
    exec "$@"' rank "${command[@]}"
  reason=completed
}

# ======== fairseq-train-p3dn
  # ---- launch: srun starts one task per rank -------------------------------------------------
  repair_checkpoints /fsx/checkpoints/roberta checkpoint_last.pt 'checkpoint(?:_best|\d+|_\d+_\d+)\.pt'
  command=(
    fairseq-train '/fsx/data/wiki bin'
    --task masked_lm
    --criterion masked_lm
    --arch roberta_large
    --encoder-layers 24
    --encoder-embed-dim 1024
    --encoder-ffn-embed-dim 4096
    --encoder-attention-heads 16
    --tokens-per-sample 512
    --max-positions 512
    --fp16
    --batch-size 16
    --required-batch-size-multiple 1
    --update-freq 8
    --save-dir /fsx/checkpoints/roberta
    --distributed-world-size 16
    --bucket-cap-mb 200
    --memory-efficient-fp16
    --optimizer adam
    --adam-betas '(0.9, 0.98)'
    --lr 4e-4
  )
  srun_options=(
    --nodes=2 --ntasks=16 --ntasks-per-node=8 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=6 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=8
    exec "$@"' rank "${command[@]}"
  reason=completed
}

# ======== fairseq-train-cpu
  # ---- launch: srun starts one task per rank -------------------------------------------------
  command=(
    bash -c 'exec "$@" --distributed-rank "$RANK"' rank fairseq-train /fsx/data/bin
    --task masked_lm
    --criterion masked_lm
    --arch roberta_base
    --encoder-layers 2
    --encoder-embed-dim 32
    --encoder-attention-heads 2
    --tokens-per-sample 64
    --max-positions 64
    --batch-size 4
    --required-batch-size-multiple 1
    --update-freq 2
    --distributed-world-size 4
    --cpu
    --distributed-backend gloo
    --ddp-backend legacy_ddp
    --distributed-init-method env://
    --distributed-no-spawn
    --optimizer adam
    --lr 1e-3
    --encoder-ffn-embed-dim 64
    --max-update 6
    --log-interval 2
  )
  srun_options=(
    --nodes=2 --ntasks=4 --ntasks-per-node=2 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=2 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=2
    exec "$@"' rank "${command[@]}"
  reason=completed
}

# ======== fairseq-hydra-p4d
  # ---- launch: one torchrun per node starts the node's ranks ---------------------------------
  repair_checkpoints '/fsx/checkpoints/roberta-hydra 1' checkpoint_last.pt 'checkpoint(?:_best|\d+|_\d+_\d+)\.pt'
  command=(
    fairseq-hydra-train
    --config-dir /fsx/code/fairseq/examples/roberta/config/pretraining
    --config-name base
    "++task.data=\"${DATA:?not set on this node: ${reason:=not_started}}/wiki's bin\""
    common.fp16=false
    common.bf16=true
    common.amp=false
    dataset.batch_size=8
    dataset.max_tokens=null
    dataset.required_batch_size_multiple=1
    'optimization.update_freq=[4]'
    "checkpoint.save_dir='/fsx/checkpoints/roberta-hydra 1'"
    distributed_training.distributed_world_size=16
    distributed_training.bucket_cap_mb=200
    "hydra.run.dir='$job_dir/hydra'"
    'optimization.lr=[6e-4]'
    lr_scheduler.warmup_updates=24000
    "dataset.train_subset='train,valid'"
    'common.tensorboard_logdir="/fsx/it'\''s here"'
    common.empty_cache_freq=0
    dataset.disable_validation=false
  )
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=2 --nproc-per-node=8 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" --no-python "$@"' \
    node "${command[@]}"
  reason=completed
}

# ======== jax-p4d
  # ---- launch: srun starts one task per rank -------------------------------------------------
  command=(
    python3 train.py
    --steps 10000
  )
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
  )
  export CLUSTERJOBS_ATTEMPT=$attempt # the watchdog knows the ranks by it
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=1
    exec "$@"' rank "${command[@]}"
  reason=completed
}

# ======== horovod-horovodrun
  # ---- launch: one horovodrun starts the ranks of all nodes over ssh -------------------------
  command=(
    python3 train.py
    --epochs 90
    --note 'it'\''s $HOME'
  )
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
  )
ssh_dir="$job_dir/ssh.$attempt" # removed when the launcher has ended
  rm -rf -- "$ssh_dir" # of an older job with this id: a new cluster reuses them
  mkdir -m 700 -- "$ssh_dir"
  exec {lifeline}<> <(:) # an input that ends with this script, and not before
  # horovodrun gives all ranks the name that the interface has on the first node; names differ.
  interface=$(python3 "$job_dir/ssh_interface.py" "${nodes[-1]}")
  with_interface=(python3 "$job_dir/ssh_interface.py" "$MASTER_ADDR,${nodes[-1]}")
  printf '%s\0' "${with_interface[@]}" "${command[@]}" > "$ssh_dir/command" # what a rank runs
  hosts=$(printf '%s:8,' "${nodes[@]}")
  launcher=(
    horovodrun --gloo --disable-cache --start-timeout 300
    -np 16 -H "${hosts%,}" --network-interfaces "$interface" "$ssh_dir/rank"
  )
  run_ranks launch_over_ssh
  reason=completed
}

# ======== horovod-mpirun
  # ---- launch: one mpirun has Slurm start its daemons, and they start the ranks --------------
  command=(
    python3 train.py
    --epochs 90
  )
  # mpirun has Slurm start one daemon on each node, without ssh. The ranks get the environment of
  # this script; each daemon's step gets the whole node, and the threads of a rank may move.
  export SLURM_WHOLE=1 SLURM_CPU_BIND=none
  [[ $(mpirun --version 2>&1) == *open-mpi.org* ]] ||
    fail "mpirun is not Open MPI's: $(type -P mpirun || echo none). For other MPIs: launcher: srun, srun: {mpi: pmi2}"
  mpirun=(
    mpirun -np 16 --map-by ppr:8:node --bind-to none --tag-output
    -mca plm slurm
  )
  (( EUID )) || mpirun+=(--allow-run-as-root) # in a container
  run_ranks "${mpirun[@]}" bash -c '
    export RANK=$OMPI_COMM_WORLD_RANK LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK
    export WORLD_SIZE=$OMPI_COMM_WORLD_SIZE LOCAL_WORLD_SIZE=8
    export NODE_RANK=$((RANK / LOCAL_WORLD_SIZE)) # the ranks of a node follow one another
    exec "$@"' rank "${command[@]}"
  reason=completed
}

# ======== horovod-own-sshd-port
  # ---- launch: one horovodrun starts the ranks of all nodes over ssh -------------------------
  command=(
    python3 train.py
  )
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=4 # not inherited in Slurm 22.05-23.02
  )
ssh_dir="$job_dir/ssh.$attempt" # removed when the launcher has ended
  rm -rf -- "$ssh_dir" # of an older job with this id: a new cluster reuses them
  mkdir -m 700 -- "$ssh_dir"
  exec {lifeline}<> <(:) # an input that ends with this script, and not before
  # horovodrun gives all ranks the name that the interface has on the first node; names differ.
  interface=enp3s0
  with_interface=(env HOROVOD_GLOO_IFACE="$interface")
  printf '%s\0' "${with_interface[@]}" "${command[@]}" > "$ssh_dir/command" # what a rank runs
  hosts=$(printf '%s:1,' "${nodes[@]}")
  launcher=(
    horovodrun --gloo --disable-cache --start-timeout 300
    -np 2 -H "${hosts%,}" --network-interfaces "$interface" "$ssh_dir/rank"
  )
  run_ranks launch_over_ssh
  reason=completed
}

# ======== everything
  # ---- before the training -------------------------------------------------------------------
  python3 prepare.py --out '/fsx/data/every key'
  srun --overlap --cpu-bind=none --cpus-per-task="$SLURM_CPUS_ON_NODE" \
    --nodes=4 --ntasks=4 --ntasks-per-node=1 rm -rf '/scratch/cache dir'

  # A command above, or the data, may have made these.
  [[ -r 'train model.py' ]] || fail "no script train model.py in $PWD: correct the spec's script or workdir, or put it there"

  # ---- beside the training, until the job ends -----------------------------------------------
  tensorboard --logdir /fsx/tb --port 6006 &
  background_pids+=("$!")
  srun --overlap --cpu-bind=none --cpus-per-task="$SLURM_CPUS_ON_NODE" \
    --nodes=4 --ntasks=4 --ntasks-per-node=1 nvidia-smi dmon -s pucm &
  background_pids+=("$!")

  # ---- launch: srun starts one task per rank -------------------------------------------------
  repair_checkpoints '/fsx/checkpoints/every key' latest '(global_step\d+)'
  command=(
    numactl --interleave=all
    python3 'train model.py'
    --lr "$LR"
    --seed "$SEED"
    --optimizer "$OPTIMIZER"
    --note "$NOTE"
    --run-name "every key-$OPTIMIZER-64"
    --literal '$HOME `id` $(id) !x *.py ~ "q" it'\''s \n %j, a;b & c | d > e'
    --braces '{{ not a reference }}'
    --empty ''
    --lines $'one\ntwo\ttab'
    --flag
    --tensor-parallel 2
    --files '/fsx/a b' '/fsx/every key'
    --deepspeed
    --deepspeed_config "$job_dir/ds_config.json"
  )
  srun_options=(
    --nodes=4 --ntasks=16 --ntasks-per-node=4 # as planned, even if sbatch got other options
    --kill-on-bad-exit=1 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=12 # not inherited in Slurm 22.05-23.02
    --mpi=pmix
    --wait=120
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=4
    exec "$@"' rank "${command[@]}"

  # ---- after a training that ended well ------------------------------------------------------
  reason=after_failure # until all commands have ended well
  python3 evaluate.py --checkpoint '/fsx/checkpoints/every key'
  srun --overlap --cpu-bind=none --cpus-per-task="$SLURM_CPUS_ON_NODE" \
    --nodes=4 --ntasks=4 --ntasks-per-node=1 sync
  reason=completed
}

# ======== references-of-all-kinds
  # ---- before the training -------------------------------------------------------------------
  ./prepare.sh 32

  # A command above, or the data, may have made these.
  [[ -r train.py ]] || fail "no script train.py in $PWD: correct the spec's script or workdir, or put it there"

  # ---- launch: one torchrun per node starts the node's ranks ---------------------------------
  command=(
    env "TRACE=/fsx/traces/$SLURM_JOB_ID/node-$CLUSTERJOBS_NODE_RANK"
    python3 train.py
    --world 32
    --accumulation 8
    --shard "$CLUSTERJOBS_NODE_RANK/4"
    --cache "${SCRATCH:-/tmp}/$SLURM_JOB_ID"
  )
  srun_options=(
    --nodes=4 --ntasks=4 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    set -- "${@//"$CLUSTERJOBS_NODE_RANK"/$SLURM_NODEID}" # replace the placeholder in the command below
    export CLUSTERJOBS_NODE_RANK=$SLURM_NODEID
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=4 --nproc-per-node=8 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" --no-python "$@"' \
    node "${command[@]}"
  reason=completed
}

# ======== forced-variables-p4d
  # ---- launch: one torchrun per node starts the node's ranks ---------------------------------
  command=(
    # CUDA_VISIBLE_DEVICES is forced: the rank divides its model between two GPUs
    # LD_PRELOAD is forced: its loaders need less memory
    env 'CUDA_VISIBLE_DEVICES=0,1' "LD_PRELOAD=${HOME:-}/lib/libjemalloc.so"
    python3 train.py
    --epochs "$EPOCHS"
  )
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=2 --nproc-per-node=1 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" --no-python "$@"' \
    node "${command[@]}"
  reason=completed
}

# ======== names-in-other-scripts
  # ---- launch: one torchrun per node starts the node's ranks ---------------------------------
  command=(
    'träning.py'
    '--título' 'naïve café'
    --emoji '🚀'
    '--名前' '値'
  )
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=4 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=2 --nproc-per-node=1 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@"' \
    node "${command[@]}"
  reason=completed
}

# ======== newest-checkpoint-as-an-argument
  # ---- launch: one torchrun per node starts the node's ranks ---------------------------------
  latest=$(latest_checkpoint /fsx/checkpoints/resumes /fsx/checkpoints/resumes/latest.txt) || fail 'the newest checkpoint is not known' # "" without one: such arguments are left out
  command=(
    train.py
    --epochs 3
    ${latest:+--resume "$latest"}
    ${latest:+--init "$latest/model state.pt"}
  )
  srun_options=(
    --nodes=1 --ntasks=1 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=1 --nproc-per-node=8 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@"' \
    node "${command[@]}"
  reason=completed
}

# ======== limits-of-the-ranks
  # ---- launch: one torchrun per node starts the node's ranks ---------------------------------
  command=(
    train.py
  )
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
    --propagate=ALL # ulimit, also where slurm.conf propagates no limits
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=2 --nproc-per-node=8 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@"' \
    node "${command[@]}"
  reason=completed
}

# ======== values-that-commands-print
  # ---- launch: one torchrun per node starts the node's ranks ---------------------------------
  command=(
    train.py
    --warmup "$computed_warmup"
    --max-steps "$computed_steps"
    --run "r-$computed_seed"
  )
  srun_options=(
    --nodes=2 --ntasks=2 --ntasks-per-node=1 # as planned, even if sbatch got other options
    --label # every line says which task wrote it
    --kill-on-bad-exit=1 --wait=0 # a failed task ends the step, and one that is done does not
    --cpu-bind=none # threads may move; data loaders need it
    --cpus-per-task=96 # not inherited in Slurm 22.05-23.02
  )
  run_ranks srun "${srun_options[@]}" bash -c '
    export NODE_RANK=$SLURM_NODEID
    exec torchrun --nnodes=2 --nproc-per-node=8 --node-rank="$SLURM_NODEID" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@"' \
    node "${command[@]}"
  reason=completed
}

# ======== command-srun-p5
  # ---- inputs: fail now, since a retry would miss the same files -----------------------------
  [[ -x /opt/nccl-tests/build/all_reduce_perf ]] || fail "no executable program /opt/nccl-tests/build/all_reduce_perf here: correct the spec's command, or put it there"

# ======== array-of-commands
  # ---- files ---------------------------------------------------------------------------------
  with_timeout run_carried make_safe_folder.sh "/fsx/shards/${SLURM_ARRAY_TASK_ID:?not set on this node: ${reason:=not_started}}" closed
  check_origin "/fsx/shards/${SLURM_ARRAY_TASK_ID:?not set on this node: ${reason:=not_started}}"

# ======== container-setup-inside
  # ---- files ---------------------------------------------------------------------------------
  cat > "$job_dir"/container_setup.bash <<'END'
source /opt/env.sh
export LD_LIBRARY_PATH="/fsx/ofi/lib:$LD_LIBRARY_PATH"
END

# ======== container-docker-neox
  # ---- files ---------------------------------------------------------------------------------
  with_timeout run_carried make_safe_folder.sh /fsx/checkpoints/neox closed
  check_origin /fsx/checkpoints/neox
  cat > "$job_dir"/clusterjobs_launch.yml <<'END'
{
  "launcher": "pdsh",
  "no_ssh_check": true,
  "train_batch_size": 128,
  "train_micro_batch_size_per_gpu": 4,
  "gradient_accumulation_steps": 2,
  "save": "/fsx/checkpoints/neox",
  "load": "/fsx/checkpoints/neox",
  "checkpoint_factor": 1000
}
END

# ======== data-from-s3
  # ---- inputs: fail now, since a retry would miss the same files -----------------------------
  [[ -r train.py ]] || fail "no script train.py in $PWD: correct the spec's script or workdir, or put it there"
  [[ -n $(find /fsx/corpus/books/ -mindepth 1 -print -quit 2> /dev/null) ]] || fail 'nothing in /fsx/corpus/books: is it associated with s3://my-corpus/books (cluster.yaml; pcluster update-cluster), and has FSx listed it?'

  # ---- stage: copy and verify the data before any rank starts --------------------------------
  stage python3 -B "$job_dir/preload.py" /fsx/corpus/books

# ======== data-of-all-kinds
  # ---- inputs: fail now, since a retry would miss the same files -----------------------------
  [[ -r train.py ]] || fail "no script train.py in $PWD: correct the spec's script or workdir, or put it there"
  [[ -e '/home/ubuntu/it'\''s a $vocab' || -e /scratch/vocab ]] || fail "the data source /home/ubuntu/it's a \$vocab does not exist on node $SLURMD_NODENAME: correct the spec's data[2].source, or put the data there"
  [[ -n $(type -P tar) ]] || fail 'no program tar on this node, to unpack an archive of data: install the package tar, or pack the archive in another way'
  [[ -n $(type -P gzip) ]] || fail 'no program gzip on this node, to unpack an archive of data: install the package gzip, or pack the archive in another way'
  [[ -n $(find /fsx/corpus/books/ -mindepth 1 -print -quit 2> /dev/null) ]] || fail 'nothing in /fsx/corpus/books: is it associated with s3://my-corpus/books (cluster.yaml; pcluster update-cluster), and has FSx listed it?'
  stage python3 -B "$job_dir/stage.py" --unpack --check s3://my-corpus/eval.tar.gz "/fsx/eval sets/$USER"
  stage python3 -B "$job_dir/stage.py" --check s3://my-corpus/more /fsx/more

  # ---- stage: copy and verify the data before any rank starts --------------------------------
  on_every_node=(
    srun --overlap --cpu-bind=none --label --kill-on-bad-exit=1 --wait=0
    --nodes=2 --ntasks=2 --ntasks-per-node=1
    --cpus-per-task="$SLURM_CPUS_ON_NODE" # a task would get one CPU
  )
  stage python3 -B "$job_dir/preload.py" /fsx/corpus/books
  stage python3 -B "$job_dir/stage.py" --unpack s3://my-corpus/eval.tar.gz "/fsx/eval sets/$USER"
  stage python3 -B "$job_dir/stage.py" --refresh --overwrite s3://my-corpus/more /fsx/more
  stage "${on_every_node[@]}" python3 -B "$job_dir/stage.py" /fsx/corpus/books /scratch/books
  stage "${on_every_node[@]}" python3 -B "$job_dir/stage.py" --reread '/home/ubuntu/it'\''s a $vocab' /scratch/vocab

  # ---- export: copied while the job runs, and once more at its end ---------------------------
  exports=(
    --overwrite /fsx/saved/gpt /home/ubuntu/saved
    "$job_dir" "s3://my-corpus/logs/$SLURM_JOB_ID"
  )
  start_export

# ======== deepspeed-srun-p4d
  # ---- files ---------------------------------------------------------------------------------
  with_timeout run_carried make_safe_folder.sh /fsx/checkpoints/gpt2-345m closed
  check_origin /fsx/checkpoints/gpt2-345m
  cat > "$job_dir"/ds_config.json <<'END'
{
  "train_batch_size": 256,
  "train_micro_batch_size_per_gpu": 8,
  "gradient_accumulation_steps": 2,
  "bf16": {"enabled": true},
  "zero_optimization": {"stage": 1}
}
END

# ======== deepspeed-torchrun-p4de
  # ---- files ---------------------------------------------------------------------------------
  cat > "$job_dir"/ds_config.json <<'END'
{
  "train_batch_size": 512,
  "train_micro_batch_size_per_gpu": 2,
  "gradient_accumulation_steps": 8,
  "bf16": {"enabled": true},
  "zero_optimization": {"stage": 3, "overlap_comm": true, "stage3_prefetch_bucket_size": 50000000.0},
  "gradient_clipping": 1.0,
  "wall_clock_breakdown": false
}
END

# ======== deepspeed-launcher-p3dn
  # ---- files ---------------------------------------------------------------------------------
  with_timeout run_carried make_safe_folder.sh /fsx/checkpoints/bert-large/fp16 closed
  check_origin /fsx/checkpoints/bert-large/fp16
  cat > "$job_dir"/ds_config.json <<'END'
{
  "train_batch_size": 4096,
  "train_micro_batch_size_per_gpu": 16,
  "gradient_accumulation_steps": 16,
  "fp16": {"enabled": true, "initial_scale_power": 16},
  "zero_optimization": {"stage": 1},
  "optimizer": {"type": "Lamb", "params": {"lr": 0.002, "weight_decay": 0.01}}
}
END

# ======== deepspeed-launcher-with-prefix
  # ---- files ---------------------------------------------------------------------------------
  cat > "$job_dir"/ds_config.json <<'END'
{
  "train_batch_size": 16,
  "train_micro_batch_size_per_gpu": 1,
  "gradient_accumulation_steps": 1,
  "fp16": {"enabled": true}
}
END

# ======== gpt-neox-2node-gcp
  # ---- files ---------------------------------------------------------------------------------
  with_timeout run_carried make_safe_folder.sh /home/research/checkpoints/gpt-neox-gcp closed
  check_origin /home/research/checkpoints/gpt-neox-gcp
  cat > "$job_dir"/clusterjobs_launch.yml <<'END'
{
  "launcher": "pdsh",
  "no_ssh_check": true,
  "save": "/home/research/checkpoints/gpt-neox-gcp",
  "load": "/home/research/checkpoints/gpt-neox-gcp"
}
END

# ======== megatron-torchrun-345m
  # ---- files ---------------------------------------------------------------------------------
  with_timeout run_carried make_safe_folder.sh /fsx/checkpoints/gpt2-345m closed
  check_origin /fsx/checkpoints/gpt2-345m
  cat > "$job_dir"/ds_config.json <<'END'
{
  "train_batch_size": 64,
  "train_micro_batch_size_per_gpu": 8,
  "gradient_accumulation_steps": 1,
  "fp16": {"enabled": true},
  "zero_optimization": {"stage": 1},
  "activation_checkpointing": {"partition_activations": false, "cpu_checkpointing": false},
  "gradient_clipping": 1.0,
  "optimizer": {"type": "Adam", "params": {"lr": 0.00015, "betas": [0.9, 0.95]}},
  "wandb": {"enabled": true, "project": "megatron"}
}
END

# ======== megatron-one-gpu
  # ---- files ---------------------------------------------------------------------------------
  with_timeout run_carried make_safe_folder.sh /fsx/checkpoints/gpt2-345m-1gpu closed
  check_origin /fsx/checkpoints/gpt2-345m-1gpu
  cat > "$job_dir"/ds_config.json <<'END'
{
  "train_batch_size": 8,
  "train_micro_batch_size_per_gpu": 8,
  "gradient_accumulation_steps": 1,
  "fp16": {"enabled": true},
  "zero_optimization": {"stage": 1},
  "activation_checkpointing": {"partition_activations": false, "cpu_checkpointing": false},
  "gradient_clipping": 1.0,
  "optimizer": {"type": "Adam", "params": {"lr": 0.00015, "betas": [0.9, 0.95]}},
  "wandb": {"enabled": true, "project": "megatron"}
}
END

# ======== megatron-launcher-7b
  # ---- files ---------------------------------------------------------------------------------
  with_timeout run_carried make_safe_folder.sh /fsx/checkpoints/gpt2-7b closed
  check_origin /fsx/checkpoints/gpt2-7b
  cat > "$job_dir"/ds_config.json <<'END'
{
  "train_batch_size": 16,
  "train_micro_batch_size_per_gpu": 4,
  "gradient_accumulation_steps": 1,
  "fp16": {"enabled": true},
  "zero_optimization": {"stage": 1},
  "activation_checkpointing": {"partition_activations": false, "cpu_checkpointing": false},
  "gradient_clipping": 1.0,
  "optimizer": {"type": "Adam", "params": {"lr": 0.00015, "betas": [0.9, 0.95]}},
  "wandb": {"enabled": true, "project": "megatron"}
}
END

# ======== megatron-srun-175b
  # ---- files ---------------------------------------------------------------------------------
  with_timeout run_carried make_safe_folder.sh /fsx/checkpoints/gpt3-175b closed
  check_origin /fsx/checkpoints/gpt3-175b
  cat > "$job_dir"/ds_config.json <<'END'
{
  "train_batch_size": 1536,
  "train_micro_batch_size_per_gpu": 1,
  "gradient_accumulation_steps": 384,
  "bf16": {"enabled": true},
  "zero_optimization": {"stage": 1},
  "activation_checkpointing": {"partition_activations": false, "cpu_checkpointing": false},
  "data_types": {"grad_accum_dtype": "fp32"},
  "gradient_clipping": 1.0
}
END

# ======== neox-one-node
  # ---- files ---------------------------------------------------------------------------------
  cat > "$job_dir"/clusterjobs_launch.yml <<'END'
{
  "launcher": "slurm",
  "deepspeed_slurm": true,
  "no_ssh_check": true,
  "force_multi": true,
  "train_batch_size": 32,
  "train_micro_batch_size_per_gpu": 4,
  "gradient_accumulation_steps": 1,
  "precision": "bfloat16",
  "bf16": {
    "enabled": true
  }
}
END

# ======== neox-two-nodes
  # ---- files ---------------------------------------------------------------------------------
  with_timeout run_carried make_safe_folder.sh /fsx/checkpoints/gpt-neox-small closed
  check_origin /fsx/checkpoints/gpt-neox-small
  cat > "$job_dir"/clusterjobs_launch.yml <<'END'
{
  "launcher": "slurm",
  "deepspeed_slurm": true,
  "no_ssh_check": true,
  "save": "/fsx/checkpoints/gpt-neox-small",
  "load": "/fsx/checkpoints/gpt-neox-small"
}
END

  # ---- inputs: fail now, since a retry would miss the same files -----------------------------
  [[ -r deepy.py ]] || fail "no script deepy.py in $PWD: correct the spec's script or workdir, or put it there"
  [[ -r train.py ]] || fail "no script train.py in $PWD: correct the spec's script or workdir, or put it there"

# ======== neox-20b
  # ---- files ---------------------------------------------------------------------------------
  with_timeout run_carried make_safe_folder.sh /fsx/checkpoints/neox-20b closed
  check_origin /fsx/checkpoints/neox-20b
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
  "checkpoint_factor": 500,
  "min_lr": 9.7e-06,
  "lr_decay_style": "cosine"
}
END

# ======== sweep-command
  # ---- inputs: fail now, since a retry would miss the same files -----------------------------
  [[ -r answer.py ]] || fail "no script answer.py in $PWD: correct the spec's command or workdir, or put it there"

# ======== sweep-shapes
# job-1.sh, job-2.sh, job-3.sh:
  # ---- export: copied while the job runs, and once more at its end ---------------------------
  exports=(
    "/fsx/checkpoints/scaling/$point_label" "s3://bucket/scaling/$point_label"
    "$job_dir" "s3://bucket/logs/scaling/$point_name/$SLURM_JOB_ID"
  )
  start_export

# ======== huggingface-torchrun-zero
  # ---- files ---------------------------------------------------------------------------------
  with_timeout run_carried make_safe_folder.sh /fsx/checkpoints/sft closed
  check_origin /fsx/checkpoints/sft
  cat > "$job_dir"/ds_config.json <<'END'
{
  "train_batch_size": 256,
  "train_micro_batch_size_per_gpu": 4,
  "gradient_accumulation_steps": 4,
  "bf16": {"enabled": true},
  "fp16": {"enabled": false},
  "gradient_clipping": "auto",
  "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto", "overlap_comm": true}
}
END

# ======== huggingface-accelerate-fsdp
  # ---- files ---------------------------------------------------------------------------------
  with_timeout run_carried make_safe_folder.sh /fsx/checkpoints/sft closed
  check_origin /fsx/checkpoints/sft
  cat > "$job_dir"/fsdp_config.json <<'END'
{
  "version": 2,
  "reshard_after_forward": true,
  "state_dict_type": "FULL_STATE_DICT",
  "activation_checkpointing": false,
  "cpu_offload": true,
  "transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"]
}
END
  cat > "$job_dir"/accelerate.json <<'END'
{
  "compute_environment": "LOCAL_MACHINE",
  "distributed_type": "MULTI_GPU",
  "mixed_precision": "no"
}
END

  # ---- inputs: fail now, since a retry would miss the same files -----------------------------
  [[ -r /fsx/code/sft.py ]] || fail "no script /fsx/code/sft.py here: correct the spec's script, or put it there"

# ======== huggingface-own-launch-config
  # ---- files ---------------------------------------------------------------------------------
  cat > "$job_dir"/accelerate.json <<'END'
{
  "compute_environment": "LOCAL_MACHINE",
  "distributed_type": "FSDP",
  "mixed_precision": "bf16",
  "debug": false,
  "downcast_bf16": "no",
  "fsdp_config": {
    "fsdp_backward_prefetch": "BACKWARD_PRE",
    "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
    "fsdp_backward_prefetch_policy": "BACKWARD_PRE",
    "fsdp_offload_params": true,
    "fsdp_sharding_strategy": "FULL_SHARD",
    "fsdp_state_dict_type": "SHARDED_STATE_DICT",
    "fsdp_use_orig_params": true
  }
}
END

# ======== accelerate-own-launch-config-zero
  # ---- files ---------------------------------------------------------------------------------
  cat > "$job_dir"/accelerate.json <<'END'
{
  "compute_environment": "LOCAL_MACHINE",
  "distributed_type": "DEEPSPEED",
  "mixed_precision": "bf16",
  "deepspeed_config": {
    "zero_stage": 3,
    "gradient_accumulation_steps": 4,
    "zero3_init_flag": true,
    "deepspeed_multinode_launcher": "standard"
  },
  "dynamo_config": {
    "dynamo_backend": "INDUCTOR"
  }
}
END

# ======== accelerate-cpu
  # ---- files ---------------------------------------------------------------------------------
  cat > "$job_dir"/accelerate.json <<'END'
{
  "compute_environment": "LOCAL_MACHINE",
  "distributed_type": "MULTI_GPU",
  "mixed_precision": "no"
}
END

# ======== accelerate-launch-zero
  # ---- files ---------------------------------------------------------------------------------
  cat > "$job_dir"/ds_config.json <<'END'
{
  "train_batch_size": 256,
  "train_micro_batch_size_per_gpu": 4,
  "gradient_accumulation_steps": 4,
  "bf16": {"enabled": true},
  "zero_optimization": {"stage": 2}
}
END
  cat > "$job_dir"/accelerate.json <<'END'
{
  "compute_environment": "LOCAL_MACHINE",
  "distributed_type": "DEEPSPEED",
  "deepspeed_config": {
    "deepspeed_multinode_launcher": "standard"
  }
}
END

# ======== lightning-p4d
  # ---- files ---------------------------------------------------------------------------------
  with_timeout run_carried make_safe_folder.sh /fsx/checkpoints/vit closed
  check_origin /fsx/checkpoints/vit
  mkdir -p -- "$job_dir"/lightning/clusterjobs.dist-info
  ln -sf -- ../lightning_callback.py "$job_dir"/lightning/
  cat > "$job_dir"/lightning/clusterjobs.dist-info/entry_points.txt <<'END'
[lightning.pytorch.callbacks_factory]
clusterjobs = lightning_callback:for_lightning

[pytorch_lightning.callbacks_factory]
clusterjobs = lightning_callback:for_pytorch_lightning
END

# ======== torchtitan-0.2-srun
  # ---- inputs: fail now, since a retry would miss the same files -----------------------------
  [[ -r my_train.py ]] || fail "no script my_train.py in $PWD: correct the spec's script or workdir, or put it there"

# ======== fairseq-hydra-p4d
  # ---- files ---------------------------------------------------------------------------------
  with_timeout run_carried make_safe_folder.sh '/fsx/checkpoints/roberta-hydra 1' closed
  check_origin '/fsx/checkpoints/roberta-hydra 1'

# ======== everything
  # ---- files ---------------------------------------------------------------------------------
  with_timeout run_carried make_safe_folder.sh '/fsx/checkpoints/every key' closed
  check_origin '/fsx/checkpoints/every key'
  cat > "$job_dir"/ds_config.json <<'END'
{
  "train_batch_size": 64,
  "train_micro_batch_size_per_gpu": 4,
  "gradient_accumulation_steps": 4,
  "bf16": {"enabled": true},
  "zero_optimization": {"stage": 1, "reduce_bucket_size": 500000000},
  "activation_checkpointing": {"partition_activations": true},
  "steps_per_print": 10
}
END

# ======== names-in-other-scripts
  # ---- files ---------------------------------------------------------------------------------
  with_timeout run_carried make_safe_folder.sh '/fsx/checkpoints/Übung-größe-日本語' closed
  check_origin '/fsx/checkpoints/Übung-größe-日本語'

  # ---- inputs: fail now, since a retry would miss the same files -----------------------------
  [[ -r 'träning.py' ]] || fail "no script träning.py in $PWD: correct the spec's script or workdir, or put it there"

# ======== command-torchrun-small
# hello: 2 nodes x 2 ranks (c6i.xlarge), command started by torchrun

#SBATCH --job-name=hello
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=10
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "hello", "spec": {"file": "spec.yaml", "sha256": "b7d02903a79c98033a7753c5c9f118e8b340f2456ab1996d606ec8188d6045d3", "set": []}, "clusterjobs": "0.1.0", "cluster": "small", "framework": "command", "launcher": "torchrun", "content": "081855f56443b680", "derived": {"queue": "train", "instance_type": "c6i.xlarge", "gpus_per_node": 0, "world_size": 4, "ntasks_per_node": 1, "cpus_per_task": 4, "data_parallel": 4, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== command-args-small
# counts: 1 node x 1 rank (c6i.xlarge), command started by srun

#SBATCH --job-name=counts
#SBATCH --partition=train
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=00:05:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "counts", "spec": {"file": "spec.yaml", "sha256": "e8401bac5e38d369bc8a8ad786cae4bc6ec97a6324680cbeddb1090c333fd349", "set": []}, "clusterjobs": "0.1.0", "cluster": "small", "framework": "command", "launcher": "srun", "content": "576523f24b7947e0", "derived": {"launcher": "srun", "queue": "train", "instance_type": "c6i.xlarge", "gpus_per_node": 0, "ranks_per_node": 1, "world_size": 1, "ntasks_per_node": 1, "cpus_per_task": 4, "data_parallel": 1, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== command-srun-p5
# nccl-tests: 2 nodes x 8 GPUs (p5.48xlarge), command started by srun

#SBATCH --job-name=nccl-tests
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=24
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=20
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "nccl-tests", "spec": {"file": "spec.yaml", "sha256": "0d685bdc836653d076b930e68586657f58a69eca2365220f860a2b9fc6c565e9", "set": []}, "clusterjobs": "0.1.0", "cluster": "p5-h100", "framework": "command", "launcher": "srun", "content": "3a7caa0507241f66", "derived": {"launcher": "srun", "queue": "train", "instance_type": "p5.48xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 8, "cpus_per_task": 24, "data_parallel": 16, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== command-srun-pmix
# simulation: 2 nodes x 2 ranks (c6i.xlarge), command started by srun

#SBATCH --job-name=simulation
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=2
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "simulation", "spec": {"file": "spec.yaml", "sha256": "12bbf6290dcc019b566a63536fafd0376b4b831644fa2a8b2fb89b5b774ae313", "set": []}, "clusterjobs": "0.1.0", "cluster": "small", "framework": "command", "launcher": "srun", "content": "43e865b77aeb060b", "derived": {"launcher": "srun", "queue": "train", "instance_type": "c6i.xlarge", "gpus_per_node": 0, "world_size": 4, "ntasks_per_node": 2, "cpus_per_task": 2, "data_parallel": 4, "preflight.packages": "mpi4py==4.1", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== command-mpirun
# simulation: 2 nodes x 8 GPUs (p4d.24xlarge), command started by mpirun

#SBATCH --job-name=simulation
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=12
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "simulation", "spec": {"file": "spec.yaml", "sha256": "d4ccc3ccea675ce8b64b7cfd59289ddb89f5b8dedabbc5661fa1fe2e800aae59", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "command", "launcher": "mpirun", "content": "8dbb948a16abfc8c", "derived": {"queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 8, "cpus_per_task": 12, "data_parallel": 16, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== array-of-commands
# shards: 1 node x 1 rank (c6i.xlarge), command started by srun

#SBATCH --job-name=shards
#SBATCH --partition=train
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=01:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%A_%a.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --array=0-99%10

{"name": "shards", "spec": {"file": "spec.yaml", "sha256": "182af7730add0e0fdebae6a86d73117530643203f7f5de06116c5d18f5b5af98", "set": []}, "clusterjobs": "0.1.0", "cluster": "small", "framework": "command", "launcher": "srun", "content": "11bc80c7b6af7ff4", "origin": "command.shard=7a052753 command.tmp=6980387a command=2073e7e3 framework=015216f4", "derived": {"launcher": "srun", "queue": "train", "instance_type": "c6i.xlarge", "gpus_per_node": 0, "ranks_per_node": 1, "world_size": 1, "ntasks_per_node": 1, "cpus_per_task": 4, "data_parallel": 1, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== shell-with-arguments
# shell: 1 node x 1 rank (c6i.xlarge), command started by srun

#SBATCH --job-name=shell
#SBATCH --partition=train
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "shell", "spec": {"file": "spec.yaml", "sha256": "b0f62e02757ffc90f38a5f6d97a26a757c5c489cd1723e44742a8b039ab7892a", "set": []}, "clusterjobs": "0.1.0", "cluster": "small", "framework": "command", "launcher": "srun", "content": "2ab9e75888925f42", "derived": {"launcher": "srun", "queue": "train", "instance_type": "c6i.xlarge", "gpus_per_node": 0, "ranks_per_node": 1, "world_size": 1, "ntasks_per_node": 1, "cpus_per_task": 4, "data_parallel": 1, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== container-mounts-given-again
# mounts: 2 nodes x 8 GPUs (p4d.24xlarge), torchrun started by its own launcher

#SBATCH --job-name=mounts
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

{"name": "mounts", "spec": {"file": "spec.yaml", "sha256": "f735db32ec2e2482a2727b300fca1d37f17e256f17ec253d5efc8c101a92d228", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "torchrun", "launcher": "torchrun", "content": "16aec81e7a4a4071", "origin": "framework=3b9ebe42 script=4f8d10b9", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 16, "mount /fsx": "/fsx", "mount $job_dir": "$job_dir", "mount /dev/infiniband": "/dev/infiniband", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== container-workdir-inside
# workspace: 2 nodes x 8 GPUs (p4d.24xlarge), torchrun started by its own launcher

#SBATCH --job-name=workspace
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "workspace", "spec": {"file": "spec.yaml", "sha256": "30ec06e314006ec25902d1cb2f12143423378dcf5d95318b74bf3e96afc72927", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "torchrun", "launcher": "torchrun", "content": "ef148ea05f1d2942", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 16, "mount /fsx": "/fsx", "mount /dev/infiniband": "/dev/infiniband", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== container-apptainer-p4d
# gpt: 2 nodes x 8 GPUs (p4d.24xlarge), deepspeed started by srun

#SBATCH --job-name=gpt
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=12
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "gpt", "spec": {"file": "spec.yaml", "sha256": "9fa8b4d9d4dff766af7f28fafbb187924a2040d7287cd8f6eaeef87f1e437cb3", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "deepspeed", "launcher": "srun", "content": "7fd5ec0046664a74", "derived": {"launcher": "srun", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 8, "cpus_per_task": 12, "data_parallel": 16, "batch.accumulation": 2, "ds_config.train_batch_size": 256, "mount /fsx": "/fsx", "mount $job_dir": "$job_dir", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== container-setup-inside
# gpt: 2 nodes x 8 GPUs (p4d.24xlarge), torchrun started by its own launcher

#SBATCH --job-name=gpt
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "gpt", "spec": {"file": "spec.yaml", "sha256": "0cb8f6036796aae1d8633e57dc5ab37e09d0ff43b66900acc7acefd53500bff8", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "torchrun", "launcher": "torchrun", "content": "8fae17e9e02f2515", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 16, "mount /fsx": "/fsx", "mount $SLURM_SUBMIT_DIR/.": "$SLURM_SUBMIT_DIR/.", "mount $job_dir": "$job_dir", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== container-singularity-p4d
# singularity: 2 nodes x 8 GPUs (p4d.24xlarge), deepspeed started by srun

#SBATCH --job-name=singularity
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=12
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "singularity", "spec": {"file": "spec.yaml", "sha256": "700e912cdcbe2645467ed73b192735dd576450b8b8728a6a1eb2268e8a253d24", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "deepspeed", "launcher": "srun", "content": "78fc0cf51ed7bb12", "derived": {"queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 8, "cpus_per_task": 12, "data_parallel": 16, "batch.accumulation": 2, "ds_config.train_batch_size": 256, "mount /fsx": "/fsx", "mount $job_dir": "$job_dir", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== container-shifter-p4d
# shifter: 2 nodes x 8 GPUs (p4d.24xlarge), torchrun started by its own launcher

#SBATCH --job-name=shifter
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "shifter", "spec": {"file": "spec.yaml", "sha256": "2a49c799b5400a8640b0f0300ddc6b48f2767eb29cd5d2addb9862102b15becf", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "torchrun", "launcher": "torchrun", "content": "adc63a2bf0cb814d", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 16, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== container-docker-deepspeed
# bert: 2 nodes x 8 GPUs (p4de.24xlarge), deepspeed started by its own launcher

#SBATCH --job-name=bert
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "bert", "spec": {"file": "spec.yaml", "sha256": "5adbde1eb66b7d86269328da2668fbd43bda48def15b48531435e2ecb58ad4f8", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4de-a100", "framework": "deepspeed", "launcher": "deepspeed", "content": "3f3297a16a82178a", "derived": {"queue": "train", "instance_type": "p4de.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 16, "batch.accumulation": 2, "ds_config.train_batch_size": 256, "data[0]": "/fsx/books: shown by FSx for Lustre, and preloaded before the training", "mount /fsx": "/fsx", "mount $HOME/bert": "$HOME/bert", "mount $job_dir": "$job_dir", "mount /opt/amazon": "/opt/amazon", "container.shm": "547g", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== container-docker-horovod
# hvd: 2 nodes x 8 GPUs (p4d.24xlarge), horovod started by horovodrun

#SBATCH --job-name=hvd
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=1-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@240

{"name": "hvd", "spec": {"file": "spec.yaml", "sha256": "e3cf5b7d5f2933b6c8eaedafcaa91fd936e0293101663a972b07558c36da5868", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "horovod", "launcher": "horovodrun", "content": "ab591bc481d952d0", "origin": "args.note=0c9ab194 framework=5b7adf14 script=4f8d10b9", "derived": {"launcher": "horovodrun", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 16, "horovod.learning_rate_factor": 16, "restarts": "time_limit 20, failure 2, node_failure 3", "watchdog": "ranks that are gone", "asked to save": "by a file", "signal": "USR1, 240 s before the limit", "mount /fsx": "/fsx", "mount /opt/amazon": "/opt/amazon", "container.shm": "547g", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== container-docker-neox
# neox: 2 nodes x 8 GPUs (p4d.24xlarge), gpt-neox started by deepy

#SBATCH --job-name=neox
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=12
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

{"name": "neox", "spec": {"file": "spec.yaml", "sha256": "55bbe0d60681b718090e50c63aea22a00707518d8811e025a33046067c75172e", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "gpt-neox", "launcher": "deepy", "content": "411a70d979652335", "origin": "framework=7fd967b3 script=4f8d10b9", "derived": {"launcher": "deepy", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 8, "cpus_per_task": 12, "data_parallel": 16, "batch.accumulation": 2, "train_batch_size": 128, "mount /fsx": "/fsx", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== data-from-s3
# gpt: 2 nodes x 8 GPUs (p4d.24xlarge), torchrun started by its own launcher

#SBATCH --job-name=gpt
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=1-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

{"name": "gpt", "spec": {"file": "spec.yaml", "sha256": "b1d0081b8003771a8cd6f80e531875881847da61d415cba329da3e27d00e85b1", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "torchrun", "launcher": "torchrun", "content": "9643f9311ff8b43d", "origin": "args.data=e5cf68a1 framework=3b9ebe42 script=4f8d10b9", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 16, "data[0]": "/fsx/corpus/books: shown by FSx for Lustre, and preloaded before the training", "checkpoints.export": "s3://my-corpus/saved/gpt: exported by FSx for Lustre", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== data-of-all-kinds
# gpt: 2 nodes x 8 GPUs (p4d.24xlarge), torchrun started by its own launcher

#SBATCH --job-name=gpt
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=1-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@240

{"name": "gpt", "spec": {"file": "spec.yaml", "sha256": "0c897690d3643add83f56daedb486765cd653b668c15bbf9b5995edf04847a80", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "torchrun", "launcher": "torchrun", "content": "8089ed23a7ce12b8", "origin": "args.data=9b7293b3 args.vocab=d44a2d19 framework=3b9ebe42 script=4f8d10b9", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 16, "restarts": "time_limit 5, failure 0, node_failure 3", "watchdog": "ranks that are gone", "asked to save": "by a file", "signal": "USR1, 240 s before the limit", "data[0]": "/fsx/corpus/books: shown by FSx for Lustre, and preloaded before the training", "data[1]": "/scratch/books: copied to every node's own disk", "data[2]": "/scratch/vocab: copied to every node's own disk", "data[3]": "/fsx/eval sets/${USER}: unpacked once, for all nodes", "data[4]": "/fsx/more: copied once, for all nodes", "checkpoints.export": "/home/ubuntu/saved: copied by the job", "logs.export": "s3://my-corpus/logs: copied by the job", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== deepspeed-srun-p4d
# gpt2-345m: 2 nodes x 8 GPUs (p4d.24xlarge), deepspeed started by srun

#SBATCH --job-name=gpt2-345m
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=12
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=2-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

{"name": "gpt2-345m", "spec": {"file": "spec.yaml", "sha256": "ea326e5b48933ba2f753860813209688b6ccd5156bf3807d3d389d7b05886049", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "deepspeed", "launcher": "srun", "content": "a143e2f14d1091ce", "origin": "args.lr-decay-style=ba7d0ee7 args.lr=2e9e2ebe framework=3442dbf7 script=dd3d8776", "derived": {"launcher": "srun", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 8, "cpus_per_task": 12, "data_parallel": 16, "batch.accumulation": 2, "ds_config.train_batch_size": 256, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== deepspeed-torchrun-p4de
# llama-7b: 4 nodes x 8 GPUs (p4de.24xlarge), deepspeed started by torchrun

#SBATCH --job-name=llama-7b
#SBATCH --partition=train
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=12:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "llama-7b", "spec": {"file": "spec.yaml", "sha256": "9fed5e1ee3f9d0b5e437eee9fbb6197c537e0eaf52c886186de5c26df5cf2f65", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4de-a100", "framework": "deepspeed", "launcher": "torchrun", "content": "322d15d5707b0f1b", "derived": {"queue": "train", "instance_type": "p4de.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 32, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 32, "batch.global": 512, "ds_config.train_batch_size": 512, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== deepspeed-launcher-p3dn
# bert-large: 4 nodes x 8 GPUs (p3dn.24xlarge), deepspeed started by its own launcher

#SBATCH --job-name=bert-large
#SBATCH --partition=train
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=48
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=1440
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

{"name": "bert-large", "spec": {"file": "spec.yaml", "sha256": "cca433db53a35787bb02f2df092c1da532045efb3652ced0f8207ebad7c03cb5", "set": []}, "clusterjobs": "0.1.0", "cluster": "p3dn-v100", "framework": "deepspeed", "launcher": "deepspeed", "content": "f5771e86ba04bb7c", "origin": "args.fp16-opt=b5bea41b args.max-seq-length=94f86079 ds_config.fp16.initial_scale_power=b17ef6d1 ds_config.optimizer.params.lr=8d938122 ds_config.optimizer.params.weight_decay=312b95ee ds_config.optimizer.type=ba2da719 framework=3442dbf7 parallel.pipeline=d4735e3a script=ec659c6a", "derived": {"queue": "train", "instance_type": "p3dn.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 32, "ntasks_per_node": 1, "cpus_per_task": 48, "data_parallel": 16, "batch.micro": 16, "ds_config.train_batch_size": 4096, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== deepspeed-launcher-with-prefix
# profiled-ds: 2 nodes x 8 GPUs (p3dn.24xlarge), deepspeed started by its own launcher

#SBATCH --job-name=profiled-ds
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=48
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=30
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "profiled-ds", "spec": {"file": "spec.yaml", "sha256": "4256e95ad9a846a01dc6437451bd05b3f403a92ec06f35aea07679a1b7de4923", "set": []}, "clusterjobs": "0.1.0", "cluster": "p3dn-v100", "framework": "deepspeed", "launcher": "deepspeed", "content": "c2d7ba82a7cc7e95", "derived": {"queue": "train", "instance_type": "p3dn.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 48, "data_parallel": 16, "batch.accumulation": 1, "batch.global": 16, "ds_config.train_batch_size": 16, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== deepspeed-pdsh-p4d
# ds-pdsh: 2 nodes x 8 GPUs (p4d.24xlarge), deepspeed started by deepspeed-pdsh

#SBATCH --job-name=ds-pdsh
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "ds-pdsh", "spec": {"file": "spec.yaml", "sha256": "0b2e49f7f59df8b47ff084f0660444e9d37a688160e20fbe7d631f1940f0dac3", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "deepspeed", "launcher": "deepspeed-pdsh", "content": "b3519b634b19a0b6", "derived": {"queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 16, "batch.accumulation": 2, "ds_config.train_batch_size": 256, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== accelerate-on-pcs
# sft-mistral: 2 nodes x 8 GPUs (p4d.24xlarge), huggingface started by accelerate

#SBATCH --job-name=sft-mistral
#SBATCH --partition=gpu
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=1-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

{"name": "sft-mistral", "spec": {"file": "accelerate-on-pcs.yaml", "sha256": "3b6aef8025039993672983fca90dc2ce90bee1c35de4154e35cf6d6307f9d3d8", "set": []}, "clusterjobs": "0.1.0", "cluster": "pcs-p4d", "framework": "huggingface", "launcher": "accelerate", "content": "d083071d9732ad46", "origin": "framework=8c8e2322 script=87abaa2c", "derived": {"queue": "gpu", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 16, "batch.accumulation": 4, "ds_config.train_batch_size": 128, "resume": "--resume_from_checkpoint with the newest complete checkpoint-N, if there is one", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== bloom-without-partition
# bloom-small: 8 nodes x 4 GPUs (v100-32g), deepspeed started by srun

#SBATCH --job-name=bloom-small
#SBATCH --nodes=8
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=10
#SBATCH --gres=gpu:4
#SBATCH --constraint=v100-32g
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=20:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --account=abc@v100
#SBATCH --qos=qos_gpu-t3
#SBATCH --hint=nomultithread

{"name": "bloom-small", "spec": {"file": "bloom-without-partition.yaml", "sha256": "d5cb2cce8173dcc1a701a2c28540023fd5310e4566c008418970fccb989a0ce8", "set": []}, "clusterjobs": "0.1.0", "cluster": "no-partition", "framework": "deepspeed", "launcher": "srun", "content": "ef0184eafd228e7b", "origin": "args.data=c434db87 framework=3442dbf7 script=4f8d10b9", "derived": {"queue": "gpu_p13", "gpus_per_node": 4, "ranks_per_node": 4, "world_size": 32, "ntasks_per_node": 4, "cpus_per_task": 10, "data_parallel": 32, "batch.accumulation": 4, "ds_config.train_batch_size": 512, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== deepspeed-without-gres
# bert-zero: 4 nodes x 4 GPUs (a40), deepspeed started by srun

#SBATCH --job-name=bert-zero
#SBATCH --partition=gpu
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=16
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=2-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

{"name": "bert-zero", "spec": {"file": "deepspeed-without-gres.yaml", "sha256": "2a708af8df57236d1048a0ffd67a48911f904703a4115f5b22e645ff4a96d3fe", "set": []}, "clusterjobs": "0.1.0", "cluster": "no-gres", "framework": "deepspeed", "launcher": "srun", "content": "1199203899e38913", "origin": "args.data=c0cb94f2 framework=3442dbf7 script=4f8d10b9", "derived": {"launcher": "srun", "queue": "gpu", "instance_type": "a40", "gpus_per_node": 4, "ranks_per_node": 4, "world_size": 16, "ntasks_per_node": 4, "cpus_per_task": 16, "data_parallel": 16, "batch.accumulation": 4, "ds_config.train_batch_size": 1024, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== fsdp-gpus-per-task
# fsdp-13b: 32 nodes x 8 GPUs (mi250x), torchrun started by srun

#SBATCH --job-name=fsdp-13b
#SBATCH --partition=batch
#SBATCH --nodes=32
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=14
#SBATCH --gpus-per-task=1
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=2:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue
#SBATCH --account=abc123
#SBATCH --constraint=nvme

{"name": "fsdp-13b", "spec": {"file": "fsdp-gpus-per-task.yaml", "sha256": "0a56b1a2d98e705dcea4fbd5b62742c58b4dfb92a08f22c836a474b4b26b8099", "set": []}, "clusterjobs": "0.1.0", "cluster": "slingshot-gpus-per-task", "framework": "torchrun", "launcher": "srun", "content": "622878970eb9b1c5", "derived": {"queue": "batch", "instance_type": "mi250x", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 256, "ntasks_per_node": 8, "cpus_per_task": 14, "data_parallel": 256, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== lightning-in-singularity
# protein-lm: 16 nodes x 4 GPUs (booster), lightning started by srun

#SBATCH --job-name=protein-lm
#SBATCH --partition=boost_usr_prod
#SBATCH --nodes=16
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --gres=gpu:4
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=1-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --account=Abc_Tokens
#SBATCH --qos=normal

{"name": "protein-lm", "spec": {"file": "lightning-in-singularity.yaml", "sha256": "eec7611048e4d02a1a9a2d4d86d2f29887f11baf5c40e14a717ec5d10fa245a9", "set": []}, "clusterjobs": "0.1.0", "cluster": "accounts-and-qos", "framework": "lightning", "launcher": "srun", "content": "d8b0b63875c37999", "origin": "args.config=d64fbee5 framework=7d50d4b8 script=4f8d10b9", "derived": {"launcher": "srun", "queue": "boost_usr_prod", "instance_type": "booster", "gpus_per_node": 4, "ranks_per_node": 4, "world_size": 64, "ntasks_per_node": 4, "cpus_per_task": 8, "data_parallel": 64, "mount /leonardo": "/leonardo", "mount /leonardo_work": "/leonardo_work", "mount /leonardo_scratch": "/leonardo_scratch", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== llama-on-amd
# llama-sft: 4 nodes x 8 GPUs (mi250x), torchrun started by srun

#SBATCH --job-name=llama-sft
#SBATCH --partition=standard-g
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=14
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=1-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --account=project_465000001

{"name": "llama-sft", "spec": {"file": "llama-on-amd.yaml", "sha256": "21f2e7dc0eddb84a8b72c9d68fd95f71cdbdc2687d19a92e80014accbe915816", "set": []}, "clusterjobs": "0.1.0", "cluster": "slingshot-mi250x", "framework": "torchrun", "launcher": "srun", "content": "3f87b3c0deb192c0", "origin": "args.model=ec0432a2 framework=3b9ebe42 script=4f8d10b9", "derived": {"instance_type": "mi250x", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 32, "ntasks_per_node": 8, "cpus_per_task": 14, "data_parallel": 32, "mount /users": "/users", "mount /project": "/project", "mount /scratch": "/scratch", "mount /flash": "/flash", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== llama-on-hyperpod
# llama-8b: 8 nodes x 8 GPUs (p5.48xlarge), torchrun started by its own launcher

#SBATCH --job-name=llama-8b
#SBATCH --partition=dev
#SBATCH --nodes=8
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=192
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=5-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@240

{"name": "llama-8b", "spec": {"file": "llama-on-hyperpod.yaml", "sha256": "7ad165e02937ae59d72bc875cb35f951abb3032da86b2c7e5ffd41f0ffcf3dfb", "set": []}, "clusterjobs": "0.1.0", "cluster": "hyperpod-p5", "framework": "torchrun", "launcher": "torchrun", "content": "d528bc38268c1242", "origin": "args.config=bfe7427d framework=3b9ebe42 script=4f8d10b9", "derived": {"container runtime": "pyxis", "launcher": "torchrun", "queue": "dev", "instance_type": "p5.48xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 64, "ntasks_per_node": 1, "cpus_per_task": 192, "data_parallel": 64, "auto-resume": "srun --auto-resume=1", "restarts": "time_limit 3, failure 0, node_failure 3", "asked to save": "by a file", "signal": "USR1, 240 s before the limit", "preflight.gpus": "8", "preflight.processes": "yes", "preflight.efa": "32", "preflight.memlock": "yes", "preflight.shm": "1", "preflight.lustre /fsx": "/fsx", "preflight.folder": "$job_dir", "preflight.space $job_dir": "10:$job_dir", "preflight.folder /fsx/checkpoints/llama-8b": "/fsx/checkpoints/llama-8b", "preflight.space /fsx/checkpoints/llama-8b": "10:/fsx/checkpoints/llama-8b", "preflight.space /tmp": "1:/tmp", "preflight.clock": "5", "preflight.network": "yes", "preflight.names": "yes", "preflight.port": "yes", "preflight.containers": "yes", "mount /fsx": "/fsx", "mount /dev/infiniband": "/dev/infiniband", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== megatron-on-a3-mega
# gpt-13b: 2 nodes x 8 GPUs (a3-megagpu-8g), megatron-lm started by torchrun

#SBATCH --job-name=gpt-13b
#SBATCH --partition=a3mega
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=208
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=1-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

{"name": "gpt-13b", "spec": {"file": "megatron-on-a3-mega.yaml", "sha256": "95d92431c065a2cdc3d31aa7e234ccc0048be21a55070f05596c3780705e60d6", "set": []}, "clusterjobs": "0.1.0", "cluster": "gcp-a3-mega", "framework": "megatron-lm", "launcher": "torchrun", "content": "6ad0461efaf679f6", "origin": "args.lr=e539aeba args.merge-file=b5fca458 args.vocab-file=c411f3f3 framework=2a470d0f model.heads=d59eced1 model.hidden=59dac69c model.layers=d59eced1 model.sequence=8b926d75 model.vocab=e561018e parallel.tensor=2c624232 script=6fbf0b36", "derived": {"container runtime": "pyxis", "launcher": "torchrun", "queue": "a3mega", "instance_type": "a3-megagpu-8g", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 208, "data_parallel": 2, "model.vocab_padded": 51200, "batch.accumulation": 32, "mount /home": "/home", "mount /gcs": "/gcs", "mount /var/lib/tcpxo/lib64": "/var/lib/tcpxo/lib64", "mount /dev/aperture_devices": "/dev/aperture_devices", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== megatron-on-dgx
# gpt-20b: 8 nodes x 8 GPUs (dgx-a100), megatron-lm started by torchrun

#SBATCH --job-name=gpt-20b
#SBATCH --partition=batch
#SBATCH --nodes=8
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=256
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=4-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@240
#SBATCH --account=research
#SBATCH --qos=normal

{"name": "gpt-20b", "spec": {"file": "megatron-on-dgx.yaml", "sha256": "b2a695049325df06aac3f5806fb0bf9db3dacf8ef3aff719c5166ff629db0ce3", "set": []}, "clusterjobs": "0.1.0", "cluster": "dgx-pod", "framework": "megatron-lm", "launcher": "torchrun", "content": "66267c23b26a62c2", "origin": "args.lr=e539aeba args.merge-file=48da596a args.vocab-file=3ced4ce5 framework=2a470d0f model.heads=98010bd9 model.hidden=0ac51e0d model.layers=71ee45a3 model.sequence=bfa0ec8b model.vocab=e561018e parallel.pipeline=d4735e3a parallel.tensor=2c624232 script=6fbf0b36", "derived": {"container runtime": "pyxis", "launcher": "torchrun", "queue": "batch", "instance_type": "dgx-a100", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 64, "ntasks_per_node": 1, "cpus_per_task": 256, "data_parallel": 4, "model.vocab_padded": 51200, "batch.accumulation": 32, "restarts": "time_limit 5, failure 2, node_failure 3", "watchdog": "ranks that are gone", "asked to save": "by the clock", "signal": "USR1, 240 s before the limit", "exit duration": "the whole minutes until 420 s before the limit", "preflight.gpus": "8", "preflight.processes": "yes", "preflight.infiniband": "8", "preflight.memlock": "yes", "preflight.shm": "1", "preflight.mount /home": "/home", "preflight.lustre /lustre": "/lustre", "preflight.folder": "$job_dir", "preflight.space $job_dir": "10:$job_dir", "preflight.folder /lustre/research/checkpoints/gpt-20b": "/lustre/research/checkpoints/gpt-20b", "preflight.space /lustre/research/checkpoints/gpt-20b": "10:/lustre/research/checkpoints/gpt-20b", "preflight.space /tmp": "1:/tmp", "preflight.clock": "5", "preflight.network": "yes", "preflight.names": "yes", "preflight.port": "yes", "preflight.containers": "yes", "mount /home": "/home", "mount /lustre": "/lustre", "mount /dev/infiniband": "/dev/infiniband", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one", "preflight.arguments": "asked of megatron-lm"}}

# ======== megatron-on-gpfs
# gpt-7b: 16 nodes x 4 GPUs (a100), megatron-lm started by torchrun

#SBATCH --job-name=gpt-7b
#SBATCH --partition=booster
#SBATCH --nodes=16
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gres=gpu:4
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=1-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@240
#SBATCH --account=abc1

{"name": "gpt-7b", "spec": {"file": "megatron-on-gpfs.yaml", "sha256": "6fdbd2e746e24c03daf8a6c7626873e752c21d28a562a55df89a419133dc2607", "set": []}, "clusterjobs": "0.1.0", "cluster": "booster", "framework": "megatron-lm", "launcher": "torchrun", "content": "b6d69a6a5e2837eb", "origin": "args.lr=fb2623fa args.tokenizer-model=fe472c89 args.tokenizer-type=59974722 framework=2a470d0f model.heads=e29c9c18 model.hidden=8b926d75 model.layers=e29c9c18 model.sequence=8b926d75 model.vocab=492f431b parallel.tensor=4b227777 script=6fbf0b36", "derived": {"launcher": "torchrun", "instance_type": "a100", "gpus_per_node": 4, "ranks_per_node": 4, "world_size": 64, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 16, "model.vocab_padded": 32256, "batch.accumulation": 32, "restarts": "time_limit 10, failure 2, node_failure 3", "watchdog": "ranks that are gone", "asked to save": "by the clock", "signal": "USR1, 240 s before the limit", "exit duration": "the whole minutes until 420 s before the limit", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST + i, its address in the fast network", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== roberta-on-ethernet
# roberta: 2 nodes x 4 GPUs (v100), fairseq started by srun

#SBATCH --job-name=roberta
#SBATCH --partition=main
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=10
#SBATCH --gres=gpu:4
#SBATCH --constraint=v100
#SBATCH --time=3-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --mem=180G

{"name": "roberta", "spec": {"file": "roberta-on-ethernet.yaml", "sha256": "073b35455f6e6c4f8fcf11adeaaa234f9d9621c5539e81c9450981f2ea7ac943", "set": []}, "clusterjobs": "0.1.0", "cluster": "department", "framework": "fairseq", "launcher": "srun", "content": "6ef2e863c219cf7f", "origin": "args.lr-scheduler=4c1cb3d0 args.lr=2a649477 args.optimizer=42a2507a framework=f1a1d4b9", "derived": {"launcher": "srun", "ranks_per_node": 4, "world_size": 8, "ntasks_per_node": 4, "cpus_per_task": 10, "data_parallel": 8, "batch.accumulation": 16, "fairseq.distributed_world_size": 8, "fairseq.update_freq": 16, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== torchrun-on-a3-high
# llama-fsdp: 4 nodes x 8 GPUs (a3-highgpu-8g), torchrun started by its own launcher

#SBATCH --job-name=llama-fsdp
#SBATCH --partition=a3
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=208
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=12:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "llama-fsdp", "spec": {"file": "torchrun-on-a3-high.yaml", "sha256": "c84827ba11c695ae0dc995b828f1ef101b3227e2129d098e8f40af35e75c27ec", "set": []}, "clusterjobs": "0.1.0", "cluster": "gcp-a3-high", "framework": "torchrun", "launcher": "torchrun", "content": "84b355428ab11d3d", "derived": {"container runtime": "pyxis", "launcher": "torchrun", "queue": "a3", "instance_type": "a3-highgpu-8g", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 32, "ntasks_per_node": 1, "cpus_per_task": 208, "data_parallel": 32, "mount /home": "/home", "mount /var/lib/tcpx/lib64": "/var/lib/tcpx/lib64", "mount /run/tcpx-$SLURM_JOB_ID": "/run/tcpx-$SLURM_JOB_ID", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== torchtitan-on-grace-hopper
# llama3-8b: 16 nodes x 4 GPUs (gh200), torchtitan started by srun

#SBATCH --job-name=llama3-8b
#SBATCH --partition=normal
#SBATCH --nodes=16
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=72
#SBATCH --gpus-per-node=4
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=12:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --account=a-g123

{"name": "llama3-8b", "spec": {"file": "torchtitan-on-grace-hopper.yaml", "sha256": "081738a0b1d782af02e9445977fa0ccc32848d5475482ce9102432006ec6fe74", "set": []}, "clusterjobs": "0.1.0", "cluster": "grace-hopper", "framework": "torchtitan", "launcher": "srun", "content": "8807952ca79dc0b8", "origin": "framework=0c2502fe", "derived": {"instance_type": "gh200", "gpus_per_node": 4, "ranks_per_node": 4, "world_size": 64, "ntasks_per_node": 4, "cpus_per_task": 72, "data_parallel": 64, "batch.accumulation": 1, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== vit-in-shifter
# vit: 8 nodes x 4 GPUs (gpu), torchrun started by srun

#SBATCH --job-name=vit
#SBATCH --nodes=8
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=32
#SBATCH --gpus-per-node=4
#SBATCH --constraint=gpu
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=12:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue
#SBATCH --account=m1234_g
#SBATCH --qos=regular

{"name": "vit", "spec": {"file": "vit-in-shifter.yaml", "sha256": "4b8718f81a1a48f77d4c648972ebcf07bd8a4b71f6d8aeddbc6afb152353725b", "set": []}, "clusterjobs": "0.1.0", "cluster": "slingshot-a100", "framework": "torchrun", "launcher": "srun", "content": "17636b3398a05cee", "derived": {"container runtime": "shifter", "queue": "regular", "gpus_per_node": 4, "ranks_per_node": 4, "world_size": 32, "ntasks_per_node": 4, "cpus_per_task": 32, "data_parallel": 32, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== gpt-neox-2node-gcp
# gpt-neox-gcp: 2 nodes x 8 GPUs (a2-highgpu-8g), gpt-neox started by deepy

#SBATCH --job-name=gpt-neox-gcp
#SBATCH --partition=a2
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=6
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=1-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

{"name": "gpt-neox-gcp", "spec": {"file": "gpt-neox-2node-gcp.yaml", "sha256": "d54dc068df1eae1cca03fb9ab983398afa816c72b22ba30aae706d82720f8e71", "set": []}, "clusterjobs": "0.1.0", "cluster": "gcp-a2", "framework": "gpt-neox", "launcher": "deepy", "content": "390113faed4dd5d7", "origin": "framework=7fd967b3 script=4f8d10b9", "derived": {"launcher": "deepy", "queue": "a2", "instance_type": "a2-highgpu-8g", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 8, "cpus_per_task": 6, "data_parallel": 16, "batch.global": 64, "train_batch_size": 64, "preflight.gpus": "8", "preflight.processes": "yes", "preflight.gvnic": "yes", "preflight.shm": "1", "preflight.mount /home": "/home", "preflight.folder": "$job_dir", "preflight.space $job_dir": "10:$job_dir", "preflight.folder /home/research/checkpoints/gpt-neox-gcp": "/home/research/checkpoints/gpt-neox-gcp", "preflight.space /home/research/checkpoints/gpt-neox-gcp": "10:/home/research/checkpoints/gpt-neox-gcp", "preflight.space /tmp": "1:/tmp", "preflight.clock": "5", "preflight.network": "yes", "preflight.names": "yes", "preflight.port": "yes", "mount /home": "/home", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one", "preflight.arguments": "asked of gpt-neox"}}

# ======== bert-large-p3dn
# bert-large: 8 nodes x 8 GPUs (p3dn.24xlarge), fairseq started by srun

#SBATCH --job-name=bert-large
#SBATCH --partition=train
#SBATCH --nodes=8
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=6
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=2-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

{"name": "bert-large", "spec": {"file": "bert-large-p3dn.yaml", "sha256": "441d597c2c0869041a757e273bc1c01f864a97991395b334e4688a5d181a96a6", "set": []}, "clusterjobs": "0.1.0", "cluster": "p3dn-v100", "framework": "fairseq", "launcher": "srun", "content": "b5b6616fcc39da8b", "origin": "args.adam-betas=631b7b85 args.adam-eps=11871324 args.attention-dropout=14be4b45 args.clip-norm=8aed642b args.dropout=14be4b45 args.lr-scheduler=4c1cb3d0 args.lr=ad649df6 args.memory-efficient-fp16=b5bea41b args.optimizer=42a2507a args.sample-break-mode=575951db args.weight-decay=312b95ee framework=f1a1d4b9 model.heads=b17ef6d1 model.hidden=e39eef82 model.layers=c2356069 model.sequence=94f86079", "derived": {"launcher": "srun", "queue": "train", "instance_type": "p3dn.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 64, "ntasks_per_node": 8, "cpus_per_task": 6, "data_parallel": 64, "batch.accumulation": 8, "fairseq.distributed_world_size": 64, "fairseq.update_freq": 8, "preflight.gpus": "8", "preflight.processes": "yes", "preflight.efa": "1", "preflight.memlock": "yes", "preflight.shm": "1", "preflight.lustre /fsx": "/fsx", "preflight.folder": "$job_dir", "preflight.space $job_dir": "10:$job_dir", "preflight.folder /fsx/checkpoints/bert-large": "/fsx/checkpoints/bert-large", "preflight.space /fsx/checkpoints/bert-large": "10:/fsx/checkpoints/bert-large", "preflight.space /tmp": "1:/tmp", "preflight.clock": "5", "preflight.network": "yes", "preflight.names": "yes", "preflight.port": "yes", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one", "preflight.arguments": "asked of fairseq"}}

# ======== gpt-neox-20b
# gpt-neox-20b: 12 nodes x 8 GPUs (p4d.24xlarge), gpt-neox started by deepy

#SBATCH --job-name=gpt-neox-20b
#SBATCH --partition=train
#SBATCH --nodes=12
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=12
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=7-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

{"name": "gpt-neox-20b", "spec": {"file": "gpt-neox-20b.yaml", "sha256": "fd37d3c95d8626713b02f0f56dfee1f3123c69b430483221c6d903e75d54266a", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "gpt-neox", "launcher": "deepy", "content": "b5a09f4662228cbf", "origin": "framework=7fd967b3 model.heads=a68b412c model.hidden=0ac51e0d model.layers=71ee45a3 model.sequence=bfa0ec8b model.vocab=e561018e parallel.pipeline=4b227777 parallel.tensor=d4735e3a script=4f8d10b9", "derived": {"launcher": "deepy", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 96, "ntasks_per_node": 8, "cpus_per_task": 12, "data_parallel": 12, "model.vocab_padded": 50432, "batch.accumulation": 32, "train_batch_size": 1536, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== gpt-neox-2node-docker
# gpt-neox-docker: 2 nodes x 8 GPUs (p4d.24xlarge), gpt-neox started by deepy

#SBATCH --job-name=gpt-neox-docker
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=12
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=1-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

{"name": "gpt-neox-docker", "spec": {"file": "gpt-neox-2node-docker.yaml", "sha256": "c6ec216271e07c4d37e9b55c4b0e798132db31b8e5e22e16daac3ee2f6fb3e4e", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "gpt-neox", "launcher": "deepy", "content": "014ddb867cfeb6ad", "origin": "framework=7fd967b3 script=4f8d10b9", "derived": {"launcher": "deepy", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 8, "cpus_per_task": 12, "data_parallel": 16, "batch.global": 64, "train_batch_size": 64, "preflight.gpus": "8", "preflight.processes": "yes", "preflight.efa": "4", "preflight.memlock": "yes", "preflight.shm": "1", "preflight.lustre /fsx": "/fsx", "preflight.folder": "$job_dir", "preflight.space $job_dir": "10:$job_dir", "preflight.folder /fsx/checkpoints/gpt-neox-docker": "/fsx/checkpoints/gpt-neox-docker", "preflight.space /fsx/checkpoints/gpt-neox-docker": "10:/fsx/checkpoints/gpt-neox-docker", "preflight.space /tmp": "1:/tmp", "preflight.clock": "5", "preflight.network": "yes", "preflight.names": "yes", "preflight.port": "yes", "mount /fsx": "/fsx", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one", "preflight.arguments": "asked of gpt-neox"}}

# ======== gpt-neox-2node
# gpt-neox-small: 2 nodes x 8 GPUs (p4d.24xlarge), gpt-neox started by deepy

#SBATCH --job-name=gpt-neox-small
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=12
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=1-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

{"name": "gpt-neox-small", "spec": {"file": "gpt-neox-2node.yaml", "sha256": "c902fc2c0cd8e4dc2cdfa42be595e9236884f6aa83bc9675bd9d59f2959ff000", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "gpt-neox", "launcher": "deepy", "content": "7895a7ebfd09a73c", "origin": "framework=7fd967b3 script=4f8d10b9", "derived": {"launcher": "deepy", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 8, "cpus_per_task": 12, "data_parallel": 16, "batch.global": 64, "train_batch_size": 64, "preflight.gpus": "8", "preflight.processes": "yes", "preflight.efa": "4", "preflight.memlock": "yes", "preflight.shm": "1", "preflight.lustre /fsx": "/fsx", "preflight.folder": "$job_dir", "preflight.space $job_dir": "10:$job_dir", "preflight.folder /fsx/checkpoints/gpt-neox-small": "/fsx/checkpoints/gpt-neox-small", "preflight.space /fsx/checkpoints/gpt-neox-small": "10:/fsx/checkpoints/gpt-neox-small", "preflight.space /tmp": "1:/tmp", "preflight.clock": "5", "preflight.network": "yes", "preflight.names": "yes", "preflight.port": "yes", "preflight.packages": "torch,deepspeed", "preflight.build": "yes", "preflight.helpers /megatron/data": "$PWD/megatron/data", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one", "preflight.arguments": "asked of gpt-neox"}}

# ======== gpt2-345m-4gpu
# gpt2-345m-4gpu: 1 node x 4 GPUs (p4de.24xlarge), megatron-deepspeed started by deepspeed

#SBATCH --job-name=gpt2-345m-4gpu
#SBATCH --partition=train
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=4
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=2-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

{"name": "gpt2-345m-4gpu", "spec": {"file": "gpt2-345m-4gpu.yaml", "sha256": "f97314bf2d108e87f1a552318757c3969535eb9bfd4c46a4139890643d1a9cf3", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4de-a100", "framework": "megatron-deepspeed", "launcher": "deepspeed", "content": "2b06401a6381460d", "origin": "args.clip-grad=d0ff5974 args.data-impl=da212edb args.lr-decay-style=ba7d0ee7 args.lr=2e9e2ebe args.merge-file=8f501246 args.min-lr=5a9530d3 args.no-masked-softmax-fusion=b5bea41b args.override-opt_param-scheduler=b5bea41b args.seed=03ac6742 args.split=56b6300d args.tokenizer-type=4b8397f9 args.vocab-file=9764552d args.weight-decay=312b95ee ds_config.optimizer.params.betas=5b0398c1 ds_config.optimizer.params.lr=2e9e2ebe ds_config.optimizer.type=ebdf4a98 ds_config.steps_per_print=6b86b273 ds_config.wandb.enabled=b5bea41b ds_config.wandb.project=ea3c753b framework=ea3c753b model.heads=b17ef6d1 model.hidden=e39eef82 model.layers=c2356069 model.sequence=e39eef82 model.vocab=e561018e script=6fbf0b36", "derived": {"queue": "train", "instance_type": "p4de.24xlarge", "ranks_per_node": 4, "world_size": 4, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 4, "model.vocab_padded": 50304, "batch.accumulation": 1, "ds_config.train_batch_size": 32, "preflight.gpus": "4", "preflight.processes": "yes", "preflight.efa": "4", "preflight.memlock": "yes", "preflight.shm": "1", "preflight.lustre /fsx": "/fsx", "preflight.space $job_dir": "10:$job_dir", "preflight.space /fsx/checkpoints/gpt2-345m-4gpu": "10:/fsx/checkpoints/gpt2-345m-4gpu", "preflight.space /tmp": "1:/tmp", "preflight.clock": "5", "preflight.network": "yes", "preflight.names": "yes", "preflight.port": "yes", "preflight.packages": "torch,deepspeed", "preflight.imports": "torch,apex.multi_tensor_apply,amp_C", "preflight.build": "yes", "preflight.helpers /megatron/data": "$PWD/megatron/data", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one", "preflight.arguments": "asked of megatron-deepspeed"}}

# ======== gpt2-345m-1gpu
# gpt2-345m-1gpu: 1 node x 1 GPU (p4d.24xlarge), megatron-deepspeed started by srun

#SBATCH --job-name=gpt2-345m-1gpu
#SBATCH --partition=train
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=1
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=2-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

{"name": "gpt2-345m-1gpu", "spec": {"file": "gpt2-345m-1gpu.yaml", "sha256": "501b46bab2a4f7e479bdaed5435c50f7df9cfa119b71d807c017ea2e4c9cd6b8", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "megatron-deepspeed", "launcher": "srun", "content": "b4f9b0a248742af2", "origin": "args.clip-grad=d0ff5974 args.data-impl=da212edb args.distributed-backend=300b88cf args.lr-decay-style=ba7d0ee7 args.lr-warmup-fraction=312b95ee args.lr=2e9e2ebe args.merge-file=8f501246 args.min-lr=5a9530d3 args.split=56b6300d args.tokenizer-type=4b8397f9 args.vocab-file=9764552d args.weight-decay=312b95ee framework=ea3c753b model.heads=b17ef6d1 model.hidden=e39eef82 model.layers=c2356069 model.sequence=e39eef82 model.vocab=e561018e script=6fbf0b36", "derived": {"queue": "train", "instance_type": "p4d.24xlarge", "ranks_per_node": 1, "world_size": 1, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 1, "model.vocab_padded": 50304, "batch.accumulation": 2, "preflight.gpus": "1", "preflight.processes": "yes", "preflight.efa": "4", "preflight.memlock": "yes", "preflight.lustre /fsx": "/fsx", "preflight.space $job_dir": "10:$job_dir", "preflight.space /fsx/checkpoints/gpt2-345m-1gpu": "10:/fsx/checkpoints/gpt2-345m-1gpu", "preflight.space /tmp": "1:/tmp", "preflight.clock": "5", "preflight.network": "yes", "preflight.names": "yes", "preflight.port": "yes", "preflight.packages": "torch,deepspeed", "preflight.imports": "torch,apex.multi_tensor_apply,amp_C", "preflight.build": "yes", "preflight.helpers /megatron/data": "$PWD/megatron/data", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one", "preflight.arguments": "asked of megatron-deepspeed"}}

# ======== gpt2-345m
# gpt2-345m: 1 node x 8 GPUs (p4d.24xlarge), megatron-deepspeed started by torchrun

#SBATCH --job-name=gpt2-345m
#SBATCH --partition=train
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=2-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

{"name": "gpt2-345m", "spec": {"file": "gpt2-345m.yaml", "sha256": "6ab1ab21b1fefdd85d2850c008296fb36fdc607aa56e3fba4d1f0fcbe9a87193", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "megatron-deepspeed", "launcher": "torchrun", "content": "12d018ec954055f8", "origin": "args.clip-grad=d0ff5974 args.data-impl=da212edb args.distributed-backend=300b88cf args.lr-decay-style=ba7d0ee7 args.lr-warmup-fraction=312b95ee args.lr=2e9e2ebe args.merge-file=8f501246 args.min-lr=5a9530d3 args.split=56b6300d args.tokenizer-type=4b8397f9 args.vocab-file=9764552d args.weight-decay=312b95ee framework=ea3c753b model.heads=b17ef6d1 model.hidden=e39eef82 model.layers=c2356069 model.sequence=e39eef82 model.vocab=e561018e script=6fbf0b36", "derived": {"queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 8, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 8, "model.vocab_padded": 50304, "batch.accumulation": 1, "preflight.gpus": "8", "preflight.processes": "yes", "preflight.efa": "4", "preflight.memlock": "yes", "preflight.shm": "1", "preflight.lustre /fsx": "/fsx", "preflight.space $job_dir": "10:$job_dir", "preflight.space /fsx/checkpoints/gpt2-345m": "10:/fsx/checkpoints/gpt2-345m", "preflight.space /tmp": "1:/tmp", "preflight.clock": "5", "preflight.network": "yes", "preflight.names": "yes", "preflight.port": "yes", "preflight.packages": "torch,deepspeed", "preflight.imports": "torch,apex.multi_tensor_apply,amp_C", "preflight.build": "yes", "preflight.helpers /megatron/data": "$PWD/megatron/data", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one", "preflight.arguments": "asked of megatron-deepspeed"}}

# ======== gpt2-7b
# gpt2-7b: 1 node x 4 GPUs (p4de.24xlarge), megatron-deepspeed started by deepspeed

#SBATCH --job-name=gpt2-7b
#SBATCH --partition=train
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=4
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=2-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

{"name": "gpt2-7b", "spec": {"file": "gpt2-7b.yaml", "sha256": "c58b11ddd284af7e9a6403fd5b9709efcc19b40a726a7b63d17c300d07a11bef", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4de-a100", "framework": "megatron-deepspeed", "launcher": "deepspeed", "content": "01859567fae02f29", "origin": "args.clip-grad=d0ff5974 args.data-impl=da212edb args.lr-decay-style=ba7d0ee7 args.lr=2e9e2ebe args.merge-file=8f501246 args.min-lr=5a9530d3 args.no-masked-softmax-fusion=b5bea41b args.override-opt_param-scheduler=b5bea41b args.seed=03ac6742 args.split=56b6300d args.tokenizer-type=4b8397f9 args.vocab-file=9764552d args.weight-decay=312b95ee ds_config.optimizer.params.betas=5b0398c1 ds_config.optimizer.params.lr=2e9e2ebe ds_config.optimizer.type=ebdf4a98 ds_config.steps_per_print=6b86b273 ds_config.wandb.enabled=b5bea41b ds_config.wandb.project=ea3c753b framework=ea3c753b model.heads=e29c9c18 model.hidden=8b926d75 model.layers=e29c9c18 model.sequence=6557739a model.vocab=e561018e script=6fbf0b36", "derived": {"queue": "train", "instance_type": "p4de.24xlarge", "ranks_per_node": 4, "world_size": 4, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 4, "model.vocab_padded": 50304, "batch.accumulation": 1, "ds_config.train_batch_size": 16, "preflight.gpus": "4", "preflight.processes": "yes", "preflight.efa": "4", "preflight.memlock": "yes", "preflight.shm": "1", "preflight.lustre /fsx": "/fsx", "preflight.space $job_dir": "10:$job_dir", "preflight.space /fsx/checkpoints/gpt2-7b": "10:/fsx/checkpoints/gpt2-7b", "preflight.space /tmp": "1:/tmp", "preflight.clock": "5", "preflight.network": "yes", "preflight.names": "yes", "preflight.port": "yes", "preflight.packages": "torch,deepspeed", "preflight.imports": "torch,apex.multi_tensor_apply,amp_C", "preflight.build": "yes", "preflight.helpers /megatron/data": "$PWD/megatron/data", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one", "preflight.arguments": "asked of megatron-deepspeed"}}

# ======== gpt3-175b-p5
# gpt3-175b: 64 nodes x 8 GPUs (p5.48xlarge), megatron-deepspeed started by srun

#SBATCH --job-name=gpt3-175b
#SBATCH --partition=train
#SBATCH --nodes=64
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=24
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=5-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

{"name": "gpt3-175b", "spec": {"file": "gpt3-175b-p5.yaml", "sha256": "216b5955dc050500c42dd5ec3b74ff667e8d3e195aa4d9c9bfeb1f1ee22547ea", "set": []}, "clusterjobs": "0.1.0", "cluster": "p5-h100", "framework": "megatron-deepspeed", "launcher": "srun", "content": "f5497ae7366f6ef2", "origin": "args.adam-beta2=22fa3ce4 args.data-impl=da212edb args.init-method-std=2b249470 args.lr-decay-style=ba7d0ee7 args.lr=d4ba2a46 args.merge-file=8f501246 args.min-lr=2b64a178 args.split=230877d4 args.tokenizer-type=4b8397f9 args.vocab-file=9764552d args.weight-decay=14be4b45 ds_config.data_types.grad_accum_dtype=b629972b ds_config.gradient_clipping=d0ff5974 framework=ea3c753b model.heads=7b1a278f model.hidden=36bf10ff model.layers=7b1a278f model.sequence=bfa0ec8b model.vocab=e561018e parallel.pipeline=b17ef6d1 parallel.tensor=2c624232 script=6fbf0b36", "derived": {"launcher": "srun", "queue": "train", "instance_type": "p5.48xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 512, "ntasks_per_node": 8, "cpus_per_task": 24, "data_parallel": 4, "model.vocab_padded": 51200, "batch.accumulation": 384, "ds_config.train_batch_size": 1536, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== horovod-2node-docker
# horovod-docker: 2 nodes x 1 GPU (g5.xlarge), horovod started by horovodrun

#SBATCH --job-name=horovod-docker
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --gpus-per-node=1
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=12:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "horovod-docker", "spec": {"file": "horovod-2node-docker.yaml", "sha256": "3733b45e1d5cc917f9b8b10f5c78c17293104a8c02c542fb4e900070cd408ca6", "set": []}, "clusterjobs": "0.1.0", "cluster": "one-gpu", "framework": "horovod", "launcher": "horovodrun", "content": "28206ae846c70f6b", "derived": {"launcher": "horovodrun", "queue": "train", "instance_type": "g5.xlarge", "gpus_per_node": 1, "ranks_per_node": 1, "world_size": 2, "ntasks_per_node": 1, "cpus_per_task": 4, "data_parallel": 2, "batch.accumulation": 1, "batch.global": 256, "horovod.learning_rate_factor": 2, "mount /fsx": "/fsx", "container.shm": "7g", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== horovod-2node
# horovod-2node: 2 nodes x 1 GPU (g5.xlarge), horovod started by horovodrun

#SBATCH --job-name=horovod-2node
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --gpus-per-node=1
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=12:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "horovod-2node", "spec": {"file": "horovod-2node.yaml", "sha256": "f356a4f65da8908b2f11da9c580c775c6d623d3bbbfc8f26ba5f2a3a5785e166", "set": []}, "clusterjobs": "0.1.0", "cluster": "one-gpu", "framework": "horovod", "launcher": "horovodrun", "content": "6519ea569b296410", "derived": {"launcher": "horovodrun", "queue": "train", "instance_type": "g5.xlarge", "gpus_per_node": 1, "ranks_per_node": 1, "world_size": 2, "ntasks_per_node": 1, "cpus_per_task": 4, "data_parallel": 2, "batch.accumulation": 1, "batch.global": 256, "horovod.learning_rate_factor": 2, "preflight.gpus": "1", "preflight.processes": "yes", "preflight.mount /fsx": "/fsx", "preflight.folder": "$job_dir", "preflight.space $job_dir": "10:$job_dir", "preflight.space /tmp": "1:/tmp", "preflight.clock": "5", "preflight.network": "yes", "preflight.names": "yes", "preflight.port": "yes", "preflight.all_reduce": "10 Gbps", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== mixtral-8x7b
# mixtral-8x7b: 8 nodes x 8 GPUs (p5.48xlarge), megatron-lm started by torchrun

#SBATCH --job-name=mixtral-8x7b
#SBATCH --partition=train
#SBATCH --nodes=8
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=192
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=2-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@240

{"name": "mixtral-8x7b", "spec": {"file": "mixtral-8x7b.yaml", "sha256": "8cb3bf8ce3b6e12d1bf3f57e6ad0fa8195bdb85c889cf3bf66e5d4cc2052e4aa", "set": []}, "clusterjobs": "0.1.0", "cluster": "p5-h100", "framework": "megatron-lm", "launcher": "torchrun", "content": "4f1a3eaab8211373", "origin": "args.attention-dropout=8aed642b args.disable-bias-linear=b5bea41b args.ffn-hidden-size=8f34690c args.group-query-attention=b5bea41b args.hidden-dropout=8aed642b args.lr-decay-style=ba7d0ee7 args.lr=e539aeba args.max-position-embeddings=d196d59b args.min-lr=5a9530d3 args.moe-aux-loss-coeff=312b95ee args.moe-grouped-gemm=b5bea41b args.moe-router-topk=d4735e3a args.moe-token-dispatcher-type=606e433b args.normalization=92aeeffe args.num-experts=2c624232 args.num-query-groups=2c624232 args.overlap-grad-reduce=b5bea41b args.overlap-param-gather=b5bea41b args.position-embedding-type=195edf70 args.rotary-base=6cce36d9 args.split=8cf21b67 args.swiglu=b5bea41b args.tokenizer-model=eec938ee args.tokenizer-type=8c012fa5 args.use-distributed-optimizer=b5bea41b args.weight-decay=14be4b45 framework=2a470d0f model.heads=e29c9c18 model.hidden=8b926d75 model.layers=e29c9c18 model.sequence=8b926d75 model.vocab=492f431b parallel.expert=2c624232 parallel.pipeline=4b227777 parallel.virtual_pipeline=2c624232 script=6fbf0b36", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "p5.48xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 64, "ntasks_per_node": 1, "cpus_per_task": 192, "data_parallel": 16, "model.vocab_padded": 32000, "batch.accumulation": 16, "restarts": "time_limit 20, failure 2, node_failure 3", "watchdog": "ranks that are gone", "asked to save": "by the clock", "signal": "USR1, 240 s before the limit", "exit duration": "the whole minutes until 420 s before the limit", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== sft-llama-8b
# sft-llama-8b: 2 nodes x 8 GPUs (p5.48xlarge), huggingface started by torchrun

#SBATCH --job-name=sft-llama-8b
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=192
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=1-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@240

{"name": "sft-llama-8b", "spec": {"file": "sft-llama-8b.yaml", "sha256": "2ca5d14b1797bc3cb98b79feed498421f7571f1548a6aef6ab7e070ef392a85e", "set": []}, "clusterjobs": "0.1.0", "cluster": "p5-h100", "framework": "huggingface", "launcher": "torchrun", "content": "13c37a769a7e5134", "origin": "args.learning_rate=a9df8255 args.lr_scheduler_type=ba7d0ee7 args.max_length=8b926d75 args.packing=b5bea41b ds_config.gradient_clipping=634635a2 framework=8c8e2322 script=87abaa2c", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "p5.48xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 192, "data_parallel": 16, "batch.accumulation": 2, "ds_config.train_batch_size": 128, "restarts": "time_limit 5, failure 2, node_failure 3", "watchdog": "ranks that are gone", "asked to save": "by a file", "signal": "USR1, 240 s before the limit", "resume": "--resume_from_checkpoint with the newest complete checkpoint-N, if there is one", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== tiny-gpt-sweep
# tiny-gpt-sweep: 1 node x 2 ranks (c6i.xlarge), deepspeed started by srun

#SBATCH --job-name=tiny-gpt-sweep
#SBATCH --array=0-5%2
#SBATCH --partition=train
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=2
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=00:10:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%A_%a.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@120

{"name": "tiny-gpt-sweep", "spec": {"file": "tiny-gpt-sweep.yaml", "sha256": "7ffc886a0fc9b052c9cc35401bb3f93ea66c0f0a8aa8af61aed62f591c1308df", "set": []}, "clusterjobs": "0.1.0", "cluster": "small", "framework": "deepspeed", "launcher": "srun", "origin": "ds_config.gradient_clipping=d0ff5974 framework=3442dbf7 script=4f8d10b9", "derived": {"launcher": "srun", "queue": "train", "instance_type": "c6i.xlarge", "gpus_per_node": 0, "world_size": 2, "ntasks_per_node": 2, "cpus_per_task": 2, "data_parallel": 2, "batch.accumulation": ${accumulation}, "ds_config.train_batch_size": 32, "restarts": "time_limit 5, failure 2, node_failure 3", "watchdog": "ranks that are gone", "asked to save": "by a file", "signal": "USR1, 120 s before the limit", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}, "sweep": "tiny-gpt-sweep", "point": {"name": "${point_name}", "index": ${point_index}, "values": {"args.lr": ${lr}, "batch.micro": ${micro}}, "content": "${content}"}}

# ======== tiny-gpt
# tiny-gpt: 2 nodes x 2 ranks (c6i.xlarge), deepspeed started by srun

#SBATCH --job-name=tiny-gpt
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=2
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=00:10:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@120

{"name": "tiny-gpt", "spec": {"file": "tiny-gpt.yaml", "sha256": "94bb686c8c564048e9f0cb7d9365af2c6c46f1a15cc45c547ae78d4d9898a74d", "set": []}, "clusterjobs": "0.1.0", "cluster": "small", "framework": "deepspeed", "launcher": "srun", "content": "69b4557f2f4f5877", "origin": "args.lr=8d938122 ds_config.gradient_clipping=d0ff5974 framework=3442dbf7 script=4f8d10b9", "derived": {"launcher": "srun", "queue": "train", "instance_type": "c6i.xlarge", "gpus_per_node": 0, "world_size": 4, "ntasks_per_node": 2, "cpus_per_task": 2, "data_parallel": 4, "batch.accumulation": 1, "ds_config.train_batch_size": 32, "restarts": "time_limit 5, failure 2, node_failure 3", "watchdog": "ranks that are gone", "asked to save": "by a file", "signal": "USR1, 120 s before the limit", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== fabric-infiniband
# mpi-on-infiniband: 2 nodes x 4 GPUs (a100), command started by srun

#SBATCH --job-name=mpi-on-infiniband
#SBATCH --partition=gpu
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=32
#SBATCH --gpus-per-node=4
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "mpi-on-infiniband", "spec": {"file": "spec.yaml", "sha256": "c0f9526fc79890832f956320344ae8a645966e3728622ca2d5dd9b348389b9ea", "set": []}, "clusterjobs": "0.1.0", "cluster": "campus", "framework": "command", "launcher": "srun", "content": "a0abf03be577730f", "derived": {"queue": "gpu", "instance_type": "a100", "gpus_per_node": 4, "ranks_per_node": 4, "world_size": 8, "ntasks_per_node": 4, "cpus_per_task": 32, "data_parallel": 8, "preflight.gpus": "4", "preflight.processes": "yes", "preflight.infiniband": "4", "preflight.memlock": "yes", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== fabric-slingshot
# on-slingshot: 4 nodes x 4 GPUs (gh200), torchrun started by its own launcher

#SBATCH --job-name=on-slingshot
#SBATCH --partition=normal
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=288
#SBATCH --gpus-per-node=4
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "on-slingshot", "spec": {"file": "spec.yaml", "sha256": "6aa0813b77dbef78c3b80cd4dfe32c169b7b27327f2384899b7fb14a81206f8d", "set": []}, "clusterjobs": "0.1.0", "cluster": "alps", "framework": "torchrun", "launcher": "torchrun", "content": "285eab87f44ed245", "derived": {"launcher": "torchrun", "queue": "normal", "instance_type": "gh200", "gpus_per_node": 4, "ranks_per_node": 4, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 288, "data_parallel": 16, "preflight.cxi": "4", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== fabric-tcpx
# on-a3-high: 2 nodes x 8 GPUs (a3-highgpu-8g), torchrun started by its own launcher

#SBATCH --job-name=on-a3-high
#SBATCH --partition=a3
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=208
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "on-a3-high", "spec": {"file": "spec.yaml", "sha256": "65d56a6c4395203f5b055cf898e578f94949a53d2b6c47c1865f61c5dfe2132b", "set": []}, "clusterjobs": "0.1.0", "cluster": "a3high", "framework": "torchrun", "launcher": "torchrun", "content": "9f665f605e5f66e4", "derived": {"launcher": "torchrun", "queue": "a3", "instance_type": "a3-highgpu-8g", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 208, "data_parallel": 16, "mount /home": "/home", "mount /var/lib/tcpx/lib64": "/var/lib/tcpx/lib64", "mount /run/tcpx-$SLURM_JOB_ID": "/run/tcpx-$SLURM_JOB_ID", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== fabric-tcpxo
# on-a3-mega: 2 nodes x 8 GPUs (a3-megagpu-8g), torchrun started by its own launcher

#SBATCH --job-name=on-a3-mega
#SBATCH --partition=a3mega
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=208
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "on-a3-mega", "spec": {"file": "spec.yaml", "sha256": "a4ea02e2ed65fdc63ebd9c0145eb1b479dbe97b06aca55d1e33635096d3e09e6", "set": []}, "clusterjobs": "0.1.0", "cluster": "a3mega", "framework": "torchrun", "launcher": "torchrun", "content": "d1ba56261f37f399", "derived": {"launcher": "torchrun", "queue": "a3mega", "instance_type": "a3-megagpu-8g", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 208, "data_parallel": 16, "preflight.plugin /var/lib/tcpxo/lib64": "/var/lib/tcpxo/lib64", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== trainium
# gpt-trn1: 4 nodes x 32 ranks (trn1.32xlarge), torchrun started by its own launcher

#SBATCH --job-name=gpt-trn1
#SBATCH --partition=train
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=128
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "gpt-trn1", "spec": {"file": "spec.yaml", "sha256": "d6939cee2c744ce03f6b2a2ad72d4aad81b7053136bacdd1e38b2ff6ffa6b860", "set": []}, "clusterjobs": "0.1.0", "cluster": "trn1", "framework": "torchrun", "launcher": "torchrun", "content": "55d50b01dee88ff9", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "trn1.32xlarge", "gpus_per_node": 0, "ranks_per_node": 32, "world_size": 128, "ntasks_per_node": 1, "cpus_per_task": 128, "data_parallel": 128, "preflight.efa": "8", "preflight.memlock": "yes", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== megatron-torchrun-345m
# gpt2-345m: 1 node x 8 GPUs (p4d.24xlarge), megatron-deepspeed started by torchrun

#SBATCH --job-name=gpt2-345m
#SBATCH --partition=train
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=2-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

{"name": "gpt2-345m", "spec": {"file": "spec.yaml", "sha256": "a8bedb4ab028ecef67cd46ac5e69e9648dc23c990cc74c3c0487ee7300559849", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "megatron-deepspeed", "launcher": "torchrun", "content": "18e114eb660b2b3d", "origin": "args.adam-beta2=22fa3ce4 args.clip-grad=d0ff5974 args.data-impl=da212edb args.lr-decay-style=ba7d0ee7 args.lr-warmup-fraction=312b95ee args.lr=2e9e2ebe args.merge-file=8f501246 args.min-lr=5a9530d3 args.split=56b6300d args.tokenizer-type=4b8397f9 args.vocab-file=9764552d args.weight-decay=312b95ee ds_config.optimizer.params.betas=83a98579 ds_config.optimizer.params.lr=2e9e2ebe ds_config.optimizer.type=ebdf4a98 ds_config.wandb.enabled=b5bea41b ds_config.wandb.project=68573f1b framework=ea3c753b model.heads=b17ef6d1 model.hidden=e39eef82 model.layers=c2356069 model.sequence=e39eef82 model.vocab=e561018e script=6fbf0b36", "derived": {"queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 8, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 8, "model.vocab_padded": 50304, "batch.accumulation": 1, "ds_config.train_batch_size": 64, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== megatron-one-gpu
# gpt2-345m-1gpu: 1 node x 1 GPU (p4d.24xlarge), megatron-deepspeed started by srun

#SBATCH --job-name=gpt2-345m-1gpu
#SBATCH --partition=train
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=1
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=2-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

{"name": "gpt2-345m-1gpu", "spec": {"file": "spec.yaml", "sha256": "e66ff7383d35cf04225e860ab0e28d7118b8b982298cedc569a27a56a55e5afb", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "megatron-deepspeed", "launcher": "srun", "content": "1c8f40489f26cac4", "origin": "args.adam-beta2=22fa3ce4 args.clip-grad=d0ff5974 args.data-impl=da212edb args.lr-decay-style=ba7d0ee7 args.lr-warmup-fraction=312b95ee args.lr=2e9e2ebe args.merge-file=8f501246 args.min-lr=5a9530d3 args.split=56b6300d args.tokenizer-type=4b8397f9 args.vocab-file=9764552d args.weight-decay=312b95ee ds_config.optimizer.params.betas=83a98579 ds_config.optimizer.params.lr=2e9e2ebe ds_config.optimizer.type=ebdf4a98 ds_config.wandb.enabled=b5bea41b ds_config.wandb.project=68573f1b framework=ea3c753b model.heads=b17ef6d1 model.hidden=e39eef82 model.layers=c2356069 model.sequence=e39eef82 model.vocab=e561018e script=6fbf0b36", "derived": {"queue": "train", "instance_type": "p4d.24xlarge", "ranks_per_node": 1, "world_size": 1, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 1, "model.vocab_padded": 50304, "batch.accumulation": 1, "ds_config.train_batch_size": 8, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== megatron-launcher-7b
# gpt2-7b: 1 node x 4 GPUs (p4de.24xlarge), megatron-deepspeed started by deepspeed

#SBATCH --job-name=gpt2-7b
#SBATCH --partition=train
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=4
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=2-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

{"name": "gpt2-7b", "spec": {"file": "spec.yaml", "sha256": "233c706874d178f7017008b2b9c6e184c8f6cc7774740365dfe11cac807fcd5b", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4de-a100", "framework": "megatron-deepspeed", "launcher": "deepspeed", "content": "208555b3144d569d", "origin": "args.adam-beta2=22fa3ce4 args.clip-grad=d0ff5974 args.data-impl=da212edb args.lr-decay-style=ba7d0ee7 args.lr-warmup-fraction=312b95ee args.lr=2e9e2ebe args.merge-file=8f501246 args.min-lr=5a9530d3 args.split=56b6300d args.tokenizer-type=4b8397f9 args.vocab-file=9764552d args.weight-decay=312b95ee ds_config.optimizer.params.betas=83a98579 ds_config.optimizer.params.lr=2e9e2ebe ds_config.optimizer.type=ebdf4a98 ds_config.wandb.enabled=b5bea41b ds_config.wandb.project=68573f1b framework=ea3c753b model.heads=e29c9c18 model.hidden=8b926d75 model.layers=e29c9c18 model.sequence=6557739a model.vocab=e561018e script=6fbf0b36", "derived": {"queue": "train", "instance_type": "p4de.24xlarge", "ranks_per_node": 4, "world_size": 4, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 4, "model.vocab_padded": 50304, "batch.accumulation": 1, "ds_config.train_batch_size": 16, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== megatron-srun-175b
# gpt3-175b: 64 nodes x 8 GPUs (p5.48xlarge), megatron-deepspeed started by srun

#SBATCH --job-name=gpt3-175b
#SBATCH --partition=train
#SBATCH --nodes=64
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=24
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=5-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

{"name": "gpt3-175b", "spec": {"file": "spec.yaml", "sha256": "07e57267b267ee2172942248fa6af0a1d5509aa39ac97e7a8d1e153d974bd5ff", "set": []}, "clusterjobs": "0.1.0", "cluster": "p5-h100", "framework": "megatron-deepspeed", "launcher": "srun", "content": "f5497ae7366f6ef2", "origin": "args.adam-beta2=22fa3ce4 args.data-impl=da212edb args.init-method-std=2b249470 args.lr-decay-style=ba7d0ee7 args.lr=d4ba2a46 args.merge-file=8f501246 args.min-lr=2b64a178 args.split=230877d4 args.tokenizer-type=4b8397f9 args.vocab-file=9764552d args.weight-decay=14be4b45 ds_config.data_types.grad_accum_dtype=b629972b ds_config.gradient_clipping=d0ff5974 framework=ea3c753b model.heads=7b1a278f model.hidden=36bf10ff model.layers=7b1a278f model.sequence=bfa0ec8b model.vocab=e561018e parallel.pipeline=b17ef6d1 parallel.tensor=2c624232 script=6fbf0b36", "derived": {"launcher": "srun", "queue": "train", "instance_type": "p5.48xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 512, "ntasks_per_node": 8, "cpus_per_task": 24, "data_parallel": 4, "model.vocab_padded": 51200, "batch.accumulation": 384, "ds_config.train_batch_size": 1536, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== megatron-lm-torchrun-llama
# llama-8b: 4 nodes x 8 GPUs (p5.48xlarge), megatron-lm started by torchrun

#SBATCH --job-name=llama-8b
#SBATCH --partition=train
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=192
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=1-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@240

{"name": "llama-8b", "spec": {"file": "spec.yaml", "sha256": "f96eaa84e356cc207a3e1e5218626cb60713ec57526c164f2db30570df9586ca", "set": []}, "clusterjobs": "0.1.0", "cluster": "p5-h100", "framework": "megatron-lm", "launcher": "torchrun", "content": "8d7a509faed1b37c", "origin": "args.lr=fb2623fa args.overlap-grad-reduce=b5bea41b args.overlap-param-gather=b5bea41b args.use-distributed-optimizer=b5bea41b framework=2a470d0f model.heads=e29c9c18 model.hidden=8b926d75 model.layers=e29c9c18 model.sequence=864a936a model.vocab=f2d58818 parallel.context=d4735e3a parallel.pipeline=d4735e3a parallel.sequence=b5bea41b parallel.tensor=4b227777 parallel.virtual_pipeline=d4735e3a script=6fbf0b36", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "p5.48xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 32, "ntasks_per_node": 1, "cpus_per_task": 192, "data_parallel": 2, "model.vocab_padded": 128512, "batch.accumulation": 64, "restarts": "time_limit 10, failure 0, node_failure 3", "watchdog": "ranks that are gone", "asked to save": "by the clock", "signal": "USR1, 240 s before the limit", "exit duration": "the whole minutes until 420 s before the limit", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== megatron-lm-srun-experts
# moe: 2 nodes x 8 GPUs (p5.48xlarge), megatron-lm started by srun

#SBATCH --job-name=moe
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=24
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

{"name": "moe", "spec": {"file": "spec.yaml", "sha256": "ca8a93502aaea645b80a783630023284b0a295e30c00ee4f53282f2e073c7393", "set": []}, "clusterjobs": "0.1.0", "cluster": "p5-h100", "framework": "megatron-lm", "launcher": "srun", "content": "ace12947693b1c92", "origin": "args.exit-signal-handler=b5bea41b args.lr=fb2623fa args.mock-data=b5bea41b args.moe-grouped-gemm=b5bea41b args.moe-router-topk=e7f6c011 args.moe-token-dispatcher-type=606e433b args.num-experts=a68b412c framework=2a470d0f model.heads=b17ef6d1 model.hidden=bfa0ec8b model.layers=c2356069 model.sequence=8b926d75 parallel.expert=2c624232 script=6fbf0b36", "derived": {"queue": "train", "instance_type": "p5.48xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 8, "cpus_per_task": 24, "data_parallel": 16, "batch.accumulation": 16, "mount /fsx": "/fsx", "mount $job_dir": "$job_dir", "mount /dev/infiniband": "/dev/infiniband", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== neox-one-node
# neox-one: 1 node x 8 GPUs (p4de.24xlarge), gpt-neox started by deepy

#SBATCH --job-name=neox-one
#SBATCH --partition=train
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=12
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "neox-one", "spec": {"file": "spec.yaml", "sha256": "840946d797cf6e9af3467daec9a1c005e316434c7d588b435f18042a09ded64f", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4de-a100", "framework": "gpt-neox", "launcher": "deepy", "content": "d4e99881a3c90f48", "derived": {"launcher": "deepy", "queue": "train", "instance_type": "p4de.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 8, "ntasks_per_node": 8, "cpus_per_task": 12, "data_parallel": 8, "batch.accumulation": 1, "batch.global": 32, "train_batch_size": 32, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== neox-two-nodes
# gpt-neox-small: 2 nodes x 8 GPUs (p4d.24xlarge), gpt-neox started by deepy

#SBATCH --job-name=gpt-neox-small
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=12
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=1-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

{"name": "gpt-neox-small", "spec": {"file": "spec.yaml", "sha256": "f0bc85613b39544eea060dd3eb3cd0b9cb28a48d63f9cf1bb0df12b4f62c773d", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "gpt-neox", "launcher": "deepy", "content": "01757a4b2b7eb272", "origin": "framework=7fd967b3 script=4f8d10b9", "derived": {"launcher": "deepy", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 8, "cpus_per_task": 12, "data_parallel": 16, "batch.global": 64, "train_batch_size": 64, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== neox-20b
# neox-20b: 12 nodes x 8 GPUs (p4d.24xlarge), gpt-neox started by deepy

#SBATCH --job-name=neox-20b
#SBATCH --partition=train
#SBATCH --nodes=12
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=12
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=7-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

{"name": "neox-20b", "spec": {"file": "spec.yaml", "sha256": "c3d477e08e7ee1402feb77d5de752880ada2053213c13000550ebc8b274f2af1", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "gpt-neox", "launcher": "deepy", "content": "2d681258eebf7dfd", "origin": "framework=7fd967b3 model.heads=a68b412c model.hidden=0ac51e0d model.layers=71ee45a3 model.sequence=bfa0ec8b model.vocab=e561018e parallel.pipeline=4b227777 parallel.tensor=d4735e3a script=4f8d10b9", "derived": {"launcher": "deepy", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 96, "ntasks_per_node": 8, "cpus_per_task": 12, "data_parallel": 12, "model.vocab_padded": 50432, "batch.accumulation": 32, "train_batch_size": 1536, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== preflight-megatron-p4d
# preflight: 16 nodes x 8 GPUs (p4d.24xlarge), megatron-deepspeed started by srun

#SBATCH --job-name=preflight
#SBATCH --partition=train
#SBATCH --nodes=16
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=12
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

{"name": "preflight", "spec": {"file": "spec.yaml", "sha256": "66eb01fea088b5ed3f31737d7cd5555bd6b6b2800c2aa3cfeda3ef204feda341", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "megatron-deepspeed", "launcher": "srun", "content": "24d7c76fa21899e2", "origin": "args.lr=2e9e2ebe framework=ea3c753b model.heads=b17ef6d1 model.hidden=e39eef82 model.layers=c2356069 model.sequence=e39eef82 model.vocab=e561018e script=6fbf0b36", "derived": {"launcher": "srun", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 128, "ntasks_per_node": 8, "cpus_per_task": 12, "data_parallel": 128, "model.vocab_padded": 50304, "batch.accumulation": 2, "ds_config.gradient_clipping": "1.0", "ds_config.train_batch_size": 2048, "preflight.gpus": "8", "preflight.processes": "yes", "preflight.efa": "4", "preflight.memlock": "yes", "preflight.shm": "1", "preflight.lustre /fsx": "/fsx", "preflight.folder": "$job_dir", "preflight.space $job_dir": "500:$job_dir", "preflight.folder /fsx/check points/preflight": "/fsx/check points/preflight", "preflight.space /fsx/check points/preflight": "500:/fsx/check points/preflight", "preflight.space /tmp": "1:/tmp", "preflight.clock": "5", "preflight.network": "yes", "preflight.names": "yes", "preflight.port": "yes", "preflight.packages": "torch==2.6,deepspeed==0.19.8", "preflight.imports": "torch,apex.multi_tensor_apply,amp_C", "preflight.build": "yes", "preflight.helpers /megatron/data": "$PWD/megatron/data", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one", "preflight.arguments": "asked of megatron-deepspeed"}}

# ======== preflight-of-some-checks
# some: 2 nodes x 8 GPUs (p5.48xlarge), torchrun started by its own launcher

#SBATCH --job-name=some
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=192
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "some", "spec": {"file": "spec.yaml", "sha256": "9515dfce749a1094849b24a1573ca921a017ca262af2b41ab744399bb0eee701", "set": []}, "clusterjobs": "0.1.0", "cluster": "p5-h100", "framework": "torchrun", "launcher": "torchrun", "content": "6939793937cd4e17", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "p5.48xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 192, "data_parallel": 16, "preflight.gpus": "8", "preflight.processes": "yes", "preflight.efa": "32", "preflight.all_reduce": "3200 Gbps", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== preflight-on-cpus
# cpus: 2 nodes x 1 rank (c6i.xlarge), command started by srun

#SBATCH --job-name=cpus
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "cpus", "spec": {"file": "spec.yaml", "sha256": "1d29e6870119c4ba9d077073eecfa9b7cace629b7f43264e0f5ddc8439ca3a8a", "set": []}, "clusterjobs": "0.1.0", "cluster": "small", "framework": "command", "launcher": "srun", "content": "585688c405ec93c6", "derived": {"launcher": "srun", "queue": "train", "instance_type": "c6i.xlarge", "gpus_per_node": 0, "ranks_per_node": 1, "world_size": 2, "ntasks_per_node": 1, "cpus_per_task": 4, "data_parallel": 2, "preflight.mount /fsx": "/fsx", "preflight.folder": "$job_dir", "preflight.space $job_dir": "10:$job_dir", "preflight.space /tmp": "1:/tmp", "preflight.clock": "5", "preflight.network": "yes", "preflight.names": "yes", "preflight.port": "yes", "preflight.packages": "numpy==1.26", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== typed-gpus
# typed: 2 nodes x 4 GPUs (p4d.24xlarge), torchrun started by its own launcher

#SBATCH --job-name=typed
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=a100:4
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=4:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "typed", "spec": {"file": "spec.yaml", "sha256": "13d6a9ea84f911b53d21783b5b6bf7aa2440b7e1b16202f59b0e65dff149c551", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "torchrun", "launcher": "torchrun", "content": "38cdd6a0a22ffbf7", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "p4d.24xlarge", "ranks_per_node": 4, "world_size": 8, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 8, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== gpus-by-gres
# gres: 1 node x 8 GPUs (p4d.24xlarge), torchrun started by its own launcher

#SBATCH --job-name=gres
#SBATCH --partition=train
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=4:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue
#SBATCH --gres=gpu:a100:8

{"name": "gres", "spec": {"file": "spec.yaml", "sha256": "2bca91041a344a67d33e2bdfc6dc7caf64bd6387fc74799f01cc4b119282fe7a", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "torchrun", "launcher": "torchrun", "content": "74c3d3c8f5df3e35", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "p4d.24xlarge", "ranks_per_node": 8, "world_size": 8, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 8, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== whole-nodes-unrequested
# no-requests: 2 nodes x 8 GPUs (p4d.24xlarge), torchrun started by srun

#SBATCH --job-name=no-requests
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=4:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "no-requests", "spec": {"file": "spec.yaml", "sha256": "0a5d0ebfdf1b6349728a204f37a1a81949096e5a5ff416d245ef88ec125ed883", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "torchrun", "launcher": "srun", "content": "75d81ff34f0df594", "derived": {"queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 8, "cpus_per_task": 12, "data_parallel": 16, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== hint-nomultithread-small
# hint: 2 nodes x 2 ranks (c6i.xlarge), command started by srun

#SBATCH --job-name=hint
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=2
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue
#SBATCH --hint=nomultithread

{"name": "hint", "spec": {"file": "spec.yaml", "sha256": "b3cc9a87c89cfb58fdb7ff8b6258f4efc83959e6fc6b04d22ca4e9fa9864ab9f", "set": []}, "clusterjobs": "0.1.0", "cluster": "small", "framework": "command", "launcher": "srun", "content": "c0e75bce5a95a141", "derived": {"launcher": "srun", "queue": "train", "instance_type": "c6i.xlarge", "gpus_per_node": 0, "world_size": 4, "ntasks_per_node": 2, "cpus_per_task": 2, "data_parallel": 4, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== no-time-limit
# until-done: 2 nodes x 8 GPUs (p4d.24xlarge), torchrun started by its own launcher

#SBATCH --job-name=until-done
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "until-done", "spec": {"file": "spec.yaml", "sha256": "a9af7ab714937a7249146716a278d6e6b06474baa632dece2b557e93f9878534", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "torchrun", "launcher": "torchrun", "content": "036a39ad639fd6df", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 16, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== mixed-queue
# on-the-large-ones: 3 nodes x 8 GPUs (p4d.24xlarge), torchrun started by its own launcher

#SBATCH --job-name=on-the-large-ones
#SBATCH --partition=mixed
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --constraint=p4d.24xlarge
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=60
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "on-the-large-ones", "spec": {"file": "spec.yaml", "sha256": "3365b88afdbc9bd91798327bb085790d696912ed325625ef7ad8f78c9975054d", "set": []}, "clusterjobs": "0.1.0", "cluster": "cluster", "framework": "torchrun", "launcher": "torchrun", "content": "c4699ae18d366051", "derived": {"launcher": "torchrun", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 24, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 24, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== own-config-unknown-instance
# lenient: 2 nodes x 16 GPUs (p9x.96xlarge), torchrun started by its own launcher

#SBATCH --job-name=lenient
#SBATCH --partition=gpu
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=6
#SBATCH --gpus-per-node=16
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "lenient", "spec": {"file": "spec.yaml", "sha256": "0331057a370720985d5a1f3e31cf816a74364447eba0cacdf7bca12729a3dbdb", "set": []}, "clusterjobs": "0.1.0", "cluster": "old", "framework": "torchrun", "launcher": "torchrun", "content": "ab5e9760586e9df3", "derived": {"launcher": "torchrun", "queue": "gpu", "instance_type": "p9x.96xlarge", "ranks_per_node": 16, "world_size": 32, "ntasks_per_node": 1, "data_parallel": 32, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== own-site
# other-site: 1 node x 1 rank (c6i.xlarge), command started by srun

#SBATCH --job-name=other-site
#SBATCH --partition=train
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=10
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "other-site", "spec": {"file": "spec.yaml", "sha256": "9c0f5acc1b8f1503d3a64fb0f5a7c3e10ae05caf740f513adc55d72322e59d0b", "set": []}, "clusterjobs": "0.1.0", "cluster": "small", "framework": "command", "launcher": "srun", "content": "dfd4800776819f96", "derived": {"launcher": "srun", "queue": "train", "instance_type": "c6i.xlarge", "gpus_per_node": 0, "ranks_per_node": 1, "world_size": 1, "ntasks_per_node": 1, "cpus_per_task": 4, "data_parallel": 1, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== binding-beside-the-hint-of-sbatch
# bound: 1 node x 1 rank (c6i.xlarge), command started by srun

#SBATCH --job-name=bound
#SBATCH --partition=train
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue
#SBATCH --hint=nomultithread

{"name": "bound", "spec": {"file": "spec.yaml", "sha256": "5f645e09bd99387694a4f91b2bbe22fa6374a0e346d0b863424ed90afa82768a", "set": []}, "clusterjobs": "0.1.0", "cluster": "small", "framework": "command", "launcher": "srun", "content": "f5d967d3cef7ad10", "derived": {"launcher": "srun", "queue": "train", "instance_type": "c6i.xlarge", "gpus_per_node": 0, "ranks_per_node": 1, "world_size": 1, "ntasks_per_node": 1, "cpus_per_task": 4, "data_parallel": 1, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== restarts-megatron
# gpt2-345m: 2 nodes x 8 GPUs (p4d.24xlarge), megatron-deepspeed started by srun

#SBATCH --job-name=gpt2-345m
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=12
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=2-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@240

{"name": "gpt2-345m", "spec": {"file": "spec.yaml", "sha256": "a4c3c20fb4c0aa8e3a08a66a486d699d0b4096e4ac2582943be73e979b2c408d", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "megatron-deepspeed", "launcher": "srun", "content": "49727515c356f2ee", "origin": "args.lr=2e9e2ebe framework=ea3c753b model.heads=b17ef6d1 model.hidden=e39eef82 model.layers=c2356069 model.sequence=e39eef82 model.vocab=e561018e script=6fbf0b36", "derived": {"launcher": "srun", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 8, "cpus_per_task": 12, "data_parallel": 16, "model.vocab_padded": 50304, "batch.accumulation": 1, "ds_config.gradient_clipping": "1.0", "ds_config.train_batch_size": 128, "restarts": "time_limit 20, failure 2, node_failure 3", "watchdog": "ranks that are gone", "asked to save": "by the clock", "signal": "USR1, 240 s before the limit", "exit duration": "the whole minutes until 420 s before the limit", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== restarts-own-script
# again: 2 nodes x 8 GPUs (p4d.24xlarge), torchrun started by srun

#SBATCH --job-name=again
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=12
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=1-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@360

{"name": "again", "spec": {"file": "spec.yaml", "sha256": "86ac6dfdc184a38a598d026b2f57d101150dc03d1927791d854c55eb3e8f8467", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "torchrun", "launcher": "srun", "content": "aa87f35ee926a86d", "origin": "framework=3b9ebe42 script=4f8d10b9", "derived": {"queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 8, "cpus_per_task": 12, "data_parallel": 16, "restarts": "time_limit 20, failure 2, node_failure 3", "watchdog": "ranks that are gone", "asked to save": "by a file and SIGUSR1", "signal": "USR1, 360 s before the limit", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== hyperpod-restarts
# on-hyperpod: 4 nodes x 8 GPUs (ml.p5.48xlarge), torchrun started by its own launcher

#SBATCH --job-name=on-hyperpod
#SBATCH --partition=dev
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=192
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=1-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@240

{"name": "on-hyperpod", "spec": {"file": "spec.yaml", "sha256": "4c2e3b9a66fca8ce73437f0666cd839f734e6ba94a3f06756aa33f359d2948f6", "set": []}, "clusterjobs": "0.1.0", "cluster": "hyperpod", "framework": "torchrun", "launcher": "torchrun", "content": "a4eed415ac560319", "origin": "framework=3b9ebe42 script=4f8d10b9", "derived": {"launcher": "torchrun", "queue": "dev", "instance_type": "ml.p5.48xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 32, "ntasks_per_node": 1, "cpus_per_task": 192, "data_parallel": 32, "auto-resume": "srun --auto-resume=1", "restarts": "time_limit 10, failure 0, node_failure 3", "asked to save": "by a file", "signal": "USR1, 240 s before the limit", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== roles-vllm-pyxis
# grpo: 2 nodes x 8 GPUs (p5.48xlarge) + 1 node for server, torchrun started by its own launcher

#SBATCH --job-name=grpo
#SBATCH --partition=train
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=192
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=1-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@240

{"name": "grpo", "spec": {"file": "spec.yaml", "sha256": "73e4065cde675be503bf5b9fba7f37a27a37212fd76e3926b5ae0717b144aadd", "set": []}, "clusterjobs": "0.1.0", "cluster": "p5-h100", "framework": "torchrun", "launcher": "torchrun", "content": "922540d4f77470dd", "origin": "args.use_vllm=18d10c7d args.vllm_mode=c0f0ad2c framework=3b9ebe42 script=939da046", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "p5.48xlarge", "training_nodes": 2, "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 192, "data_parallel": 16, "restarts": "time_limit 5, failure 2, node_failure 3, stalled 3", "watchdog": "ranks without progress for 3600 s, and ranks that are gone", "asked to save": "by a file", "signal": "USR1, 240 s before the limit", "preflight.gpus": "8", "preflight.processes": "yes", "preflight.efa": "32", "preflight.memlock": "yes", "preflight.shm": "1", "preflight.lustre /fsx": "/fsx", "preflight.folder": "$job_dir", "preflight.space $job_dir": "10:$job_dir", "preflight.folder /fsx/checkpoints/grpo": "/fsx/checkpoints/grpo", "preflight.space /fsx/checkpoints/grpo": "10:/fsx/checkpoints/grpo", "preflight.space /tmp": "1:/tmp", "preflight.clock": "5", "preflight.network": "yes", "preflight.names": "yes", "preflight.port": "yes", "preflight.containers": "yes", "mount /fsx": "/fsx", "mount /dev/infiniband": "/dev/infiniband", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one", "roles.server": "node 3 of 3, port 8000"}, "roles": [{"name": "server", "first_node": 2, "nodes": 1, "port": 8000, "log": "server.log"}]}

# ======== roles-docker
# serve: 1 node x 8 GPUs (p4d.24xlarge) + 1 node for server, deepspeed started by its own launcher

#SBATCH --job-name=serve
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "serve", "spec": {"file": "spec.yaml", "sha256": "cacad53f4d08b8c8ba1ca971ed41fcc9a5fe27ee143706cdca19bcb1c9daeaa8", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "deepspeed", "launcher": "deepspeed", "content": "9adfa0428abfd266", "derived": {"queue": "train", "instance_type": "p4d.24xlarge", "training_nodes": 1, "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 8, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 8, "batch.accumulation": 1, "ds_config.train_batch_size": 32, "mount /fsx": "/fsx", "container.shm": "547g", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one", "roles.server": "node 2 of 2, port 8000"}, "roles": [{"name": "server", "first_node": 1, "nodes": 1, "port": 8000, "log": "server.log"}]}

# ======== roles-of-two-kinds
# two roles: 2 nodes x 8 GPUs (p4d.24xlarge) + 3 nodes for actors, collector, deepspeed started by deepspeed-pdsh

#SBATCH --job-name='two roles'
#SBATCH --partition=train
#SBATCH --nodes=5
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "two roles", "spec": {"file": "spec.yaml", "sha256": "93dcc8929ae80e6ad849724dfa031155b81632e34573a1f45364aab7aab7057a", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "deepspeed", "launcher": "deepspeed-pdsh", "content": "746ce9180a06c192", "derived": {"queue": "train", "instance_type": "p4d.24xlarge", "training_nodes": 2, "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 16, "batch.accumulation": 1, "ds_config.train_batch_size": 64, "data[0]": "/scratch/vocab: copied to every node's own disk", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one", "roles.actors": "nodes 3-4 of 5, port 5000", "roles.collector": "node 5 of 5"}, "roles": [{"name": "actors", "first_node": 2, "nodes": 2, "port": 5000, "log": "actors.log"}, {"name": "collector", "first_node": 4, "nodes": 1, "port": null, "log": "collector.log"}]}

# ======== sidecars-and-steps
# steps: 2 nodes x 1 rank (c6i.xlarge), command started by srun

#SBATCH --job-name=steps
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=15
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "steps", "spec": {"file": "spec.yaml", "sha256": "0043d9cb1a98e055c52293c9d2e6929de4fb87844cb512edb92e1ede2f6467f8", "set": []}, "clusterjobs": "0.1.0", "cluster": "small", "framework": "command", "launcher": "srun", "content": "770f78d0422aaf52", "derived": {"launcher": "srun", "queue": "train", "instance_type": "c6i.xlarge", "gpus_per_node": 0, "ranks_per_node": 1, "world_size": 2, "ntasks_per_node": 1, "cpus_per_task": 4, "data_parallel": 2, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== steps-in-a-row
# steps-in-a-row: 4 nodes x 8 GPUs (p4d.24xlarge), command started by srun

#SBATCH --job-name=steps-in-a-row
#SBATCH --partition=train
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=12
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=1-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@360

{"name": "steps-in-a-row", "spec": {"file": "spec.yaml", "sha256": "fae2db352a83763577abc4951cd85bf6470f6e5915ebf0cfb586011cb3bd6ddb", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "command", "launcher": "srun", "content": "9150c7bbb1cf6c4e", "origin": "command=1cf77282 framework=015216f4", "derived": {"queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 32, "ntasks_per_node": 8, "cpus_per_task": 12, "data_parallel": 32, "restarts": "time_limit 20, failure 2, node_failure 3", "watchdog": "ranks that are gone", "asked to save": "by a file", "signal": "USR1, 360 s before the limit", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== steps-before-by-srun
# warm-up: 2 nodes x 8 GPUs (p4d.24xlarge), torchrun started by its own launcher

#SBATCH --job-name=warm-up
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=4:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "warm-up", "spec": {"file": "spec.yaml", "sha256": "313c29fef7f5bb75c9bd1650d91c9b846bb0d4e740d6f1fdfdf4943390dfe5d7", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "torchrun", "launcher": "torchrun", "content": "2a7fffc111c41708", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 16, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== steps-in-docker
# steps-in-docker: 2 nodes x 8 GPUs (p4d.24xlarge), torchrun started by its own launcher

#SBATCH --job-name=steps-in-docker
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=60
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "steps-in-docker", "spec": {"file": "spec.yaml", "sha256": "5ccc368fbb6aadbb0fb9969bbd2fad7f411a4fed34ac6acfefd05c1848319dcf", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "torchrun", "launcher": "torchrun", "content": "2f120bfcde88e5d9", "derived": {"queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 16, "mount /fsx": "/fsx", "container.shm": "547g", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== steps-nccl-p5
# steps-nccl: 2 nodes x 8 GPUs (p5.48xlarge), torchrun started by its own launcher

#SBATCH --job-name=steps-nccl
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=192
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=1-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "steps-nccl", "spec": {"file": "spec.yaml", "sha256": "0f07f6ddd257769cdd61610efca937b7a70c6db438631c4640308003938d5399", "set": []}, "clusterjobs": "0.1.0", "cluster": "p5-h100", "framework": "torchrun", "launcher": "torchrun", "content": "758703ad390384f1", "derived": {"queue": "train", "instance_type": "p5.48xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 192, "data_parallel": 16, "mount /fsx": "/fsx", "mount /dev/infiniband": "/dev/infiniband", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== sidecar-in-a-container
# watched: 2 nodes x 8 GPUs (p4d.24xlarge), torchrun started by its own launcher

#SBATCH --job-name=watched
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "watched", "spec": {"file": "spec.yaml", "sha256": "fcd9402f77ddb19524f8ebcfc257b83a823e1d9d3e05defce4b69b598281904e", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "torchrun", "launcher": "torchrun", "content": "81e6e275d35cbaf3", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 16, "mount /fsx": "/fsx", "mount /dev/infiniband": "/dev/infiniband", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== steps-of-a-sweep
# steps-of-a-sweep: 1 node x 8 GPUs (p4d.24xlarge), command started by srun

#SBATCH --job-name=steps-of-a-sweep
#SBATCH --array=0-1
#SBATCH --partition=train
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=12
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=60
#SBATCH --propagate=NONE
#SBATCH --output=%x-%A_%a.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "steps-of-a-sweep", "spec": {"file": "spec.yaml", "sha256": "bb890f8eb8f43c81e8384409f9033bd93b405c4d08d8f416180a54d4aa5ac114", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "command", "launcher": "srun", "derived": {"queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 8, "ntasks_per_node": 8, "cpus_per_task": 12, "data_parallel": 8, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}, "sweep": "steps-of-a-sweep", "point": {"name": "${point_name}", "index": ${point_index}, "values": {"args.lr": ${lr}}, "content": "${content}"}}

# ======== steps-whose-result-is-there
# prepared: 2 nodes x 8 GPUs (p4d.24xlarge), torchrun started by its own launcher

#SBATCH --job-name=prepared
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "prepared", "spec": {"file": "spec.yaml", "sha256": "302039198c5eb9fd9b00194db9a693a4fe8aa2b46419a931049a675ea7ad38ab", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "torchrun", "launcher": "torchrun", "content": "8e4303b1d0e36cf8", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 16, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== header-in-a-container
# gpt: 2 nodes x 8 GPUs (p4d.24xlarge), torchrun started by its own launcher

#SBATCH --job-name=gpt
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "gpt", "spec": {"file": "spec.yaml", "sha256": "58dc25303034125ed45a138ef3a5dd56f45f64052c1324b281ff6262258b7682", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "torchrun", "launcher": "torchrun", "content": "6f00484f7ec295b2", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 16, "mount /fsx": "/fsx", "mount $SLURM_SUBMIT_DIR/.": "$SLURM_SUBMIT_DIR/.", "mount $job_dir": "$job_dir", "mount /dev/infiniband": "/dev/infiniband", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== sweep-command
# prompts: 1 node x 1 rank (c6i.xlarge), command started by srun

#SBATCH --job-name=prompts
#SBATCH --array=0-7
#SBATCH --partition=train
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%A_%a.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "prompts", "spec": {"file": "spec.yaml", "sha256": "4e2d9e87b85c6cdcd3fb519558b28265e072716d7a8bb55178ae31bd38cd2751", "set": []}, "clusterjobs": "0.1.0", "cluster": "small", "framework": "command", "launcher": "srun", "derived": {"launcher": "srun", "queue": "train", "instance_type": "c6i.xlarge", "gpus_per_node": 0, "ranks_per_node": 1, "world_size": 1, "ntasks_per_node": 1, "cpus_per_task": 4, "data_parallel": 1, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}, "sweep": "prompts", "point": {"name": "${point_name}", "index": ${point_index}, "values": {"env.PROMPT": "${env_prompt}", "command.6": ${command_6}, "args.1": ${args_1}}, "content": "${content}"}}

# ======== sweep-packed
# lr: 1 node x 8 points x 1 GPU (p4d.24xlarge), torchrun started by its own launcher

#SBATCH --job-name=lr
#SBATCH --array=0-1
#SBATCH --partition=train
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=12
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=4:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%A_%a.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@240

{"name": "lr", "spec": {"file": "spec.yaml", "sha256": "070ca6c59026514ce47cb6ee1598c0e303759d81e208b25e87287e688450fb15", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "torchrun", "launcher": "torchrun", "origin": "framework=3b9ebe42 script=4f8d10b9", "derived": {"queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 1, "ranks_per_node": 1, "world_size": 1, "ntasks_per_node": 1, "cpus_per_task": 12, "data_parallel": 1, "restarts": "time_limit 5, failure 0, node_failure 3", "asked to save": "by a file", "signal": "USR1, 240 s before the limit", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + (SLURM_JOB_ID + slot x 2500) % 20000, the next free one"}, "sweep": "lr", "point": {"name": "${point_name}", "index": ${point_index}, "values": {"args.lr": ${lr}, "args.optimizer": "${optimizer}"}, "content": "${content}"}}

# ======== sweep-shapes
# job-1.sh:
# scaling: 1 node x 8 GPUs (p4d.24xlarge), torchrun started by its own launcher

# job-2.sh:
# scaling: 2 nodes x 8 GPUs (p4d.24xlarge), torchrun started by its own launcher

# job-3.sh:
# scaling: 4 nodes x 8 GPUs (p4d.24xlarge), torchrun started by its own launcher

# job-1.sh:
#SBATCH --job-name=scaling
#SBATCH --array=0-2
#SBATCH --partition=train
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=1-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%A_%a.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@240

# job-2.sh:
#SBATCH --job-name=scaling
#SBATCH --array=3-5
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=1-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%A_%a.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@240

# job-3.sh:
#SBATCH --job-name=scaling
#SBATCH --partition=train
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=1-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@240

# job-1.sh:
{"name": "scaling", "spec": {"file": "spec.yaml", "sha256": "6e4ef9dd88a8fe0125094cfb90b1b504278933e4a062527d14a1bd0e08216b1b", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "torchrun", "launcher": "torchrun", "origin": "args.lr=e539aeba framework=3b9ebe42 script=4f8d10b9", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 8, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 8, "restarts": "time_limit 10, failure 2, node_failure 3", "watchdog": "ranks that are gone", "asked to save": "by a file", "signal": "USR1, 240 s before the limit", "checkpoints.export": "s3://bucket/scaling/\$point_label: copied by the job", "logs.export": "s3://bucket/logs: copied by the job", "preflight.gpus": "8", "preflight.processes": "yes", "preflight.efa": "4", "preflight.memlock": "yes", "preflight.shm": "1", "preflight.lustre /fsx": "/fsx", "preflight.space \$job_dir": "10:\$job_dir", "preflight.space /fsx/checkpoints/scaling/\$point_label": "10:/fsx/checkpoints/scaling/\$point_label", "preflight.space /tmp": "1:/tmp", "preflight.clock": "5", "preflight.network": "yes", "preflight.names": "yes", "preflight.port": "yes", "preflight.packages": "torch", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}, "sweep": "scaling", "point": {"name": "${point_name}", "index": ${point_index}, "values": {"nodes": 1, "args.seed": ${seed}}, "content": "${content}"}}

# job-2.sh:
{"name": "scaling", "spec": {"file": "spec.yaml", "sha256": "6e4ef9dd88a8fe0125094cfb90b1b504278933e4a062527d14a1bd0e08216b1b", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "torchrun", "launcher": "torchrun", "origin": "args.lr=e539aeba framework=3b9ebe42 script=4f8d10b9", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 16, "restarts": "time_limit 10, failure 2, node_failure 3", "watchdog": "ranks that are gone", "asked to save": "by a file", "signal": "USR1, 240 s before the limit", "checkpoints.export": "s3://bucket/scaling/\$point_label: copied by the job", "logs.export": "s3://bucket/logs: copied by the job", "preflight.gpus": "8", "preflight.processes": "yes", "preflight.efa": "4", "preflight.memlock": "yes", "preflight.shm": "1", "preflight.lustre /fsx": "/fsx", "preflight.folder": "\$job_dir", "preflight.space \$job_dir": "10:\$job_dir", "preflight.folder /fsx/checkpoints/scaling/\$point_label": "/fsx/checkpoints/scaling/\$point_label", "preflight.space /fsx/checkpoints/scaling/\$point_label": "10:/fsx/checkpoints/scaling/\$point_label", "preflight.space /tmp": "1:/tmp", "preflight.clock": "5", "preflight.network": "yes", "preflight.names": "yes", "preflight.port": "yes", "preflight.packages": "torch", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}, "sweep": "scaling", "point": {"name": "${point_name}", "index": ${point_index}, "values": {"nodes": 2, "args.seed": ${seed}}, "content": "${content}"}}

# job-3.sh:
{"name": "scaling", "spec": {"file": "spec.yaml", "sha256": "6e4ef9dd88a8fe0125094cfb90b1b504278933e4a062527d14a1bd0e08216b1b", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "torchrun", "launcher": "torchrun", "origin": "args.lr=e539aeba framework=3b9ebe42 script=4f8d10b9", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 32, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 32, "restarts": "time_limit 10, failure 2, node_failure 3", "watchdog": "ranks that are gone", "asked to save": "by a file", "signal": "USR1, 240 s before the limit", "checkpoints.export": "s3://bucket/scaling/\$point_label: copied by the job", "logs.export": "s3://bucket/logs: copied by the job", "preflight.gpus": "8", "preflight.processes": "yes", "preflight.efa": "4", "preflight.memlock": "yes", "preflight.shm": "1", "preflight.lustre /fsx": "/fsx", "preflight.folder": "\$job_dir", "preflight.space \$job_dir": "10:\$job_dir", "preflight.folder /fsx/checkpoints/scaling/\$point_label": "/fsx/checkpoints/scaling/\$point_label", "preflight.space /fsx/checkpoints/scaling/\$point_label": "10:/fsx/checkpoints/scaling/\$point_label", "preflight.space /tmp": "1:/tmp", "preflight.clock": "5", "preflight.network": "yes", "preflight.names": "yes", "preflight.port": "yes", "preflight.packages": "torch", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}, "sweep": "scaling", "point": {"name": "${point_name}", "index": ${point_index}, "values": {"nodes": 4}, "content": "5ad6ba0334544dfb"}}

# ======== log-of-all-points
# points: 1 node x 1 rank (c6i.xlarge), command started by srun

#SBATCH --job-name=points
#SBATCH --array=0-3
#SBATCH --partition=train
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%A_%a.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "points", "spec": {"file": "spec.yaml", "sha256": "a0d5404768f2e643da13354c524245debcf0fbe17a3df512ec982a4dea65f7ed", "set": []}, "clusterjobs": "0.1.0", "cluster": "small", "framework": "command", "launcher": "srun", "derived": {"launcher": "srun", "queue": "train", "instance_type": "c6i.xlarge", "gpus_per_node": 0, "ranks_per_node": 1, "world_size": 1, "ntasks_per_node": 1, "cpus_per_task": 4, "data_parallel": 1, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}, "sweep": "points", "point": {"name": "${point_name}", "index": ${point_index}, "values": {"args.lr": ${lr}, "args.seed": ${seed}}, "content": "${content}"}}

# ======== torchrun-srun-p4d
# finetune: 1 node x 4 GPUs (p4d.24xlarge), torchrun started by srun

#SBATCH --job-name=finetune
#SBATCH --partition=train
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=12
#SBATCH --gpus-per-node=4
#SBATCH --time=4:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue
#SBATCH --account=research
#SBATCH --qos=high

{"name": "finetune", "spec": {"file": "spec.yaml", "sha256": "9370c38ef81756eb64b0a55ee6c994423b32c2559d124eacd1fb03c1d6f505aa", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "torchrun", "launcher": "srun", "content": "bcddea717e0902b6", "derived": {"queue": "train", "instance_type": "p4d.24xlarge", "ranks_per_node": 4, "world_size": 4, "ntasks_per_node": 4, "cpus_per_task": 12, "data_parallel": 4, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== torchrun-torchrun-p5
# big-run: 64 nodes x 8 GPUs (p5.48xlarge), torchrun started by its own launcher

#SBATCH --job-name=big-run
#SBATCH --partition=train
#SBATCH --nodes=64
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=192
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=7-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "big-run", "spec": {"file": "spec.yaml", "sha256": "511e29d2a5e20246864524f5d7191305e99756dcee53f23b3b6d9b152b51dcb5", "set": []}, "clusterjobs": "0.1.0", "cluster": "p5-h100", "framework": "torchrun", "launcher": "torchrun", "content": "f4e4adf4af66d139", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "p5.48xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 512, "ntasks_per_node": 1, "cpus_per_task": 192, "data_parallel": 512, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== torchrun-restarts-small
# ddp: 2 nodes x 2 ranks (c6i.xlarge), torchrun started by its own launcher

#SBATCH --job-name=ddp
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=12:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@240

{"name": "ddp", "spec": {"file": "spec.yaml", "sha256": "179d6a32807fba926b2537819ff28a78e40210de1b3474c99e09db0b3039ebc5", "set": []}, "clusterjobs": "0.1.0", "cluster": "small", "framework": "torchrun", "launcher": "torchrun", "content": "f1e9e72ba0a3a447", "origin": "framework=3b9ebe42 script=4f8d10b9", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "c6i.xlarge", "gpus_per_node": 0, "world_size": 4, "ntasks_per_node": 1, "cpus_per_task": 4, "data_parallel": 4, "restarts": "time_limit 3, failure 0, node_failure 3", "watchdog": "ranks that are gone", "asked to save": "by a file", "signal": "USR1, 240 s before the limit", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== launcher-with-prefix
# profiled: 2 nodes x 8 GPUs (p4d.24xlarge), torchrun started by its own launcher

#SBATCH --job-name=profiled
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=30
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "profiled", "spec": {"file": "spec.yaml", "sha256": "7bf201cf8e43461b0b61034663005b4018870f8eee8e4e7a63a2e90bcb5b4613", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "torchrun", "launcher": "torchrun", "content": "b18753b918d5716c", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 16, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== huggingface-torchrun-zero
# sft: 2 nodes x 8 GPUs (p4d.24xlarge), huggingface started by torchrun

#SBATCH --job-name=sft
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=1-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@240

{"name": "sft", "spec": {"file": "spec.yaml", "sha256": "c4c05fddca761132f443ba9c6f4a8c1c3fd4464bf2fa52cc0ccdbd150c9ab683", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "huggingface", "launcher": "torchrun", "content": "e65cec14501a6c80", "origin": "args.do_train=b5bea41b ds_config=824ae070 framework=8c8e2322 script=f9460a3b", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 16, "batch.accumulation": 4, "ds_config.train_batch_size": 256, "restarts": "time_limit 5, failure 0, node_failure 3", "watchdog": "ranks that are gone", "asked to save": "by a file", "signal": "USR1, 240 s before the limit", "resume": "--resume_from_checkpoint with the newest complete checkpoint-N, if there is one", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== huggingface-accelerate-fsdp
# sft: 2 nodes x 8 GPUs (p5.48xlarge), huggingface started by accelerate

#SBATCH --job-name=sft
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=192
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

{"name": "sft", "spec": {"file": "spec.yaml", "sha256": "cd085b78942b09d1184e56ee47745b9d844f6c539df8bfd8f8db564785251f87", "set": []}, "clusterjobs": "0.1.0", "cluster": "p5-h100", "framework": "huggingface", "launcher": "accelerate", "content": "b4e6afd472f13450", "origin": "args.config=4ee73281 framework=8c8e2322 script=5f62d990", "derived": {"queue": "train", "instance_type": "p5.48xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 192, "data_parallel": 16, "batch.accumulation": 2, "resume": "--resume_from_checkpoint with the newest complete checkpoint-N, if there is one", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== huggingface-own-launch-config
# sft: 2 nodes x 8 GPUs (p5.48xlarge), huggingface started by accelerate

#SBATCH --job-name=sft
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=192
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "sft", "spec": {"file": "spec.yaml", "sha256": "2cbe7b621cb69b3a697e010bbd444de97b0b9590d8273695252cbbaa5046a69b", "set": []}, "clusterjobs": "0.1.0", "cluster": "p5-h100", "framework": "huggingface", "launcher": "accelerate", "content": "fe07fe63b5945038", "derived": {"queue": "train", "instance_type": "p5.48xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 192, "data_parallel": 16, "batch.accumulation": 2, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== accelerate-own-launch-config-zero
# loop: 2 nodes x 8 GPUs (p4d.24xlarge), accelerate started by its own launcher

#SBATCH --job-name=loop
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "loop", "spec": {"file": "spec.yaml", "sha256": "31f746ac1b15aec45a0e4b8a616a989e3d4d0ec223f62b40d4e81cc5ba4d7b31", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "accelerate", "launcher": "accelerate", "content": "3819ece9cb9b81ac", "derived": {"launcher": "accelerate", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 16, "batch.accumulation": 4, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== accelerate-restarts-and-logs
# loop: 2 nodes x 8 GPUs (p4d.24xlarge), accelerate started by its own launcher

#SBATCH --job-name=loop
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

{"name": "loop", "spec": {"file": "spec.yaml", "sha256": "627f9eb848b8cc3e9f0786855695b0500454b01113ff05dff7f5ac56edd06da2", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "accelerate", "launcher": "accelerate", "content": "e169e370290fe2bd", "origin": "framework=f8a7d6c3 script=4f8d10b9", "derived": {"launcher": "accelerate", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 16, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== accelerate-cpu
# loop: 2 nodes x 2 ranks (c6i.xlarge), accelerate started by its own launcher

#SBATCH --job-name=loop
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "loop", "spec": {"file": "spec.yaml", "sha256": "b314edb5107354eba891f3e5f8d9c4872ff1badc5fe2f37e3be2e910553ab747", "set": []}, "clusterjobs": "0.1.0", "cluster": "small", "framework": "accelerate", "launcher": "accelerate", "content": "e12cd05a8814225f", "derived": {"launcher": "accelerate", "queue": "train", "instance_type": "c6i.xlarge", "gpus_per_node": 0, "world_size": 4, "ntasks_per_node": 1, "cpus_per_task": 4, "data_parallel": 4, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== accelerate-launch-zero
# loop: 2 nodes x 8 GPUs (p4d.24xlarge), accelerate started by its own launcher

#SBATCH --job-name=loop
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "loop", "spec": {"file": "spec.yaml", "sha256": "2c683b444f290b56e4bf3a225be1ace57325a8140c01e048f326d3d414aabdae", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "accelerate", "launcher": "accelerate", "content": "b74fc57d3227ea89", "derived": {"launcher": "accelerate", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 16, "batch.accumulation": 4, "ds_config.train_batch_size": 256, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== accelerate-srun-fsdp
# loop: 2 nodes x 8 GPUs (p4d.24xlarge), accelerate started by srun

#SBATCH --job-name=loop
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=12
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "loop", "spec": {"file": "spec.yaml", "sha256": "ecdf24dd37535b437aaff1a7009c99c0670c60270ff8bfc7ceb354a3137e3604", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "accelerate", "launcher": "srun", "content": "394b4bed11a3ea08", "derived": {"queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 8, "cpus_per_task": 12, "data_parallel": 16, "batch.accumulation": 4, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== lightning-p4d
# vit: 2 nodes x 8 GPUs (p4d.24xlarge), lightning started by srun

#SBATCH --job-name=vit
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=12
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=1-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@240

{"name": "vit", "spec": {"file": "spec.yaml", "sha256": "ad14c0bfb317cc899fb88857724ae67a893fc9e455ae156d59e903431d35cb51", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "lightning", "launcher": "srun", "content": "04d27a8e9f888781", "origin": "args.batch-size=a68b412c framework=7d50d4b8 script=4f8d10b9", "derived": {"launcher": "srun", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 8, "cpus_per_task": 12, "data_parallel": 16, "batch.accumulation": 2, "restarts": "time_limit 20, failure 2, node_failure 3", "watchdog": "ranks that are gone", "asked to save": "by a file", "signal": "USR1, 240 s before the limit", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== lightning-cli
# vit-cli: 2 nodes x 8 GPUs (p4d.24xlarge), lightning started by srun

#SBATCH --job-name=vit-cli
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=12
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "vit-cli", "spec": {"file": "spec.yaml", "sha256": "9e1a38822fe409287bcc8ef2f95c671ccab494061474684eafdf10ee50a49f2f", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "lightning", "launcher": "srun", "content": "43d1e534718a9a0b", "derived": {"launcher": "srun", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 8, "cpus_per_task": 12, "data_parallel": 16, "batch.global": 2048, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== composer-p4d
# mpt: 2 nodes x 8 GPUs (p4d.24xlarge), composer started by its own launcher

#SBATCH --job-name=mpt
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=1-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@240

{"name": "mpt", "spec": {"file": "spec.yaml", "sha256": "6225fd69623c9ee52ccba33ea3d81694355c139c1e636abdb61c6eb96db6a339", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "composer", "launcher": "composer", "content": "161a80018a517599", "origin": "args.batch-size=94f86079 framework=355150d7 script=4f8d10b9", "derived": {"launcher": "composer", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 16, "batch.accumulation": 4, "restarts": "time_limit 20, failure 0, node_failure 3", "watchdog": "ranks that are gone", "asked to save": "by a file", "signal": "USR1, 240 s before the limit", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== composer-torchrun
# mpt: 2 nodes x 8 GPUs (p4d.24xlarge), composer started by torchrun

#SBATCH --job-name=mpt
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "mpt", "spec": {"file": "spec.yaml", "sha256": "fdd7359e49d24a644901cfc0270b872f0785042e9ebf9771600b40e11ac777b0", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "composer", "launcher": "torchrun", "content": "2721a1968f3d131a", "derived": {"queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 16, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== torchtitan-p5
# llama3-8b: 4 nodes x 8 GPUs (p5.48xlarge), torchtitan started by torchrun

#SBATCH --job-name=llama3-8b
#SBATCH --partition=train
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=192
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=1-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@240

{"name": "llama3-8b", "spec": {"file": "spec.yaml", "sha256": "2cc33bb20280092326824c0a5d88998f2dc81431859675057dc8abbb77b0c512", "set": []}, "clusterjobs": "0.1.0", "cluster": "p5-h100", "framework": "torchtitan", "launcher": "torchrun", "content": "96febafa44e24806", "origin": "args.parallelism.data_parallel_replicate_degree=d4735e3a framework=0c2502fe parallel.context=d4735e3a parallel.tensor=4b227777", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "p5.48xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 32, "ntasks_per_node": 1, "cpus_per_task": 192, "data_parallel": 4, "batch.accumulation": 8, "restarts": "time_limit 20, failure 0, node_failure 3", "watchdog": "ranks that are gone", "asked to save": "never", "signal": "USR1, 240 s before the limit", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== torchtitan-0.2-srun
# llama3-debug: 1 node x 8 GPUs (p4d.24xlarge), torchtitan started by srun

#SBATCH --job-name=llama3-debug
#SBATCH --partition=train
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=12
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "llama3-debug", "spec": {"file": "spec.yaml", "sha256": "9a3cd7951ad7753a6843389f8c18134d6cf244beea965c4bcf62c1f41bf5a24f", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "torchtitan", "launcher": "srun", "content": "312f9afd943e9aa9", "derived": {"queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 8, "ntasks_per_node": 8, "cpus_per_task": 12, "data_parallel": 8, "batch.accumulation": 1, "batch.global": 64, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== fairseq-train-p3dn
# roberta: 2 nodes x 8 GPUs (p3dn.24xlarge), fairseq started by srun

#SBATCH --job-name=roberta
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=6
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

{"name": "roberta", "spec": {"file": "spec.yaml", "sha256": "b0657ec5d7b56f141c557b02e9867d873b0553707a0eaf7007b05a42506a43ba", "set": []}, "clusterjobs": "0.1.0", "cluster": "p3dn-v100", "framework": "fairseq", "launcher": "srun", "content": "d0aec3a1ffe5ce04", "origin": "args.adam-betas=d0470de6 args.lr=ad649df6 args.memory-efficient-fp16=b5bea41b args.optimizer=42a2507a framework=f1a1d4b9 model.heads=b17ef6d1 model.hidden=e39eef82 model.layers=c2356069 model.sequence=94f86079", "derived": {"launcher": "srun", "queue": "train", "instance_type": "p3dn.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 8, "cpus_per_task": 6, "data_parallel": 16, "batch.accumulation": 8, "fairseq.distributed_world_size": 16, "fairseq.update_freq": 8, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== fairseq-train-cpu
# roberta-tiny: 2 nodes x 2 ranks (c6i.xlarge), fairseq started by srun

#SBATCH --job-name=roberta-tiny
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=2
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "roberta-tiny", "spec": {"file": "spec.yaml", "sha256": "97998d3fc05d2e30e12f39b6aae1739b7146e3283a7f7cd69727436e3a8a4334", "set": []}, "clusterjobs": "0.1.0", "cluster": "small", "framework": "fairseq", "launcher": "srun", "content": "9da5ad3210e8af39", "derived": {"launcher": "srun", "queue": "train", "instance_type": "c6i.xlarge", "gpus_per_node": 0, "world_size": 4, "ntasks_per_node": 2, "cpus_per_task": 2, "data_parallel": 4, "batch.accumulation": 2, "fairseq.distributed_world_size": 4, "fairseq.update_freq": 2, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== fairseq-hydra-p4d
# roberta-hydra: 2 nodes x 8 GPUs (p4d.24xlarge), fairseq started by torchrun

#SBATCH --job-name=roberta-hydra
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

{"name": "roberta-hydra", "spec": {"file": "spec.yaml", "sha256": "45197cdffeaf322323c9776eaeedce84aaf8df9dc1ce83fe6aacc8f72ba4e0ae", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "fairseq", "launcher": "torchrun", "content": "52ff65ca8591764d", "origin": "args.dataset.disable_validation=fcbcf165 args.dataset.train_subset=f9786f34 args.optimization.lr=0eb3cd28 framework=f1a1d4b9", "derived": {"queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 16, "batch.global": 512, "fairseq.distributed_world_size": 16, "fairseq.update_freq": 4, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== jax-p4d
# flax: 2 nodes x 8 GPUs (p4d.24xlarge), jax started by srun

#SBATCH --job-name=flax
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=1-00:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@360

{"name": "flax", "spec": {"file": "spec.yaml", "sha256": "2810476bb43f97f069285840acaf524ce6a3dd9744e216433839e4de99b326ed", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "jax", "launcher": "srun", "content": "20f1e152e1d1c054", "origin": "framework=679611a1 script=4f8d10b9", "derived": {"launcher": "srun", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "world_size": 2, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 2, "restarts": "time_limit 20, failure 0, node_failure 3", "watchdog": "ranks that are gone", "asked to save": "by a file and SIGTERM", "signal": "USR1, 360 s before the limit", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== horovod-horovodrun
# hvd: 2 nodes x 8 GPUs (p4d.24xlarge), horovod started by horovodrun

#SBATCH --job-name=hvd
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "hvd", "spec": {"file": "spec.yaml", "sha256": "1dfecff21da57e5a366a951777a97a40ed115404e84286572eb1800ae5e60cb7", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "horovod", "launcher": "horovodrun", "content": "d5a2b2aedbf564a0", "derived": {"launcher": "horovodrun", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 16, "batch.global": 2048, "horovod.learning_rate_factor": 32, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== horovod-mpirun
# hvd-mpi: 2 nodes x 8 GPUs (p3dn.24xlarge), horovod started by mpirun

#SBATCH --job-name=hvd-mpi
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=6
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "hvd-mpi", "spec": {"file": "spec.yaml", "sha256": "814134808db177b7921a04e92c0f6be22397a680b1e14d8df451f5afa6267434", "set": []}, "clusterjobs": "0.1.0", "cluster": "p3dn-v100", "framework": "horovod", "launcher": "mpirun", "content": "39cc384739db39e8", "derived": {"queue": "train", "instance_type": "p3dn.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 8, "cpus_per_task": 6, "data_parallel": 16, "horovod.learning_rate_factor": 16, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== horovod-own-sshd-port
# hvd-ssh: 2 nodes x 1 rank (c6i.xlarge), horovod started by horovodrun

#SBATCH --job-name=hvd-ssh
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "hvd-ssh", "spec": {"file": "spec.yaml", "sha256": "6639062a34cc2d3703fe40c12e43fa4386da16ab79abcd0b14374ad3ada9dbec", "set": []}, "clusterjobs": "0.1.0", "cluster": "small", "framework": "horovod", "launcher": "horovodrun", "content": "e21e40d4adad81c1", "derived": {"launcher": "horovodrun", "queue": "train", "instance_type": "c6i.xlarge", "gpus_per_node": 0, "ranks_per_node": 1, "world_size": 2, "ntasks_per_node": 1, "cpus_per_task": 4, "data_parallel": 2, "horovod.learning_rate_factor": 2, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== accelerate-fsdp-1-prefetch
# prefetch: 1 node x 8 GPUs (p4d.24xlarge), accelerate started by its own launcher

#SBATCH --job-name=prefetch
#SBATCH --partition=train
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "prefetch", "spec": {"file": "spec.yaml", "sha256": "d39150d0a70e5c401d3974a34d3166d2ccd738cd57e9b4e4a9fb6445a7f2418a", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "accelerate", "launcher": "accelerate", "content": "d69525473deb7017", "derived": {"launcher": "accelerate", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 8, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 8, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== huggingface-fsdp-1-prefetch
# prefetch: 1 node x 8 GPUs (p4d.24xlarge), huggingface started by torchrun

#SBATCH --job-name=prefetch
#SBATCH --partition=train
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "prefetch", "spec": {"file": "spec.yaml", "sha256": "b1f7704918da17f92f70882e224292ad639221dabd1a72c5272af8cbaed1a40b", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "huggingface", "launcher": "torchrun", "content": "1ab96d00a22ced82", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 8, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 8, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== everything
# every key: 4 nodes x 8 GPUs (p4d.24xlarge), deepspeed started by srun

#SBATCH --job-name='every key'
#SBATCH --partition=train
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=12
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --time=1-12
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --account=ml
#SBATCH --qos=high
#SBATCH --mail-type=END
#SBATCH --comment='it\'s mine # yes'
#SBATCH --requeue
#SBATCH --mem=900G

{"name": "every key", "spec": {"file": "spec.yaml", "sha256": "7f7743ce7e4353ee4d88d9daef36891480b60683b4283d4ebe7abcd89a6b99ae", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "deepspeed", "launcher": "srun", "content": "ea855f9c93318dc3", "origin": "args.braces=ac34977b args.empty=12ae32cb args.files=076f2ffb args.flag=b5bea41b args.left-out=fcbcf165 args.lines=c32baf8c args.literal=085d21e9 args.lr=675db7ce args.note=86f3e9a0 args.optimizer=aeb606ac args.seed=645a3687 args.tensor-parallel=d4735e3a ds_config.activation_checkpointing.partition_activations=b5bea41b ds_config.steps_per_print=4a44dc15 ds_config.zero_optimization.reduce_bucket_size=ee3f88aa framework=3442dbf7 parallel.pipeline=d4735e3a parallel.tensor=d4735e3a script=908d59e0", "derived": {"instance_type": "p4d.24xlarge", "world_size": 16, "ntasks_per_node": 4, "data_parallel": 4, "batch.accumulation": 4, "ds_config.train_batch_size": 64, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== references-of-all-kinds
# references: 4 nodes x 8 GPUs (p4d.24xlarge), torchrun started by its own launcher

#SBATCH --job-name=references
#SBATCH --partition=train
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=12:00:00
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

{"name": "references", "spec": {"file": "spec.yaml", "sha256": "fb80d383940c7ede00e725f01e865f83a02071f1245746803b6f132653c34817", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "torchrun", "launcher": "torchrun", "content": "1dd81549437bd3f8", "origin": "args.accumulation=b3cb4ad3 args.cache=abdbf939 args.shard=777cbed1 args.world=b39c4598 framework=3b9ebe42 script=4f8d10b9", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 32, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 32, "batch.accumulation": 8, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== forced-variables-p4d
# two-gpus-a-rank: 2 nodes x 8 GPUs (p4d.24xlarge), torchrun started by its own launcher

#SBATCH --job-name=two-gpus-a-rank
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "two-gpus-a-rank", "spec": {"file": "spec.yaml", "sha256": "12f935eaac660d026361fd8dbfb8fa4f8a2884fb045749821e41b2e4d4b6d2f0", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "torchrun", "launcher": "torchrun", "content": "7e70c29f5c3fdcfd", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "world_size": 2, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 2, "env.CUDA_VISIBLE_DEVICES": "0,1", "env.LD_PRELOAD": "${HOME}/lib/libjemalloc.so", "env.MASTER_PORT": "29500", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== names-in-other-scripts
# Übung-größe-日本語: 2 nodes x 1 rank (c6i.xlarge), torchrun started by its own launcher

#SBATCH --job-name='Übung-größe-日本語'
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=30
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --comment='für Zoë'

{"name": "\u00dcbung-gr\u00f6\u00dfe-\u65e5\u672c\u8a9e", "spec": {"file": "spec.yaml", "sha256": "a1d462fe4596168a5cf86d8fb4244ee0aa31d2c0ddc58a6d41af646f2b7c7b07", "set": []}, "clusterjobs": "0.1.0", "cluster": "small", "framework": "torchrun", "launcher": "torchrun", "content": "381daab69e0fdc60", "origin": "args.__=3a1ec7b6 args.emoji=d315d6a8 args.t_tulo=157db9da framework=3b9ebe42 script=5bad9bf1", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "c6i.xlarge", "gpus_per_node": 0, "ranks_per_node": 1, "world_size": 2, "ntasks_per_node": 1, "cpus_per_task": 4, "data_parallel": 2, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== secrets
# with-secrets: 2 nodes x 1 rank (c6i.xlarge), torchrun started by its own launcher

#SBATCH --job-name=with-secrets
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=30
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "with-secrets", "spec": {"file": "spec.yaml", "sha256": "8d724451ac55a1cbb1347efb53f3f582dd7764f2f7374aaa874b35d10c95d33f", "set": []}, "clusterjobs": "0.1.0", "cluster": "small", "framework": "torchrun", "launcher": "torchrun", "content": "007021d21c71f4c8", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "c6i.xlarge", "gpus_per_node": 0, "ranks_per_node": 1, "world_size": 2, "ntasks_per_node": 1, "cpus_per_task": 4, "data_parallel": 2, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== modules-and-site-files
# site-files: 2 nodes x 1 rank (c6i.xlarge), command started by srun

#SBATCH --job-name=site-files
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "site-files", "spec": {"file": "spec.yaml", "sha256": "f614aab783853ee539e2f68c812bbed9c431a85e99352162ff1467971e4469bf", "set": []}, "clusterjobs": "0.1.0", "cluster": "small", "framework": "command", "launcher": "srun", "content": "50150f76e8255c28", "derived": {"launcher": "srun", "queue": "train", "instance_type": "c6i.xlarge", "gpus_per_node": 0, "ranks_per_node": 1, "world_size": 2, "ntasks_per_node": 1, "cpus_per_task": 4, "data_parallel": 2, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== modules-in-setup
# modules-in-setup: 1 node x 1 rank (c6i.xlarge), command started by srun

#SBATCH --job-name=modules-in-setup
#SBATCH --partition=train
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "modules-in-setup", "spec": {"file": "spec.yaml", "sha256": "676089e4f028bf0db82e86aa52ef3bc8e3a4779942af20fbf1397a1df4596edf", "set": []}, "clusterjobs": "0.1.0", "cluster": "small", "framework": "command", "launcher": "srun", "content": "8e38b66b7b315cc8", "derived": {"launcher": "srun", "queue": "train", "instance_type": "c6i.xlarge", "gpus_per_node": 0, "ranks_per_node": 1, "world_size": 1, "ntasks_per_node": 1, "cpus_per_task": 4, "data_parallel": 1, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== log-of-all-jobs
# cumulative: 2 nodes x 1 rank (c6i.xlarge), command started by srun

#SBATCH --job-name=cumulative
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --no-requeue
#SBATCH --output=/fsx/logs/%x.out
#SBATCH --open-mode=append

{"name": "cumulative", "spec": {"file": "spec.yaml", "sha256": "87629a08c1f3d7acda2f3c5c68dbba07ecc86bf14b3c9496aa621164a05f318b", "set": []}, "clusterjobs": "0.1.0", "cluster": "small", "framework": "command", "launcher": "srun", "content": "274ae8454d75aeb8", "derived": {"launcher": "srun", "queue": "train", "instance_type": "c6i.xlarge", "gpus_per_node": 0, "ranks_per_node": 1, "world_size": 2, "ntasks_per_node": 1, "cpus_per_task": 4, "data_parallel": 2, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== newest-checkpoint-as-an-argument
# resumes: 1 node x 8 GPUs (p4d.24xlarge), torchrun started by its own launcher

#SBATCH --job-name=resumes
#SBATCH --partition=train
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

{"name": "resumes", "spec": {"file": "spec.yaml", "sha256": "ce796cc58f697e70ec8f539ed1ff5d3927fe89c3084874463fafc6a960ccd005", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "torchrun", "launcher": "torchrun", "content": "c7256f9008b0e0d7", "origin": "args.init=4e88d017 framework=3b9ebe42 script=4f8d10b9", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 8, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 8, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== limits-of-the-ranks
# limits: 2 nodes x 8 GPUs (p4d.24xlarge), torchrun started by its own launcher

#SBATCH --job-name=limits
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "limits", "spec": {"file": "spec.yaml", "sha256": "4d0caea92504b4c248b33816865094351f663f29190a0c48c4fcc5951d4393ce", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "torchrun", "launcher": "torchrun", "content": "77d9ab94cbed44e8", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 16, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== limits-of-a-docker-container
# limits: 1 node x 8 GPUs (p4d.24xlarge), torchrun started by its own launcher

#SBATCH --job-name=limits
#SBATCH --partition=train
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "limits", "spec": {"file": "spec.yaml", "sha256": "9fddb1aa9c913d871133a6aeb0f9bf535670fea5f0e3771b28b2b3489623decb", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "torchrun", "launcher": "torchrun", "content": "5144e86d613b7000", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 8, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 8, "mount /fsx": "/fsx", "mount $SLURM_SUBMIT_DIR/.": "$SLURM_SUBMIT_DIR/.", "mount $job_dir": "$job_dir", "container.shm": "547g", "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== a-trusted-group
# team: 1 node x 8 GPUs (p4d.24xlarge), torchrun started by its own launcher

#SBATCH --job-name=team
#SBATCH --partition=train
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

{"name": "team", "spec": {"file": "spec.yaml", "sha256": "8729eb0de55fda666f195db7286a09015df7b9b2f249bb2e385adf10cd8e800a", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "torchrun", "launcher": "torchrun", "content": "daaec567d85ae5f1", "origin": "framework=3b9ebe42 script=4f8d10b9", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 8, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 8, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

# ======== values-that-commands-print
# computed: 2 nodes x 8 GPUs (p4d.24xlarge), torchrun started by its own launcher

#SBATCH --job-name=computed
#SBATCH --partition=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --propagate=NONE
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

{"name": "computed", "spec": {"file": "spec.yaml", "sha256": "11f740f50276e4771e076c5a15d3442fb6b37fc58353adc437870dde53b1d4c9", "set": []}, "clusterjobs": "0.1.0", "cluster": "p4d-a100", "framework": "torchrun", "launcher": "torchrun", "content": "c6c2c75c0f101b40", "derived": {"launcher": "torchrun", "queue": "train", "instance_type": "p4d.24xlarge", "gpus_per_node": 8, "ranks_per_node": 8, "world_size": 16, "ntasks_per_node": 1, "cpus_per_task": 96, "data_parallel": 16, "MASTER_ADDR": "the first of SLURM_JOB_NODELIST", "MASTER_PORT": "12000 + SLURM_JOB_ID % 20000, the next free one"}}

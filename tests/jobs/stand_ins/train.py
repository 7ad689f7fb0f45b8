"""In place of GPT-NeoX's train.py: takes its rank from Slurm, as `deepspeed_slurm` has it do."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import record_rank

if __name__ == "__main__":
    os.environ["LOCAL_RANK"] = os.environ["SLURM_LOCALID"]
    os.environ["RANK"] = os.environ["SLURM_PROCID"]
    os.environ["WORLD_SIZE"] = os.environ["SLURM_NTASKS"]
    record_rank.main()

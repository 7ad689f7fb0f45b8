"""In place of GPT-NeoX's train.py: writes down what it is told, then may fail or go on."""

import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

import record_rank

if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if not word.startswith("--local_rank")]
    does = words.pop()
    sys.argv[1:] = words
    record_rank.main()
    if does == "fail" and os.environ["RANK"] == "3":
        sys.exit(17)
    again = os.environ.get("SLURM_RESTART_COUNT", "0") != "0"
    if does != "end" and not (again and does == "go on once"):
        time.sleep(300)

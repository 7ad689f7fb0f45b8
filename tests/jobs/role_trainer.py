"""A rank for tests of roles: asks the server for its node, and writes down what both see.

    role_trainer.py FOLDER ADDRESS [wait]

`wait`: it then waits for the stop file, or for FOLDER/end, whose content is its exit code.
"""

from __future__ import annotations

import json
import os
import pathlib
import socket
import sys
import time
import urllib.request

folder, address = pathlib.Path(sys.argv[1]), sys.argv[2]
attempt, rank = int(os.environ.get("SLURM_RESTART_COUNT", 0)) + 1, os.environ["RANK"]
port = os.environ["CLUSTERJOBS_SERVER_PORT"]
with urllib.request.urlopen(f"http://{address}:{port}/", timeout=60) as answer:
    said = json.load(answer)
names = ("WORLD_SIZE", "MASTER_ADDR", "CLUSTERJOBS_TRAINING_NODES", "CLUSTERJOBS_SERVER_NODES")
seen = {"host": socket.gethostname(), "server": said, **{name: os.environ[name] for name in names}}
if "torch" in sys.argv:
    import torch

    torch.distributed.init_process_group("gloo")
    together = torch.ones(1)
    torch.distributed.all_reduce(together)
    seen["together"] = int(together)
    torch.distributed.destroy_process_group()  # else a rank may end before another is done
new = folder / f"{attempt}.{rank}.new"
new.write_text(json.dumps(seen))
new.rename(folder / f"{attempt}.{rank}.json")
while "wait" in sys.argv:
    if (folder / "end").exists() and (code := (folder / "end").read_text()):
        sys.exit(int(code))
    if pathlib.Path(os.environ.get("CLUSTERJOBS_STOP_FILE", "nowhere")).exists():
        sys.exit(0)
    time.sleep(0.1)

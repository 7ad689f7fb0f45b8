"""The training of examples/tiny_gpt with a record of its own steps (own_record.py)."""

import importlib
import os
import pathlib
import sys

from own_record import OwnRecord

TINY_GPT = pathlib.Path(__file__).parents[2] / "examples" / "tiny_gpt"
sys.path.insert(0, str(TINY_GPT))

train = importlib.import_module("train")
train_step = train.train_step
record = OwnRecord(int(os.environ["RANK"]))


def recorded_step(trainer, text, args, step, device):
    with record.step(step + 1, trainer.micro_batch * trainer.accumulation) as row:
        loss = train_step(trainer, text, args, step, device)
        row["loss"] = loss.item()
    return loss


train.train_step = recorded_step

if __name__ == "__main__":
    code = train.main()
    sys.stdout.flush()
    os._exit(code)  # in a normal exit, a thread of PyTorch sometimes aborts the interpreter

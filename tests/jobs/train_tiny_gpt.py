"""The training of examples/tiny_gpt with a record of its own steps (own_record.py).

With DeepSpeed, `engine` of a step is at least and at most the time that DeepSpeed's timer measures:
it runs from the start of the engine's forward to the end of its step, without loading the batch.
"""

import importlib
import os
import pathlib
import sys
import time

from own_record import OwnRecord

TINY_GPT = pathlib.Path(__file__).parents[2] / "examples" / "tiny_gpt"
sys.path.insert(0, str(TINY_GPT))

train = importlib.import_module("train")
train_step = train.train_step
record = OwnRecord(int(os.environ["RANK"]))


class EngineClock:
    """Measures from outside (`most`) and from inside (`least`) what the engine does in a step."""

    def __init__(self, trainer):
        self.trainer, self.train = trainer, trainer.train
        self.backward = trainer.engine.backward
        trainer.train, trainer.engine.backward = self.timed_train, self.timed_backward
        trainer.engine.module.register_forward_pre_hook(self.begin_forward)
        self.least = self.most = 0.0

    def begin_forward(self, *_):
        self.began = time.monotonic()

    def timed_backward(self, loss):
        result = self.backward(loss)
        self.least += time.monotonic() - self.began
        return result

    def timed_train(self, *batch):
        start = time.monotonic()
        result = self.train(*batch)
        self.most += time.monotonic() - start
        return result


clocks = []


def recorded_step(trainer, text, args, step, device):
    if args.deepspeed and not clocks:
        clocks.append(EngineClock(trainer))
    with record.step(step + 1, trainer.micro_batch * trainer.accumulation) as row:
        loss = train_step(trainer, text, args, step, device)
        row["loss"] = loss.item()
        for clock in clocks:
            row["engine"] = [clock.least, clock.most]
            clock.least = clock.most = 0.0
    return loss


train.train_step = recorded_step

if __name__ == "__main__":
    code = train.main()
    sys.stdout.flush()
    os._exit(code)  # in a normal exit, a thread of PyTorch sometimes aborts the interpreter

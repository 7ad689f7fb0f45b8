"""A user directory for fairseq: each training step goes into its own record (own_record.py).

The loss is that of the criterion, in nats for each masked token, before fairseq averages it.
"""

import atexit
import os
import time

import torch.distributed
from fairseq.criterions.masked_lm import MaskedLmLoss
from fairseq.trainer import Trainer
from own_record import OwnRecord

train_step, forward = Trainer.train_step, MaskedLmLoss.forward
record = OwnRecord(int(os.environ["RANK"]))
outputs = []


def recorded_forward(self, *args, **keys):
    found = forward(self, *args, **keys)
    outputs.append({name: float(value) for name, value in found[2].items()})
    return found


def recorded_step(self, samples, **keys):
    outputs.clear()
    start = time.monotonic()
    result = train_step(self, samples, **keys)
    # A rank without samples runs a batch of another step, whose gradients and sums are dropped.
    own = [one for one, sample in zip(outputs, samples, strict=True) if sample]
    sums = {name: sum(one[name] for one in own) for name in outputs[0]}
    mean = sums["loss"] / sums["sample_size"] if own else 0.0
    more = {"loss": mean, "weight": sums["sample_size"]}
    number = self.get_num_updates()
    record.add(number, sums["nsentences"], start, time.monotonic(), tokens=sums["ntokens"], **more)
    return result


Trainer.train_step, MaskedLmLoss.forward = recorded_step, recorded_forward


@atexit.register
def end_process_group():
    """fairseq leaves it open: on CPUs, gloo's threads then abort a rank now and then at its end."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()

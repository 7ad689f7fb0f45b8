"""NeMo's line of a step: fields between bars.

    Training epoch 1, iteration 10/999 | ... | global_step: 29 | reduced_train_loss: 11.03 | ...

`global_step` counts from 0; the time is of this step alone.
"""

from __future__ import annotations

import functools

from clusterjobs.report.logs.formats import Field, FieldsFormat

_STEP = r"\| global_step: (\d{1,15})\b"


_FIELDS = (
    Field("reduced_train_loss: ", "loss"),
    Field("train_step_timing in s: ", "seconds"),
    Field("global_batch_size: ", "batch"),
    Field("| lr: ", "learning_rate"),
    Field("TFLOPS_per_GPU: ", "printed_tflops_per_gpu"),
)
format_of_log = functools.partial(FieldsFormat, "nemo", "Training epoch ", _STEP, _FIELDS)

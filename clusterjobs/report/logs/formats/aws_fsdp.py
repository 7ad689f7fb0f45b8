"""The line of AWS's FSDP sample (awsome-distributed-training, 10.FSDP).

    Batch 0 Loss: 11.61653, Speed: 4.88 samples/sec, lr: 0.000100

Batches count from 0. A speed is that of one batch, so it varies; all are of the job but TFLOPS/GPU.
"""

from __future__ import annotations

import functools

from clusterjobs.report.logs.formats import Field, FieldsFormat

_FIELDS = (
    Field("Loss: ", "loss"),
    Field("Speed: ", "samples_per_second"),
    Field("Tokens/s: ", "tokens_per_second"),
    Field("TFLOPS/GPU: ", "printed_tflops_per_gpu"),
    Field("lr: ", "learning_rate"),
)
format_of_log = functools.partial(
    FieldsFormat, "aws-fsdp", " samples/sec", r"\bBatch (\d{1,15}) Loss: ", _FIELDS
)

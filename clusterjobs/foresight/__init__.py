"""Predicts memory, speed, time and cost of a training job."""

from clusterjobs.plugins import Command

ADVISE = Command(
    "advise",
    "clusterjobs.foresight.advise.command:advise",
    "Rank layouts and instance types of a job by time or cost.",
    after="plan",
)
CALIBRATE = Command(
    "calibrate",
    "clusterjobs.foresight.calibrate:calibrate",
    "Measure a spec's layout in a short job.",
    after="advise",
)

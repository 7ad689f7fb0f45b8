"""The records of a run, which text, JSON, pages and comparisons show.

A run is all attempts of a job, with what was derived, and from what.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from clusterjobs.models.records import Gpu, Layout, ModelShape
from clusterjobs.report.logs.records import Event, Quantity, Window
from clusterjobs.sites.prices import HourlyPrice

LostTime = Literal[
    "queue",  # waiting for nodes, at first and between two attempts; costs nothing
    "staging",
    "preflight",
    "starting",  # the rest of the first attempt in which no step ran: start, end, saves between
    "restart",  # the same of later attempts
    "warm_up",  # steps slower than the steady state at the start of an attempt
    "data_wait",  # steps that waited for their data, where the log shows it
    "saving",
    "validation",
    "repeated",  # steps after the checkpoint that the next attempt started from
    "skipped",  # steps that changed no weights, since their gradients were infinite
    "stalled",
    "slow",  # other steps slower than the steady state
]


@dataclass(frozen=True)
class Spread:
    """A measured quantity: median, 10 % and 90 % point, and the mean of `count` windows."""

    median: float
    p10: float
    p90: float
    mean: float
    count: int


@dataclass(frozen=True)
class AttemptPart:
    """One attempt. `seconds` is what was paid for; times are None where nobody recorded them.

    `first_step` and `last_step` are those in the log; `resumed_step`: of the checkpoint that it
    started from; `kept_steps` were not repeated later.
    """

    number: int
    reason: str
    seconds: float | None
    queue_seconds: float | None
    first_step: int | None
    last_step: int | None
    resumed_step: int | None
    kept_steps: int
    lost_steps: int
    lost_seconds: dict[LostTime, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Efficiency:
    """TFLOP/s per GPU. Model FLOP count each step once; hardware FLOP also what is recomputed.

    `mfu` and `hfu` are shares of `peak_tflops`, None if the GPU is unknown. `formula`: one line.
    """

    tflops_per_gpu_mfu: float
    tflops_per_gpu_hfu: float | None
    mfu: float | None
    hfu: float | None
    peak_tflops: float | None
    gpu: str
    formula: str


@dataclass(frozen=True)
class Cost:
    """What the run's nodes cost. `dollars`: of the paid time. `price`: with its terms.

    `lost_dollars` is None if the useful time is unknown.
    """

    dollars: float
    lost_dollars: float | None
    price: str


@dataclass(frozen=True)
class Run:
    """One job, or one log.

    `steps`: the last one that was kept; `total_steps`: that the training is for. `rates`: by name,
    of the steady state (seconds, samples_per_second, tokens_per_second ...). `no_steady_state` says
    why there is none. `derived`: quantity -> how it was calculated, if it was not printed.
    `windows`: the kept ones of all attempts; `replaced`: those that a later attempt repeated.
    `goodput`: useful time of kept steps / paid time (`attempts.py`). `lost_seconds` but for
    `queue` and the useful time add up to `paid_seconds`; parts that nothing shows are missing.
    `notes`: what a reader must know to trust the numbers, each a sentence; `advice`: what to do,
    each a sentence. `point`: of a sweep, its keys and their values. `settings`: as in `Job`.
    """

    name: str
    framework: str
    attempts: tuple[AttemptPart, ...]
    steps: int | None
    total_steps: int | None
    gpus: int | None
    nodes: int | None
    rates: dict[Quantity, Spread]
    no_steady_state: str
    steady_from: int | None
    mean_samples_per_second: float | None
    efficiency: Efficiency | None
    paid_seconds: float | None
    lost_seconds: dict[LostTime, float]
    lost_steps: int
    goodput: float | None
    cost: Cost | None
    skipped_steps: int
    peak_memory_gib: float | None
    windows: tuple[Window, ...]
    replaced: tuple[Window, ...] = ()
    derived: dict[Quantity, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    job_id: str = ""
    point: Mapping[str, str] = field(default_factory=dict)
    ranks: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def remaining_seconds(self) -> float | None:
        """How long the rest of the training takes at the steady speed; None if it is unknown."""
        step = self.rates.get("seconds")
        if step is None or not self.total_steps or self.steps is None:
            return None
        return max(0, self.total_steps - self.steps) * step.median


@dataclass(frozen=True)
class RecordedAttempt:
    """What the job's folder says of one attempt; None is unknown. Times in seconds.

    `began` and `submitted`, to the queue, since 1970. `staging`, `preflight`: how long they took.
    """

    number: int
    reason: str = ""
    seconds: float | None = None
    began: float | None = None
    submitted: float | None = None
    staging: float | None = None
    preflight: float | None = None


def with_events(known: RecordedAttempt, events: Iterable[Event]) -> RecordedAttempt:
    """The attempt, completed with what the log of its script says."""
    for event in events:
        if event.kind == "end":
            reason = known.reason or event.settings.get("reason", "")
            seconds = event.value if known.seconds is None else known.seconds
            known = replace(known, reason=reason, seconds=seconds)
        elif event.kind == "staging" and event.value:
            known = replace(known, staging=(known.staging or 0.0) + event.value)
        elif event.kind == "preflight" and event.value:
            known = replace(known, preflight=(known.preflight or 0.0) + event.value)
    return known


@dataclass(frozen=True)
class Job:
    """What is known of a job beside its log. Everything is optional.

    `batch` and `sequence`: samples of a step and tokens of a sample, where the log has no rates.
    `nodes` train; `paid_nodes` are more if the job has roles. `price` of one node. `point`: of a
    sweep, its keys and their values. `settings`: what else the job was rendered from and with.
    """

    name: str = ""
    job_id: str = ""
    framework: str = ""
    nodes: int | None = None
    paid_nodes: int | None = None
    gpus: int | None = None
    ranks: int | None = None
    batch: int | None = None
    sequence: int | None = None
    total_steps: int | None = None
    attempts: tuple[RecordedAttempt, ...] = ()
    model: ModelShape | None = None
    layout: Layout | None = None
    gpu: Gpu | None = None
    price: HourlyPrice | None = None
    notes: tuple[str, ...] = ()
    point: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)

"""What may change in a framework's layouts, and how a layout is written in a spec.

It knows the keys and arguments of the frameworks that decide a layout; it must not know speeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from clusterjobs.foresight.layouts import SearchSpace
from clusterjobs.foresight.records import Layout
from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.load import Spec
from clusterjobs.yaml.document import Path, dotted


class Setting(NamedTuple):
    """A value of the spec at a path."""

    path: Path
    value: Any

    def written(self) -> str:
        """As `--set` takes it: `batch.micro=4`."""
        value = self.value
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return f"{dotted(self.path)}={text}"


def search_space(spec: Spec, layout: Layout) -> SearchSpace:
    """What advise may change in this spec. A mixture of experts keeps its expert parallelism."""
    name = spec.experiment.framework
    keys = FRAMEWORKS[name].parallel_keys
    is_megatron = name in ("megatron-lm", "megatron-deepspeed", "gpt-neox")
    if name == "megatron-lm":
        zero: tuple[int, ...] = (0, 1)
    elif "zero" in _options(spec) and layout.engine in ("deepspeed", "megatron-deepspeed"):
        zero = (0, 1, 2, 3)
    else:
        zero = (layout.zero,)
    return SearchSpace(
        tensor=is_megatron and "tensor" in keys and layout.expert == 1,
        pipeline=is_megatron and "pipeline" in keys,
        virtual_pipeline=name == "megatron-lm",
        sequence_parallel=name == "megatron-lm",
        zero=zero,
        recompute=_recomputations(name, layout),
        layers_beside=False,
    )


def _recomputations(name: str, layout: Layout) -> tuple[Any, ...]:
    if name == "megatron-lm":
        return ("none", "selective", "full")
    if name == "megatron-deepspeed" or name == "huggingface":
        return ("none", "full")
    return (layout.recompute,)


def settings_of(wanted: Layout, base: Layout, spec: Spec) -> list[Setting]:
    """What to set in the spec for a layout: only what differs from the spec's own, `base`."""
    return [
        *_batch(wanted, base, spec.experiment),
        *_parallel(wanted, base),
        *_memory(wanted, base, spec),
    ]


def _batch(wanted: Layout, base: Layout, experiment: Experiment) -> Iterator[Setting]:
    batch = experiment.batch
    moved = wanted.micro_batch != base.micro_batch or wanted.data != base.data
    if not moved or batch is None:
        return
    if wanted.micro_batch != base.micro_batch:
        yield Setting(("batch", "micro"), wanted.micro_batch)
    if batch.global_ is None:
        yield Setting(("batch", "global"), wanted.global_batch)
    if batch.accumulation is not None:
        yield Setting(("batch", "accumulation"), int(wanted.micro_batches))


def _parallel(wanted: Layout, base: Layout) -> Iterator[Setting]:
    for key, field in (
        ("tensor", "tensor"),
        ("pipeline", "pipeline"),
        ("virtual_pipeline", "virtual_pipeline"),
        ("sequence", "sequence_parallel"),
    ):
        if getattr(wanted, field) != getattr(base, field):
            yield Setting(("parallel", key), getattr(wanted, field))


def _memory(wanted: Layout, base: Layout, spec: Spec) -> Iterator[Setting]:
    name = spec.experiment.framework
    if wanted.zero != base.zero:
        if name == "megatron-lm":
            yield Setting(("args", "use-distributed-optimizer"), wanted.zero == 1)
        else:
            yield Setting(("zero", "stage"), wanted.zero)
    if wanted.recompute == base.recompute:
        return
    if name == "megatron-deepspeed":
        yield Setting(("activation_checkpointing",), wanted.recompute == "full")
    elif name == "huggingface":
        yield Setting(("args", "gradient_checkpointing"), wanted.recompute == "full")
    elif name == "megatron-lm":
        is_full = wanted.recompute == "full"
        granularity = False if wanted.recompute == "none" else wanted.recompute
        yield Setting(("args", "recompute-granularity"), granularity)
        if is_full or base.recompute == "full":
            yield Setting(("args", "recompute-method"), "uniform" if is_full else False)
            yield Setting(("args", "recompute-num-layers"), 1 if is_full else False)


def _options(spec: Spec) -> set[str]:
    return set(type(spec.options).model_fields) if spec.options else set()

"""The layouts of a job: all that are possible, what rules others out, and how they rank."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from clusterjobs.foresight.formulas.memory import FITS, verdict_of
from clusterjobs.models.records import Layout, ModelShape, Recompute

MAX_PIPELINE = 64
MAX_VIRTUAL = 4


class SearchSpace(NamedTuple):
    """What may differ between the layouts; the global batch and the precision never do.

    `layers_beside`: a pipeline may count embedding and head as layers (Megatron).
    """

    tensor: bool = True
    pipeline: bool = True
    virtual_pipeline: bool = False
    sequence_parallel: bool = False
    zero: Sequence[int] = (0,)
    recompute: Sequence[Recompute] = ("none", "full")
    micro_batch: bool = True
    layers_beside: bool = False


class RuledOut(NamedTuple):
    """Why a value is not tried: `tensor 3`, `does not divide 16 heads`."""

    what: str
    why: str


def divisors(number: int) -> list[int]:
    return [one for one in range(1, number + 1) if number % one == 0]


def tensor_sizes(model: ModelShape, layout: Layout) -> Iterator[int | RuledOut]:
    """Powers of two and the divisors of a node, as far as they divide the heads."""
    per_node = min(layout.gpus_per_node, layout.gpus)
    powers = [2**n for n in range(7) if 2**n <= layout.gpus]
    for t in sorted({*divisors(per_node), *powers}):
        if t > per_node:
            why = f"a node has {per_node} GPUs: traffic of every layer would cross the network"
        elif model.heads % t:
            why = f"does not divide {model.heads} heads"
        elif model.kv_heads % t:
            why = f"does not divide {model.kv_heads} kv_heads"
        else:
            yield t
            continue
        yield RuledOut(f"tensor {t}", why)


def pipeline_sizes(
    model: ModelShape, layout: Layout, space: SearchSpace, tensor: int
) -> Iterator[int | RuledOut]:
    """Divisors of the layers, or of the layers and two more where the engine counts them."""
    most = min(MAX_PIPELINE, layout.gpus // tensor, model.layers)
    for p in divisors(layout.gpus // tensor):
        if p > most:
            break
        if model.layers % p and not (space.layers_beside and (model.layers + 2) % p == 0):
            yield RuledOut(f"pipeline {p}", f"does not divide {model.layers} layers")
        else:
            yield p


def micro_batches(layout: Layout, data: int) -> list[int]:
    """Powers of two of a GPU's share of the global batch, and the share itself."""
    share = layout.global_batch // data
    sizes = {2**n for n in range(11) if share % 2**n == 0}
    return sorted({*sizes, share} if share <= 64 else sizes)


def layouts(
    model: ModelShape, base: Layout, space: SearchSpace
) -> tuple[list[Layout], list[RuledOut]]:
    """All layouts of a job, and what was ruled out."""
    found: list[Layout] = []
    out: dict[RuledOut, None] = {}

    def possible(values: Iterable[int | RuledOut]) -> Iterator[int]:
        for value in values:
            if isinstance(value, RuledOut):
                out[value] = None
            else:
                yield value

    tensors = tensor_sizes(model, base) if space.tensor else iter((base.tensor,))
    for t in possible(tensors):
        pipelines = (
            pipeline_sizes(model, base, space, t) if space.pipeline else iter((base.pipeline,))
        )
        for p in possible(pipelines):
            shape = base._replace(tensor=t, pipeline=p)
            if why := _impossible(shape):
                out[why] = None
                continue
            found += _variants(model, shape, space)
    return found, list(out)


def _impossible(layout: Layout) -> RuledOut | None:
    ranks = layout.tensor * layout.pipeline * layout.context
    what = f"tensor {layout.tensor} x pipeline {layout.pipeline}"
    if layout.context > 1:
        what += f" x context {layout.context}"
    if layout.gpus % ranks:
        return RuledOut(what, f"does not divide {layout.gpus} GPUs")
    if layout.global_batch % layout.data:
        why = f"the copies of the model do not divide the global batch of {layout.global_batch}"
        return RuledOut(f"{what} on {layout.gpus} GPUs", why)
    return None


def _variants(model: ModelShape, shape: Layout, space: SearchSpace) -> Iterator[Layout]:
    micros = micro_batches(shape, shape.data) if space.micro_batch else [shape.micro_batch]
    parallel = (False, True) if space.sequence_parallel and shape.tensor > 1 else (False,)
    if not space.sequence_parallel:
        parallel = (shape.sequence_parallel and shape.tensor > 1,)
    recomputes = [one for one in space.recompute if one != "selective" or not shape.flash]
    for zero in space.zero:
        if zero >= 2 and shape.pipeline > 1:
            continue  # DeepSpeed refuses it
        if zero and shape.gradient_ranks == 1:
            continue  # nothing to share
        for micro in micros:
            if (shape.global_batch // shape.data) % micro:
                continue
            accumulation = shape.global_batch // shape.data // micro
            for v in _virtual_sizes(model, shape, space, accumulation):
                for sequence in parallel:
                    for recompute in recomputes:
                        yield shape._replace(
                            zero=zero,
                            micro_batch=micro,
                            virtual_pipeline=v,
                            sequence_parallel=sequence,
                            recompute=recompute,
                        )


def _virtual_sizes(
    model: ModelShape, shape: Layout, space: SearchSpace, accumulation: int
) -> list[int]:
    """Interleaved stages need whole numbers of layers, and accumulation in multiples of p."""
    p = shape.pipeline
    if not space.virtual_pipeline or p == 1 or accumulation % p or model.layers % p:
        return [1]
    per_stage = model.layers // p
    return [v for v in range(1, MAX_VIRTUAL + 1) if per_stage % v == 0]


# Ranking: by time or cost, with ties and the Pareto front.

# In at least 90 % of the published groups of layouts of one job, the measured best lay within this
# of the predicted best.
TIE = 0.10


class Candidate(NamedTuple):
    """A layout on some nodes. `seconds` of a step; `share` of a GPU's memory that it needs.

    `usd` of the training, or of 1,000 steps if its length is unknown; None without a price.
    `where`: the cluster or GPU. `risk`: the pessimistic end of the range, as a factor.
    """

    where: str
    nodes: int
    layout: Layout
    seconds: float
    share: float
    usd: float | None = None
    risk: float = 1.0

    @property
    def fits(self) -> str:
        return verdict_of(self.share)


def complexity(candidate: Candidate) -> tuple[float, ...]:
    """The simpler of tied layouts has less model parallelism and less recomputation."""
    layout = candidate.layout
    levels = {"none": 0, "selective": 1, "selective_ops": 1, "half": 2, "full": 3}
    return (
        candidate.share >= FITS,
        layout.tensor * layout.pipeline,
        layout.pipeline,
        layout.virtual_pipeline,
        levels[layout.recompute],
        layout.zero >= 2,
        layout.zero,
        candidate.seconds,
    )


def ranked(candidates: Sequence[Candidate], by_cost: bool = False) -> list[Candidate]:
    """The best pessimistic end first: what nobody measured has a wide range.

    Those that probably do not fit come last.
    """
    value = _value(by_cost)
    known = [one for one in candidates if value(one) is not None]
    return sorted(known, key=lambda one: (one.share > 1, value(one) or 0.0, complexity(one)))


def pareto_front(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates that no other beats in both time and cost, the fastest first."""
    front: list[Candidate] = []
    priced = [one for one in candidates if one.usd is not None]
    for one in sorted(priced, key=lambda one: (one.seconds, one.usd or 0.0)):
        if not front or (one.usd or 0.0) < (front[-1].usd or 0.0):
            front.append(one)
    return front


def _value(by_cost: bool) -> Callable[[Candidate], float | None]:
    if by_cost:
        return lambda one: one.usd and one.usd * one.risk
    return lambda one: one.seconds * one.risk

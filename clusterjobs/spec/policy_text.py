"""Rules of a policy in a few words, for tables and pages.

It knows rules; it must not know where they are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from clusterjobs.spec.policy import Images, Limits, Rule, Selection


def selection_text(rule: Rule) -> str:
    """`queues p5*; not groups staff`, or `all jobs`."""
    parts = [*_selection(rule.when), *(f"not {one}" for one in _selection(rule.unless))]
    return "; ".join(parts) or "all jobs"


def demand_text(rule: Rule) -> str:
    """`require sbatch.account; at most 8 nodes`."""
    return "; ".join(_demands(rule))


def _selection(selection: Selection | None) -> Iterator[str]:
    if selection:
        for kind in Selection.model_fields:
            if names := getattr(selection, kind):
                yield f"{kind} {', '.join(names)}"


def _demands(rule: Rule) -> Iterator[str]:
    if rule.require:
        yield f"require {', '.join(rule.require)}"
    for word, keys in (("allow", rule.allow), ("forbid", rule.forbid)):
        if isinstance(keys, Mapping):
            for key, values in keys.items():
                yield f"{word} {key}: {', '.join(values)}"
        elif keys:
            yield f"{word} {', '.join(keys)}"
    if rule.limits:
        yield "at most " + ", ".join(_limits(rule.limits))
    if rule.images:
        yield from _images(rule.images)
    if rule.preflight is not None:
        checks = f": {', '.join(rule.preflight)}" if rule.preflight else ""
        yield f"require the preflight{checks}"


def _limits(limits: Limits) -> Iterator[str]:
    amounts = {
        "nodes": limits.nodes,
        "GPUs": limits.gpus,
        "GPUs per node": limits.gpus_per_node,
        "GPU-hours": limits.gpu_hours,
    }
    for unit, amount in amounts.items():
        if amount is not None:
            yield f"{amount:,.6g} {unit}"
    if limits.time is not None:
        yield f"time {limits.time}"


def _images(images: Images) -> Iterator[str]:
    for word, names in (("allow", images.allow), ("forbid", images.forbid)):
        if names:
            yield f"{word} images {', '.join(names)}"

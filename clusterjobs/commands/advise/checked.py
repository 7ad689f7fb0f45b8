"""Plans the spec with a layout's settings: what the spec's own checks refuse is no advice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from clusterjobs.commands.advise.choices import Setting, settings_of
from clusterjobs.commands.advise.node_options import NodeOption
from clusterjobs.foresight.ranking import Candidate
from clusterjobs.foresight.records import Layout
from clusterjobs.spec.load import Spec

MOST_CHECKED = 60


def settings_for(
    one: Candidate, node_option: NodeOption, base: Layout, spec: Spec, nodes: int
) -> list[Setting]:
    """Everything to set in the spec for a candidate."""
    found = [*node_option.settings]
    if one.nodes != nodes:
        found.append(Setting(("nodes",), one.nodes))
    return [*found, *settings_of(one.layout, base, spec)]


def accepted(
    candidates: Sequence[Candidate],
    settings: Callable[[Candidate], list[Setting]],
    refusal: Callable[[Sequence[Setting]], str],
    most: int,
) -> Iterator[tuple[Candidate, list[Setting], str]]:
    """The best candidates with their settings; those that are refused come with the reason."""
    good = 0
    for one in candidates[:MOST_CHECKED]:
        if good == most:
            return
        wanted = settings(one)
        why = refusal(wanted)
        good += not why
        yield one, wanted, why

"""The cost of a training from its time and a price that belongs to its nodes.

A price is passed in whole, with date, region and source: this module never looks for one.
"""

from __future__ import annotations

from typing import NamedTuple

from clusterjobs.foresight.records import Range

# Nodes are billed while they start, and until an idle one is taken down: ParallelCluster's
# ScaledownIdletime, 10 minutes by default.
IDLE_SECONDS = 600


class HourlyPrice(NamedTuple):
    """What one node costs for an hour. `where`: the region or cluster that it is valid for."""

    usd_per_hour: float
    where: str
    purchase: str
    date: str
    source: str

    def shown(self) -> str:
        terms = ", ".join(filter(None, (self.where, self.purchase, self.date)))
        return f"${self.usd_per_hour:,.2f} per node and hour: {terms} ({self.source})"


class Cost(NamedTuple):
    """USD, without storage and data traffic."""

    usd: Range
    node_hours: Range
    price: HourlyPrice


def cost_of(seconds: Range, nodes: float, price: HourlyPrice, attempts: Range | None) -> Cost:
    """Nodes x hours x price; each attempt is billed a little longer than it runs."""
    times = attempts or Range(1.0, 1.0, 1.0)
    hours = [(time + IDLE_SECONDS * n) / 3600 for time, n in zip(seconds, times, strict=True)]
    node_hours = Range(*hours).times(nodes)
    return Cost(node_hours.times(price.usd_per_hour), node_hours, price)

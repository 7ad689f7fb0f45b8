"""Hourly prices of instances.

Prices change, so each price has a date and a source; show them with every estimate.
"""

from __future__ import annotations

import functools
import json
import pathlib
from typing import Any, NamedTuple

DATA_FILE = pathlib.Path(__file__).with_name("prices.json")


class Price(NamedTuple):
    """List price of one instance for one hour, in USD.

    `purchase` is a CapacityType of ParallelCluster: ONDEMAND, SPOT, CAPACITY_BLOCK.
    """

    instance_type: str
    region: str
    purchase: str
    usd_per_hour: float
    date: str
    source: str


def find_price(instance_type: str, region: str, purchase: str) -> Price | None:
    """The price in this region, bought in this way, or None; never another price in its place."""
    return _prices().get((instance_type, region, purchase))


def all_prices() -> tuple[Price, ...]:
    """Every price of the catalogue."""
    return tuple(_prices().values())


@functools.cache
def _prices() -> dict[tuple[str, str, str], Price]:
    rows: list[dict[str, Any]] = json.loads(DATA_FILE.read_text(encoding="utf-8"))["prices"]
    prices = [Price(row.pop("type"), **row) for row in rows]
    return {(one.instance_type, one.region, one.purchase): one for one in prices}

"""Hourly prices of instances. Must not know experiments, and must not print estimates.

Prices change, so each price has a date and a source; show them with every estimate.
"""

from __future__ import annotations

import functools
import json
import pathlib
from typing import Any, NamedTuple

DATA_FILE = pathlib.Path(__file__).with_name("prices.json")


class Price(NamedTuple):
    """On-demand list price of one instance for one hour, in USD."""

    instance_type: str
    region: str
    usd_per_hour: float
    date: str
    source: str


def find_price(instance_type: str, region: str) -> Price | None:
    """The price in this region, or None; never the price of another region."""
    data = _data()
    usd = data["regions"].get(region, {}).get(instance_type)
    if usd is None:
        return None
    return Price(instance_type, region, usd, data["date"], data["source"])


@functools.cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(DATA_FILE.read_text(encoding="utf-8"))
    return data

"""The price of a job's nodes: the site's own first, then the catalogue's.

A price is used only for its own region and way to buy. Without one, the reason is given.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from clusterjobs.catalog.prices import find_price

if TYPE_CHECKING:
    from clusterjobs.sites.values import SitePrice


class Nodes(NamedTuple):
    """The nodes that a job is billed for, and what decides their price. "" is unknown.

    `number`: a fraction for points of a sweep that share a node.
    """

    number: float
    node_type: str
    region: str
    cluster: str
    purchase: str


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


def price_of(nodes: Nodes, sites: Sequence[tuple[str, str]]) -> HourlyPrice | str:
    """The price, or why there is none. `sites`: (file, text) of each site.yaml.

    Raises InputError for prices in a site.yaml that are wrong.
    """
    if own := _site_price(nodes, sites):
        where = own.region or f"cluster {own.cluster}"
        return HourlyPrice(own.usd_per_hour, where, own.purchase or "", own.date, own.source)
    if not nodes.region:
        return f"no price: the region of {nodes.cluster} is unknown; site.yaml can give prices"
    if not nodes.purchase:
        return f"no price: it is unknown how {nodes.node_type} is paid for"
    listed = find_price(nodes.node_type, nodes.region, nodes.purchase)
    if listed is None:
        what = f"{nodes.node_type} in {nodes.region}, {nodes.purchase}"
        return f"no price of {what}; site.yaml can give one under `prices`"
    return HourlyPrice(
        listed.usd_per_hour, listed.region, listed.purchase, listed.date, listed.source
    )


def _site_price(nodes: Nodes, sites: Sequence[tuple[str, str]]) -> SitePrice | None:
    if not any("prices" in text for _, text in sites):
        return None
    from clusterjobs.sites.values import site_price  # its models take time to import

    prices = _site_prices(tuple(sites))
    return site_price(prices, nodes.node_type, nodes.region, nodes.cluster, nodes.purchase)


@functools.lru_cache(maxsize=8)
def _site_prices(sites: tuple[tuple[str, str], ...]) -> tuple[SitePrice, ...]:
    from clusterjobs.sites.values import load_site_prices

    return load_site_prices(sites)

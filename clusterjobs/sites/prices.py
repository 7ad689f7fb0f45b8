"""The price of a job's nodes: what the user really pays, by a site.yaml, else the list price."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, model_validator

from clusterjobs.catalog import Price, find_price
from clusterjobs.errors import InputError, Problem, in_order
from clusterjobs.spec.field_types import Plain, literal_text
from clusterjobs.spec.model import Key, SpecModel
from clusterjobs.spec.validate import check_model
from clusterjobs.yaml import document as yaml_document

KEY = "prices"
_MOST = 10_000.0  # USD an hour of one node
_DATE = re.compile(r"\d{4}-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?", re.ASCII)
_CURRENCY = re.compile(r"[a-z]{3}_per_hour")


def _usd(value: Any) -> float:
    text = value if isinstance(value, str) else ""
    if re.search(r"[^\d.,\s$]", text) and re.search(r"\d", text):
        raise ValueError("prices are in USD: convert it, and write a plain number, 32.77")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= _MOST:
        raise ValueError(
            f"expected USD an hour of one node, above 0 and up to {_MOST:,.0f}: write 32.77"
        )
    return float(value)


def _date(value: Any) -> str:
    text = literal_text(value)
    if not _DATE.fullmatch(text):
        raise ValueError(f"{text!r} is not a date: write 2026-11 or 2026-11-22")
    return text


class SitePrice(SpecModel):
    """The price of one node for one hour. It is valid in one region, or on one cluster."""

    instance_type: Annotated[Plain, Key("the type of node", "p4d.24xlarge")]
    usd_per_hour: Annotated[
        float, BeforeValidator(_usd), Key("what one node costs in an hour, in USD", "18.5")
    ]
    date: Annotated[str, BeforeValidator(_date), Key("since when", "2026-11-22")]
    source: Annotated[Plain, Key("where the price is from", "our discount")]
    region: Annotated[
        Plain | None, Key("where it is valid, unless `cluster` says it", "us-east-1")
    ] = None
    cluster: Annotated[Plain | None, Key("the cluster where it is valid", "p4d-a100")] = None
    purchase: Annotated[
        Literal["ONDEMAND", "SPOT", "CAPACITY_BLOCK"] | None,
        Key("`ONDEMAND`, `SPOT` or `CAPACITY_BLOCK`; required with `region`", "ONDEMAND"),
    ] = None

    @model_validator(mode="before")
    @classmethod
    def _in_usd(cls, value: Any) -> Any:
        if isinstance(value, dict):
            for key in value:
                if _CURRENCY.fullmatch(str(key)) and key != "usd_per_hour":
                    raise ValueError(f"{key} is not known: convert it to USD, usd_per_hour: 32.77")
        return value

    @model_validator(mode="after")
    def _belongs_somewhere(self) -> SitePrice:
        if (self.region is None) == (self.cluster is None):
            raise ValueError("expected either region or cluster: for example region: us-east-1")
        if self.region and not self.purchase:
            raise ValueError(
                "a region alone is not enough: add purchase: ONDEMAND, SPOT or CAPACITY_BLOCK"
            )
        return self


class SitePrices(SpecModel):
    """The prices of a site.yaml, which also has any other values, for references."""

    prices: Annotated[
        tuple[SitePrice, ...],
        Key(
            "what nodes really cost you; they win over list prices",
            "[{instance_type: p4d.24xlarge, cluster: p4d-a100, usd_per_hour: 18.5, "
            "date: 2026-11-22, source: our discount}]",
        ),
    ] = ()


def load_site_prices(texts: Sequence[tuple[str, str]]) -> tuple[SitePrice, ...]:
    """The prices of several site.yaml as (file, text), the highest precedence first.

    Raises InputError with all problems.
    """
    found: list[SitePrice] = []
    problems: list[Problem] = []
    for file, text in texts:
        if KEY not in text:  # most sites have no prices, and parsing takes time
            continue
        document = yaml_document.load(text, file)
        data = document.value if isinstance(document.value, dict) else {}
        if data.get(KEY) is None:
            continue
        checked = check_model(SitePrices, {KEY: data[KEY]}, document, problems)
        found += checked.prices if checked else ()
    if problems:
        raise InputError(in_order(problems))
    return tuple(found)


def site_price(
    prices: Sequence[SitePrice], instance_type: str, region: str, cluster: str, purchase: str
) -> SitePrice | None:
    """The first price that is valid for such nodes; one of the cluster before one of its region.

    A price that names a way to buy is not valid for nodes bought in another or unknown way.
    """
    fit = [
        one
        for one in prices
        if one.instance_type == instance_type
        and one.purchase in (None, purchase or "unknown")
        and (one.cluster == cluster if one.cluster else one.region == region and region)
    ]
    return min(fit, key=lambda one: one.cluster is None, default=None)


# ------------------------------------------------------------------ prices
# The price of a job's nodes: the site's own first, then the catalogue's.
# A price is used only for its own region and way to buy. Without one, the reason is given.


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
    """What one node costs for an hour. `where`: the region or cluster that it is valid for.

    `assumed`: why it may be another one, "" if it is not assumed.
    """

    usd_per_hour: float
    where: str
    purchase: str
    date: str
    source: str
    assumed: str = ""

    def shown(self) -> str:
        terms = ", ".join(filter(None, (self.where, self.purchase, self.date)))
        about = f"; assumed, since {self.assumed}" if self.assumed else ""
        return f"${self.usd_per_hour:,.2f} per node and hour: {terms} ({self.source}){about}"


def price_of(nodes: Nodes, sites: Sequence[tuple[str, str]]) -> HourlyPrice | str:
    """The price, or why there is none. `sites`: (file, text) of each site.yaml.

    Raises InputError for prices in a site.yaml that are wrong.
    """
    if own := _site_price(nodes, sites):
        where = own.region or f"cluster {own.cluster}"
        return HourlyPrice(own.usd_per_hour, where, own.purchase or "", own.date, own.source)
    if not nodes.region:
        why = f"the region of {nodes.cluster} is unknown: region: us-west-2 in site.yaml says it"
        return _assumed_price(nodes, why)
    if not nodes.purchase:
        return f"no price: it is unknown how {nodes.node_type} is paid for"
    listed = find_price(nodes.node_type, nodes.region, nodes.purchase)
    if listed is None and nodes.purchase == "ONDEMAND":
        why = f"no price of {nodes.region} is known, which may be 40 % higher"
        return _assumed_price(nodes, f"{why}: `prices` in site.yaml give it")
    if listed is None:
        what = f"{nodes.node_type} in {nodes.region}, {nodes.purchase}"
        return f"no price of {what}; site.yaml can give one under `prices`"
    return HourlyPrice(
        listed.usd_per_hour, listed.region, listed.purchase, listed.date, listed.source
    )


def known_price(nodes: Nodes, sites: Sequence[tuple[str, str]]) -> Price | None:
    """The site's own price of one node, or its list price; None if neither is known.

    Raises InputError for prices in a site.yaml that are wrong.
    """
    own = _site_price(nodes, sites)
    if own is None:
        return find_price(nodes.node_type, nodes.region, nodes.purchase)
    region, purchase = own.region or nodes.region, own.purchase or nodes.purchase
    return Price(nodes.node_type, region, purchase, own.usd_per_hour, own.date, own.source)


# Where the price of the region is unknown: most types cost least there, and all of the catalogue's
# have a price. In SkyPilot's table of 2025, p4d and p5 cost 0 to 39 % more in other regions.
_REGION = "us-east-1"


def _assumed_price(nodes: Nodes, why: str) -> HourlyPrice | str:
    """The list price of one region, marked as assumed, or why there is none."""
    listed = find_price(nodes.node_type, _REGION, nodes.purchase or "ONDEMAND")
    if listed is None:
        example = (
            f"{{instance_type: {nodes.node_type}, cluster: {nodes.cluster}, usd_per_hour: 10}}"
        )
        return (
            f"no price of {nodes.node_type} is known; in site.yaml, prices: [{example}] gives one"
        )
    where = f"list price of {listed.region}"
    return HourlyPrice(listed.usd_per_hour, where, listed.purchase, listed.date, listed.source, why)


def _site_price(nodes: Nodes, sites: Sequence[tuple[str, str]]) -> SitePrice | None:
    if not any("prices" in text for _, text in sites):
        return None
    prices = _site_prices(tuple(sites))
    return site_price(prices, nodes.node_type, nodes.region, nodes.cluster, nodes.purchase)


@functools.lru_cache(maxsize=8)
def _site_prices(sites: tuple[tuple[str, str], ...]) -> tuple[SitePrice, ...]:
    return load_site_prices(sites)

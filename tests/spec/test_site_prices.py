"""Prices of a site.yaml: which nodes each is valid for."""

from __future__ import annotations

from clusterjobs.sites.prices import SitePrice, load_site_prices, site_price

TEXT = """\
region: us-east-1
prices:
  - {instance_type: p5.48xlarge, region: us-east-1, purchase: ONDEMAND, usd_per_hour: 40,
     date: 2026-11, source: contract 7}
  - {instance_type: p5.48xlarge, region: us-east-1, purchase: CAPACITY_BLOCK,
     usd_per_hour: 31.464, date: 2026-11-22, source: block of January}
  - {instance_type: p5.48xlarge, cluster: ours, usd_per_hour: 12.5, date: 2026-10, source: own}
"""
PRICES = load_site_prices([("site.yaml", TEXT)])


def price(region: str, cluster: str, purchase: str) -> float | None:
    found: SitePrice | None = site_price(PRICES, "p5.48xlarge", region, cluster, purchase)
    return found and found.usd_per_hour


def test_a_price_is_only_for_its_region_and_way_to_buy() -> None:
    assert price("us-east-1", "a", "ONDEMAND") == 40
    assert price("us-east-1", "a", "CAPACITY_BLOCK") == 31.464
    assert price("us-east-1", "a", "SPOT") is None
    assert price("us-west-2", "a", "ONDEMAND") is None
    assert price("", "a", "ONDEMAND") is None
    assert price("us-east-1", "a", "") is None
    assert site_price(PRICES, "p4d.24xlarge", "us-east-1", "a", "ONDEMAND") is None


def test_a_price_of_the_cluster_wins() -> None:
    assert price("us-east-1", "ours", "ONDEMAND") == 12.5
    assert price("", "ours", "") == 12.5


def test_the_first_site_wins_and_a_site_without_prices_has_none() -> None:
    cheaper = TEXT.replace("usd_per_hour: 40", "usd_per_hour: 30")
    both = load_site_prices([("a/site.yaml", cheaper), ("b/site.yaml", TEXT)])
    found = site_price(both, "p5.48xlarge", "us-east-1", "a", "ONDEMAND")
    assert found
    assert found.usd_per_hour == 30
    assert load_site_prices([("site.yaml", "region: us-east-1\nprices:\n")]) == ()

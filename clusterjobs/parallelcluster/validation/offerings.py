"""Which region and zone offers an instance type: EC2's own lists, from moto's data files.

Without the extra nothing is known, and the functions return None.
"""

from __future__ import annotations

import functools
import gzip
import importlib.util
import json
import pathlib
from collections.abc import Sequence

# ParallelCluster 3.16.1, pcluster/resources/supported-regions
_REGIONS = (
    "af-south-1 ap-east-1 ap-northeast-1 ap-northeast-2 ap-south-1 ap-southeast-1 ap-southeast-2 "
    "ap-southeast-3 ap-southeast-5 ap-southeast-7 ca-central-1 cn-north-1 cn-northwest-1 "
    "eu-central-1 eu-north-1 eu-south-1 eu-west-1 eu-west-2 eu-west-3 il-central-1 me-south-1 "
    "sa-east-1 us-east-1 us-east-2 us-gov-east-1 us-gov-west-1 us-iso-east-1 us-iso-west-1 "
    "us-isob-east-1 us-west-1 us-west-2"
)


def region_names() -> list[str]:
    """Every region that ParallelCluster supports."""
    return _REGIONS.split()


def zones_of_type(instance_type: str, region: str) -> tuple[str, ...] | None:
    """The zones of a region that offer the type; None if that is unknown."""
    offered = _offered(region)
    return None if offered is None else offered.get(instance_type, ())


def offered_nowhere(instance_type: str) -> bool:
    """Whether no region's list has the type, so that it is unknown where AWS offers it."""
    offers = (zones_of_type(instance_type, region) for region in region_names())
    return not any(offers)


def best_zones(
    instance_types: Sequence[str], region: str, preferred: Sequence[str] = ()
) -> list[str]:
    """All zones of a region, first those that offer most of the types; never empty.

    Of zones that are equally good, the `preferred` ones are first.
    """
    offered = _offered(region) or {}
    zones = sorted({zone for some in offered.values() for zone in some}) or [f"{region}a"]
    return sorted(
        zones,
        key=lambda zone: (
            -sum(zone in offered.get(kind, ()) for kind in instance_types),
            zone not in preferred,
        ),
    )


@functools.cache
def _offered(region: str) -> dict[str, tuple[str, ...]] | None:
    file = _data_folder() / f"{region}.json.gz"
    if not file.is_file():
        return None
    with gzip.open(file, "rt", encoding="utf-8") as stream:
        rows: list[dict[str, str]] = json.load(stream)
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["InstanceType"], []).append(row["Location"])
    return {kind: tuple(sorted(zones)) for kind, zones in found.items()}


@functools.cache
def _data_folder() -> pathlib.Path:
    spec = importlib.util.find_spec("moto")
    origin = spec.origin if spec else None
    folder = pathlib.Path(origin).parent if origin else pathlib.Path("/nonexistent")
    return folder / "ec2" / "resources" / "instance_type_offerings" / "availability-zone"

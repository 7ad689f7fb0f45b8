"""Adds the catalogue's instance types that moto's lists lack to a simulated account.

moto has the types of one region and one day. Others exist too: of other regions, retired ones. This
module knows moto's internals (5.2); it must not know configs.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from clusterjobs.catalog.instances import InstanceType, find_instance_type, instance_type_names
from clusterjobs.parallelcluster.validation.offerings import best_zones

_TEMPLATE = "p4d.24xlarge"  # for what the catalogue does not say


@contextlib.contextmanager
def with_catalogue(region: str) -> Iterator[None]:
    """Within this context the region offers every type that AWS has and moto does not know."""
    from moto.ec2.models import instance_types as models

    known = models.INSTANCE_TYPES
    added = {name: _entry(name, known[_TEMPLATE]) for name in instance_type_names()}
    added = {name: entry for name, entry in added.items() if name not in known}
    zones = best_zones((), region)
    with contextlib.ExitStack() as stack:
        stack.enter_context(patch.dict(known, added))
        listed = [*models.InstanceTypeBackend.instance_types, *map(models.InstanceType, added)]
        stack.enter_context(patch.object(models.InstanceTypeBackend, "instance_types", listed))
        for location, places in (("region", [region]), ("availability-zone", zones)):
            rows = models.INSTANCE_TYPE_OFFERINGS[location]
            more = [_offer(name, location, place) for name in added for place in places]
            stack.enter_context(patch.dict(rows, {region: [*rows.get(region, []), *more]}))
        yield


def _offer(name: str, location: str, place: str) -> dict[str, str]:
    return {"InstanceType": name, "LocationType": location, "Location": place}


def _entry(name: str, template: dict[str, Any]) -> dict[str, Any]:
    """What EC2 would say of it, as far as ParallelCluster's validators read that."""
    found = find_instance_type(name)
    assert found is not None
    cards = found.network_cards or 1
    entry = {**template, "InstanceType": name}
    entry["VCpuInfo"] = {
        "DefaultVCpus": found.vcpus,
        "DefaultCores": found.cores,
        "DefaultThreadsPerCore": found.threads_per_core,
    }
    entry["MemoryInfo"] = {"SizeInMiB": found.memory_mib}
    entry["ProcessorInfo"] = {"SupportedArchitectures": [found.architecture]}
    entry["NetworkInfo"] = {
        **template["NetworkInfo"],
        "EfaSupported": found.efa_interfaces != 0,
        "EfaInfo": {"MaximumEfaInterfaces": found.efa_interfaces or cards},
        "MaximumNetworkCards": cards,
        "NetworkCards": copy.deepcopy(template["NetworkInfo"]["NetworkCards"][:1] * cards),
    }
    entry.pop("GpuInfo", None)
    if found.gpus:
        entry["GpuInfo"] = {"Gpus": [_gpu(found)]}
    return entry


def _gpu(found: InstanceType) -> dict[str, Any]:
    memory = {"SizeInMiB": found.gpu_memory_mib}
    return {
        "Count": found.gpus,
        "Manufacturer": "NVIDIA",
        "Name": found.gpu_model,
        "MemoryInfo": memory,
    }

"""What this package relies on in ParallelCluster, as lines of text that can be compared.

python tests/validation/parallelcluster_facts.py > tests/validation/parallelcluster_facts.txt
"""

from __future__ import annotations

import difflib
import inspect
import pathlib
import re
import sys
from collections.abc import Iterator
from typing import Any

RECORDED = pathlib.Path(__file__).with_name("parallelcluster_facts.txt")
_CONSTANTS = (
    "DEFAULT_MIN_COUNT",
    "DEFAULT_MAX_COUNT",
    "DEFAULT_EPHEMERAL_DIR",
    "EBS_VOLUME_SIZE_DEFAULT",
    "NVIDIA_OPENRM_UNSUPPORTED_INSTANCE_TYPES",
    "SUPPORTED_OSES",
    "OS_TO_IMAGE_NAME_PART_MAP",
)
_CALL = re.compile(r"AWSApi\.instance\(\)\s*\.(\w+)\.(\w+)")


def installed_facts() -> list[str]:
    """Its version, constants, regions, calls, keys and validators, as it is installed."""
    import pcluster
    from pcluster.utils import get_installed_version

    folder = pathlib.Path(pcluster.__file__).parent
    regions = (folder / "resources" / "supported-regions").read_text(encoding="utf-8").split()
    return [
        f"version {get_installed_version()}",
        *_constants(),
        *(f"region {region}" for region in sorted(regions)),
        *_calls(folder),
        *_keys(),
        *_validators(),
    ]


def changes(recorded: list[str], installed: list[str]) -> list[str]:
    """`+ validator X` is new, `- key Y` is gone."""
    lines = difflib.unified_diff(recorded, installed, n=0, lineterm="")
    return [f"{line[0]} {line[1:]}" for line in lines if not line.startswith(("---", "+++", "@@"))]


def _constants() -> Iterator[str]:
    from pcluster import constants

    for name in _CONSTANTS:
        yield f"constant {name} = {getattr(constants, name)!r}"


def _calls(folder: pathlib.Path) -> list[str]:
    """What a simulated account has to provide while a config is loaded and validated."""
    files = [
        file for name in ("config", "schemas", "validators") for file in folder.glob(f"{name}/*.py")
    ]
    texts = (file.read_text(encoding="utf-8") for file in files)
    return sorted(
        {f"call {client}.{call}" for text in texts for client, call in _CALL.findall(text)}
    )


def _keys() -> list[str]:
    """Every key of a config, with the update policy that decides what a change of it needs."""
    from pcluster.schemas.cluster_schema import ClusterSchema

    return sorted(_fields(ClusterSchema(cluster_name="c"), ""))


def _fields(schema: Any, path: str) -> Iterator[str]:
    for name, field in schema.fields.items():
        inner = f"{path}.{field.data_key or name}".lstrip(".")
        policy = field.metadata.get("update_policy")
        yield f"key {inner} ({getattr(policy, 'name', None)})"
        if nested := getattr(field, "schema", None):
            yield from _fields(nested, inner)


def _validators() -> list[str]:
    import importlib
    import pkgutil

    import pcluster.validators
    from pcluster.validators.common import Validator

    modules = [
        importlib.import_module(f"pcluster.validators.{info.name}")
        for info in pkgutil.iter_modules(pcluster.validators.__path__)
    ]
    members = [one for module in modules for one in inspect.getmembers(module, inspect.isclass)]
    # by the modules' names: a class that was used once has another name (AsyncTimedUrlValidator)
    return sorted({f"validator {name}" for name, one in members if issubclass(one, Validator)})


if __name__ == "__main__":
    sys.stdout.write("\n".join(installed_facts()) + "\n")

"""Checks a config's plain data with ParallelCluster's own schema and validators."""

import contextlib
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

from clusterjobs.clusters.parallelcluster.config import CURRENT
from clusterjobs.errors import did_you_mean
from clusterjobs.validation import finding as walk
from clusterjobs.validation import optional_deps
from clusterjobs.validation.account import (
    Account,
    Overrides,
    given_zones,
    region_names,
    with_overrides,
)
from clusterjobs.validation.default_account import default_account
from clusterjobs.validation.finding import CRASH, Data, Finding, Level, scalars
from clusterjobs.validation.offline import offline_environment, simulated_account
from clusterjobs.validation.optional_deps import environment, event_loop, quiet
from clusterjobs.validation.own_checks import is_known, run_checks
from clusterjobs.validation.source_map import SourceMap
from clusterjobs.validation.upgrade import find_deprecations, with_safe_edits
from clusterjobs.yaml.document import Path

SCHEMA = "ConfigSchemaValidator"  # the name in the pcluster CLI
_CLUSTER_NAME = "clusterjobs"


def check_schema(data: Data, region: str) -> list[Finding]:
    """The schema alone; takes a few hundredths of a second once it is imported."""
    with quiet(), _without_account(region):
        return load(data)[1]


@contextlib.contextmanager
def _without_account(region: str) -> Iterator[None]:
    """Loading reads only the region, and capacity reservations with their groups."""
    with environment(offline_environment(region)):
        from pcluster.aws.aws_api import AWSApi

        ec2 = types.SimpleNamespace(describe_capacity_reservations=lambda _ids: [])
        groups = types.SimpleNamespace(
            get_capacity_reservation_ids_from_group_resources=lambda _group: []
        )
        fake = types.SimpleNamespace(aws_region=region, ec2=ec2, resource_groups=groups)
        with patch.object(AWSApi, "_instance", fake):
            yield


def load(data: Data) -> tuple[Any, list[Finding]]:
    """ParallelCluster's own object for the config, or None and the findings of the schema."""
    import marshmallow
    from pcluster.aws.common import AWSClientError
    from pcluster.schemas.cluster_schema import ClusterSchema

    schema = ClusterSchema(cluster_name=_CLUSTER_NAME)
    try:
        return schema.load(data), []
    except marshmallow.ValidationError as error:
        return None, list(_messages(error.messages, (), schema))
    except AWSClientError as error:
        return None, [finding_at_value(error, data)]
    except (AttributeError, TypeError, KeyError, IndexError, ValueError) as error:
        # ParallelCluster 3.16 crashes on unexpected values, such as an empty one.
        return None, [internal_failure(error, data)]


def internal_failure(error: Exception, data: Data) -> Finding:
    """The finding for an exception inside ParallelCluster, which an empty value usually causes."""
    empty = next(_empty_values(data, ()), ())
    text = f"{CRASH}: {error}"
    hint = "write a value, or remove the key" if empty else ""
    return Finding(text, empty, validator=type(error).__name__, hint=hint)


def _empty_values(value: Any, path: Path) -> Iterator[Path]:
    children = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in children:
        if item is None or item == "":
            yield (*path, key)
        elif isinstance(item, (dict, list)):
            yield from _empty_values(item, (*path, key))


def finding_at_value(error: Exception, data: Data) -> Finding:
    """The finding for an error without a path, at the longest value that its text contains.

    ParallelCluster calls AWS while it reads a config, and stops at the first error from AWS.
    """
    text = str(error)
    named = [(path, str(value)) for path, value in scalars(data) if str(value) in text]
    best = max(named, key=lambda entry: len(entry[1]), default=((), ""))
    return Finding(text, best[0], validator=type(error).__name__)


# ------------------------------------------------------------------ messages to paths

_UNKNOWN = "Unknown field."


def _messages(messages: Any, path: Path, schema: Any) -> Iterator[Finding]:
    """marshmallow's messages are nested like the config; `_schema` concerns a whole map."""
    if isinstance(messages, dict):
        for key, inner in messages.items():
            yield from _messages(inner, path if key == "_schema" else (*path, key), schema)
    elif isinstance(messages, list):
        for message in messages:
            yield from _messages(message, path, schema)
    else:
        unknown = messages == _UNKNOWN
        known = known_fields(schema, path[:-1]) if unknown else {}
        hint = did_you_mean(str(path[-1]), list(known)) if unknown else ""
        yield Finding(str(messages), path, validator=SCHEMA, hint=hint, at_key=unknown)


def known_fields(schema: Any, path: Path) -> dict[str, Any]:
    """The schema's fields for the map at `path`, by their keys in a config."""
    for step in path:
        if isinstance(step, str):
            schema = getattr(known_fields(schema, ()).get(step), "schema", None)
    if schema is None:
        return {}
    return {field.data_key or name: field for name, field in schema.fields.items()}


def newer_keys(found: list[Finding], release: str) -> list[Finding]:
    """The findings; those of unknown keys that CURRENT has say so, if `release` is an older one."""
    if not any(_is_unknown(one) for one in found):
        return found
    with quiet():
        from pcluster.schemas.cluster_schema import ClusterSchema

        schema = ClusterSchema(cluster_name=_CLUSTER_NAME)
    return [_named_newer(one, schema, release) if _is_unknown(one) else one for one in found]


def _is_unknown(finding: Finding) -> bool:
    return finding.validator == SCHEMA and finding.text == _UNKNOWN


def _named_newer(finding: Finding, schema: Any, release: str) -> Finding:
    key = str(finding.path[-1])
    if key not in known_fields(schema, finding.path[:-1]):
        return finding
    text = f"{key} is newer than ParallelCluster {release}, which does not know it"
    hint = f"remove it, or upgrade the cluster: {CURRENT} has it"
    return replace(finding, text=text, hint=hint)


# ------------------------------------------------------------------ hints
# For results of ParallelCluster's validators whose text does not say what to change.


# Validator, a part of its text ("" for any), and the hint.
_HINTS: tuple[tuple[str, str, str], ...] = (
    (
        "InstanceTypeBaseAMICompatibleValidator",
        "OpenRM",
        "official images contain NVIDIA's open driver, which does not support V100 and older GPUs: "
        "set CustomAmi to an image with the closed driver, and without 'AWS ParallelCluster AMI' "
        "in its description; cluster-configs/p3dn-v100.yaml explains how to build it",
    ),
    (
        "EfaPlacementGroupValidator",
        "",
        "EFA reaches its low latency only between machines in one placement group: write "
        "Networking: PlacementGroup: {Enabled: true}, or Enabled: false if you do not want one",
    ),
    (
        "PlacementGroupCapacityTypeValidator",
        "",
        "the machines of a Capacity Block are close together anyway: "
        "PlacementGroup: {Enabled: false}",
    ),
    (
        "ComputeResourceSizeValidator",
        "Capacity Block",
        "a Capacity Block costs the same if it is not used: set MinCount and MaxCount to its size",
    ),
    (
        "CapacityTypeValidator",
        "Reservation id",
        "name the block: CapacityReservationTarget: {CapacityReservationId: cr-...}",
    ),
    (
        "CapacityTypeValidator",
        "not supported",
        "CapacityType is ONDEMAND, SPOT or CAPACITY_BLOCK; not every instance type has all three",
    ),
    (
        "KeyPairValidator",
        "RSA",
        "create a key that Ubuntu accepts: "
        "aws ec2 create-key-pair --key-type ed25519 --key-name NAME",
    ),
    (
        "MultiNetworkInterfacesInstancesValidator",
        "",
        "a machine with several network cards cannot have a public address: use a private subnet "
        "with a NAT gateway, or with endpoints for S3 and the services that ParallelCluster uses",
    ),
    (
        "EfaSecurityGroupValidator",
        "",
        "a rule for 0.0.0.0/0 is not enough for EFA: inbound and outbound need a rule that allows "
        "all traffic with the group itself; AdditionalSecurityGroups keeps ParallelCluster's group",
    ),
    (
        "DeletionPolicyValidator",
        "set to Delete",
        "DeletionPolicy: Retain keeps the data when the cluster is deleted",
    ),
    (
        "InstanceArchitectureCompatibilityValidator",
        "",
        "head node and compute nodes run the same image, so they need the same architecture",
    ),
    (
        "ManagedFsxMultiAzValidator",
        "",
        "a file system is in one zone: use one subnet for all queues, or an existing file system",
    ),
)


def hint_for(validator: str, text: str) -> str:
    """The hint for a validator's result; "" if its text is enough."""
    found = (
        hint
        for name, part, hint in _HINTS
        if name == validator.replace("AsyncTimed", "") and part in text
    )
    return next(found, "")


# ------------------------------------------------------------------ validators
# Runs ParallelCluster's own validators on a loaded config, and locates their results.
# A result has no path. Therefore the registration of each validator is recorded: the object that
# it checks, its arguments, and the loop variables of the registering line (`queue`,
# `compute_resource`).


_LEVELS: dict[str, Level] = {"ERROR": "error", "WARNING": "warning", "INFO": "info"}
_SCOPE = ("compute_resource", "queue", "storage", "pool")  # innermost first


@dataclass
class Registered:
    """A validator with its arguments, before it runs. `owners` are sections, innermost first."""

    arguments: dict[str, Any]
    owners: list[Any]
    results: list[Any] = field(default_factory=list)


def run_validators(config: Any, data: Data) -> list[Finding]:
    """Every result of ParallelCluster's validators, each with its path in `data`."""
    from pcluster.aws.common import AWSClientError
    from pcluster.validators.common import ValidatorContext

    failures: list[Finding] = []
    with event_loop(), _recorded() as registrations:
        try:
            config.validate(context=ValidatorContext())
        except AWSClientError as error:
            failures.append(finding_at_value(error, data))
        except (AttributeError, TypeError, KeyError, IndexError, ValueError) as error:
            failures.append(internal_failure(error, data))
    source_map = SourceMap(config, data)
    findings = [
        _finding(result, registered, source_map)
        for registered in registrations
        for result in registered.results
    ]
    return findings + failures


def _finding(result: Any, registered: Registered, source_map: SourceMap) -> Finding:
    name, text = result.validator_type, str(result.message)
    path = source_map.find(name, text, registered.owners)
    return Finding(text, path, _LEVELS[result.level.name], name, hint_for(name, text))


# ------------------------------------------------------------------ recording


@contextlib.contextmanager
def _recorded() -> Iterator[list[Registered]]:
    """Record every validator that is registered within this context, and its results."""
    from pcluster.config.common import Resource

    registrations: list[Registered] = []
    execute = Resource._validator_execute

    def register(self: Any, validator_class: Any, **arguments: Any) -> None:
        owners = _owners(self, sys._getframe(1).f_locals)
        registered = Registered(arguments, owners)
        registrations.append(registered)
        self._validators.append((validator_class, registered))

    def run(validator_class: Any, registered: Registered, suppressors: Any, executor: Any) -> Any:
        outcome = execute(validator_class, registered.arguments, suppressors, executor)
        if hasattr(outcome, "__await__"):
            return _await(outcome, registered)
        registered.results = list(outcome or [])
        return outcome

    with (
        patch.object(Resource, "_register_validator", register),
        patch.object(Resource, "_validator_execute", staticmethod(run)),
    ):
        yield registrations


async def _await(outcome: Any, registered: Registered) -> Any:
    registered.results = list(await outcome or [])
    return registered.results


def _owners(resource: Any, variables: dict[str, Any]) -> list[Any]:
    """The loop variables of the registering line, then the object itself."""
    named = [variables[name] for name in _SCOPE if variables.get(name) is not None]
    return [*named, resource]


# ------------------------------------------------------------------ one config
# Our own checks come first, and the schema before the validators. A real account is only read.


Validate = Callable[[Data, Account], list[Finding]]


@dataclass(frozen=True)
class Report:
    """All findings. `validators_ran` is False if ParallelCluster's validators did not run."""

    findings: tuple[Finding, ...]
    validators_ran: bool


def check_config(
    data: Data,
    overrides: Overrides | None = None,
    validate: Validate | None = None,
    release: str = CURRENT,
) -> Report:
    """Check a config's plain data, with the site's values filled in.

    `validate` runs ParallelCluster's validators. None means `validate_offline` if the extra is
    installed, and no validators otherwise.
    """
    given = overrides or {}
    account = with_overrides(default_account(data, given_zones(given)), given)
    found = (*find_deprecations(data, release), *run_checks(data, account))
    validate = validate or (validate_offline if optional_deps.is_installed() else None)
    if validate is None:
        return Report(found, validators_ran=False)
    if account.region not in region_names():
        note = _not_asked(f"they do not know the region {account.region}")
        return Report((*found, note), validators_ran=False)
    return Report((*found, *validate(data, account)), validators_ran=True)


def validate_offline(data: Data, account: Account) -> list[Finding]:
    """ParallelCluster's schema, then its validators, with a simulated account.

    If the schema has only errors that `clusters upgrade` fixes, the validators check the upgraded
    config, so that all findings are reported at once.
    """
    with quiet():
        found = check_schema(data, account.region)
        if found:
            data = with_safe_edits(data, optional_deps.release())
            if check_schema(data, account.region):
                return [*found, _not_asked("its schema refuses the config")]
        if unknown := [one for one in walk.all_instance_types(data) if not is_known(one)]:
            return [*found, _not_asked(f"they do not know the type {unknown[0]}")]
        with simulated_account(account):
            config, stopped = load(data)
            return [*found, *(stopped or run_validators(config, data))]


def _not_asked(why: str) -> Finding:
    text = f"ParallelCluster's validators were not asked, since {why}"
    return Finding(text, (), "info", hint="correct that first, then validate again")


def validate_with_aws(data: Data, account: Account) -> list[Finding]:
    """Run the validators with the caller's real account, which is only read."""
    with quiet(), environment({"AWS_DEFAULT_REGION": account.region}):
        from pcluster.aws.aws_api import AWSApi

        AWSApi.reset()
        config, found = load(data)
        if found:
            return [*found, _not_asked("its schema refuses the config")]
        return run_validators(config, data)

"""Runs all checks of one config: our own, ParallelCluster's schema and its validators.

Our own checks come first, and the schema before the validators. A real account is only read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
from clusterjobs.validation.finding import Data, Finding
from clusterjobs.validation.own_checks import is_known, run_checks
from clusterjobs.validation.upgrade import find_deprecations, with_safe_edits

Validate = Callable[[Data, Account], list[Finding]]


@dataclass(frozen=True)
class Report:
    """All findings. `validators_ran` is False if ParallelCluster's validators did not run."""

    findings: tuple[Finding, ...]
    validators_ran: bool


def check_config(
    data: Data, overrides: Overrides | None = None, validate: Validate | None = None
) -> Report:
    """Check a config's plain data, with the site's values filled in.

    `validate` runs ParallelCluster's validators. None means `validate_offline` if the extra is
    installed, and no validators otherwise.
    """
    given = overrides or {}
    account = with_overrides(default_account(data, given_zones(given)), given)
    found = (*find_deprecations(data), *run_checks(data, account))
    validate = validate or (validate_offline if optional_deps.is_installed() else None)
    if validate is None or account.region not in region_names():
        return Report(found, validators_ran=False)
    return Report((*found, *validate(data, account)), validators_ran=True)


def validate_offline(data: Data, account: Account) -> list[Finding]:
    """ParallelCluster's schema, then its validators, with a simulated account.

    If the schema has only errors that `clusters upgrade` fixes, the validators check the upgraded
    config, so that all findings are reported at once.
    """
    from clusterjobs.validation import offline, schema

    with optional_deps.quiet():
        found = schema.check_schema(data, account.region)
        if found:
            data = with_safe_edits(data)
            if schema.check_schema(data, account.region):
                return found
        if not all(is_known(kind) for kind in walk.all_instance_types(data)):
            return found  # the validators stop at a type that is not simulated
        with offline.simulated_account(account):
            config, stopped = schema.load(data)
            return [*found, *(stopped or schema.run_validators(config, data))]


def validate_with_aws(data: Data, account: Account) -> list[Finding]:
    """The same with the caller's real account, which is only read."""
    from clusterjobs.validation import schema

    with optional_deps.quiet(), optional_deps.environment({"AWS_DEFAULT_REGION": account.region}):
        from pcluster.aws.aws_api import AWSApi

        AWSApi.reset()
        config, found = schema.load(data)
        return found or schema.run_validators(config, data)

"""All that can be said about one config: our own checks, and ParallelCluster's word on it.

This floor knows the order of things: what is plainly wrong is told first, the schema comes before
the validators, and nothing of a real account is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from clusterjobs.parallelcluster.validation import optional_deps
from clusterjobs.parallelcluster.validation.account import Account
from clusterjobs.parallelcluster.validation.account_overrides import Facts, with_facts
from clusterjobs.parallelcluster.validation.checks.run import run_own_checks
from clusterjobs.parallelcluster.validation.default_account import assume_account
from clusterjobs.parallelcluster.validation.deprecations import find_outdated, with_safe_edits
from clusterjobs.parallelcluster.validation.finding import Finding
from clusterjobs.parallelcluster.validation.offerings import region_names
from clusterjobs.parallelcluster.validation.walk import Data

Ask = Callable[[Data, Account], list[Finding]]


@dataclass(frozen=True)
class Verdict:
    """What was found. `asked` is False where ParallelCluster itself could not be asked."""

    findings: tuple[Finding, ...]
    asked: bool


def check_config(
    data: Data,
    facts: Facts | None = None,
    more: Iterable[Finding] = (),
    ask: Ask | None = None,
) -> Verdict:
    """Everything about a config's plain data, site values put in.

    `more` are findings of the caller's. `ask` is who speaks for ParallelCluster: None is the
    make-believe account where the extra is installed, and nobody where it is not.
    """
    account = with_facts(assume_account(data), facts or {})
    found = [*more, *find_outdated(data), *run_own_checks(data, account)]
    ask = ask or (ask_offline if optional_deps.is_installed() else None)
    if ask is None or account.region not in region_names():
        return Verdict(tuple(found), asked=False)
    return Verdict((*found, *ask(data, account)), asked=True)


def ask_offline(data: Data, account: Account) -> list[Finding]:
    """ParallelCluster's schema, then its validators, against an account that is acted out.

    Where only what `clusters upgrade` changes is wrong for the schema, the validators judge the
    config as it would be then, so that everything is told at once.
    """
    from clusterjobs.parallelcluster.validation import offline, schema, validators

    with optional_deps.quiet():
        found = schema.check_schema(data, account.region)
        if found:
            data = with_safe_edits(data)
            if schema.check_schema(data, account.region):
                return found
        with offline.acted_out(account):
            config, stopped = schema.load(data)
            return [*found, *(stopped or validators.run_validators(config, data))]


def ask_account(data: Data, account: Account) -> list[Finding]:
    """The same against the caller's real account, which is only read."""
    from clusterjobs.parallelcluster.validation import schema, validators

    with optional_deps.quiet(), optional_deps.environment({"AWS_DEFAULT_REGION": account.region}):
        from pcluster.aws.aws_api import AWSApi

        AWSApi.reset()
        config, found = schema.load(data)
        return found or validators.run_validators(config, data)

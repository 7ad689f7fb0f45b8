"""`--account FILE`: a user's overrides for the simulated account.

    subnets: {subnet-0123456789abcdef0: {zone: us-east-1a}}
    keys: {my-key: {type: rsa}}

This module knows the format of the file; it must not know how the attributes are used.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from clusterjobs.errors import InputError, Problem, did_you_mean
from clusterjobs.parallelcluster.validation.account import KINDS, MAIN_VPC, Account, Vpc
from clusterjobs.parallelcluster.validation.offerings import best_zones, region_names
from clusterjobs.yaml.document import Document, Path, dotted, load

Overrides = dict[str, dict[str, dict[str, Any]]]  # kind -> id -> attribute -> value

_TYPES = {"bool": bool, "int": int, "str": str}
_EXPECTED = {
    "bool": "true or false",
    "int": "an integer, for example 12",
    "str": 'text, for example "abc"',
}


def load_overrides(text: str, file: str) -> Overrides:
    """The overrides in a file. Raises InputError with all problems of the file."""
    document = load(text, file)
    reader = _Reader(document)
    overrides = reader.read()
    if reader.problems:
        raise InputError(reader.problems)
    return overrides


def with_overrides(account: Account, overrides: Overrides) -> Account:
    """The account with the overrides applied.

    Raises InputError for zones that its region does not have.
    """
    _refuse_zones(account.region, overrides)
    result = dataclasses.replace(account)
    for kind, entries in overrides.items():
        known: dict[str, Any] = dict(getattr(account, kind))
        for name, values in entries.items():
            known[name] = dataclasses.replace(known.get(name) or KINDS[kind](), **values)
        setattr(result, kind, known)
    _join_main_vpc(result)
    named = {subnet.vpc for subnet in result.subnets.values()}
    named |= {group.vpc for group in result.security_groups.values()}
    result.vpcs |= {name: Vpc() for name in sorted(named - result.vpcs.keys())}
    return result


def _join_main_vpc(account: Account) -> None:
    """If all subnets are in one VPC with a name, it is the main one, where all else is assumed."""
    names = {subnet.vpc for subnet in account.subnets.values()}
    if len(names) != 1 or names == {MAIN_VPC}:
        return
    (name,) = names
    for kind in ("subnets", "security_groups", "file_systems"):
        known: dict[str, Any] = getattr(account, kind)
        moved = {key: dataclasses.replace(one, vpc=MAIN_VPC) for key, one in known.items()
                 if one.vpc == name}  # fmt: skip
        setattr(account, kind, {**known, **moved})
    account.vpcs = {**account.vpcs, MAIN_VPC: account.vpcs.get(name) or account.vpcs[MAIN_VPC]}


def given_zones(overrides: Overrides) -> dict[str, str]:
    """The zones of the overrides, by the resource's name."""
    return {
        name: values["zone"]
        for entries in overrides.values()
        for name, values in entries.items()
        if values.get("zone")
    }


def _refuse_zones(region: str, overrides: Overrides) -> None:
    if region not in region_names():
        return  # a misspelt region is a finding of its own, and nothing is known of its zones
    zones = best_zones((), region)
    problems = [
        Problem(f"{region} has no zone {zone}", path=f"{kind}.{name}.zone", hint=", ".join(zones))
        for kind, entries in overrides.items()
        for name, values in entries.items()
        if (zone := values.get("zone")) and zone not in zones
    ]
    if problems:
        raise InputError(problems)


class _Reader:
    """Checks names and types, and collects problems."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems: list[Problem] = []

    def read(self) -> Overrides:
        overrides: Overrides = {}
        for kind, entries in self._map((), self.document.value).items():
            if kind not in KINDS:
                self._unknown((kind,), kind, tuple(KINDS))
                continue
            overrides[kind] = {
                name: self._values((kind, name), KINDS[kind], values)
                for name, values in self._map((kind,), entries).items()
            }
        return overrides

    def _values(self, path: Path, record: type, values: Any) -> dict[str, Any]:
        types = {field.name: str(field.type) for field in dataclasses.fields(record)}
        found: dict[str, Any] = {}
        for key, value in self._map(path, values).items():
            if key not in types:
                self._unknown((*path, key), key, tuple(types))
            elif not _is(value, types[key]):
                self._problem((*path, key), f"expected {_EXPECTED[types[key]]}")
            else:
                found[key] = value
        return found

    def _map(self, path: Path, value: Any) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        if value is not None:
            self._problem(path, "expected a map, for example {name: value}")
        return {}

    def _unknown(self, path: Path, key: str, known: tuple[str, ...]) -> None:
        where = self.document.locate_key(path)
        problem = Problem(f"unknown {key!r}", where, dotted(path), did_you_mean(key, known))
        self.problems.append(problem)

    def _problem(self, path: Path, what: str) -> None:
        self.problems.append(Problem(what, self.document.locate(path), dotted(path)))


def _is(value: Any, type_name: str) -> bool:
    expected = _TYPES[type_name]
    return isinstance(value, expected) and (expected is bool or not isinstance(value, bool))

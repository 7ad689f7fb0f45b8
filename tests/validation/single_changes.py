"""Reads `changes/*.yaml`: single changes to good configs, and the expected finding for each.

- name: the problem
  base: p4d-a100                  # a ready config, or a file in bases/
  replace: [old text, new text]   # old occurs once in the config
  account: {subnets: {...}}       # overrides for the account
  level: warning                  # default: error
  validator: EfaValidator         # left out for our own checks
  text: part of the message
  at: "Enabled: »true"            # the line, with » at the expected position of the caret
"""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import yaml

from clusterjobs import resources
from clusterjobs.clusters.parallelcluster.render_config import fit
from clusterjobs.clusters.parallelcluster.source import read_cluster
from clusterjobs.errors import Problem
from clusterjobs.validation.finding import problems
from clusterjobs.validation.schema import check_config
from clusterjobs.yaml.document import load

HERE = pathlib.Path(__file__).parent
SITE: dict[str, object] = {
    "region": "us-east-1",
    "public_subnet": "subnet-0a1b2c3d4e5f60001",
    "private_subnet": "subnet-0a1b2c3d4e5f60002",
    "key_name": "lab-key",
    "bucket": "lab-data",
    "custom_ami": "ami-0a1b2c3d4e5f60001",
    "capacity_reservation": "cr-0a1b2c3d4e5f60001",
}


@dataclasses.dataclass(frozen=True)
class Change:
    """One row of a table."""

    name: str
    base: str
    replace: tuple[str, str] = ("", "")
    account: dict[str, Any] = dataclasses.field(default_factory=dict)
    level: str = "error"
    validator: str = ""
    text: str = ""
    at: str = ""

    def config(self) -> str:
        """The base with the change applied."""
        good = base_text(self.base)
        old, new = self.replace
        if not old:
            return good
        assert good.count(old) == 1, f"{old!r} occurs {good.count(old)} times in {self.base}"
        return good.replace(old, new)


def base_text(name: str) -> str:
    """The text of a good config, with the site's values."""
    own = HERE / "bases" / f"{name}.yaml"
    if own.is_file():
        return own.read_text(encoding="utf-8")
    file = resources.cluster_configs_dir() / f"{name}.yaml"
    _, document = read_cluster(file.read_text(encoding="utf-8"), file.name, SITE)
    return fit(document, SITE).text


def load_changes() -> list[Change]:
    """Every row of every table."""
    rows: list[Change] = []
    for file in sorted((HERE / "changes").glob("*.yaml")):
        for row in yaml.safe_load(file.read_text(encoding="utf-8")):
            row["replace"] = tuple(row.get("replace", ("", "")))
            rows.append(Change(**row))
    return rows


def find_problems(config: str, account: dict[str, Any] | None = None) -> list[Problem]:
    """All problems of a config, with locations."""
    document = load(config, "c.yaml", rules="1.1")
    report = check_config(document.value, account)
    return problems(document, (), report.findings)

"""Rules, users and jobs made from a seed, and what `plan` says of them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, NamedTuple

from clusterjobs.errors import InputError, Problem
from clusterjobs.runs.load import load
from clusterjobs.sites.folders import SiteFolders
from clusterjobs.sites.policy_check import User

QUEUES = ("main", "p5", "debug")
GROUPS = {
    "ann": ("nlp",),
    "bob": ("nlp", "vision"),
    "cyd": ("vision", "staff"),
    "dan": (),
    "eve": ("staff",),
}
ACCOUNTS = ("research", "teaching")
CLUSTER = """\
kind: slurm
node_types:
  n: {cpus: 96, memory_mib: 500000, gpus: 8, fabric: ethernet}
partitions:
  main: {nodes: {n: 64}}
  p5: {nodes: {n: 64}}
  debug: {nodes: {n: 64}}
default_partition: main
"""


class Job(NamedTuple):
    """What a spec asks for. `account` None: Slurm's default account of the user, research."""

    user: str
    nodes: int
    gpus: int
    hours: float | None
    queue: str
    account: str | None
    options: tuple[tuple[str, str], ...] = ()

    def spec(self) -> dict[str, Any]:
        sbatch: dict[str, Any] = dict(self.options)
        if self.account:
            sbatch["account"] = self.account
        found: dict[str, Any] = {"name": "a", "cluster": "cluster.yaml", "framework": "command"}
        found |= {"command": ["./run"], "nodes": self.nodes, "gpus_per_node": self.gpus}
        found |= {"queue": self.queue, "sbatch": sbatch}
        return found | ({"time_limit": round(self.hours * 60)} if self.hours else {})


def selection(random: random.Random) -> dict[str, Any]:
    """Of queues, users, groups or accounts: one of them, seldom two; also patterns."""
    choices = {
        "queues": [["p5"], ["p5", "debug"], ["main"], ["d*"]],
        "groups": [["nlp"], ["vision"], ["staff"], ["s*"], ["nlp", "staff"]],
        "users": [["ann"], ["bob", "dan"], ["*n"]],
        "accounts": [["teaching"], ["research"]],
    }
    kinds = random.sample([*choices], random.choice([1, 1, 1, 2]))
    return {kind: random.choice(choices[kind]) for kind in kinds}


def limits(random: random.Random) -> dict[str, Any]:
    choices = {
        "nodes": [2, 4, 8, 16],
        "gpus": [0, 8, 32, 64],
        "gpus_per_node": [0, 2, 4],
        "time": ["4:00:00", "12:00:00", "1-00:00:00"],
        "gpu_hours": [24, 100, 512.5],
        "team_nodes": [6, 12],
    }
    kinds = random.sample([*choices], random.choice([1, 1, 2]))
    return {kind: random.choice(choices[kind]) for kind in kinds}


def option_rule(random: random.Random) -> dict[str, Any]:
    """A rule about directives that no setting of Slurm enforces."""
    choices: list[dict[str, Any]] = [
        {"require": ["sbatch.comment"]},
        {"require": ["sbatch.account", "time_limit"]},
        {"allow": {"sbatch.account": ["re*"]}},
        {"allow": {"sbatch.comment": ["project-?", "[ab]*"]}},
        {"allow": {"queue": ["main", "d*"]}},
        {"forbid": ["sbatch.array"]},
        {"forbid": {"sbatch.comment": ["*-1", "a.c"]}},
        {"forbid": {"sbatch.constraint": ["a100"]}},
    ]
    return random.choice(choices)


def policy(random: random.Random, of_options: bool = False) -> list[dict[str, Any]]:
    """A few rules; most are limits."""
    rules = []
    for number in range(random.randint(2, 6)):
        rule: dict[str, Any] = {"name": f"r{number}", "message": f"Message {number}."}
        for word, chance in (("when", 0.7), ("unless", 0.2)):
            if random.random() < chance:
                rule[word] = selection(random)
        if "unless" in rule and random.random() < 0.5:  # one of several exemptions is enough
            rule["unless"] = [rule["unless"], selection(random)]
        if random.random() < 0.2:
            rule["forbid"] = {"queue": [random.choice(QUEUES)]}
        elif of_options and random.random() < 0.5:
            rule |= option_rule(random)
        else:
            rule["limits"] = limits(random)
        rules.append(rule)
    return rules


def job(random: random.Random, of_options: bool = False) -> Job:
    options = {}
    if of_options and random.random() < 0.5:
        options["comment"] = random.choice(["project-1", "project-12", "abc", "x", "a.c"])
    if of_options and random.random() < 0.2:
        options["array"] = "0-3"
    return Job(
        random.choice([*GROUPS]),
        random.choice([1, 2, 3, 4, 5, 8, 9, 16, 17]),
        random.choice([0, 1, 2, 4, 8]),
        random.choice([None, 1, 4, 5, 12, 13, 24, 25]),
        random.choice(QUEUES),
        random.choice([None, *ACCOUNTS]),
        tuple(options.items()),
    )


class Planned(NamedTuple):
    """The rules that a job breaks, with their hints, and its script without any rule."""

    rules: dict[str, str]
    script: str


class Site:
    """A site folder with a policy, and a cluster beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "site").mkdir()
        (folder / "cluster.yaml").write_text(CLUSTER)

    def write(self, rules: list[dict[str, Any]]) -> None:
        (self.folder / "site/policy.yaml").write_text(json.dumps({"rules": rules}))

    def plan(self, job: Job) -> Planned:
        """As `clusterjobs plan --user` does it. Other problems of the spec are not expected."""
        spec = self.folder / "exp.yaml"
        spec.write_text(json.dumps(job.spec()))
        user = User(job.user, frozenset({*GROUPS[job.user], job.user}))
        problems: tuple[Problem, ...] = ()
        try:
            load(spec, site=SiteFolders((self.folder / "site",)), user=user)
        except InputError as error:
            problems = tuple(one for one in error.problems if not one.warning)
        assert all(one.rule for one in problems), problems
        broken = {one.rule.name: one.hint for one in problems if one.rule}
        return Planned(broken, load(spec, site=SiteFolders(())).outputs()["job.sh"])


def members() -> str:
    """The users as --users takes them."""
    return "".join(
        f"{user}|{account}|{','.join([user, *groups])}\n"
        for user, groups in GROUPS.items()
        for account in ACCOUNTS
    )

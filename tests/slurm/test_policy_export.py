"""The lines of slurm.conf and sacctmgr for the rules of a policy."""

from __future__ import annotations

import json
import pathlib
import shlex
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import yaml

import clusterjobs as package
from clusterjobs.admin.policy_settings import settings_of, slurm_lines
from clusterjobs.frameworks import option_models
from clusterjobs.sites.policy import load_policy

KNOWN = pathlib.Path(package.__path__[0]) / "validation/slurm_keys.json"


def exported(*rules: dict[str, Any], cluster: str | None = None) -> str:
    """The text, without what is at its top."""
    named = [{"name": f"r{i}", "message": f"m{i}", **rule} for i, rule in enumerate(rules)]
    policy = yaml.safe_dump({"rules": named}, sort_keys=False)
    settings = settings_of(load_policy(policy, "policy.yaml", option_models()), cluster)
    return slurm_lines(settings).split("\n\n", 1)[1]


def lines(*rules: dict[str, Any], cluster: str | None = None) -> list[str]:
    """The lines that are not comments."""
    text = exported(*rules, cluster=cluster)
    return [line for line in text.splitlines() if line and not line.startswith("#")]


QUEUE = {"queues": ["p5"]}
DATABASE = "AccountingStorageEnforce=associations,limits,qos,safe"
GPUS = "AccountingStorageTRES=gres/gpu"

TABLE: list[tuple[list[dict[str, Any]], list[str]]] = [
    (
        [{"when": QUEUE, "limits": {"nodes": 4, "time": "24:00:00"}}],
        ["EnforcePartLimits=ALL", "PartitionName=p5 MaxNodes=4 MaxTime=1-00:00:00"],
    ),
    (
        [
            {"when": QUEUE, "limits": {"nodes": 4}},
            {"when": {"queues": ["p5", "p4"]}, "limits": {"nodes": 8}},
        ],
        ["EnforcePartLimits=ALL", "PartitionName=p5 MaxNodes=4", "PartitionName=p4 MaxNodes=8"],
    ),
    (
        [{"when": QUEUE, "limits": {"gpus": 64, "gpu_hours": 512.5, "gpus_per_node": 4}}],
        [
            GPUS,
            "sacctmgr -i add qos clusterjobs-partition-p5",
            "sacctmgr -i modify qos where name=clusterjobs-partition-p5 set "
            "MaxTRESPerJob=gres/gpu=64 MaxTRESPerNode=gres/gpu=4 "
            "MaxTRESMinsPerJob=gres/gpu=30750 Flags=DenyOnLimit",
            *(DATABASE, "EnforcePartLimits=ALL"),
            "PartitionName=p5 QOS=clusterjobs-partition-p5",
        ],
    ),
    (
        [{"limits": {"nodes": 8, "gpus": 64, "time": 90}}],
        [
            GPUS,
            "sacctmgr -i modify cluster set MaxTRESPerJob=node=8,gres/gpu=64 MaxWall=01:30:00",
            DATABASE,
        ],
    ),
    (
        [{"when": {"users": ["ann"]}, "limits": {"nodes": 8}}],
        ["sacctmgr -i modify user where name=ann set MaxTRESPerJob=node=8", DATABASE],
    ),
    (
        [{"when": {"groups": ["Students"]}, "limits": {"time": "12:00:00"}}],
        [
            "sacctmgr -i add qos clusterjobs-group-students",
            "sacctmgr -i modify qos where name=clusterjobs-group-students set "
            "MaxWall=12:00:00 Flags=DenyOnLimit",
            "for user in $(getent group Students | cut -d: -f4 | tr , ' '); do",
            '  sacctmgr -i modify user where name="$user" set qos=clusterjobs-group-students '
            "defaultqos=clusterjobs-group-students",
            "done",
            DATABASE,
        ],
    ),
    (
        [{"when": QUEUE, "allow": {"sbatch.account": ["bio", "chem"]}}],
        ["EnforcePartLimits=ALL", "PartitionName=p5 AllowAccounts=bio,chem"],
    ),
    (
        [{"when": QUEUE, "forbid": {"sbatch.account": "bio", "sbatch.qos": "low"}}],
        ["EnforcePartLimits=ALL", "PartitionName=p5 DenyAccounts=bio DenyQos=low"],
    ),
    (
        [{"unless": {"groups": ["staff", "ops"]}, "forbid": {"queue": "p5"}}],
        ["EnforcePartLimits=ALL", "PartitionName=p5 AllowGroups=staff,ops"],
    ),
    ([{"require": ["time_limit"]}], ["JobSubmitPlugins=require_timelimit"]),
    ([{"require": ["sbatch.account"]}], ["AccountingStorageEnforce=associations"]),
]


@pytest.mark.parametrize(("rules", "expected"), TABLE)
def test_rules_have_these_settings(rules: list[dict[str, Any]], expected: list[str]) -> None:
    assert lines(*rules) == expected
    assert "no setting" not in exported(*rules)


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ({"limits": {"nodes": 1}, "action": "warn"}, "the rule: Slurm refuses a job or accepts it"),
        ({"limits": {"nodes": 1}, "when": {"queues": ["p*"]}}, "names, not patterns"),
        ({"limits": {"nodes": 1}, "when": {**QUEUE, "groups": ["a"]}}, "not for a pair of them"),
        ({"limits": {"nodes": 1}, "unless": {"groups": ["a"]}}, "no exceptions"),
        ({"limits": {"nodes": 1}, "when": {"frameworks": ["torchrun"]}}, "the framework of a job"),
        ({"limits": {"nodes": 1}, "when": {"clusters": ["a"]}}, "name one with --cluster"),
        ({"forbid": {"queue": "p5"}, "when": {"groups": ["a"]}}, "no list of groups that are den"),
        ({"forbid": {"queue": "p5"}, "unless": {"users": ["a"]}}, "a partition allows groups"),
        ({"forbid": {"queue": "p5"}}, "a partition allows groups"),
        ({"allow": {"sbatch.account": ["a"]}}, "only a partition has such a list"),
        ({"allow": {"sbatch.account": ["a*"]}, "when": QUEUE}, "names, not patterns"),
        ({"require": ["sbatch.account"], "when": QUEUE}, "for all jobs of the cluster"),
        ({"require": ["sbatch.comment"]}, "no setting of Slurm is about --comment"),
        ({"forbid": ["env.X"]}, "Slurm does not know env.X"),
        ({"images": {"forbid": ["*:latest"]}}, "does not know the image"),
        ({"preflight": True}, "the preflight is a part of the job's script"),
    ],
)
def test_rule_without_a_setting_is_a_comment_with_the_reason(
    rule: dict[str, Any], reason: str
) -> None:
    assert lines(rule) == []
    text = exported(rule)
    assert reason in text
    assert "# r0 (policy.yaml:2): m0" in text


def test_rules_of_other_clusters_are_left_out() -> None:
    rules = [
        {"limits": {"nodes": 1}, "when": {"clusters": ["p4d-*"]}},
        {"limits": {"nodes": 2}, "when": {"clusters": ["p5-*"]}},
    ]
    assert lines(*rules, cluster="p5-h100")[0].endswith("MaxTRESPerJob=node=2")
    assert "p4d" not in exported(*rules, cluster="p5-h100")


def test_lists_that_contradict_each_other_are_not_both_set() -> None:
    first = {"when": QUEUE, "allow": {"sbatch.account": ["a"]}}
    for second in ({"allow": {"sbatch.account": ["b"]}}, {"forbid": {"sbatch.account": ["a"]}}):
        assert lines(first, {"when": QUEUE, **second})[-1] == "PartitionName=p5 AllowAccounts=a"
        assert "# ---- no setting" in exported(first, {"when": QUEUE, **second})


HOSTILE = [
    "a b",
    "a;rm",
    "$(id)",
    "`id`",
    "a,b",
    "a=b",
    "'",
    '"',
    "-f",
    "a#b",
    "a\\",
    "\u00e4",
    "a/b",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_that_could_change_a_line_are_in_comments_only(name: str) -> None:
    rules = [
        {"when": {"queues": [name]}, "limits": {"nodes": 1, "gpus": 1}},
        {"when": {"users": [name]}, "limits": {"nodes": 1}},
        {"when": {"groups": [name]}, "limits": {"nodes": 1}},
        {"when": QUEUE, "allow": {"sbatch.account": [name]}},
        {"unless": {"groups": [name]}, "forbid": {"queue": "p5"}},
        {"unless": {"groups": ["a"]}, "forbid": {"queue": name}},
    ]
    for rule in rules:
        assert [line for line in lines(rule) if line != "EnforcePartLimits=ALL"] == []
        assert "cannot be written as a name in Slurm's files" in exported(rule)


def test_messages_cannot_leave_their_comment() -> None:
    rule = {"message": "a\u2028b \\", "when": QUEUE, "limits": {"nodes": 1}}
    assert "# r0 (policy.yaml:2): a b ?\nPartitionName=p5 MaxNodes=1" in exported(rule)


def test_every_setting_exists_in_slurm() -> None:
    known = json.loads(KNOWN.read_text(encoding="utf-8"))
    text = "\n".join(line for rules, _ in TABLE for line in lines(*rules))
    for line in text.splitlines():
        if line.startswith(("sacctmgr", "for", " ", "done")):
            continue
        names = [part.partition("=")[0] for part in line.split()]
        group = known["partition"] if names[0] == "PartitionName" else known["cluster"]
        assert {*names} <= {*group, "PartitionName"}


def test_commands_are_a_shell_script(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sacctmgr gets the words of each line as they are printed."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for name, code in {"sacctmgr": 'echo "$@"', "getent": "echo students:x:1:ann,bob"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{code}\n")
        (tmp_path / name).chmod(0o755)
    rule = {"when": {"groups": ["students"]}, "limits": {"nodes": 1}}
    script = exported(rule).partition("# ---- slurm.conf")[0]
    done = subprocess.run(["bash", "-eu"], input=script, capture_output=True, text=True, check=True)
    said = [shlex.split(line) for line in done.stdout.splitlines()]
    assert [words[1:5] for words in said] == [
        ["add", "qos", "clusterjobs-group-students"],
        ["modify", "qos", "where", "name=clusterjobs-group-students"],
        ["modify", "user", "where", "name=ann"],
        ["modify", "user", "where", "name=bob"],
    ]


def test_command_prints_the_lines(clusterjobs: Callable[..., Any], folder: pathlib.Path) -> None:
    (folder / "site").mkdir()
    rule = "{name: one, message: m, when: {queues: [p5]}, limits: {nodes: 2}}"
    (folder / "site" / "policy.yaml").write_text(f"rules:\n- {rule}\n")
    outcome = clusterjobs("policy", "export", "--slurm", "--site", "site")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.endswith("# one (site/policy.yaml:2): m\nPartitionName=p5 MaxNodes=2\n")
    assert clusterjobs("policy", "export", "--site", "site").code == 2
    (folder / "site" / "policy.yaml").write_text("")
    outcome = clusterjobs("policy", "export", "--slurm", "--site", "site")
    assert outcome.out.endswith("# There are no rules.\n")

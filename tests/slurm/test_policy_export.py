"""The lines of slurm.conf and sacctmgr for the rules of a policy."""

from __future__ import annotations

import functools
import json
import pathlib
import re
import shlex
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import yaml

import clusterjobs as package
from clusterjobs.admin.policy_lines import slurm_lines
from clusterjobs.admin.policy_members import Member, read_members
from clusterjobs.admin.policy_settings import settings_of
from clusterjobs.clusters.facts import Partition
from clusterjobs.errors import InputError
from clusterjobs.frameworks import option_models
from clusterjobs.sites.policy import load_policy

KNOWN = pathlib.Path(package.__path__[0]) / "slurm/slurm_conf.json"


USERS = """\
root|root|wheel
ann|bio|nlp
bob|bio|nlp,vision
bob|chem|nlp,vision
cyd|chem|
"""
UNDO = re.compile("# Before anything changes.*exit 1; }\n\n", re.DOTALL)
MEMBERS = read_members(USERS, "users")


def exported(
    *rules: dict[str, Any],
    cluster: str | None = None,
    members: tuple[Member, ...] = (),
    queues: tuple[str, ...] = (),
    partitions: tuple[Partition, ...] = (),
    with_undo: bool = False,
) -> str:
    """The text, without what is at its top, and without the part that writes what undoes it."""
    named = [{"name": f"r{i}", "message": f"m{i}", **rule} for i, rule in enumerate(rules)]
    policy = yaml.safe_dump({"rules": named}, sort_keys=False)
    rules = load_policy(policy, "policy.yaml", option_models())
    partitions = (*partitions, *(Partition(name, ()) for name in queues))
    settings = settings_of(rules, cluster, members, partitions)
    text = slurm_lines(settings).split("\n\n", 1)[1]
    return text if with_undo else UNDO.sub("", text)


def lines(*rules: dict[str, Any], **given: Any) -> list[str]:
    """The lines that are not comments."""
    text = exported(*rules, **given)
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
            "sacctmgr -i add qos clusterjobs-partition-p5 || true  # it may exist",
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
        ({"limits": {"nodes": 1}, "when": {"groups": ["a"]}}, "name the users with --users"),
        ({"limits": {"nodes": 1}, "unless": QUEUE}, "all queues but some: name the cluster"),
        ({"limits": {"time": "00:00:30"}}, "time: Slurm counts minutes"),
        ({"limits": {"team_nodes": 1}, "when": {"groups": ["a"]}}, "Slurm counts the jobs of an"),
        ({"limits": {"nodes": 1}, "when": {"frameworks": ["torchrun"]}}, "the framework of a job"),
        ({"limits": {"nodes": 1}, "when": {"clusters": ["a"]}}, "name one with --cluster"),
        ({"forbid": {"queue": "p5"}, "when": {"groups": ["a"]}}, "name the users with --users"),
        ({"forbid": {"queue": "p5"}, "unless": {"users": ["a"]}}, "name the users with --users"),
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


def test_lists_of_several_rules_become_one() -> None:
    first = {"when": QUEUE, "allow": {"sbatch.account": ["a", "b", "c"]}}
    second = {"when": QUEUE, "allow": {"sbatch.account": ["b", "c", "d"]}}
    third = {"when": QUEUE, "forbid": {"sbatch.account": ["c"]}}
    assert lines(first, second)[-1] == "PartitionName=p5 AllowAccounts=b,c"
    assert lines(first, third, second)[-1] == "PartitionName=p5 AllowAccounts=b"
    assert lines(third, first)[-1] == "PartitionName=p5 AllowAccounts=a,b"
    none = {"when": QUEUE, "allow": {"sbatch.account": ["x"]}}
    assert lines(first, none)[-1] == "PartitionName=p5 AllowAccounts=a,b,c"
    assert "no value is left for partition p5" in exported(first, none)


def test_a_partition_keeps_the_lists_that_it_has() -> None:
    allow = {"when": QUEUE, "allow": {"sbatch.account": ["a", "b"]}}
    forbid = {"when": QUEUE, "forbid": {"sbatch.account": ["a"]}}
    denying = (Partition("p5", (), deny_accounts=("b", "x")),)
    assert lines(allow, partitions=denying)[-1] == "PartitionName=p5 AllowAccounts=a"
    assert lines(forbid, partitions=denying)[-1] == "PartitionName=p5 DenyAccounts=a,b,x"
    # Slurm ignores the Deny list of such a partition.
    both = (denying[0]._replace(accounts=("a", "b", "c")),)
    assert lines(forbid, partitions=both)[-1] == "PartitionName=p5 AllowAccounts=b,c"


# ------------------------------------------------------------------ users

EVERYONE = {"limits": {"nodes": 8}}
NLP = {"when": {"groups": ["nlp"]}, "limits": {"nodes": 16, "gpus": 64}}
VISION = {"when": {"groups": ["vi*"]}, "limits": {"nodes": 4, "time": "12:00:00"}}


def qos_of(user: str, account: str, shown: list[str], queue: str = "") -> str:
    """The QOS that a user gets last, and its limits."""
    where = f"account={account}" + (f" partition={queue}" if queue else "")
    found = [
        line.partition(" qos=")[2].split()[0]
        for line in shown
        if "modify user where" in line
        and user in line.split("name=")[1].split()[0].split(",")
        and (f"{where} set" in line)
        and " qos=" in line
    ]
    name = found[-1] if found else ""
    limits = [
        line.partition(" set ")[2] for line in shown if f"modify qos where name={name} " in line
    ]
    return limits[0] if limits else ""


def test_every_user_gets_the_smallest_of_all_limits() -> None:
    shown = lines(EVERYONE, NLP, VISION, members=MEMBERS)
    assert qos_of("ann", "bio", shown) == "MaxTRESPerJob=node=8,gres/gpu=64 Flags=DenyOnLimit"
    of_both = "MaxTRESPerJob=node=4,gres/gpu=64 MaxWall=12:00:00 Flags=DenyOnLimit"
    assert qos_of("bob", "bio", shown) == qos_of("bob", "chem", shown) == of_both
    assert qos_of("cyd", "chem", shown) == "MaxTRESPerJob=node=8 Flags=DenyOnLimit"
    assert len([line for line in shown if " add qos " in line]) == 3
    assert "no setting" not in exported(EVERYONE, NLP, VISION, members=MEMBERS)


def test_a_rule_for_a_queue_and_a_group_gives_an_association_of_its_own() -> None:
    both = {"when": {"groups": ["nlp"], **QUEUE}, "limits": {"nodes": 2}}
    shown = lines(EVERYONE, both, members=MEMBERS)
    assert "sacctmgr -i add user ann,bob account=bio partition=p5 || true  # it may exist" in shown
    small = "MaxTRESPerJob=node=2 Flags=DenyOnLimit,OverPartQOS"
    assert qos_of("ann", "bio", shown, "p5") == qos_of("bob", "chem", shown, "p5") == small
    assert qos_of("cyd", "chem", shown, "p5") == ""
    assert qos_of("ann", "bio", shown) == "MaxTRESPerJob=node=8 Flags=DenyOnLimit"


def test_the_qos_of_a_partition_does_not_hide_a_smaller_limit() -> None:
    """It has precedence over the QOS of a job."""
    queue = {"when": QUEUE, "limits": {"gpus": 32}}
    for least, rules in (
        (8, [{"limits": {"gpus": 8}}, queue]),
        (32, [{"limits": {"gpus": 64}}, queue]),
    ):
        shown = lines(*rules)
        (limits,) = (line for line in shown if "name=clusterjobs-partition-p5" in line)
        assert f"MaxTRESPerJob=gres/gpu={least} " in limits
    user = {"when": {"users": ["ann"]}, "limits": {"gpus": 8}}
    shown = lines(user, queue, members=MEMBERS)
    over = "MaxTRESPerJob=gres/gpu=8 Flags=DenyOnLimit,OverPartQOS"
    assert qos_of("ann", "bio", shown, "p5") == over


def test_a_queue_that_some_users_may_not_use_takes_no_job_of_theirs() -> None:
    rule = {"when": {"groups": ["vision"]}, "forbid": {"queue": ["p5"]}}
    shown = lines(rule, members=MEMBERS)
    closed = [line for line in shown if "MaxSubmitJobs=0" in line]
    assert closed == [
        "sacctmgr -i modify user where name=bob account=bio partition=p5 set MaxSubmitJobs=0",
        "sacctmgr -i modify user where name=bob account=chem partition=p5 set MaxSubmitJobs=0",
    ]


def test_patterns_of_queues_need_the_queues_of_the_cluster() -> None:
    rule = {"when": {"queues": ["p*"]}, "limits": {"nodes": 2}}
    known = lines(rule, cluster="one", queues=("p4", "p5", "debug"))
    assert [line for line in known if "Partition" in line] == [
        "PartitionName=p4 MaxNodes=2",
        "PartitionName=p5 MaxNodes=2",
    ]
    assert "name the cluster with --cluster" in exported(rule)


def test_totals_of_accounts_queues_and_the_cluster() -> None:
    def of(**when: list[str]) -> list[str]:
        selection = {"when": when} if when else {}
        return lines({**selection, "limits": {"team_nodes": 16, "team_gpus": 64}})

    total = "GrpTRES=node=16,gres/gpu=64"
    assert f"sacctmgr -i modify account where name=nlp set {total}" in of(accounts=["nlp"])
    assert f"sacctmgr -i modify cluster set {total}" in of()
    qos = "sacctmgr -i modify qos where name=clusterjobs-partition-p5 set"
    assert f"{qos} {total} Flags=DenyOnLimit" in of(queues=["p5"])
    assert of(queues=["p5"])[-1] == "PartitionName=p5 QOS=clusterjobs-partition-p5"


def test_a_total_of_a_partition_that_would_hide_one_of_an_account_is_not_set() -> None:
    rules = [
        {"when": {"accounts": ["nlp"]}, "limits": {"team_nodes": 16}},
        {"when": QUEUE, "limits": {"team_nodes": 8}},
    ]
    assert not any("clusterjobs-partition" in line for line in lines(*rules))
    assert "would no longer count the nodes of accounts in partition p5" in exported(*rules)


def test_wrong_lines_of_users_are_named() -> None:
    with pytest.raises(InputError) as error:
        read_members("ann\n# comment\n|bio\nbob|a b|x\ncyd|bio|x|y\nnobody-here|bio\n", "users")
    assert [(one.where.line, one.what) for one in error.value.problems if one.where] == [
        (1, "ann has no account"),
        (4, "'a b' cannot be written as a name in Slurm's files"),
        (5, "more than three fields"),
        (6, "this system has no user nobody-here, or no name of one of its groups"),
    ]


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
        {"when": {"accounts": [name]}, "limits": {"team_nodes": 1}},
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


@pytest.mark.parametrize("name", [one for one in HOSTILE if not {*",|\n"} & {*one}])
def test_users_with_such_names_are_refused(name: str) -> None:
    for line in (f"{name}|bio|nlp", f"ann|{name}|nlp", f"ann|bio|{name}"):
        with pytest.raises(InputError, match=r"cannot be written|has no account"):
            read_members(f"{line}\n", "users")


def test_commands_are_a_shell_script(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sacctmgr gets the words of each line as they are printed."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (tmp_path / "sacctmgr").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "sacctmgr").chmod(0o755)
    rule = {"when": {"groups": ["nlp"]}, "limits": {"nodes": 1}}
    text = exported(rule, members=MEMBERS, with_undo=True)
    script = text.partition("# ---- slurm.conf")[0]
    run = functools.partial(
        subprocess.run, ["sh", "-eu"], input=script, cwd=tmp_path, capture_output=True, text=True
    )
    done = run(check=True)
    assert "clusterjobs-undo.sh is from an earlier export" in run().stderr
    said = [shlex.split(line) for line in done.stdout.splitlines()]
    assert [words[1:6] for words in said] == [
        ["add", "qos", "clusterjobs-n1"],
        ["modify", "qos", "where", "name=clusterjobs-n1", "set"],
        ["modify", "user", "where", "name=ann,bob", "account=bio"],
        ["modify", "user", "where", "name=bob", "account=chem"],
    ]


def test_command_prints_the_lines(clusterjobs: Callable[..., Any], folder: pathlib.Path) -> None:
    (folder / "site").mkdir()
    rule = "{name: one, message: m, when: {queues: [p5]}, limits: {nodes: 2}}"
    (folder / "site" / "policy.yaml").write_text(f"rules:\n- {rule}\n")
    outcome = clusterjobs("policy", "export", "--slurm", "--site", "site")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.endswith("# one (site/policy.yaml:2): m\nPartitionName=p5 MaxNodes=2\n")
    assert clusterjobs("policy", "export", "--site", "site").code == 2
    rule = "{name: one, message: m, when: {queues: [p5]}, limits: {nodes: 2}, until: 2199-01-31}"
    late = "{name: two, message: m, limits: {nodes: 9}, from: 2199-01-11}"
    (folder / "site" / "policy.yaml").write_text(f"rules:\n- {rule}\n- {late}\n")
    outcome = clusterjobs("policy", "export", "--slurm", "--site", "site")
    assert "# Right until 2199-01-10: then export again.\n" in outcome.out
    assert "# one (site/policy.yaml:2): m Until 2199-01-31.\n" in outcome.out
    assert "9" not in outcome.out.partition("# ----")[2].replace("2199", "")
    outcome = clusterjobs("policy", "export", "--lua", "--site", "site")
    assert "-- Right until 2199-01-10: then export again.\n" in outcome.out
    (folder / "site" / "policy.yaml").write_text("")
    outcome = clusterjobs("policy", "export", "--slurm", "--site", "site")
    assert outcome.out.endswith("# There are no rules.\n")

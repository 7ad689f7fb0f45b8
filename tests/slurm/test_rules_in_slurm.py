"""What Slurm enforces is never looser than what `plan` refuses: both are asked about the same jobs.

The rules, users and jobs are made from a seed; slurmctld and slurmdbd are real.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from accounting import Accounting, Answer, accounting
from rules_and_jobs import ACCOUNTS, GROUPS, QUEUES, Job, Site, job, members, policy
from slurm_versions import slurm_or_skip

from clusterjobs.admin.policy_lines import slurm_lines
from clusterjobs.admin.policy_lua import lua_plugin
from clusterjobs.admin.policy_members import read_members
from clusterjobs.admin.policy_settings import settings_of
from clusterjobs.clusters.facts import Partition
from clusterjobs.frameworks import option_models
from clusterjobs.lab.slurm import OWN
from clusterjobs.sites.policy import load_policy
from clusterjobs.slurm.options import seconds_of

pytestmark = [pytest.mark.lab, pytest.mark.slow]


@pytest.fixture(scope="module")
def controller() -> Iterator[Accounting]:
    if os.geteuid() != 0:
        pytest.skip("only root can submit as another user")
    slurm_or_skip(OWN)
    with accounting(GROUPS, QUEUES, ACCOUNTS) as found:
        yield found


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def enforce(
    controller: Accounting, site: Site, with_plugin: bool = False, reset: bool = True
) -> set[str]:
    """Use the exported lines as their comments say; returns the names of the unenforced rules."""
    rules = load_policy((site.folder / "site/policy.yaml").read_text(), "p", option_models())
    settings = settings_of(
        rules, "lab", read_members(members(), "users"), [Partition(name, ()) for name in QUEUES]
    )
    lines = slurm_lines(settings)
    if reset:
        controller.reset()
    sections = dict(re.findall(r"# ---- ([^\n]*)\n(.*?)(?=\n# ---- |\Z)", lines, re.DOTALL))
    controller.shell("rm -f clusterjobs-undo.sh\n" + sections.get("sacctmgr, a shell script", ""))
    conf = sections.get("slurm.conf", "")
    partitions = dict(re.findall(r"(?m)^PartitionName=(\S+) (.*)$", conf))
    cluster = re.findall(r"(?m)^(?!PartitionName|#)\S.*$", conf)
    if with_plugin:
        plugins = "JobSubmitPlugins="
        first = [one.removeprefix(plugins) for one in cluster if one.startswith(plugins)]
        cluster = [one for one in cluster if not one.startswith(plugins)]
        cluster.append(f"{plugins}{','.join([*first, 'lua'])}")
    plugin = lua_plugin(rules, "lab") if with_plugin else ""
    controller.start_controller("\n".join(cluster), partitions, plugin)
    return {one.rule.rule.name for one in settings.unenforced}


def test_an_export_is_undone_whatever_the_users_had_before(
    controller: Accounting, site: Site
) -> None:
    """Also the QOS that it made are gone; root's association is never changed."""
    member = next(iter(read_members(members(), "users")))
    ann, account, queue = f"name={member.user}", f"account={member.account}", QUEUES[0]
    site.write(
        [
            {"name": "all", "message": "m", "limits": {"nodes": 8, "time": "1:00:00"}},
            {"name": "here", "message": "m", "when": {"queues": [queue]}, "limits": {"gpus": 4}},
            {
                "name": "her",
                "message": "m",
                "when": {"queues": [queue], "users": [member.user]},
                "limits": {"nodes": 2},
            },
            {
                "name": "team",
                "message": "m",
                "when": {"accounts": [member.account]},
                "limits": {"team_nodes": 6},
            },
        ]
    )
    controller.reset()
    for words in (
        "add qos long",
        "modify cluster set MaxTRESPerJob=cpu=100 GrpTRES=node=60",
        f"modify account where name={member.account} set GrpTRES=cpu=9",
        f"modify user where {ann} {account} set qos=normal,long defaultqos=long",
        f"add user {member.user} {account} partition={QUEUES[-1]}",
        f"modify user where {ann} {account} partition={QUEUES[-1]} set qos+=long MaxSubmitJobs=7",
    ):
        controller.sacctmgr(*words.split())
    before = _database(controller)
    enforce(controller, site, reset=False)
    assert _database(controller) != before
    assert [one for one in _database(controller) if "|root|root|" in one] == [
        one for one in before if "|root|root|" in one
    ]
    controller.shell("sh clusterjobs-undo.sh; test ! -e clusterjobs-undo.sh")
    assert _database(controller) == before


def _database(controller: Accounting) -> list[str]:
    """All associations and QOS, with what was set for each of them alone."""
    fields = "cluster,account,user,partition,qos,defaultqos,maxsubmitjobs,maxtresperjob,maxwall"
    shown = controller.shell(
        "sacctmgr -nP show associations WOPLimits WithRawQOSLevel "
        f"format={fields},grptres,maxtrespernode; sacctmgr -nP show qos format=name"
    )
    return sorted(shown.splitlines())


def test_slurm_refuses_what_the_plan_refuses(controller: Accounting, site: Site) -> None:
    _compare(controller, site, seed=1, policies=3, jobs=20)


@pytest.mark.faults
def test_slurm_refuses_what_the_plan_refuses_for_500_jobs(
    controller: Accounting, site: Site
) -> None:
    _compare(controller, site, seed=2, policies=25, jobs=20)


def _compare(controller: Accounting, site: Site, seed: int, policies: int, jobs: int) -> None:
    made = random.Random(seed)
    counts = dict.fromkeys(("both accept", "both refuse", "by a limit", "its account"), 0)
    different = []
    for _ in range(policies):
        rules = policy(made)
        site.write(rules)
        unenforced = enforce(controller, site)
        for _ in range(jobs):
            wanted = job(made)
            plan = site.plan(wanted)
            broken = {*plan.rules} - unenforced
            answer = controller.sbatch(wanted.user, script=plan.script)
            # Of a rule that Slurm cannot enforce whole, it may enforce a part.
            if bool(broken) != bool(answer.job) or (plan.rules and not answer.job):
                counts["both accept" if answer.job else "both refuse"] += 1
            elif broken and wanted.hours is None and not _rules(site, wanted, answer):
                counts["by a limit"] += 1  # Slurm gives the job a time limit that the rules allow
            elif not broken and wanted.account is None and "accounts" in str(rules):
                counts["its account"] += 1  # Slurm knows the default account of the user
            else:
                different.append((wanted, rules, broken, answer.said))
    print(counts)
    assert different == []
    assert min(counts["both refuse"], counts["both accept"]) >= policies


def test_the_plugin_refuses_what_the_plan_refuses_with_its_messages(
    controller: Accounting, site: Site
) -> None:
    _compare_with_plugin(controller, site, seed=3, policies=3, jobs=20)


@pytest.mark.faults
def test_the_plugin_refuses_what_the_plan_refuses_for_500_jobs(
    controller: Accounting, site: Site
) -> None:
    _compare_with_plugin(controller, site, seed=4, policies=25, jobs=20)


def _compare_with_plugin(
    controller: Accounting, site: Site, seed: int, policies: int, jobs: int
) -> None:
    """Both agree about every job, and the plugin says the messages of the rules."""
    made = random.Random(seed)
    counts = dict.fromkeys(("both accept", "both refuse", "its account"), 0)
    different = []
    controller.reset()
    for _ in range(policies):
        rules = policy(made, of_options=True)
        site.write(rules)
        text = (site.folder / "site/policy.yaml").read_text()
        plugin = lua_plugin(load_policy(text, "policy.yaml", option_models()))
        assert "-- not enforced" not in plugin
        controller.start_controller("JobSubmitPlugins=lua", plugin=plugin)
        for _ in range(jobs):
            wanted = job(made, of_options=True)
            plan = site.plan(wanted)
            answer = controller.sbatch(wanted.user, script=plan.script)
            said = set(re.findall(r"\[rule (\w+)\]", answer.said)) if not answer.job else set()
            if said == {*plan.rules} and all(one in answer.said for one in plan.rules.values()):
                counts["both refuse" if said else "both accept"] += 1
            elif not plan.rules and wanted.account is None and "account" in str(rules):
                counts["its account"] += 1  # Slurm knows the default account of the user
            elif said >= {*plan.rules} and wanted.account is None and "account" in str(rules):
                counts["its account"] += 1
            else:
                different.append((wanted, rules, plan.rules, answer.said))
    print(counts)
    assert different == []
    assert min(counts["both refuse"], counts["both accept"]) >= policies


def test_slurm_with_accounting_and_the_plugin_is_never_looser_than_the_plan(
    controller: Accounting, site: Site
) -> None:
    _compare_with_both(controller, site, seed=5, policies=3, jobs=20)


@pytest.mark.faults
def test_slurm_with_accounting_and_the_plugin_is_never_looser_for_500_jobs(
    controller: Accounting, site: Site
) -> None:
    # Another seed than those with which the export was written.
    _compare_with_both(controller, site, seed=20261128, policies=25, jobs=20)


def _compare_with_both(
    controller: Accounting, site: Site, seed: int, policies: int, jobs: int
) -> None:
    """All that can be exported is in force. No rule is left out, and no job is an exception."""
    made = random.Random(seed)
    counts = dict.fromkeys(("both accept", "both refuse", "refused there alone", "its account"), 0)
    looser, stricter = [], []
    for _ in range(policies):
        rules = policy(made, of_options=True)
        site.write(rules)
        enforce(controller, site, with_plugin=True)
        for _ in range(jobs):
            wanted = job(made, of_options=True)
            plan = site.plan(wanted)
            answer = controller.sbatch(wanted.user, script=plan.script)
            if bool(plan.rules) != bool(answer.job):
                counts["both refuse" if plan.rules else "both accept"] += 1
            elif plan.rules:
                looser.append((wanted, rules, plan.rules, answer.said))
            elif wanted.account is None and "account" in str(rules):
                counts["its account"] += 1  # Slurm knows the default account of the user
            else:
                stricter.append((wanted, rules, answer.said))
    counts["refused there alone"] = len(stricter)
    print(f"{policies * jobs} jobs of {len(GROUPS)} users, {policies} policies: {counts}")
    print(f"refused here, accepted there: {len(looser)}")
    assert looser == []
    assert stricter == []
    assert min(counts["both refuse"], counts["both accept"]) >= policies


def _rules(site: Site, wanted: Job, answer: Answer) -> dict[str, str]:
    """What the job breaks with the time limit that Slurm gave it."""
    given = re.search(r" TimeLimit=(\S+)", answer.said)
    seconds = seconds_of(given[1]) if given else None
    hours = wanted.hours if seconds is None else seconds / 3600
    return site.plan(wanted._replace(hours=hours)).rules

"""`policy explain`: each rule, whether it is for a job, and why; and the days of a rule."""

from __future__ import annotations

import datetime
import json
import pathlib
import re

import pytest

from clusterjobs.sites import folders

POLICY = """\
rules:
- {name: small, message: m, when: {queues: [p*]}, limits: {nodes: 8}}
- {name: students, message: ask us, when: {groups: [students]}, limits: {nodes: 1}}
- {name: account, message: m, unless: {frameworks: [command]}, require: [sbatch.account]}
- {name: dated, message: m, from: 2027-01-10, until: 2027-01-31, limits: {nodes: 1}}
- {name: kept, message: m, limits: {nodes: 2}}
"""
SPEC = "name: a\ncluster: p4d-a100\nframework: command\ncommand: ./run\nnodes: 2\n"


@pytest.fixture
def spec(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (folder / "site").mkdir()
    (folder / "site/policy.yaml").write_text(POLICY)
    (folder / "exp.yaml").write_text(SPEC)
    monkeypatch.setenv("CLUSTERJOBS_SITE", "site")
    on(monkeypatch, 9)
    return "exp.yaml"


def on(monkeypatch: pytest.MonkeyPatch, day: int) -> None:
    date = datetime.date(2027, 1, day)
    for module in (folders, __import__("clusterjobs.admin.policy_command", fromlist=["x"])):
        monkeypatch.setattr(module, "today", lambda: date)


def explained(clusterjobs, spec: str, *options: str) -> tuple[int, dict[str, tuple[str, str]]]:
    outcome = clusterjobs("policy", "explain", spec, "--json", *options)
    rows = json.loads(outcome.out)
    return outcome.code, {row["name"]: (row["state"], row["why"]) for row in rows}


def test_each_rule_has_its_state_and_the_reason(clusterjobs, spec: str) -> None:
    assert explained(clusterjobs, spec, "--group", "students") == (
        1,
        {
            "small": ("not for this job", "queues: train does not fit p*"),
            "students": ("broken", "nodes: 2 is more than 1"),
            "account": ("not for this job", "unless frameworks: command fits command"),
            "dated": ("not in force", "today is 2027-01-09"),
            "kept": ("kept", ""),
        },
    )
    code, others = explained(clusterjobs, spec, "--group", "staff")
    assert (code, others["students"]) == (
        0,
        ("not for this job", "groups: staff does not fit students"),
    )
    text = clusterjobs("policy", "explain", spec, "--group", "staff").out
    assert "at most 8 nodes" in text


@pytest.mark.parametrize(("day", "refused"), [(9, False), (10, True), (31, True)])
def test_a_rule_is_checked_on_its_days_alone(
    day: int, refused: bool, clusterjobs, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(monkeypatch, day)
    assert clusterjobs("plan", spec).code == int(refused)
    assert (explained(clusterjobs, spec)[1]["dated"][0] == "broken") == refused
    exported = clusterjobs("policy", "export", "--slurm")
    assert ("node=1" in exported.out) == refused
    assert ("dated begins on 2027-01-10 and is left out: export again" in exported.err) != refused
    assert ("dated is in force until 2027-01-31: export again" in exported.err) == refused


@pytest.mark.parametrize(("cluster", "warns"), [("small", False), ("p4d-a100", True)])
def test_an_export_warns_of_the_days_of_the_clusters_own_rules(
    cluster: str, warns: bool, clusterjobs, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(monkeypatch, 9)
    policy = "rules:\n- {name: d, message: m, when: {clusters: [p4*]}, until: 2027-01-31, "
    pathlib.Path("site/policy.yaml").write_text(f"{policy}limits: {{nodes: 1}}}}\n")
    for option in ("--slurm", "--lua"):
        exported = clusterjobs("policy", "export", option, "--cluster", cluster)
        assert ("export again" in exported.err, "Slurm" in exported.out) == (warns, True)
    assert clusterjobs("plan", spec).code == 1


@pytest.mark.parametrize(
    ("days", "said"),
    [
        ("from: tomorrow", "'tomorrow' is not a day"),
        ("until: 2027-02-30", "'2027-02-30' is not a day"),
        ("from: 2027-02-02, until: 2027-02-01", "hint: 2027-02-01 is before 2027-02-02"),
    ],
)
def test_wrong_days_are_refused(
    days: str, said: str, clusterjobs, spec: str, folder: pathlib.Path
) -> None:
    rule = f"rules:\n- {{name: a, message: m, {days}, limits: {{nodes: 1}}}}\n"
    (folder / "site/policy.yaml").write_text(rule)
    outcome = clusterjobs("policy", "list")
    assert outcome.code == 1
    assert said in outcome.err


def test_an_example_has_a_day_of_its_own_and_the_same_result_on_every_day(
    clusterjobs, spec: str, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, date in (("any", ""), ("before", "date: 2027-01-09\n"), ("in", "date: 2027-01-31\n")):
        test = folder / "site/tests" / name
        test.mkdir(parents=True)
        (test / "spec.yaml").write_text(SPEC.replace("nodes: 2", "nodes: 2\nqueue: train"))
        rules = "[]" if name == "before" else "[dated]"
        (test / "rules.yaml").write_text(f"{date}rules: {rules}\n")
    for day in (9, 10, 31):
        on(monkeypatch, day)
        outcome = clusterjobs("policy", "test", "--json")
        assert outcome.code == 0, outcome.out


def test_a_misspelt_framework_is_refused_and_one_that_is_not_installed_is_not(
    clusterjobs, spec: str, folder: pathlib.Path
) -> None:
    rule = "rules: [{name: a, message: m, when: {frameworks: [FRAMEWORK]}, limits: {nodes: 1}}]\n"
    for name, hint in (("deepsped", "did you mean deepspeed?"), ("our-own", ""), ("torch*", "")):
        (folder / "site/policy.yaml").write_text(rule.replace("FRAMEWORK", f'"{name}"'))
        outcome = clusterjobs("policy", "list")
        assert outcome.code == int(bool(hint))
        assert hint in outcome.err


def test_without_a_plan_no_rule_is_called_kept(clusterjobs, spec: str) -> None:
    pathlib.Path(spec).write_text(f"{SPEC}gpus_per_node: 99\n")  # of 8
    _, states = explained(clusterjobs, spec, "--group", "staff")
    why = "the job cannot be planned; the spec alone does not break it"
    assert states["kept"] == ("not known", why)


EXEMPT = """\
rules:
- name: small
  message: m
  limits: {nodes: 1}
  unless:
  - {groups: [ops]}
  - {groups: [nlp], from: 2027-01-10, until: 2027-01-20}
"""


@pytest.mark.parametrize(
    ("group", "day", "code"),
    [("ops", 9, 0), ("nlp", 9, 1), ("nlp", 10, 0), ("nlp", 20, 0), ("nlp", 21, 1), ("bio", 10, 1)],
)
def test_an_exemption_has_days_of_its_own(
    group: str,
    day: int,
    code: int,
    clusterjobs,
    spec: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pathlib.Path("site/policy.yaml").write_text(EXEMPT)
    on(monkeypatch, day)
    assert clusterjobs("plan", spec, "--group", group).code == code
    state, why = explained(clusterjobs, spec, "--group", group)[1]["small"]
    assert state == ("not for this job" if code == 0 else "broken")
    on(monkeypatch, 1)
    supposed = ("--group", group, "--date", f"2027-01-{day:02}")
    assert explained(clusterjobs, spec, *supposed)[1]["small"] == (state, why)
    assert ("until 2027-01-20" in why) == (group == "nlp" and code == 0)


def test_an_export_has_the_exemptions_of_the_day(
    clusterjobs, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pathlib.Path("site/policy.yaml").write_text(EXEMPT)
    pathlib.Path("users").write_text("ann|bio|nlp\nbob|bio|ops\n")
    for day, limited, until, says in (
        (9, "ann", "2027-01-09", "begins on 2027-01-10 and is left out: export again on that day"),
        (10, "", "2027-01-20", "is in force until 2027-01-20: export again on the day after it"),
        (21, "ann", "", "ended on 2027-01-20 and is left out"),
    ):
        on(monkeypatch, day)
        exported = clusterjobs("policy", "export", "--slurm", "--users", "users")
        names = re.findall("name=(ann|bob) account=bio set qos=clusterjobs-n1 ", exported.out)
        assert names == [limited] * bool(limited)
        assert (f"Right until {until}" in exported.out) == bool(until)
        plugin = clusterjobs("policy", "export", "--lua").out
        assert ('"nlp"' in plugin, '"ops"' in plugin) == (day == 10, True)
        assert exported.err.count("an exemption of small") == 1
        assert f"an exemption of small {says}\n" in exported.err


@pytest.mark.parametrize(
    ("unless", "said"),
    [
        ("{until: 2027-01-20}", "rules[0].unless: it exempts no jobs"),
        ("[{groups: [a], until: soon}]", "unless[0].until: 'soon' is not a day"),
        ("[{grups: [a]}]", "unless[0].grups"),
        ("{groups: [a], from: 2027-02-02, until: 2027-02-01}", "it is never in force"),
    ],
)
def test_a_wrong_exemption_is_refused(unless: str, said: str, clusterjobs, spec: str) -> None:
    rule = f"rules:\n- {{name: a, message: m, limits: {{nodes: 1}}, unless: {unless}}}\n"
    pathlib.Path("site/policy.yaml").write_text(rule)
    outcome = clusterjobs("policy", "list")
    assert outcome.code == 1
    assert said in outcome.err


def test_an_exemption_of_another_cluster_is_not_exported(clusterjobs, spec: str) -> None:
    policy = EXEMPT.replace("{groups: [ops]}", "{groups: [ops], clusters: [p5*]}")
    pathlib.Path("site/policy.yaml").write_text(policy)
    for cluster, exempt in (("p4d-a100", False), ("p5-h100", True)):
        exported = clusterjobs("policy", "export", "--lua", "--cluster", cluster)
        assert ('"ops"' in exported.out) == exempt


def test_an_export_warns_of_a_cluster_that_is_unknown_here(clusterjobs, spec: str) -> None:
    pathlib.Path("site/policy.yaml").write_text(EXEMPT)
    misspelt = clusterjobs("policy", "export", "--lua", "--cluster", "p4d-a10")
    assert misspelt.code == 0
    assert "there is no cluster p4d-a10 here" in misspelt.err
    assert "did you mean p4d-a100?" in misspelt.err
    assert "no cluster" not in clusterjobs("policy", "export", "--lua", "--cluster", "small").err


def test_a_day_that_is_none_is_refused(clusterjobs, spec: str) -> None:
    outcome = clusterjobs("policy", "explain", spec, "--date", "15.1.2027")
    assert outcome.code == 2
    assert "'15.1.2027' is not a day" in outcome.err

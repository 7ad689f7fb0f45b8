"""clusterjobs policy, and the user whom the rules suppose."""

from __future__ import annotations

import getpass
import grp
import json
import os
import pathlib
import re
from collections.abc import Callable
from typing import Any

import pytest

from clusterjobs.sites import folders as site_folders
from clusterjobs.sites.folders import current_user, supposed_user
from clusterjobs.sites.policy import Example, with_rules
from clusterjobs.sites.policy_check import User

POLICY = """\
rules:
  - name: time-limit
    message: Name a time limit.
    require: [time_limit]
  - name: small
    message: Students use one node.
    when: {groups: [students]}
    limits: {nodes: 1}
  - name: named
    message: Ann knows better.
    action: warn
    when: {users: [ann]}
    forbid: [sbatch.comment]
"""
SPEC = "name: a\ncluster: p4d-a100\nnodes: 2\nframework: command\ncommand: ./run\n"


@pytest.fixture
def site(folder: pathlib.Path) -> pathlib.Path:
    path = folder / "site"
    (path / "tests").mkdir(parents=True)
    (path / "policy.yaml").write_text(POLICY)
    example(path, "plain", SPEC + "time_limit: 1:00:00\n")
    example(path, "student", SPEC, "# why\ngroups: [students]\nrules: [time-limit, small]\n")
    return path


def example(site: pathlib.Path, name: str, spec: str, rules: str | None = None) -> None:
    (site / "tests" / name).mkdir()
    (site / "tests" / name / "spec.yaml").write_text(spec)
    if rules is not None:
        (site / "tests" / name / "rules.yaml").write_text(rules)


def test_examples_that_break_what_they_should(
    clusterjobs: Callable[..., Any], site: pathlib.Path
) -> None:
    outcome = clusterjobs("policy", "test", "--site", "site")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == (
        "    example  as        must break         breaks\n"
        "ok  plain              nothing            nothing\n"
        "ok  student  students  small, time-limit  small, time-limit\n"
        "no example breaks named (site/policy.yaml:9)\n"
    )


def test_examples_that_break_something_else(
    clusterjobs: Callable[..., Any], site: pathlib.Path
) -> None:
    example(site, "forgotten", SPEC)
    example(site, "not-broken", SPEC + "time_limit: 1:00:00\n", "rules: [time-limit]\n")
    example(site, "warned", SPEC + "sbatch: {comment: x}\ntime_limit: 90\n", "user: ann\n")
    outcome = clusterjobs("policy", "test", "--site", "site")
    assert outcome.code == 1
    rows = [line.split() for line in outcome.out.splitlines() if line.startswith("differs")]
    assert rows == [
        ["differs", "forgotten", "nothing", "time-limit"],
        ["differs", "not-broken", "time-limit", "nothing"],
        ["differs", "warned", "ann", "nothing", "named"],
    ]


def test_example_that_cannot_be_planned_differs(
    clusterjobs: Callable[..., Any], site: pathlib.Path
) -> None:
    example(site, "broken", SPEC.replace("nodes: 2", "nodes: 999"), "rules: [time-limit]\n")
    (site / "tests" / "empty").mkdir()
    outcome = clusterjobs("policy", "test", "--site", "site")
    assert outcome.code == 1
    assert "differs  broken             time-limit         cannot be planned" in outcome.out
    assert "999 is more than queue train can have" in outcome.err
    assert "there is no file site/tests/empty/spec.yaml" in outcome.err
    assert clusterjobs("policy", "test", "--site", "site", "--update").code == 1
    assert (site / "tests" / "broken" / "rules.yaml").read_text() == "rules: [time-limit]\n"


def test_update_writes_what_the_examples_break_and_keeps_comments(
    clusterjobs: Callable[..., Any], site: pathlib.Path
) -> None:
    example(site, "forgotten", SPEC)
    student = site / "tests" / "student" / "rules.yaml"
    student.write_text("# why\ngroups: [students]\nrules: [small]  # only\n# end\n")
    outcome = clusterjobs("policy", "test", "--site", "site", "--update")
    assert outcome.code == 0
    assert "updated site/tests/forgotten/rules.yaml\n" in outcome.out
    assert student.read_text() == (
        "# why\ngroups: [students]\nrules: [small, time-limit]  # only\n# end\n"
    )
    assert (site / "tests" / "forgotten" / "rules.yaml").read_text() == "rules: [time-limit]\n"
    assert not (site / "tests" / "plain" / "rules.yaml").exists()
    again = clusterjobs("policy", "test", "--site", "site", "--update")
    assert (again.code, "updated" in again.out) == (0, False)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "rules: [b]\n"),
        ("user: ann", "user: ann\nrules: [b]\n"),
        ("rules:\n  - a  # x\n  - c  # y\nuser: ann\n", "rules: [b]  # y\nuser: ann\n"),
        ("rules: [a,\n  c]\n# end\n", "rules: [b]\n# end\n"),
        ("{user: ann, rules: [a]}", "{user: ann, rules: [b]}"),
        ("rules:  # why\n  - a\n", 'rules: ["b"]\n'),  # the list cannot go into the comment
        ("{user: ann}\n", 'user: "ann"\nrules: ["b"]\n'),
    ],
)
def test_rules_of_an_example_are_replaced_in_its_text(before: str, after: str) -> None:
    has_user = "ann" in before
    example = Example(user="ann") if has_user else Example()
    assert with_rules(before, example, ["b"]) == after


def test_results_as_json(clusterjobs: Callable[..., Any], site: pathlib.Path) -> None:
    outcome = clusterjobs("policy", "test", "--site", "site", "--json")
    data = json.loads(outcome.out)
    assert data["untested"] == ["named"]
    assert data["examples"][1] == {
        "name": "student",
        "spec": "site/tests/student/spec.yaml",
        "user": "",
        "groups": ["students"],
        "expected": ["small", "time-limit"],
        "found": ["small", "time-limit"],
        "ok": True,
        "problems": [],
    }


def test_each_site_folder_is_tested_with_its_own_rules_alone(
    clusterjobs: Callable[..., Any],
    site: pathlib.Path,
    folder: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(site_folders.VARIABLE, "site")
    monkeypatch.setattr(site_folders, "SYSTEM_FOLDER", folder / "etc")
    (folder / "etc" / "tests").mkdir(parents=True)
    (folder / "etc" / "policy.yaml").write_text(POLICY.replace("time-limit", "other"))
    example(folder / "etc", "system", SPEC, "rules: [other]\n")
    outcome = clusterjobs("policy", "test")
    assert outcome.code == 0, outcome.out
    assert "ok  system             other" in outcome.out


@pytest.mark.parametrize(
    ("remove", "said"),
    [
        ("policy.yaml", "no site folder has a policy.yaml\n   hint: name one with --site\n"),
        (
            "tests",
            "there are no examples in site/tests\n   hint: add a spec there: NAME/spec.yaml\n",
        ),
    ],
)
def test_nothing_to_test_is_an_error(
    remove: str, said: str, clusterjobs: Callable[..., Any], site: pathlib.Path
) -> None:
    (site / remove).rename(site / "elsewhere")
    outcome = clusterjobs("policy", "test", "--site", "site")
    assert (outcome.code, outcome.err) == (1, said)


def test_folder_that_does_not_exist_is_an_error(clusterjobs: Callable[..., Any]) -> None:
    outcome = clusterjobs("policy", "list", "--site", "nowhere")
    assert outcome.code == 1
    assert outcome.err == "there is no folder nowhere\n   hint: --site names a site folder\n"


def test_list_shows_each_rule_with_its_origin(
    clusterjobs: Callable[..., Any], site: pathlib.Path
) -> None:
    outcome = clusterjobs("policy", "list", "--site", "site")
    assert [line.split("  ")[0] for line in outcome.out.splitlines()] == [
        "rule",
        "time-limit",
        "small",
        "named",
    ]
    small = outcome.out.splitlines()[2].split("  ")
    cells = [cell.strip() for cell in small if cell.strip()]
    assert cells == ["small", "refuse", "groups students", "site/policy.yaml:5", "at most 1 node"]
    data = json.loads(clusterjobs("policy", "list", "--site", "site", "--json").out)
    assert data[0] == {
        "name": "time-limit",
        "message": "Name a time limit.",
        "require": ["time_limit"],
        "action": "refuse",
        "file": "site/policy.yaml",
        "line": 2,
    }


def test_list_without_rules_says_where_they_may_be(clusterjobs: Callable[..., Any]) -> None:
    outcome = clusterjobs("policy", "list")
    assert outcome.out.startswith("there are no rules: ")
    assert clusterjobs("policy", "list", "--json").out == "[]\n"


@pytest.mark.parametrize("command", ["list", "test", "export"])
def test_help_has_examples(command: str, clusterjobs: Callable[..., Any]) -> None:
    outcome = clusterjobs("policy", command, "--help")
    assert outcome.code == 0
    assert f"  clusterjobs policy {command}" in outcome.out


def test_new_site_folder_has_examples_of_rules_that_are_right(
    clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    assert clusterjobs("site", "init", "new").code == 0
    assert clusterjobs("policy", "test", "--site", "new").code == 0
    policy = folder / "new" / "policy.yaml"
    policy.write_text(re.sub("(?m)^#(?=   )", "", policy.read_text()))
    data = json.loads(clusterjobs("policy", "list", "--site", "new", "--json").out)
    assert [one["name"] for one in data] == [
        "account-required",
        "small-jobs-of-students",
        "fixed-images",
    ]


# ------------------------------------------------------------------ commands that check the rules


@pytest.mark.parametrize(
    "command", [["plan"], ["render"], ["render", "--check"], ["validate"], ["submit"], ["diff"]]
)
def test_commands_refuse_and_write_nothing(
    command: list[str],
    clusterjobs: Callable[..., Any],
    site: pathlib.Path,
    folder: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(site_folders.VARIABLE, "site")
    (folder / "exp.yaml").write_text(SPEC)
    outcome = clusterjobs(*command, "exp.yaml")
    assert outcome.code == 1
    assert "[rule time-limit, site/policy.yaml:2]" in outcome.err
    assert sorted(path.name for path in folder.iterdir()) == ["exp.yaml", "site"]


def test_warning_does_not_stop_a_render(
    clusterjobs: Callable[..., Any],
    site: pathlib.Path,
    folder: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (site / "policy.yaml").write_text(POLICY.replace("require:", "action: warn\n    require:"))
    monkeypatch.setenv(site_folders.VARIABLE, "site")
    (folder / "exp.yaml").write_text(SPEC)
    for command in ("plan", "render", "validate"):
        outcome = clusterjobs(command, "exp.yaml")
        assert outcome.code == 0
        assert outcome.err.count("[rule time-limit, site/policy.yaml:2]") == 1


def test_validate_as_json_names_the_rule(
    clusterjobs: Callable[..., Any],
    site: pathlib.Path,
    folder: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(site_folders.VARIABLE, "site")
    (folder / "exp.yaml").write_text(SPEC)
    report = json.loads(clusterjobs("validate", "exp.yaml", "--json").out)
    (problem,) = report["files"][0]["problems"]
    assert problem["rule"] == {"name": "time-limit", "file": "site/policy.yaml", "line": 2}


def test_plan_supposes_a_user_and_groups(
    clusterjobs: Callable[..., Any],
    site: pathlib.Path,
    folder: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(site_folders.VARIABLE, "site")
    (folder / "exp.yaml").write_text(SPEC + "time_limit: 1:00:00\nsbatch: {comment: x}\n")
    assert clusterjobs("plan", "exp.yaml", "--group", "staff").code == 0
    outcome = clusterjobs("plan", "exp.yaml", "--group", "staff", "--group", "students")
    assert (outcome.code, "[rule small" in outcome.err) == (1, True)
    outcome = clusterjobs("plan", "exp.yaml", "--user", "ann")
    assert (outcome.code, "warning: sbatch.comment" in outcome.err) == (0, True)


# ------------------------------------------------------------------ the user


def test_caller_has_a_name_and_the_groups_of_the_system() -> None:
    user = current_user()
    assert user.name == getpass.getuser()
    assert grp.getgrgid(os.getegid()).gr_name in user.groups


def test_caller_without_a_name_has_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 3_999_999)
    monkeypatch.setattr(os, "getegid", lambda: 3_999_998)
    monkeypatch.setattr(os, "getgroups", list)
    assert current_user() == User("3999999", frozenset({"3999998"}))


def test_supposed_user_has_the_groups_that_are_given_or_known() -> None:
    assert supposed_user(None, ()) is None
    assert supposed_user("ann-who-is-unknown", ()) == User("ann-who-is-unknown")
    assert supposed_user("root", ("a", "b")) == User("root", frozenset({"a", "b"}))
    root = supposed_user("root", ())
    assert root is not None
    assert "root" in root.groups
    nameless = supposed_user(None, ("a",))
    assert nameless == User(getpass.getuser(), frozenset({"a"}))

"""clusterjobs impact, from folders to a report: what changed, what fails, and the exit code."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pytest

SPEC = "name: {name}\ncluster: {cluster}\nframework: command\ncommand: ./run\nnodes: {nodes}\n"
SITE = "region: us-east-1\npublic_subnet: subnet-0{0}\nprivate_subnet: subnet-0{0}\n"
SITE += "key_name: key\nbucket: data\n"

Impact = Callable[..., Any]


def put(path: pathlib.Path, text: str) -> pathlib.Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def put_spec(path: pathlib.Path, nodes: int = 1, cluster: str = "small") -> pathlib.Path:
    return put(path, SPEC.format(name=path.stem, cluster=cluster, nodes=nodes))


@pytest.fixture
def sites(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The folders `old` and `new`, which is the present site folder, and specs of two users."""
    put(folder / "old/site.yaml", SITE.format("1" * 16))
    put(folder / "new/site.yaml", SITE.format("1" * 16))
    for user in ("ann", "bob"):
        for number in range(3):
            put_spec(folder / "users" / user / f"{user}-{number}.yaml", nodes=1 + number % 2)
    monkeypatch.setenv("CLUSTERJOBS_SITE", str(folder / "new"))
    return folder


@pytest.fixture
def impact(sites: pathlib.Path, clusterjobs: Callable[..., Any], site_home: pathlib.Path) -> Impact:
    """`impact(...)` compares with `old`, unless it says otherwise."""
    shutil.rmtree(site_home / "clusterjobs")

    def call(*arguments: object, code: int, against: tuple[str, ...] = ("--before", "old")) -> Any:
        outcome = clusterjobs("impact", "users", *against, "--jobs", 2, *arguments)
        assert outcome.code == code, outcome
        return json.loads(outcome.out) if "--json" in arguments else outcome.out

    return call


def test_without_a_change_all_are_unchanged(impact: Impact) -> None:
    assert impact(code=0).endswith("\n6 specs rendered: 6 unchanged\n")


def test_the_same_change_of_all_specs_is_one_group(impact: Impact, sites: pathlib.Path) -> None:
    put(sites / "new/site.yaml", SITE.format("2" * 16))
    out = impact(code=0)
    assert "changed: 6 specs\n  6 specs, for example " in out
    assert "for example users/ann/ann-0.yaml\n    --- cluster.yaml\n" in out
    assert "\n    +    SubnetId: subnet-02222222222222222\n" in out
    assert out.endswith("\n6 specs rendered: 6 changed, 0 unchanged\n")


def test_a_default_changes_the_specs_without_a_value_of_their_own(
    impact: Impact, sites: pathlib.Path
) -> None:
    put(sites / "new/defaults.yaml", "all:\n  time_limit: 02:00:00\n")
    own = sites / "users/ann/ann-0.yaml"
    own.write_text(own.read_text() + "time_limit: 00:10:00\n")
    out = impact(code=0)
    assert "changed: 5 specs\n  5 specs, for example " in out
    assert "\n    +#SBATCH --time=02:00:00\n" in out
    assert "5 changed, 1 unchanged" in out


def test_specs_that_fail_now_come_first_with_their_message(
    impact: Impact, sites: pathlib.Path
) -> None:
    put(sites / "new/defaults.yaml", "clusters:\n  small:\n    gpus_per_node: 8\n")
    out = impact(code=1)
    sections = [line for line in out.splitlines() if line and not line.startswith(" ")]
    assert sections[2].startswith("now fail: 6 specs")
    assert "new/defaults.yaml:3:20 gpus_per_node: " in out
    assert "\n    hint: " in out.replace("       hint", "    hint")


def test_specs_that_failed_before_are_told_from_those_that_fail_now(
    impact: Impact, sites: pathlib.Path
) -> None:
    put_spec(sites / "users/ann/broken.yaml", nodes=900)
    put(sites / "users/ann/no-yaml.yaml", "name: [\ncluster: small\n")
    report = impact("--json", "--sarif", "s.json", code=0)  # the change breaks none
    assert report["counts"]["failed_before"] == 2
    assert report["counts"]["fails"] == 0
    assert [group["state"] for group in report["groups"]] == ["failed_before"] * 2
    assert report["groups"][0]["message"].startswith(f"{sites}/users/ann/broken.yaml:5:8 nodes: ")
    (run,) = json.loads(pathlib.Path("s.json").read_text())["runs"]
    (broken,) = [one for one in run["results"] if one["message"]["text"].startswith("nodes: 900 ")]
    assert broken["level"] == "warning"
    (place,) = [one["physicalLocation"] for one in broken["locations"]]
    assert place["artifactLocation"]["uri"].endswith("users/ann/broken.yaml")
    assert place["region"] == {"startLine": 5, "startColumn": 8}


def test_specs_that_no_longer_fail_are_mended(impact: Impact, sites: pathlib.Path) -> None:
    put(sites / "old/defaults.yaml", "all:\n  gpus_per_node: 8\n")
    out = impact(code=0)
    assert "failed before, and no longer: 6 specs\n" in out


def test_a_new_config_for_a_cluster_is_tried(impact: Impact, sites: pathlib.Path) -> None:
    config = pathlib.Path("cluster-configs/small.yaml")
    text = (pathlib.Path(__file__).parents[3] / config).read_text()
    assert "MaxCount: 2" in text
    put(sites / "tried.yaml", text.replace("MaxCount: 2", "MaxCount: 1"))
    out = impact("--cluster", "small=tried.yaml", code=1, against=())
    assert "cluster small from tried.yaml" in out
    assert "now fail: 2 specs" in out
    assert "nodes: 2 is more than queue train can have (small: MaxCount 1)" in out
    assert "changed: 4 specs" in out


def test_a_misspelt_cluster_is_reported(
    clusterjobs: Callable[..., Any], impact: Impact, sites: pathlib.Path
) -> None:
    put(sites / "tried.yaml", "Scheduling: {Scheduler: slurm}\n")
    outcome = clusterjobs("impact", "users", "--cluster", "smal=tried.yaml")
    assert "warning: --cluster: there is no cluster smal before the change\n" in outcome.err
    assert "hint: did you mean small?" in outcome.err


def test_a_broken_config_is_named_as_it_was_given(impact: Impact, sites: pathlib.Path) -> None:
    put(sites / "tried.yaml", "Region: [\n")
    out = impact("--cluster", "small=tried.yaml", code=1, against=())
    assert "now fail: 6 specs\n" in out
    assert "\n    tried.yaml:2:1 " in out


def test_an_incomplete_base_of_other_specs_is_no_failure(
    impact: Impact, sites: pathlib.Path
) -> None:
    put(sites / "users/base.yaml", "cluster: small\nnodes: 2\n")
    put(
        sites / "users/x.yaml",
        "name: x\nextends: base.yaml\nframework: command\ncommand: ./run\n",
    )
    report = impact("--json", code=0)
    assert (report["specs"], report["counts"]["base"]) == (7, 1)


def test_json_has_every_group_with_an_example(impact: Impact, sites: pathlib.Path) -> None:
    put(sites / "new/site.yaml", SITE.format("2" * 16))
    put(sites / "users/other.yaml", "a: 1\n")
    (sites / "users/loop").symlink_to(sites / "users")
    report = impact("--json", code=0)
    (group,) = report["groups"]
    assert group["diff"].startswith("--- cluster.yaml\n")
    assert (group["state"], group["count"], group["rule"]) == ("changed", 6, None)
    assert group["specs"][0] == group["example"] == f"{sites}/users/ann/ann-0.yaml"
    assert len(group["specs"]) == 6
    assert report["unread"] == [
        {"path": f"{sites}/users/loop", "reason": "a link to a folder above it: not followed"}
    ]
    assert (report["complete"], report["specs"], report["other_yaml_files"]) == (True, 6, 1)


def test_what_cannot_be_looked_at_does_not_stop_it(
    clusterjobs: Callable[..., Any], impact: Impact, sites: pathlib.Path
) -> None:
    os.mkfifo(sites / "users/pipe.yaml")
    outcome = clusterjobs("impact", "users", "--before", "old")
    assert outcome.code == 0
    assert outcome.err.startswith("warning: not looked at: ")
    assert "users/pipe.yaml: it is a link, a pipe or a device" in outcome.err
    assert "not looked at (see above): 1" in outcome.out


def test_names_that_are_not_utf8_are_shown(impact: Impact, sites: pathlib.Path) -> None:
    path = os.fsencode(sites) + b"/users/\xff.yaml"
    with open(path, "w") as file:  # noqa: PTH123
        file.write(SPEC.format(name="a", cluster="small", nodes=900))
    assert r"users/\udcff.yaml" in impact(code=0)
    report = impact("--json", code=0)
    assert report["groups"][0]["example"].endswith(r"users/\udcff.yaml")


def test_a_site_yaml_in_the_working_folder_is_not_that_of_the_users(
    impact: Impact, sites: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(sites / "new/site.yaml", SITE.format("2" * 16))
    put(sites / "site.yaml", SITE.format("3" * 16))
    assert "6 changed" in impact(code=0)


def test_no_specs_at_all_is_no_failure(impact: Impact, sites: pathlib.Path) -> None:
    for path in (sites / "users").rglob("*.yaml"):
        path.unlink()
    assert impact(code=0).endswith("\n0 specs rendered: 0 unchanged\n")


POLICY = """\
rules:
  - name: small-jobs
    message: ask the admins for more nodes
    limits: {nodes: 1}
"""


def test_specs_that_a_policy_now_refuses_are_a_section_of_their_own(
    impact: Impact, sites: pathlib.Path
) -> None:
    put(sites / "new/policy.yaml", POLICY)
    out = impact(code=1)
    assert "now refused by a policy: 2 specs\n  rule small-jobs, " in out
    assert "rule small-jobs, new/policy.yaml:2: 2 specs, for example users/ann/ann-1.yaml" in out
    assert "ask the admins for more nodes" in out
    assert "2 now refused by a policy, 4 unchanged" in out
    (group,) = impact("--json", code=1)["groups"]
    assert (group["state"], group["count"]) == ("refused", 2)
    assert group["rule"] == f"small-jobs, {sites}/new/policy.yaml:2"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users")
def test_policies_suppose_that_the_owner_of_a_spec_submits_it(
    impact: Impact, sites: pathlib.Path
) -> None:
    rule = POLICY + "    when: {users: [nobody]}\n"
    put(
        sites / "new/policy.yaml",
        rule.replace("nodes: 1", "gpus: 0").replace("gpus: 0", "nodes: 1"),
    )
    os.chown(sites / "users/ann/ann-1.yaml", 65534, -1)
    report = impact("--json", code=1)
    assert (report["counts"]["refused"], report["counts"]["unchanged"]) == (1, 5)
    assert report["groups"][0]["example"].endswith("ann-1.yaml")


def test_a_line_that_a_template_adds_is_one_group(impact: Impact, sites: pathlib.Path) -> None:
    put(sites / "new/templates/before_environment.sh", "  module load fabric\n")
    out = impact(code=0)
    assert "changed: 6 specs\n  6 specs, for example " in out
    assert "\n    +  module load fabric\n" in out


def test_the_path_of_a_site_folder_is_no_change(impact: Impact, sites: pathlib.Path) -> None:
    for name in ("old", "new"):
        put(sites / name / "templates/before_environment.sh", "  module load fabric\n")
    assert "6 unchanged" in impact(code=0)


def test_a_broken_template_fails_with_its_position_once(
    impact: Impact, sites: pathlib.Path
) -> None:
    put(sites / "new/templates/blocks/environment.sh.j2", "{% if environment %}\n")
    report = impact("--json", code=1)
    (group,) = report["groups"]
    assert (group["state"], group["count"]) == ("fails", 6)
    assert f"{sites}/new/templates/blocks/environment.sh.j2:1:1 " in group["message"]


def test_each_spec_has_its_own_message_in_junit(impact: Impact, sites: pathlib.Path) -> None:
    put(sites / "new/policy.yaml", POLICY)
    impact("--junit", str(sites / "junit.xml"), code=1)
    failed = {
        pathlib.Path(str(one.get("name"))).name: str(one.findtext("failure"))
        for one in ElementTree.parse(sites / "junit.xml").getroot()
        if one.find("failure") is not None
    }
    assert len(failed) > 1
    for name, text in failed.items():
        assert f"/{name}:" in text.split("\n")[0]
        assert len(text.split("\n")) > 1


# ------------------------------------------------------------------ git


@pytest.fixture
def git(sites: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)

    def call(*arguments: str, folder: pathlib.Path = sites / "new") -> str:
        who = ("-c", "user.name=admin", "-c", "user.email=admin@example.com")
        command = ["git", "-C", str(folder), *who, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    return call


def commit_all(git: Callable[..., str], folder: pathlib.Path) -> None:
    git("init", "-q", folder=folder)
    git("add", "-A", folder=folder)
    git("commit", "-q", "-m", "all", folder=folder)


def test_the_site_folder_is_compared_with_a_revision(
    impact: Impact, sites: pathlib.Path, git: Callable[..., str]
) -> None:
    commit_all(git, sites / "new")
    put(sites / "new/site.yaml", SITE.format("2" * 16))
    out = impact(code=0, against=("--against", "HEAD"))
    assert out.startswith("before: HEAD:\nafter:  new\n")
    assert "changed: 6 specs\n" in out
    git("commit", "-qam", "released")
    assert "6 unchanged" in impact(code=0, against=("--against", "HEAD"))
    assert "6 changed" in impact(code=0, against=("--against", "HEAD~1"))


def test_specs_in_the_same_repository_are_those_of_the_revision(
    impact: Impact, sites: pathlib.Path, git: Callable[..., str]
) -> None:
    put_spec(sites / "users/ann/broken.yaml", nodes=900)
    commit_all(git, sites)
    put_spec(sites / "users/ann/ann-0.yaml", nodes=2)
    put_spec(sites / "users/ann/broken.yaml")
    put_spec(sites / "users/ann/new.yaml")
    report = impact("--json", code=0, against=("--against", "HEAD"))
    counts = {state: count for state, count in report["counts"].items() if count}
    assert counts == {"changed": 1, "mended": 1, "new": 1, "unchanged": 5}
    mended = next(group for group in report["groups"] if group["state"] == "mended")
    assert mended["message"].startswith("HEAD:users/ann/broken.yaml:5:8 nodes: 900")
    assert report["before"] == "HEAD:new"


def test_a_rule_of_the_revision_is_shown_with_its_place_there(
    impact: Impact, sites: pathlib.Path, git: Callable[..., str]
) -> None:
    rule = "{name: one-node, message: m, limits: {nodes: 1}}"
    put(sites / "new/policy.yaml", f"rules:\n- {rule}\n")
    commit_all(git, sites / "new")
    (sites / "new/policy.yaml").unlink()
    out = impact(code=0, against=("--against", "HEAD"))
    assert "\n  rule one-node, HEAD:policy.yaml:2: 2 specs, for example " in out


def test_against_needs_git_and_a_revision(
    clusterjobs: Callable[..., Any], impact: Impact, sites: pathlib.Path, git: Callable[..., str]
) -> None:
    outcome = clusterjobs("impact", "users", "--against", "HEAD")
    assert outcome.code == 1
    assert "neither a site folder nor this folder is in git" in outcome.err
    commit_all(git, sites / "new")
    outcome = clusterjobs("impact", "users", "--against", "--nothing")
    assert outcome.code == 1
    assert f"--against: {sites}/new has no revision --nothing\n" in outcome.err


# ------------------------------------------------------------------ usage


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["users"], "nothing to compare with: give --before OLD"),
        (["users", "--before", "old", "--against", "HEAD"], "both say what was before"),
        (["users", "--cluster", "small"], "'small' is not NAME=FILE"),
        (["users", "--cluster", "../x=new"], "'../x=new' is not NAME=FILE"),
        (["users", "--cluster", "a=nothing.yaml"], "there is no file 'nothing.yaml'"),
        (["nothing", "--before", "old"], "does not exist"),
        (["users", "--before", "old", "--jobs", "0"], "0 is not in the range"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_usage_errors_exit_2(
    arguments: list[str], said: str, clusterjobs: Callable[..., Any], sites: pathlib.Path
) -> None:
    outcome = clusterjobs("impact", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err


@pytest.mark.parametrize(
    ("old", "said"),
    [("nothing", "there is no folder nothing"), ("new", "is the present site folder")],
)
def test_a_wrong_site_folder_is_refused(
    old: str, said: str, clusterjobs: Callable[..., Any], sites: pathlib.Path
) -> None:
    outcome = clusterjobs("impact", "users", "--before", old)
    assert (outcome.code, outcome.out) == (1, "")
    assert said in outcome.err

"""What the site folders give to commands: values, defaults, clusters; `site` and `site init`."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
from collections.abc import Callable
from typing import Any

import pytest
from test_bad_specs import as_ordinary_user, unprivileged_folder

from clusterjobs import resources
from clusterjobs.lab.selection import read_shape
from clusterjobs.runs.load import load_first
from clusterjobs.sites import folders as site_folders
from clusterjobs.sites.folders import SiteFolders

SPEC = "name: a\ncluster: small\nframework: command\ncommand: ./run\n"
CONFIG = "Region: '{{ site.region }}'\nScheduling: {SlurmQueues: []}\n"
Command = Callable[..., Any]


@pytest.fixture
def folders(
    clusterjobs: Command, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, pathlib.Path]:
    """The three site folders, the highest precedence first, without any file."""
    found = {name: folder / name for name in ("site", "config/clusterjobs", "etc")}
    for path in found.values():
        path.mkdir(parents=True)
    monkeypatch.setenv(site_folders.VARIABLE, "site")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    monkeypatch.setattr(site_folders, "SYSTEM_FOLDER", folder / "etc")
    (folder / "exp.yaml").write_text(SPEC)
    return found


def add_cluster(folder: pathlib.Path, name: str, most: int = 2, ending: str = ".yaml") -> None:
    """A copy of the config `small` with another number of nodes."""
    text = (resources.cluster_configs_dir() / "small.yaml").read_text()
    (folder / "clusters").mkdir(exist_ok=True)
    file = folder / "clusters" / f"{name}{ending}"
    file.write_text(re.sub("MaxCount: 2", f"MaxCount: {most}", text))


# ------------------------------------------------------------------ the folders


def test_all_three_folders_are_layered_for_values_and_defaults(
    clusterjobs: Command, folders: dict[str, pathlib.Path]
) -> None:
    for number, path in enumerate(folders.values()):
        (path / "defaults.yaml").write_text(f'all: {{env: {{A{number}: "1", B: "{number}"}}}}\n')
        (path / "site.yaml").write_text(f"region: region-{number}\nvalue{number}: x\n")
    outcome = clusterjobs("plan", "exp.yaml", "--json")
    assert outcome.code == 0, outcome.err
    env = {row["name"]: row["value"] for row in json.loads(outcome.out)["sections"]["environment"]}
    assert {name: env.get(name) for name in ("A0", "A1", "A2", "B")} == {
        **dict.fromkeys(("A0", "A1", "A2"), "1"),
        "B": "0",
    }
    pathlib.Path("c.yaml").write_text(CONFIG)
    assert clusterjobs("clusters", "site", "c.yaml").err == "your site.yaml has all values\n"


def test_a_variable_that_names_nothing_is_an_error(
    clusterjobs: Command, folders: dict[str, pathlib.Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(site_folders.VARIABLE, "gone")
    outcome = clusterjobs("render", "exp.yaml")
    assert outcome.code == 1
    what = "CLUSTERJOBS_SITE names no folder: gone"
    assert outcome.err == f"{what}\n   hint: correct it, or unset it\n"


def test_a_user_without_a_home_has_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> pathlib.Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(pathlib.Path, "home", no_home)
    assert site_folders.user_folder() is None
    assert site_folders.find_site_folders() == SiteFolders()


def test_a_home_that_this_user_may_not_enter_holds_no_folder(
    clusterjobs: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with unprivileged_folder() as home:
        (home / "clusterjobs").mkdir()
        monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
        assert site_folders.find_site_folders().folders == (home / "clusterjobs",)
        home.chmod(0)
        with as_ordinary_user():
            assert site_folders.find_site_folders() == SiteFolders()


def test_a_caller_can_replace_the_site_folders(folders: dict[str, pathlib.Path]) -> None:
    (folders["site"] / "defaults.yaml").write_text("all: {nodes: 2}\n")
    found, none = load_first(pathlib.Path("exp.yaml")), SiteFolders()
    without = load_first(pathlib.Path("exp.yaml"), site=none)
    assert (found.plan.placement.shape.nodes, without.plan.placement.shape.nodes) == (2, 1)
    assert without.site == none


# ------------------------------------------------------------------ defaults and bases


@pytest.mark.parametrize(("queue", "nodes"), [("", 2), ("queue: train\n", 2), ("queue: x\n", 1)])
def test_defaults_of_a_queue_apply_if_it_is_named_or_the_only_one(
    clusterjobs: Command, folders: dict[str, pathlib.Path], queue: str, nodes: int
) -> None:
    (folders["etc"] / "defaults.yaml").write_text(
        "clusters: {small: {queues: {train: {nodes: 2}}}}\n"
    )
    pathlib.Path("exp.yaml").write_text(SPEC + queue)
    outcome = clusterjobs("plan", "exp.yaml")
    assert (f"a: {nodes} node" in outcome.out) == (nodes == 2)
    assert outcome.code == (0 if nodes == 2 else 1)


def test_the_manifest_lists_defaults_and_bases(
    clusterjobs: Command, folders: dict[str, pathlib.Path]
) -> None:
    (folders["site"] / "defaults.yaml").write_text("all: {nodes: 2}\n")
    pathlib.Path("base.yaml").write_text("env: {A: b}\n")
    pathlib.Path("exp.yaml").write_text(f"extends: base.yaml\n{SPEC}")
    assert clusterjobs("render", "exp.yaml").code == 0
    inputs = json.loads(pathlib.Path("generated/manifest.json").read_text())["inputs"]
    names = {kind: [row["name"] for row in inputs[kind]] for kind in ("defaults", "bases", "spec")}
    assert names == {"defaults": ["defaults.yaml"], "bases": ["base.yaml"], "spec": ["exp.yaml"]}
    assert len(inputs["bases"][0]["sha256"]) == 64


def test_a_base_is_relative_to_the_file_that_extends_it(
    clusterjobs: Command, folders: dict[str, pathlib.Path]
) -> None:
    pathlib.Path("team/deep").mkdir(parents=True)
    pathlib.Path("team/deep/base.yaml").write_text("extends: ../top.yaml\n")
    pathlib.Path("team/top.yaml").write_text("env: {A: top}\n")
    pathlib.Path("exp.yaml").write_text(f"extends: team/deep/base.yaml\n{SPEC}")
    assert "env.A  top  team/top.yaml:1" in clusterjobs("plan", "exp.yaml").out


def test_plan_shows_the_origin_of_what_the_spec_does_not_say(
    clusterjobs: Command, folders: dict[str, pathlib.Path]
) -> None:
    (folders["site"] / "defaults.yaml").write_text(
        "all:\n  sbatch: {account: ml}\n  time_limit: 1-0\n"
    )
    pathlib.Path("base.yaml").write_text("setup: [echo base]\n")
    pathlib.Path("exp.yaml").write_text(f"extends: base.yaml\n{SPEC}time_limit: 60\n")
    out = clusterjobs("plan", "exp.yaml", "--set", "nodes=2").out
    section = out.partition("not from the spec itself\n")[2].partition("\n\n")[0]
    assert [line.split(maxsplit=1) for line in section.splitlines()] == [
        ["sbatch.account", "ml         site/defaults.yaml:2"],
        ["setup[0]", "echo base  base.yaml:1"],
        ["nodes", "2          --set nodes=2"],
    ]
    data = json.loads(clusterjobs("plan", "exp.yaml", "--json").out)
    account = {"name": "--account", "value": "ml", "reason": "sbatch: site/defaults.yaml:2"}
    assert account in data["sections"]["sbatch"]
    assert data["merged"][0] == {
        "name": "sbatch.account",
        "value": "ml",
        "origin": "site/defaults.yaml:2",
        "from": "default",
    }
    shown = json.loads(clusterjobs("show", "exp.yaml", "--json").out)
    assert {"name": "time_limit", "value": 60, "origin": "exp.yaml:6", "from": "spec"} in shown
    assert "time_limit      60         exp.yaml:6\n" in clusterjobs("show", "exp.yaml").out


def test_the_effective_spec_renders_the_same_script(
    clusterjobs: Command, folders: dict[str, pathlib.Path]
) -> None:
    defaults = folders["site"] / "defaults.yaml"
    defaults.write_text('all:\n  setup: {prepend: [module load x]}\n  logs: "/l/{{ name }}"\n')
    pathlib.Path("exp.yaml").write_text(f"{SPEC}setup: |\n  echo '# one'\n  echo two\n")

    def rendered() -> str:
        assert clusterjobs("render", "exp.yaml").code == 0
        return re.sub("[0-9a-f]{64}", "", pathlib.Path("generated/job.sh").read_text())

    first, effective = rendered(), clusterjobs("show", "exp.yaml", "--effective").out
    assert 'logs: "/l/{{ name }}"' in effective
    assert "# site/defaults.yaml:3\n" in effective
    pathlib.Path("exp.yaml").write_text(effective)
    assert rendered() == first
    defaults.unlink()
    assert rendered() == first


def test_defaults_also_say_where_the_jobs_of_a_spec_are(
    clusterjobs: Command, folders: dict[str, pathlib.Path], folder: pathlib.Path
) -> None:
    (folders["site"] / "defaults.yaml").write_text(f"all: {{logs: {folder}/elsewhere}}\n")
    assert f"has written to {folder}/elsewhere" in clusterjobs("logs", "exp.yaml").err


# ------------------------------------------------------------------ clusters by name


def test_a_cluster_of_a_site_folder_is_used_by_its_name(
    clusterjobs: Command, folders: dict[str, pathlib.Path]
) -> None:
    add_cluster(folders["etc"], "p4", most=7, ending=".yml")
    pathlib.Path("exp.yaml").write_text(SPEC.replace("small", "p4"))
    for command in ("plan", "validate", "render"):
        outcome = clusterjobs(command, "exp.yaml", "--set", "nodes=7")
        assert outcome.code == 0, outcome.err
    assert clusterjobs("clusters", "show", "p4").code == 0
    assert read_shape("p4", 1, None, controller_only=False).cluster == "p4"


def test_a_name_in_two_folders_is_the_higher_ones_and_both_are_shown(
    clusterjobs: Command, folders: dict[str, pathlib.Path]
) -> None:
    add_cluster(folders["site"], "p4", most=3)
    add_cluster(folders["etc"], "p4", most=4)
    add_cluster(folders["etc"], "small", most=5)
    pathlib.Path("exp.yaml").write_text(SPEC.replace("small", "p4"))
    assert "MaxCount 3" in clusterjobs("plan", "exp.yaml", "--set", "nodes=9").err
    other = clusterjobs("plan", "exp.yaml", "--set", "nodes=9", "--set", "cluster=small")
    assert "MaxCount 5" in other.err
    shown = clusterjobs("clusters", "list").out
    etc = folders["etc"].relative_to(pathlib.Path.cwd())
    assert f"site/clusters/p4.yaml (hides {folders['etc']}/clusters/p4.yaml)\n" in shown
    assert f"{etc}/clusters/small.yaml (hides clusterjobs' own)\n" in shown
    rows = {row["name"]: row for row in json.loads(clusterjobs("clusters", "list", "--json").out)}
    hidden = [str(folders["etc"] / "clusters" / "p4.yaml")]
    assert (rows["p4"]["ready"], rows["p4"]["hides"]) == (False, hidden)
    assert (rows["small"]["hides_ready"], rows["p4d-a100"]["ready"]) == (True, True)
    used = "p4 (not used: site/clusters/p4.yaml has the same name), small"
    assert f"  clusters/  {used}\n" in clusterjobs("site").out


# ------------------------------------------------------------------ site and site init


def test_site_shows_what_each_folder_provides(
    clusterjobs: Command, folders: dict[str, pathlib.Path]
) -> None:
    add_cluster(folders["site"], "p4")
    files = {
        "site.yaml": "region: us-east-1\nbucket: b\n",
        "defaults.yaml": "all: {nodes: 1}\nclusters: {p4: {queues: {train: {nodes: 2}}}}\n",
        "templates/after_launch.sh.j2": "",
        "tests/deep/one.yaml": SPEC,
    }
    for name, text in files.items():
        path = folders["site"] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    shutil.rmtree(folders["etc"])
    outcome = clusterjobs("site")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines() == [
        "site ($CLUSTERJOBS_SITE)",
        "  site.yaml      region, bucket",
        "  defaults.yaml  all.nodes, clusters.p4.queues.train.nodes",
        "  clusters/      p4",
        "  templates/     after_launch.sh.j2",
        "  tests/         deep/one.yaml",
        "",
        f"{folders['config/clusterjobs']} (the user's own): empty",
        "",
        f"{folders['etc']} (the system's): not there",
    ]
    data = json.loads(clusterjobs("site", "--json").out)["folders"]
    assert [one["exists"] for one in data] == [True, True, False]
    assert (data[0]["clusters"], data[0]["site.yaml"]) == (["p4"], ["region", "bucket"])


def test_init_writes_a_folder_that_changes_nothing_and_overwrites_nothing(
    clusterjobs: Command, folders: dict[str, pathlib.Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert clusterjobs("render", "exp.yaml").code == 0
    before = pathlib.Path("generated/job.sh").read_text()
    outcome = clusterjobs("site", "init", "new")
    assert outcome.code == 0, outcome.err
    assert outcome.out.endswith(f"use it with: export CLUSTERJOBS_SITE={pathlib.Path.cwd()}/new\n")
    monkeypatch.setenv(site_folders.VARIABLE, "new")
    assert clusterjobs("site").code == 0
    assert clusterjobs("render", "exp.yaml").code == 0
    assert pathlib.Path("generated/job.sh").read_text() == before
    assert clusterjobs("plan", "new/tests/example/spec.yaml").code == 0
    pathlib.Path("new/defaults.yaml").write_text("all: {nodes: 1}\n")
    again = clusterjobs("site", "init", "new")
    assert "  new/defaults.yaml (kept: it exists)\n" in again.out
    assert pathlib.Path("new/defaults.yaml").read_text() == "all: {nodes: 1}\n"


def test_the_examples_in_the_comments_of_a_new_folder_are_valid(
    clusterjobs: Command, folders: dict[str, pathlib.Path]
) -> None:
    shutil.copytree(resources.site_folder_dir(), folders["site"], dirs_exist_ok=True)
    for name, comment in (("defaults.yaml", "#(?=   )"), ("site.yaml", r"# (?=\w+: )")):
        file = folders["site"] / name
        file.write_text(re.sub(f"(?m)^{comment}", "", file.read_text()))
    outcome = clusterjobs("site")
    assert (outcome.code, outcome.err) == (0, "")
    assert "  site.yaml      region, private_subnet, key_name\n" in outcome.out
    assert "all.sbatch, all.env, all.setup, clusters.p4d-a100.time_limit" in outcome.out
    assert "module load cuda/12.4" in clusterjobs("plan", "exp.yaml").out


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("exp.yaml", "cannot write exp.yaml/clusters: Not a directory\n"),
        ("blocked", "blocked/clusters is not a folder\n   hint: name another one\n"),
    ],
)
def test_init_says_where_it_cannot_write(
    clusterjobs: Command, folders: dict[str, pathlib.Path], target: str, message: str
) -> None:
    pathlib.Path("blocked").mkdir()
    pathlib.Path("blocked/clusters").touch()
    outcome = clusterjobs("site", "init", target)
    assert outcome.code == 1
    assert message in outcome.err


@pytest.mark.parametrize(
    "name",
    [
        *("", "defaults.yaml", "policy.yaml", "site.yaml", "clusters", "clusters/mine.yaml"),
        *("templates", "templates/before_launch.sh", "templates/blocks"),
        "templates/blocks/placement.sh.j2",
    ],
)
def test_what_every_user_may_change_is_refused(
    clusterjobs: Command, folders: dict[str, pathlib.Path], name: str
) -> None:
    site = folders["site"]
    for file in ("defaults.yaml", "policy.yaml", "site.yaml", "templates/before_launch.sh"):
        (site / file).parent.mkdir(exist_ok=True)
        (site / file).write_text("# nothing\n")
    (site / "templates/blocks").mkdir()
    (site / "templates/blocks/placement.sh.j2").write_text(
        '{% include "packaged/blocks/placement.sh.j2" %}\n'
    )
    add_cluster(site, "mine")
    outcome = clusterjobs("render", "exp.yaml", "--set", "cluster=mine")
    assert outcome.code == 0, outcome.err
    (site / name).chmod((site / name).stat().st_mode | 0o002)
    outcome = clusterjobs("render", "exp.yaml", "--set", "cluster=mine")
    assert outcome.code == 1
    path = pathlib.Path("site") / name
    assert f"every user can write to {path}," in outcome.err, outcome.err
    assert f"hint: chmod -R o-w {path}" in outcome.err


@pytest.mark.parametrize(
    "content",
    ["root:$6$secret:1:\n", "TOKEN=secret\0X=1\0", "a: [secret\n", "- secret\n", "secret"],
)
def test_no_line_of_a_base_that_is_no_spec_is_shown(
    clusterjobs: Command, folder: pathlib.Path, content: str
) -> None:
    (folder / "other").write_text(content)
    (folder / "exp.yaml").write_text(f"extends: other\n{SPEC}")
    outcome = clusterjobs("render", "exp.yaml")
    assert outcome.code == 1
    assert "secret" not in outcome.err
    assert outcome.err.startswith("exp.yaml:1:10 extends: ")


def test_a_pipe_as_a_base_is_refused_and_not_waited_for(
    clusterjobs: Command, folder: pathlib.Path
) -> None:
    os.mkfifo(folder / "base.yaml")
    (folder / "exp.yaml").write_text(f"extends: base.yaml\n{SPEC}")
    outcome = clusterjobs("render", "exp.yaml")
    assert outcome.code == 1
    assert "exp.yaml:1:10 extends: base.yaml is a pipe or a device, and not a file" in outcome.err


def test_lines_at_an_insertion_point_are_listed(
    clusterjobs: Command, folders: dict[str, pathlib.Path]
) -> None:
    (folders["site"] / "templates").mkdir()
    (folders["site"] / "templates/before_launch.sh").write_text("nvidia-smi -L\n")
    listed = json.loads(clusterjobs("site", "--json").out)["folders"][0]
    assert listed["templates"] == ["before_launch.sh"]

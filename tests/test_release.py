"""A release: the tag, the version and the changelog agree, and each supported Python is tested."""

from __future__ import annotations

import pathlib
import re
import runpy
import subprocess
import sys

import pytest
import yaml

from clusterjobs.extras import how_to_install
from clusterjobs.version import __version__

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = pathlib.Path(__file__).parents[1]
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
notes = runpy.run_path(str(ROOT / "tools" / "release_notes.py"))["notes"]


def test_the_newest_version_of_the_changelog_is_that_of_the_code() -> None:
    assert re.findall(r"(?m)^## (\S+) \(", CHANGELOG)[0] == __version__


def test_the_notes_of_a_release_are_the_entries_of_its_version() -> None:
    text = "# Changes\n\n## 1.1.0 (2026-12-01)\n\n- new\n\n## 1.0.0 (2026-11-01)\n\n- old\n"
    assert notes("v1.1.0", "1.1.0", text) == "- new"
    assert notes("v1.0.0", "1.0.0", text) == "- old"


@pytest.mark.parametrize(
    ("tag", "heading", "what"),
    [
        ("v1.1.0", "1.0.0 (2026-11-01)", "the tag is v1.1.0, the version"),
        ("v1.0.0", "1.0.0 (unreleased)", "write the date of 1.0.0 instead of (unreleased)"),
        ("v1.0.0", "0.9.0 (2026-10-01)", "no heading `## 1.0.0 (DATE)`"),
    ],
)
def test_a_tag_without_its_version_or_date_is_not_released(
    tag: str, heading: str, what: str
) -> None:
    with pytest.raises(SystemExit, match=re.escape(what)):
        notes(tag, "1.0.0", f"# Changes\n\n## {heading}\n\n- new\n")


def test_the_tool_fails_for_a_tag_of_another_version() -> None:
    tool = [sys.executable, ROOT / "tools" / "release_notes.py", "v999.0.0"]
    done = subprocess.run(tool, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"the version in clusterjobs/version.py is {__version__}" in done.stderr


def test_the_workflow_tests_each_supported_python_before_it_publishes() -> None:
    jobs = WORKFLOW["jobs"]
    tested = jobs["test"]["strategy"]["matrix"]["python"]
    assert f">={tested[0]}" == PROJECT["requires-python"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert tested == named
    assert {"test", "build"} <= {*jobs["publish"]["needs"]}
    assert "refs/tags/" in jobs["publish"]["if"]


def test_no_code_of_the_repository_runs_with_rights_to_publish() -> None:
    with_rights = {name: job for name, job in WORKFLOW["jobs"].items() if "permissions" in job}
    rights = {name: job["permissions"] for name, job in with_rights.items()}
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert rights == {"publish": {"id-token": "write"}, "release": {"contents": "write"}}
    for job in with_rights.values():
        assert not any("checkout" in step.get("uses", "") for step in job["steps"])
    used = [
        step["uses"] for job in WORKFLOW["jobs"].values() for step in job["steps"] if "uses" in step
    ]
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", one) for one in used)


def test_the_page_has_each_extra_and_no_other() -> None:
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"\| extra \|.*\n\|---.*\n((?:\|.*\n)+)", page)
    listed = {
        name for row in table.splitlines() for name in re.findall(r"`([\w-]+)`", row.split("|")[1])
    }
    assert listed == {*PROJECT["optional-dependencies"]}
    assert f"clusterjobs-{__version__}-py3-none-any.whl" in page


@pytest.mark.parametrize("extra", ["aws", "plot", "tensorboard"])
def test_a_hint_installs_the_packages_of_the_extra(extra: str) -> None:
    program, verb, *packages = how_to_install(extra).replace("'", "").split()
    assert (program, verb) == ("pip", "install")
    assert sorted(packages) == sorted(PROJECT["optional-dependencies"][extra])


def test_no_page_and_no_message_names_an_extra_of_a_package_that_no_index_has() -> None:
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("clusterjobs/**/*.py")]
    named = [path for path in files if re.search(r"\bclusterjobs\[", path.read_text("utf-8"))]
    assert named in ([], [ROOT / "clusterjobs" / "extras.py"])

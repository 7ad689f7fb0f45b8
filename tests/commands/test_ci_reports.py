"""Reports of `validate` for CI, and the hooks for pre-commit."""

from __future__ import annotations

import json
import pathlib
from xml.etree import ElementTree

import yaml

from clusterjobs.cli.main import run

GOOD = "name: a\ncluster: p4d-a100\nframework: command\ncommand: ./run\n"
ROOT = pathlib.Path(__file__).parents[2]


def test_junit_and_sarif_have_each_file_with_its_problems(
    clusterjobs, folder: pathlib.Path
) -> None:
    (folder / "good.yaml").write_text(GOOD)
    (folder / "bad.yaml").write_text(GOOD + "nodse: 2\n")
    reports = ("--junit", "junit.xml", "--sarif", "out.sarif")
    assert clusterjobs("validate", "good.yaml", "bad.yaml", "--no-parser", *reports).code == 1
    suite = ElementTree.parse(folder / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    failed = {one.get("name"): one.findtext("failure") or "" for one in suite}
    assert failed["good.yaml"] == ""
    assert "bad.yaml:5:1 nodse: unknown key" in failed["bad.yaml"]
    (sarif,) = json.loads((folder / "out.sarif").read_text())["runs"]
    (error,) = (one for one in sarif["results"] if one["level"] == "error")
    place = error["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "bad.yaml"
    assert place["region"]["startLine"] == 5
    assert "unknown key" in error["message"]["text"]


def test_a_file_is_named_by_a_valid_uri(clusterjobs, folder: pathlib.Path) -> None:
    (folder / "my #1.yaml").write_text(GOOD + "nodse: 2\n")
    clusterjobs("validate", "my #1.yaml", "--no-parser", "--sarif", "out.sarif")
    (sarif,) = json.loads((folder / "out.sarif").read_text())["runs"]
    places = [one["locations"][0]["physicalLocation"] for one in sarif["results"]]
    assert {one["artifactLocation"]["uri"] for one in places} == {"my%20%231.yaml"}


def test_a_report_that_cannot_be_written_is_an_error(clusterjobs, folder: pathlib.Path) -> None:
    (folder / "good.yaml").write_text(GOOD)
    outcome = clusterjobs("validate", "good.yaml", "--no-parser", "--junit", "no/where.xml")
    assert outcome.code == 1
    assert "cannot write no/where.xml: No such file" in outcome.err


def test_commands_of_the_hooks_exist() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    for hook in hooks:
        program, *words = hook["entry"].split()
        assert program == "clusterjobs"
        assert run([*words, *hook.get("args", []), "--help"]) == 0

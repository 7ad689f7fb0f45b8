"""The pages are true: links lead somewhere, tables and printed lines match the code."""

from __future__ import annotations

import json
import os
import pathlib
import re
from collections.abc import Callable

import pytest
from stand_in_squeue import row, write_squeue

from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.spec.keys.staging import Restarts

ROOT = pathlib.Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
RESTARTS = (ROOT / "docs" / "restarts.md").read_text(encoding="utf-8")
JOBS = (ROOT / "docs" / "jobs.md").read_text(encoding="utf-8")


def anchors(page: pathlib.Path) -> set[str]:
    """The headings of a page, as links write them."""
    headings = re.findall(r"(?m)^#+ (.*)$", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_page_and_a_heading(page: pathlib.Path) -> None:
    for target, anchor in re.findall(
        r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)", page.read_text(encoding="utf-8")
    ):
        to = page.parent / target if target else page
        assert to.exists(), target
        assert not anchor or anchor in anchors(to), f"{target}#{anchor}"


def test_each_framework_stops_as_the_page_says() -> None:
    rows = re.findall(r"(?m)^\| (`.*?) \| (.*?) \| (.*?) \|$", RESTARTS)
    documented = {
        name: (stops_by, marker)
        for names, stops_by, marker in rows
        for name in re.findall(r"`([\w-]+)`", names)
        if name in FRAMEWORKS
    }
    assert set(documented) == set(FRAMEWORKS)
    channels = {"file": "stop file", "clock": "clock", "never": "nothing"}
    for name, framework in FRAMEWORKS.items():
        stops_by, marker = documented[name]
        saving = framework.saving
        assert stops_by.startswith(channels[saving.stop_channel]), name
        assert marker.startswith(f"`{saving.marker}`" if saving.marker else "none"), name


def test_the_keys_of_restarts_and_their_defaults_are_on_the_page() -> None:
    rows = dict(re.findall(r"(?m)^\| `(\w+)` \| .*\| (\w+) \|$", RESTARTS))
    defaults = {name: getattr(Restarts(), name) for name in Restarts.__annotations__}
    assert {name: rows[name] for name in defaults} == {
        name: "none" if value is None else str(value) for name, value in defaults.items()
    }


def test_status_prints_what_the_page_shows(
    clusterjobs: Callable[..., object], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = re.findall(r"```console\n(\$ clusterjobs status (?!sweep).*?)```", JOBS, re.DOTALL)
    assert len(shown) == 3
    records = [json.loads(line) for line in re.findall(r"(?m)^\{.*\}$", RESTARTS)]
    records += [
        {**records[0], "attempt": attempt, "reason": reason, "checkpoint": checkpoint}
        | {"exit_code": code, "seconds": seconds}
        for attempt, reason, checkpoint, code, seconds in (
            (3, "failure", "global_step373", 143, 32),
            (4, "completed", "global_step600", 0, 37),
        )
    ]
    failed = {**records[0], "reason": "failure", "checkpoint": "", "exit_code": 1}
    for name, job_id, lines, log in (
        ("gpt", "251726", records, "step 600/600\n"),
        ("gpt", "251727", [], "step 120/600\n"),
        ("plain", "251731", [failed], f"step 3/9\n{TRACEBACK}"),
    ):
        folder = tmp_path / "logs" / job_id
        folder.mkdir(parents=True)
        (folder / "attempts.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in lines))
        plan = {"name": name, "spec": {"file": f"{name}.yaml"}}
        (folder / "plan.json").write_text(json.dumps(plan))
        (folder / "job.log").write_text(log)
    keys = "cluster: small, framework: command, command: x"
    saved = tmp_path / "saved"
    saved.mkdir()
    (saved / "latest").write_text("global_step100\n")
    checkpoints = f"checkpoints: {{path: {saved}, marker: latest}}"
    (tmp_path / "gpt.yaml").write_text(f"{{name: gpt, {keys}, {checkpoints}}}")
    (tmp_path / "plain.yaml").write_text(f"{{name: plain, {keys}}}")
    (tmp_path / "bin").mkdir()
    nodes, start = "train-dy-small-[1-2]", "2026-11-22T17:05:00"
    write_squeue(
        tmp_path / "bin",
        row("251727", "RUNNING", "gpt", time_left="1:12:05", nodes=nodes),
        row("251728", "PENDING", "gpt", reason="Priority", start=start),
    )
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}/bin:/usr/bin")
    monkeypatch.chdir(tmp_path)
    for block in shown:
        command, _, expected = block.partition("\n")
        outcome = clusterjobs(*command.split()[2:])
        assert (outcome.out, outcome.err) == (expected, "")


TRACEBACK = """\
5: Traceback (most recent call last):
5:   File "train.py", line 9, in <module>
5: ValueError: loss is nan
"""

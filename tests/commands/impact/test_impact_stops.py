"""What ends `impact` early: Ctrl-C, a killed worker. What is known by then is reported."""

from __future__ import annotations

import json
import os
import pathlib
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from clusterjobs.admin.impact import differences as rendering
from clusterjobs.sites.folders import SiteFolders

CLUSTERJOBS = str(pathlib.Path(sys.executable).with_name("clusterjobs"))
SPEC = "name: a{}\ncluster: small\nframework: command\ncommand: ./run\n"
WAIT = 120


@pytest.fixture
def many(folder: pathlib.Path) -> pathlib.Path:
    """Specs, and a program that renders the first ones and then waits for ever."""
    for name in ("old", "users"):
        (folder / name).mkdir()
    for number in range(100):
        (folder / "users" / f"{number:03}.yaml").write_text(SPEC.format(number))
    program = folder / "other"
    program.write_text(
        f"#!{sys.executable}\n"
        "import json, sys, time\n"
        "print(json.dumps({'clusterjobs': '0.0.1'}), flush=True)\n"
        "for line in sys.stdin:\n"
        "    if '/090.yaml' in line:\n"
        f"        open({str(folder / 'waiting')!r}, 'w').close()\n"
        "        sys.exit(sys.stdin.read())  # waits until nobody is there to ask\n"
        "    print(json.dumps({'name': '', 'files': {'job.sh': 'x'}}), flush=True)\n"
    )
    program.chmod(0o755)
    return folder


def wait_for(what: Callable[[], object]) -> None:
    end = time.monotonic() + WAIT
    while not what():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def impact(many: pathlib.Path) -> Iterator[subprocess.Popen[str]]:
    command = [CLUSTERJOBS, "impact", "users", "--clusterjobs", "./other", "--jobs", "1", "--json"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "XDG_CONFIG_HOME": str(many / "home")},
        preexec_fn=_heed_sigint,
    )
    try:
        wait_for(lambda: (many / "waiting").exists() or process.poll() is not None)
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _heed_sigint() -> None:
    """A process ignores what its caller ignores: SIGINT in the background of a shell."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def processes_of(group: int) -> list[str]:
    listed = subprocess.run(["ps", "-eo", "pgid=,stat=,args="], capture_output=True, text=True)
    rows = [line.split(maxsplit=2) for line in listed.stdout.splitlines()]
    return [row[2] for row in rows if int(row[0]) == group and not row[1].startswith("Z")]


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_what_is_known_is_reported_when_somebody_stops_it(
    impact: subprocess.Popen[str], name: str
) -> None:
    os.killpg(impact.pid, getattr(signal, name))  # as a terminal does: to all processes
    out, err = impact.communicate(timeout=WAIT)
    assert impact.returncode == 130, err
    report = json.loads(out)
    assert report["complete"] is False
    # The part with the 91st spec is handed out when the first of the parts of 20 has been counted.
    assert report["counts"]["changed"] == report["specs"]
    assert report["specs"] in (20, 40, 60, 80)
    wait_for(lambda: processes_of(impact.pid) == [])


def test_workers_end_with_a_parent_that_is_killed(impact: subprocess.Popen[str]) -> None:
    os.kill(impact.pid, signal.SIGKILL)
    impact.wait(WAIT)
    wait_for(lambda: processes_of(impact.pid) == [])


def test_a_killed_worker_is_reported_with_what_is_known(impact: subprocess.Popen[str]) -> None:
    rows = subprocess.run(["ps", "-eo", "ppid=,pid="], capture_output=True, text=True).stdout
    children = [
        int(pid) for ppid, pid in map(str.split, rows.splitlines()) if int(ppid) == impact.pid
    ]
    for child in children:
        os.kill(child, signal.SIGKILL)
    out, err = impact.communicate(timeout=WAIT)
    assert impact.returncode == 1
    assert "a worker process ended" in err
    assert json.loads(out)["complete"] is False


def test_an_internal_error_is_the_failure_of_one_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **_options: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(rendering, "load", broken)
    rendered = rendering.render_for_comparison("a.yaml", SiteFolders())
    assert rendered.failed
    assert rendered.message == "a.yaml: internal error, not a mistake in the spec: KeyError"


def test_a_spec_that_ends_the_other_version_fails_alone(
    folder: pathlib.Path, clusterjobs: Callable[..., Any]
) -> None:
    for number in range(3):
        (folder / f"{number}.yaml").write_text(SPEC.format(number))
    program = folder / "other"
    program.write_text(
        f"#!{sys.executable}\n"
        "import json, sys\n"
        "print(json.dumps({'clusterjobs': '0.0.1'}), flush=True)\n"
        "for line in sys.stdin:\n"
        "    if '/1.yaml' in line: sys.exit(1)\n"
        "    print(json.dumps({'name': '', 'files': {'job.sh': 'x'}}), flush=True)\n"
    )
    program.chmod(0o755)
    report = json.loads(clusterjobs("impact", ".", "--clusterjobs", program, "--json").out)
    assert (report["counts"]["changed"], report["counts"]["mended"]) == (2, 1)
    mended = next(group for group in report["groups"] if group["state"] == "mended")
    assert mended["message"].endswith("other ended without an answer")


def test_another_version_that_lacks_batches_is_refused_at_once(
    folder: pathlib.Path, clusterjobs: Callable[..., Any]
) -> None:
    (folder / "a.yaml").write_text(SPEC.format(1))
    outcome = clusterjobs("impact", ".", "--clusterjobs", "/bin/false")
    assert (outcome.code, outcome.out) == (1, "")
    assert "/bin/false cannot render many specs at once" in outcome.err
    outcome = clusterjobs("impact", ".", "--clusterjobs", "no-such-program")
    assert (outcome.code, outcome.out) == (2, "")
    assert "there is no program 'no-such-program'" in outcome.err


def test_a_terminal_gets_a_progress_bar_and_a_file_does_not(
    clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    for number in range(3):
        (folder / f"{number}.yaml").write_text(SPEC.format(number))
    (folder / "old").mkdir()
    arguments = ["impact", ".", "--before", "old", "--json"]
    assert clusterjobs(*arguments).err == ""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "XDG_CONFIG_HOME": str(folder), "TERM": "xterm"}
    process = subprocess.Popen(
        [CLUSTERJOBS, *arguments], stdout=subprocess.PIPE, stderr=theirs, env=environment
    )
    os.close(theirs)
    out, _ = process.communicate(timeout=WAIT)
    said = os.read(ours, 10_000)
    os.close(ours)
    assert b"rendering" in said
    assert b"100%" in said
    assert json.loads(out)["counts"]["unchanged"] == 3

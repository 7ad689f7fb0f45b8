"""Slurm's programs that hang, flood, fail, speak another language or print other lines first."""

from __future__ import annotations

import os
import pathlib
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from clusterjobs.errors import InputError
from clusterjobs.lab.lab import until
from clusterjobs.runs.submit import sbatch
from clusterjobs.slurm import asking, queue

Program = Callable[[str, str], None]
FLOOD = "dd if=/dev/zero bs=1M count=1000 >&{} 2>/dev/null"


@pytest.fixture
def program(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """`program("squeue", "exit 1")`: a stand-in, in bash."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(asking, "PATIENCE", 30.0)

    def write(name: str, body: str) -> None:
        path = tmp_path / name
        path.write_text(f"#!/bin/bash\necho $$ > {tmp_path}/pid\n{body}\n")
        path.chmod(0o755)

    return write


CALLS: dict[str, Callable[[], object]] = {
    "squeue": queue.known_jobs,
    "scancel": lambda: queue.cancel(["12"]),
    "sbatch": lambda: sbatch.submit("#!/bin/bash\n", [], os.environ),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("body", ["sleep 1000", "trap '' TERM; sleep 1000 & wait", "yes >&2"])
def test_a_program_that_does_not_end_is_killed_with_a_word(
    program: Program, monkeypatch: pytest.MonkeyPatch, tmp_path, name: str, body: str
) -> None:
    monkeypatch.setattr(asking, "PATIENCE", 0.5)
    program(name, body)
    with pytest.raises(InputError, match=f"{name}: Slurm does not answer in 0 s"):
        CALLS[name]()
    group = (tmp_path / "pid").read_text().strip()
    until(lambda: not any(_live(group)), 10, lambda: "\n".join(_live(group)))


def _live(group: str) -> Iterator[str]:
    """The processes of a group that are not yet dead: their lines of /proc."""
    for file in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            line = file.read_text()
            state, _, found = line.rpartition(")")[2].split()[:3]
            if found == group and state != "Z":
                yield line


@pytest.mark.parametrize("name", CALLS)
def test_a_gigabyte_of_errors_takes_no_memory(program: Program, name: str) -> None:
    program(name, f"echo first >&2; {FLOOD.format(2)}; exit 1")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        said = str(CALLS[name]())
    except InputError as error:
        said = str(error)
    assert "first" in said
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB


def test_a_gigabyte_of_output_is_an_error(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "MAX_OUTPUT", 1 << 20)
    program("squeue", f"{FLOOD.format(1)}; sleep 1000")
    with pytest.raises(InputError, match="squeue: it prints more than 1,048,576 bytes"):
        queue.known_jobs()


@pytest.mark.parametrize(
    ("printed", "job_id"),
    [
        ("echo 12", 12),
        ("echo 'Warnung: veraltetes Modul'; echo 12", 12),
        ("echo 12; echo 'ein Rest'", 12),
        ("echo '12;first'; echo >&2 'sbatch: Warnung'", 12),
        ("true", None),
        ("echo 'Auftrag 12 angenommen'", None),
    ],
)
def test_the_id_of_a_job_is_found_among_other_lines(
    program: Program, printed: str, job_id: int | None
) -> None:
    program("sbatch", printed)
    assert sbatch.submit("#!/bin/bash\n", [], os.environ).job_id == job_id


@pytest.mark.parametrize("line", ["Warnung: veraltetes Modul", "\033[31mlmod\033[0m", "12 PENDING"])
def test_a_queue_with_other_lines_is_not_taken_for_an_empty_one(
    program: Program, line: str
) -> None:
    program("squeue", f"echo '{line}'")
    with pytest.raises(InputError, match="squeue: its output cannot be read"):
        queue.known_jobs()


def test_a_program_that_does_not_read_its_input_gets_it_nevertheless(program: Program) -> None:
    program("sbatch", "echo 12")
    assert sbatch.submit("#" * (1 << 20), [], os.environ).job_id == 12


def test_output_ends_with_the_program_though_its_child_keeps_the_pipe(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "_REST_SECONDS", 0.2)
    program("scontrol", "echo JobId=12; sleep 1000 &")
    started = time.monotonic()
    assert queue.shown_job("12") == "JobId=12\n"
    assert time.monotonic() - started < 10


def test_what_a_user_cannot_ask_is_not_known(program: Program) -> None:
    program("scontrol", "echo 'slurm_load_ctl_conf: Verbindung abgelehnt' >&2; exit 1")
    assert sbatch.slurm_limits() == sbatch.Limits()
    assert queue.shown_job("12") == ""

"""What squeue prints becomes jobs, whatever their names are."""

from __future__ import annotations

import pathlib

import pytest
from stand_in_squeue import row, squeue_calls, write_squeue

from clusterjobs.errors import InputError
from clusterjobs.slurm.queue import known_jobs, queued_jobs

HOSTILE = 'a|b,c/d|,|/\n13|RUNNING|x\t"é'


@pytest.fixture
def slurm(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A folder that is PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_names_and_comments_may_have_any_character(slurm: pathlib.Path) -> None:
    write_squeue(slurm, row("12", "PENDING", HOSTILE, comment=HOSTILE), row("13", "RUNNING"))
    jobs = known_jobs() or ()
    assert [(job.job_id, job.name, job.comment) for job in jobs] == [
        ("12", HOSTILE, HOSTILE),
        ("13", "tiny", ""),
    ]


def test_tasks_that_share_the_id_of_their_array_are_told_apart(slurm: pathlib.Path) -> None:
    array = {"array": "40"}
    write_squeue(
        slurm,
        row("41", "RUNNING", index="0", **array),
        row("40", "PENDING", index="1", **array),
        row("40", "PENDING", index="2", **array),
        row("50", "PENDING", index="7", array="50"),  # the last one left: it will have this id
    )
    queued = queued_jobs() or {}
    assert list(queued) == ["41", "40_1", "40_2", "50"]
    assert [job.shown_id for job in queued.values()] == ["40_0", "40_1", "40_2", "50_7"]


def test_what_slurm_does_not_know_is_empty(slurm: pathlib.Path) -> None:
    write_squeue(slurm, row("12", "PENDING", "N/A", start="N/A", dependency="(null)"))
    (job,) = known_jobs() or ()
    assert (job.name, job.start, job.dependency, job.array_id, job.array_index) == (
        *("N/A", "", ""),
        *("12", ""),
    )
    assert job.shown_id == "12"


def test_one_call_gives_ended_jobs_too(slurm: pathlib.Path) -> None:
    write_squeue(slurm, row("12", "PENDING"), row("11", "FAILED"), row("10", "FAILED", user="1"))
    assert list(queued_jobs() or {}) == ["12"]
    assert squeue_calls(slurm) == 1
    assert [job.job_id for job in known_jobs() or () if job.has_ended] == ["11", "10"]


def test_settings_of_the_user_hide_no_job(
    slurm: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SQUEUE_USERS", "nobody")
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    program = slurm / "squeue"
    program.write_text('#!/bin/bash\necho "$SQUEUE_USERS,$SLURM_TIME_FORMAT" > "$0.seen"\n')
    program.chmod(0o755)
    assert known_jobs() == ()
    assert (slurm / "squeue.seen").read_text() == ",standard\n"


def test_without_slurm_nothing_is_known(slurm: pathlib.Path) -> None:
    assert known_jobs() is None
    assert queued_jobs() is None


def test_a_refusal_is_shown(slurm: pathlib.Path) -> None:
    program = slurm / "squeue"
    program.write_text("#!/bin/bash\necho 'slurm_load_jobs error: no controller' >&2; exit 1\n")
    program.chmod(0o755)
    with pytest.raises(InputError, match="no controller"):
        known_jobs()


@pytest.mark.parametrize(
    "said",
    [
        "echo 'JOBID PARTITION NAME'",
        "echo 'no such option: --array'",
        'mark=${@: -1}; mark=${mark#--format=}; echo "${mark%%/*}/12"',
        'f=${@: -1}; f=${f#--format=}; echo "${f//%U/nobody}"',
    ],
)
def test_an_output_that_cannot_be_read_is_no_empty_queue(slurm: pathlib.Path, said: str) -> None:
    program = slurm / "squeue"
    program.write_text(f"#!/bin/bash\n{said}\n")
    program.chmod(0o755)
    with pytest.raises(InputError, match="its output cannot be read"):
        known_jobs()


def test_a_line_that_names_the_cluster_is_no_job(slurm: pathlib.Path) -> None:
    write_squeue(slurm, row("12", "PENDING"))
    program = slurm / "squeue"
    (slurm / "real").write_text(program.read_text())
    (slurm / "real").chmod(0o755)
    program.write_text('#!/bin/bash\necho "CLUSTER: a"\nexec "${0%/*}/real" "$@"\n')
    assert [job.job_id for job in known_jobs() or ()] == ["12"]

from __future__ import annotations

import pytest
from plans import config_of, plan_of, problems_of, queue

from clusterjobs.slurm.options import seconds_of, slurm_time


@pytest.mark.parametrize(
    ("time_limit", "seconds"),
    [
        ("90", 5400),
        ("90:30", 5430),
        ("12:00:00", 43200),
        ("2-00", 172800),
        ("2-01:30", 178200),
        ("2-01:30:15", 178215),
        ("UNLIMITED", None),
        ("9" * 5000, None),
    ],
)
def test_slurms_forms_of_a_time(time_limit: str, seconds: int | None) -> None:
    assert seconds_of(time_limit) == seconds


@pytest.mark.parametrize(
    ("seconds", "written"), [(90, "00:01:30"), (86399, "23:59:59"), (178215, "2-01:30:15")]
)
def test_a_time_is_written_so_that_slurm_reads_the_same(seconds: int, written: str) -> None:
    assert slurm_time(seconds) == written
    assert seconds_of(written) == seconds


def config_with(**settings: object) -> str:
    return config_of(queue("q", ("r", "p4d.24xlarge", 4), CustomSlurmSettings=settings))


@pytest.mark.parametrize("time_limit", ["1-00:00:01", "1441", "2-00", "UNLIMITED"])
def test_a_time_limit_longer_than_the_queues_is_refused(time_limit: str) -> None:
    (problem,) = problems_of(config_with(MaxTime="1-00:00:00"), time_limit=time_limit)
    assert problem.path == "time_limit"
    assert problem.what == f"{time_limit} is longer than queue q allows (MaxTime 1-00:00:00)"
    assert problem.hint.startswith("time_limit: 1-00:00:00 at most")


@pytest.mark.parametrize("time_limit", ["1-00:00:00", "1440", "24:00:00", None])
def test_a_time_limit_may_be_as_long_as_the_queues(time_limit: str | None) -> None:
    plan_of(config_with(MaxTime="1-00:00:00"), time_limit=time_limit)


@pytest.mark.parametrize(
    "max_time", ["UNLIMITED", "<time>", "{{ site.time }}", "soon", "9" * 5000, 0, None, []]
)
def test_a_queue_without_a_known_maximum_refuses_no_time_limit(max_time: object) -> None:
    plan_of(config_with(MaxTime=max_time), time_limit="UNLIMITED")


def test_slurms_key_may_be_written_in_any_case_and_its_time_in_minutes() -> None:
    (problem,) = problems_of(config_with(DefaultTime=5, maxtime=90), time_limit="91")
    assert "MaxTime 01:30:00" in problem.what


def test_a_time_limit_of_more_digits_than_python_reads_is_no_slurm_time() -> None:
    (problem,) = problems_of(time_limit="9" * 5000)
    assert "is not a Slurm time" in problem.what


@pytest.mark.parametrize(
    ("keys", "how"),
    [
        ({}, "by a file"),
        ({"restarts": {"signal": "TERM"}, "launcher": "srun"}, "by a file and SIGTERM"),
        ({"framework": "gpt-neox", "configs": ["small.yml"], "batch": {"micro": 1}}, "never"),
    ],
)
def test_the_plan_says_how_the_ranks_are_asked_to_save(keys: dict[str, object], how: str) -> None:
    saved = {"path": "/fsx/saved", "marker": "latest"}
    keys = {"restarts": {"time_limit": 3}, **keys}
    plan = plan_of(time_limit="1:00:00", checkpoints=saved, **keys)
    (said,) = [one.value for one in plan.derived if one.name == "asked to save"]
    assert said == how


@pytest.mark.parametrize(
    ("time_limit", "words", "hint"),
    [
        ("24:00", "24 minutes", "for hours write 24:00:00, for minutes 00:24:00"),
        ("1:30", "1 minute 30 seconds", "for hours write 1:30:00, for minutes 00:01:30"),
    ],
)
def test_minutes_and_seconds_are_spelled_out(time_limit: str, words: str, hint: str) -> None:
    (warning,) = plan_of(time_limit=time_limit).warnings
    assert warning.what == f"Slurm reads {time_limit} as minutes and seconds: {words}"
    assert warning.hint == hint


@pytest.mark.parametrize("time_limit", ["90", "24:00:00", "1-00", "1-00:00", "UNLIMITED"])
def test_other_forms_of_a_time_limit_are_not_warned_of(time_limit: str) -> None:
    assert plan_of(time_limit=time_limit).warnings == ()

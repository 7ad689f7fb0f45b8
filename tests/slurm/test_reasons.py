"""The reasons for which jobs wait, in words."""

from __future__ import annotations

import pytest

from clusterjobs.slurm.jobs import in_words


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("Priority", "jobs of higher priority go first (Priority)"),
        ("DependencyNeverSatisfied", "a job that it depends on failed: it will never start"),
        ("JobHeldUser", "held by its user; to release it: scontrol release JOB"),
        ("JobArrayTaskLimit", "its array has reached its limit of running tasks"),
        ("ReqNodeNotAvail, UnavailableNodes:n[1-2]", "nodes that it needs are down, drained or"),
        ("launch failed requeued held", "held by Slurm: its launch failed, and it was requeued"),
        (
            "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority",
            "nodes that it needs are down, drained or reserved for jobs of higher priority (Nodes",
        ),
        ("QOSMaxGRESPerUser", "its QOS has a limit of GPUs or other devices per user (QOSMaxGRES"),
        ("QOSMaxJobsPerUserLimit", "its QOS has a limit of jobs per user"),
        ("AssocGrpCPUMinutesLimit", "its account has a limit of CPU minutes (AssocGrpCPUMin"),
        ("AssocGrpNodeLimit", "its account has a limit of nodes"),
        ("QOSMaxWallDurationPerJobLimit", "its QOS has a limit of time per job"),
    ],
)
def test_a_reason_is_explained(reason: str, words: str) -> None:
    assert in_words(reason).startswith(words)
    assert in_words(reason).endswith(f"({reason})")


def test_the_jobs_that_a_job_waits_for_are_named() -> None:
    dependency = "afterok:12_*(unfulfilled),afterok:13_4(unfulfilled),afterany:12(unfulfilled)"
    specs = {"12": "prepare.yaml", "99": "other.yaml"}
    named = in_words("Dependency", dependency, specs)
    assert named == "needs prepare.yaml (job 12), job 13_4 (Dependency)"
    array = in_words("Dependency", "aftercorr:7_*(unfulfilled),afterok:12_3", {"12": "a.yaml"})
    assert array == "needs job 7, a.yaml (job 12_3) (Dependency)"
    words = in_words("Dependency", dependency, {"99": "other.yaml"})
    assert words == "a job that it depends on has not ended: 12, 13_4 (Dependency)"
    assert in_words("Priority", dependency) == in_words("Priority")


@pytest.mark.parametrize("reason", ["SomethingNew", "", "Maximum"])
def test_an_unknown_reason_is_shown_as_slurm_prints_it(reason: str) -> None:
    assert in_words(reason) == reason

"""Exports of a sweep's checkpoints: each point has its own prefix, all points one link."""

from __future__ import annotations

import pytest
from planned_sweeps import arrays_of
from plans import plan_of

from clusterjobs.errors import InputError
from clusterjobs.sections.plan import Plan
from clusterjobs.text import show

SWEEP = {"grid": {"args.lr": [1, 2]}}


def exported(path: str, target: str, **more: str) -> Plan:
    checkpoints = {"path": path, "export": target, **more}
    (array,) = arrays_of(
        cluster="p4d-a100",
        framework="torchrun",
        command=None,
        script="t.py",
        args={"lr": 1},
        checkpoints=checkpoints,
        sweep=SWEEP,
    )
    return array.plan


def links(plan: Plan) -> list[tuple[str, str]]:
    return [(one.folder, one.bucket_path) for one in plan.checkpoints.links]


def copies(plan: Plan) -> list[tuple[str, str]]:
    return [(show(one.source), show(one.target)) for one in plan.checkpoints.exports]


@pytest.mark.parametrize("more", [{}, {"via": "association"}])
def test_the_folder_of_all_points_is_linked_because_their_own_have_no_fixed_name(
    more: dict[str, str],
) -> None:
    plan = exported("/fsx/ck/", "s3://bucket/ck", **more)
    assert links(plan) == [("/fsx/ck", "s3://bucket/ck")]
    assert copies(plan) == []


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/fsx/ck", "/fsx/copies"),
        ("/fsx/ck-{{ point.label }}", "s3://bucket/ck-{{ point.label }}"),
        ("/fsx/{{ point.name }}/ck", "s3://bucket/{{ point.name }}/ck"),
        ("/fsx/{{ point.name }}", "s3://bucket/ck"),
        ("/fsx/{{ point.name }}", "s3://bucket/{{ point.index }}"),
    ],
)
def test_other_folders_are_copied_by_each_point(path: str, target: str) -> None:
    plan = exported(path, target)
    assert links(plan) == []
    ((source, copied),) = copies(plan)
    assert "$point_" in source
    assert "$point_" in copied


def test_without_a_sweep_the_folder_itself_is_linked() -> None:
    plan = plan_of(checkpoints={"path": "/fsx/ck/", "export": "s3://bucket/ck/"})
    assert links(plan) == [("/fsx/ck/", "s3://bucket/ck/")]


def test_the_name_of_a_point_cannot_decide_the_bucket() -> None:
    with pytest.raises(InputError, match="is not a bucket"):
        exported("/fsx/ck", "s3://bucket-{{ point.index }}/ck")


def test_points_that_share_a_node_and_its_job_id_export_their_logs_apart() -> None:
    logs = {"path": "/fsx/logs", "export": "/fsx/copies/"}
    (array,) = arrays_of(
        command=["true"], env={"SEED": "0"}, logs=logs, sweep={"grid": {"env.SEED": ["1", "2"]}}
    )
    ((_, target),) = copies(array.plan)
    assert target.startswith("/fsx/copies/")
    assert target.endswith("/$point_name/$SLURM_JOB_ID")

"""Horovod trains on two nodes x two ranks: horovodrun over ssh, and mpirun in Slurm."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import pytest
from nodes_programs import Prepared, lab, prepared, prepared_folders  # noqa: F401
from own_numbers import Kind
from reported import check_report, recorded

from clusterjobs.frameworks.horovod import Horovod

pytestmark = [pytest.mark.lab, pytest.mark.frameworks]

SCRIPT = pathlib.Path(__file__).with_name("train_horovod.py")


def hvd_spec(jobs, prepared: Prepared, name: str, **keys: Any) -> dict[str, Any]:  # noqa: F811
    place = jobs.lab.folder.shared("/fsx") / name
    place.mkdir()
    own = {
        "framework": "horovod",
        "script": str(SCRIPT),
        "software": {"venv": str(prepared.venv)},
        "args": {"save": f"/fsx/{name}"},
        "env": {"NOTE": 'it\'s $$(touch /fsx/never) "here"'},
    }
    return jobs.spec(name, **{**own, **keys})


def check_training(jobs, ended, name: str) -> None:
    assert ended.exit_code == 0, ended.log
    first, second = jobs.lab.facts.nodes
    for rank, node in enumerate((first, first, second, second)):
        assert f"rank {rank} of 4, {rank % 2} on {node}" in ended.log, ended.log
        assert f"rank {rank} sees 4 ranks, same weights: True" in ended.log
    assert ended.log.count("note 'it\\'s $(touch /fsx/never) \"here\"'") == 4, ended.log
    (line,) = Horovod.log_lines
    assert [match["step"] for match in re.finditer(line.pattern, ended.log)] == ["10", "20"]
    shared = jobs.lab.folder.shared("/fsx")
    assert (shared / name / "model.pt").exists()
    assert not (shared / "never").exists()
    assert not (shared / "logs" / ended.job_id / "ssh").exists()


@pytest.mark.parametrize("launcher", ["horovodrun", "mpirun"])
def test_horovod_trains_on_two_nodes(jobs, prepared, launcher: str) -> None:  # noqa: F811
    name = f"trains-{launcher}"
    spec = hvd_spec(jobs, prepared, name, launcher=launcher)
    ended = jobs.run(recorded(spec), **prepared.environment)
    check_training(jobs, ended, name)
    kind = Kind("horovod", every=10, clock="one step", has_loss=False)
    check_report(jobs, name, ended.job_id, kind, "torch")
    if launcher == "horovodrun":
        assert ended.log.count("interface eth0,") == 4

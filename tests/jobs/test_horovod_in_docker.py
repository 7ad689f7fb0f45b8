"""horovodrun between containers: Horovod, ssh and sshd are real, docker is a stand-in."""

from __future__ import annotations

import json
import os
import pathlib
import shlex
from typing import Any

import pytest
from nodes_programs import Prepared, prepared, prepared_folders  # noqa: F401
from test_containers import calls, in_container
from test_ssh_between_containers import check_nothing_is_left

from clusterjobs.lab.lab import until

pytestmark = [pytest.mark.lab, pytest.mark.frameworks]

HERE = pathlib.Path(__file__).parent
SECRET = "horovod-secret-77d1e3"
HOSTILE = 'it\'s $(touch /fsx/never) "here"; `touch /fsx/never`'
WRITTEN = HOSTILE.replace("$", "$$")  # as a spec has a dollar that is one
RECORD = """
import json, os, pathlib, sys
place = pathlib.Path(sys.argv[1])
place.mkdir(parents=True, exist_ok=True)
found = {"environment": dict(os.environ), "arguments": sys.argv[2:], "folder": os.getcwd()}
(place / (os.environ["HOROVOD_RANK"] + ".json")).write_text(json.dumps(found))
"""
SAVE = """
import os, sys
sys.path.insert(0, {here!r})
os.environ["RANK"] = os.environ["HOROVOD_RANK"]
import save_on_term
save_on_term.main()
"""


def spec_of(jobs, prepared: Prepared, name: str, **keys: Any) -> dict[str, Any]:  # noqa: F811
    libraries = shlex.quote(prepared.environment["LD_LIBRARY_PATH"])
    return in_container(
        jobs,
        name,
        "docker",
        framework="horovod",
        software={"venv": os.fspath(prepared.venv)},
        setup=[f"export IMAGE_LD_LIBRARY_PATH={libraries}"],
        **keys,
    )


def test_ranks_of_horovodrun_find_what_the_container_has(jobs, prepared) -> None:  # noqa: F811
    script = jobs.folder / "record.py"
    script.write_text(RECORD)
    folder = jobs.folder / "a $(touch x) 'folder'"
    folder.mkdir()
    name = "hvd-docker"
    spec = spec_of(
        *(jobs, prepared, name),
        script=os.fspath(script),
        args=[f"/fsx/records/{name}", "--title", HOSTILE],
        workdir=os.fspath(folder).replace("$", "$$"),
        env={"NOTE": WRITTEN},
        secrets=["A_KEY"],
    )
    ended = jobs.run(spec, A_KEY=SECRET)
    assert ended.exit_code == 0, ended.log
    assert sorted(ended.ranks) == [0, 1, 2, 3], ended.log
    first, second = jobs.lab.facts.nodes
    for rank, record in ended.ranks.items():
        seen = record["environment"]
        assert seen["HOROVOD_HOSTNAME"] == (first if rank < 2 else second)
        assert (seen["HOROVOD_SIZE"], seen["HOROVOD_LOCAL_RANK"]) == ("4", str(rank % 2))
        assert seen["HOROVOD_GLOO_IFACE"] == "eth0"
        assert (seen["NOTE"], seen["A_KEY"], seen["OF_THE_IMAGE"]) == (HOSTILE, SECRET, "1")
        assert seen["MASTER_ADDR"] == first
        assert seen["PATH"].startswith(f"{prepared.venv}/bin:")
        assert record["arguments"] == ["--title", HOSTILE]
        assert record["folder"] == os.fspath(folder)
    assert SECRET not in json.dumps(calls(jobs, name))
    assert not (jobs.lab.folder.shared("/fsx") / "never").exists()
    check_nothing_is_left(jobs, name)


def test_horovod_trains_in_containers(jobs, prepared) -> None:  # noqa: F811
    shared = jobs.lab.folder.shared("/fsx")
    (shared / "hvd-trains").mkdir()
    spec = spec_of(
        *(jobs, prepared, "hvd-trains"),
        script=os.fspath(HERE / "train_horovod.py"),
        args={"save": "/fsx/hvd-trains"},
        horovod={"interface": "eth0"},
        logs="/fsx/it's $$(touch never)",
    )
    ended = jobs.run(spec)
    log = (shared / "it's $(touch never)" / ended.job_id / "job.log").read_text()
    assert ended.exit_code == 0, log
    first, second = jobs.lab.facts.nodes
    for rank, node in enumerate((first, first, second, second)):
        assert f"rank {rank} of 4, {rank % 2} on {node}" in log, log
        assert f"rank {rank} sees 4 ranks, same weights: True" in log
    assert log.count("interface eth0,") == 4
    check_nothing_is_left(jobs, "hvd-trains")


def test_a_dead_rank_of_horovod_ends_all_containers(jobs, prepared) -> None:  # noqa: F811
    (jobs.lab.folder.shared("/fsx") / "hvd-dead").mkdir()
    spec = spec_of(
        *(jobs, prepared, "hvd-dead"),
        script=os.fspath(HERE / "train_horovod.py"),
        args={"save": "/fsx/hvd-dead", "fail": 3, "endless": True},
    )
    ended = jobs.run(spec)
    assert ended.exit_code != 0
    assert f"job {ended.job_id} ended with exit code" in ended.log
    check_nothing_is_left(jobs, "hvd-dead")


def test_ranks_of_horovod_in_docker_may_save_before_they_end(jobs, prepared) -> None:  # noqa: F811
    script = jobs.folder / "save.py"
    script.write_text(SAVE.format(here=os.fspath(HERE)))
    folder = jobs.lab.folder.shared("/fsx") / "hvd-told"
    spec = spec_of(jobs, prepared, "hvd-told", script=os.fspath(script), args=["/fsx/hvd-told"])
    job_id = jobs.submit(jobs.render(spec))
    log = jobs.lab.folder.shared("/fsx") / "logs" / job_id / "job.log"
    until(lambda: len(list(folder.glob("*.started"))) == 4, 180, log.read_text)
    assert jobs.lab.run(["scancel", job_id]).returncode == 0
    ended = jobs.end(job_id, "hvd-told")
    assert len(list(folder.glob("*.saved"))) == 4, ended.log
    assert ended.exit_code != 0
    check_nothing_is_left(jobs, "hvd-told")

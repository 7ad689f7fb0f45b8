"""What the ranks get of a fabric: a value of the site is kept, the plugin's profile is read."""

from __future__ import annotations

import json
import pathlib

import pytest
import script_runs
from script_runs import run_script

from clusterjobs.clusters.described.read import read_description
from clusterjobs.clusters.described.source import cluster_facts
from clusterjobs.frameworks import option_models
from clusterjobs.sections.order import resolve
from clusterjobs.sections.render import Inputs, render_script
from clusterjobs.spec.load import load_spec

PROFILE = "/var/lib/tcpxo/lib64/nccl-env-profile.sh"
SHOW = """#!/bin/bash
for name; do echo "$name=${!name-}" >> shown; done
"""


@pytest.fixture(autouse=True)
def two_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = "[[ $1 == show ]] && printf '%s\\n' node-1 node-2"
    monkeypatch.setitem(script_runs.STAND_INS, "scontrol", nodes)


def script(fabric: str, *names: str, **keys: object) -> str:
    """A job of two nodes whose ranks show these variables."""
    cluster = {
        "kind": "slurm",
        "node_types": {"n": {"cpus": 8, "gpus": 8, "fabric": fabric, "fabric_interfaces": 8}},
        "partitions": {"batch": {"nodes": {"n": 8}}},
    }
    job = {"name": "a", "cluster": "c", "nodes": 2, "framework": "command", "launcher": "srun"}
    text = json.dumps({**job, "command": ["./run", *names], **keys})
    spec = load_spec(text, "spec.yaml", option_models())
    description = json.dumps(cluster)
    plan = resolve(spec, cluster_facts(read_description(description, "c.yaml")[0], "c.yaml"))
    return render_script(plan, Inputs(("spec.yaml", text), ("c.yaml", description))).text


def shown(folder: pathlib.Path, text: str, **environment: str) -> dict[str, str]:
    (folder / "run").write_text(SHOW)
    (folder / "run").chmod(0o755)
    ended = run_script(folder, text, environment=environment)
    assert ended.code == 0, ended.log
    lines = (folder / "shown").read_text().splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


NAMES = ("FI_MR_CACHE_MONITOR", "FI_CXI_DEFAULT_CQ_SIZE", "NCCL_CROSS_NIC")


def test_slingshot_gets_what_the_site_has_not_set(tmp_path: pathlib.Path) -> None:
    text = script("slingshot", *NAMES, env={"NCCL_CROSS_NIC": 2})
    found = shown(tmp_path, text, FI_MR_CACHE_MONITOR="kdreg2")
    assert found == {
        "FI_MR_CACHE_MONITOR": "kdreg2",
        "FI_CXI_DEFAULT_CQ_SIZE": "131072",
        "NCCL_CROSS_NIC": "2",
    }


@pytest.mark.parametrize("end", ["", "false\n", "return 3\n"])
def test_the_profile_of_tcpxo_sets_what_the_job_does_not(tmp_path: pathlib.Path, end: str) -> None:
    profile = tmp_path / "lib 64" / "profile.sh"
    profile.parent.mkdir()
    profile.write_text(
        "export FROM_PROFILE=$NCCL_LIB_DIR NCCL_FASTRAK_CTRL_DEV=eth0 OTHER=$UNSET_ONE\n" + end
    )
    text = script("tcpxo", "FROM_PROFILE", "NCCL_FASTRAK_CTRL_DEV", "NCCL_LIB_DIR")
    assert text.count(PROFILE) == 1
    found = shown(tmp_path, text.replace(PROFILE, f"'{profile}'"))
    assert found == {
        "FROM_PROFILE": str(profile.parent),
        "NCCL_FASTRAK_CTRL_DEV": "enp0s12",
        "NCCL_LIB_DIR": "",
    }


def test_without_the_profile_the_job_says_what_that_means(tmp_path: pathlib.Path) -> None:
    text = script("tcpxo", "NCCL_FASTRAK_CTRL_DEV").replace(PROFILE, str(tmp_path / "none"))
    (tmp_path / "run").write_text(SHOW)
    (tmp_path / "run").chmod(0o755)
    ended = run_script(tmp_path, text)
    assert ended.code == 0
    assert f"clusterjobs: no {tmp_path / 'none'}: NCCL will use TCP" in ended.log

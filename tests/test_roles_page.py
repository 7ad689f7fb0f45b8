"""docs/roles.md is true: its spec renders, and its tables name what there is."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable
from typing import Any

import pytest

from clusterjobs.launchers import LAUNCHERS
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.keys.steps import Role
from clusterjobs.spec.known_references import role_variables

PAGE = (pathlib.Path(__file__).parents[1] / "docs" / "roles.md").read_text(encoding="utf-8")


@pytest.fixture
def spec(folder: pathlib.Path) -> pathlib.Path:
    (text,) = re.findall(r"```yaml\n(name: .*?)```", PAGE, re.DOTALL)
    (folder / "exp.yaml").write_text(text)
    return folder / "exp.yaml"


def test_the_spec_of_the_page_is_planned_as_the_page_shows_it(
    spec: pathlib.Path, clusterjobs: Callable[..., Any]
) -> None:
    done = clusterjobs("plan", spec)
    assert (done.code, done.err) == (0, "")
    (shown,) = re.findall(r"```console\n(ranks: .*?)```", PAGE, re.DOTALL)
    assert shown in done.out


def test_vllm_and_trl_get_the_address_and_the_port(
    spec: pathlib.Path, clusterjobs: Callable[..., Any]
) -> None:
    assert clusterjobs("render", spec, "-o", "out").code == 0
    script = pathlib.Path("out/job.sh").read_text()
    assert "    --use_vllm\n    --vllm_mode server\n" in script
    assert '    --vllm_server_host "$CLUSTERJOBS_SERVER_ADDR"\n' in script
    server = script.partition("start_role server ")[2].partition("\n  wait_for_role")[0]
    assert "env VLLM_SERVER_DEV_MODE=1 vllm serve /fsx/models/Qwen2.5-7B" in server
    assert "--port=8000 --tensor-parallel-size=8" in server
    assert """'--weight-transfer-config={"backend": "nccl"}'""" in server


def test_all_keys_and_variables_are_on_the_page() -> None:
    assert re.findall(r"(?m)^\| `(\w+)` \| ", PAGE) == list(Role.model_fields)
    role = Role.model_validate({"command": "./serve", "port": 8000})
    assert set(re.findall(r"`(CLUSTERJOBS_\w+)`", PAGE)) == {*role_variables({"server": role})}


def test_the_launchers_that_are_refused_are_on_the_page() -> None:
    (row,) = re.findall(r"(?m)^\| launchers \| (.*)\|$", PAGE)
    refused = {one.name for one in LAUNCHERS.values() if not one.calls_srun}
    inside = {one.name for one in LAUNCHERS.values() if one.over_ssh and one.ssh_inside}
    assert set(re.findall(r"`(\w+)`", row)) == refused | inside


def test_the_reserved_names_are_on_the_page() -> None:
    (names,) = re.findall(r"digits and `_`; (.*?) are reserved", PAGE)
    for name in re.findall(r"`(\w+)`", names):
        data = {"name": "a", "cluster": "b", "framework": "command"}
        with pytest.raises(ValueError, match=f"{name} is reserved"):
            Experiment.model_validate({**data, "roles": {name: {"command": "./serve"}}})


def test_plan_json_has_the_training_and_its_role(
    spec: pathlib.Path, clusterjobs: Callable[..., Any]
) -> None:
    data = json.loads(clusterjobs("plan", spec, "--json").out)
    assert (data["nodes"], [one["nodes"] for one in data["roles"]]) == (2, [1])

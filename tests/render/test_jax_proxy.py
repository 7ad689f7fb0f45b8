"""A job of JAX keeps its own calls away from a proxy, if there is one."""

from __future__ import annotations

import pathlib

import pytest
from script_runs import run_script, script

SHOW = "import os; print('no_grpc_proxy is', os.environ.get('no_grpc_proxy'))"


@pytest.mark.parametrize(
    ("environment", "seen"),
    [
        ({"http_proxy": "http://proxy:3128"}, "node-1"),
        ({"grpc_proxy": "http://proxy:3128", "no_grpc_proxy": "other"}, "node-1"),
        ({"http_proxy": ""}, "None"),
        ({}, "None"),
    ],
)
def test_the_first_node_is_called_without_a_proxy(
    environment: dict[str, str], seen: str, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "show.py").write_text(SHOW)
    none = dict.fromkeys(("http_proxy", "https_proxy", "grpc_proxy", "no_grpc_proxy"))
    text = script(framework="jax", script="show.py")
    run = run_script(tmp_path, text, environment={**none, **environment})
    assert run.code == 0, run.log
    assert f"no_grpc_proxy is {seen}" in run.log


@pytest.mark.parametrize(("proxy", "seen"), [("http://proxy:3128", "node-1"), (None, "unset")])
def test_a_container_gets_it_only_if_there_is_a_proxy(
    proxy: str | None, seen: str, tmp_path: pathlib.Path
) -> None:
    show = 'echo "in the container it is ${APPTAINERENV_no_grpc_proxy-unset}"'
    container = {"runtime": "apptainer", "image": f"{tmp_path}/jax.sif"}
    for name in ("jax.sif", "t.py"):
        (tmp_path / name).touch()
    text = script(framework="jax", script="t.py", software={"container": container})
    none = dict.fromkeys(("https_proxy", "grpc_proxy", "no_grpc_proxy"))
    environment = {**none, "http_proxy": proxy}
    run = run_script(tmp_path, text, environment=environment, stand_ins={"apptainer": show})
    assert run.code == 0, run.log
    assert f"in the container it is {seen}" in run.log

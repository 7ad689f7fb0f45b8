"""`values.NAME.by_nodes`: a value that follows from the number of nodes, in any key."""

from __future__ import annotations

import pytest

from clusterjobs.frameworks import option_models
from clusterjobs.spec.load import load_spec

SPEC = """\
name: a
cluster: small
framework: torchrun
script: train.py
batch: {micro: 1, accumulation: "{{ values.steps }}"}
values:
  steps: {by_nodes: {1: 8, 2-7: 4, 8-: 1}}
  lr: {by_nodes: {1-3: 3e-4, 4-: "{{ values.steps }}e-5"}}
args: {lr: "{{ values.lr }}"}
logs: "/fsx/{{ values.steps }}"
"""


@pytest.mark.parametrize(
    ("nodes", "steps", "rate"),
    [(None, 8, "3e-4"), (2, 4, "3e-4"), (7, 4, "4e-5"), (8, 1, "1e-5"), (500, 1, "1e-5")],
)
def test_the_number_of_nodes_chooses_the_value(nodes, steps: int, rate: str) -> None:
    settings = [f"nodes={nodes}"] if nodes else []
    spec = load_spec(SPEC, "exp.yaml", option_models(), settings=settings).spec
    assert spec.batch is not None
    assert spec.batch.accumulation == steps
    assert spec.args == {"lr": rate}
    assert spec.logs.path == f"/fsx/{steps}"


ONLY_BETWEEN_NODES = """\
name: a
cluster: small
framework: command
command: [./run, "{{ values.option }}"]
values:
  interface: {by_nodes: {1: null, 2-: ens5}}
  option: {by_nodes: {1: null, 2-: --distributed}}
env: {NCCL_SOCKET_IFNAME: "{{ values.interface }}", NAME: "on-{{ values.interface }}"}
"""


@pytest.mark.parametrize(
    ("nodes", "env", "command"),
    [
        (1, {"NAME": "on-"}, ("./run",)),
        (2, {"NAME": "on-ens5", "NCCL_SOCKET_IFNAME": "ens5"}, ("./run", "--distributed")),
    ],
)
def test_a_null_leaves_out_what_has_it(
    nodes: int, env: dict[str, str], command: tuple[str, ...]
) -> None:
    settings = [f"nodes={nodes}"]
    spec = load_spec(ONLY_BETWEEN_NODES, "exp.yaml", option_models(), settings=settings).spec
    assert spec.env == env
    assert spec.command == command

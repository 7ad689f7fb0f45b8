"""Specs for the benchmarks: many different ones, and a large one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
TINY = ROOT / "examples/tiny-gpt.yaml"
SITE = ROOT / "examples/site.yaml"

_KINDS = (
    """\
name: tiny-{n}
cluster: small
nodes: {nodes}
ranks_per_node: 2
time_limit: 00:10:00
framework: deepspeed
workdir: runs/{n}
script: train.py
software: {{venv: .venv}}
batch: {{micro: {micro}, global: {global_}}}
zero: {{stage: 1}}
ds_config: {{gradient_clipping: 1.0}}
args:
  steps: {n}
  lr: 2e-3
  save-every: 50
  checkpoint-dir: "{{{{ checkpoints.path }}}}"
checkpoints: {{path: "/fsx/checkpoints/{{{{ name }}}}"}}
logs: "/fsx/logs/{{{{ name }}}}"
""",
    """\
name: pretrain-{n}
cluster: p4d-a100
nodes: {nodes}
time_limit: 2-00:00:00
framework: torchrun
script: /fsx/code/train {n}.py
args: {{data: [/fsx/a, /fsx/b], seed: {n}, bf16: true, note: "it's run {n}"}}
env: {{WANDB_PROJECT: "project {n}", DATA_ROOT: "${{FSX_ROOT}}/data"}}
secrets: [WANDB_API_KEY]
parameters: {{LR: 0.0003, SEED: {n}}}
before: [{{command: mkdir -p /fsx/out/{n}, per: job}}]
""",
    """\
name: sweep-{n}
cluster: p4d-a100
nodes: {nodes}
gpus_per_node: 4
framework: command
command: [./train, --config, "conf {n}.json"]
workdir: /fsx/sweep/{n}
sbatch: {{comment: "run {n}", mail-type: FAIL}}
setup: |
  ulimit -l unlimited
  export STARTED=1
""",
)


def different_specs(count: int, first: int = 0) -> Iterator[str]:
    """`count` specs of three kinds, no two equal."""
    for n in range(first, first + count):
        micro = 1 + n % 7
        nodes = 1 + n % 2
        global_ = micro * 4 * (1 + n % 5)
        yield _KINDS[n % 3].format(n=n, nodes=nodes, micro=micro, global_=global_)


def large_spec() -> str:
    """A spec of about 500 lines: far more than people write."""
    parts = ["name: large\ncluster: p4d-a100\nnodes: 4\nframework: torchrun\nscript: train.py\n"]
    parts.append("args:\n" + "".join(f"  option-{n}: value {n}\n" for n in range(250)))
    parts.append("env:\n" + "".join(f"  VARIABLE_{n}: 'it''s {n}'\n" for n in range(150)))
    parts.append("parameters:\n" + "".join(f"  PARAMETER_{n}: {n}\n" for n in range(50)))
    parts.append("before:\n" + "".join(f"  - mkdir -p /fsx/{n}\n" for n in range(50)))
    return "".join(parts)

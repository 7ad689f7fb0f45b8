"""Each figure and each pitfall of four published set-ups: what is rendered, checked or written.

1: GPT-NeoX on two nodes, in Docker. 2: GPT-2 with Megatron-DeepSpeed (its arguments, one by one,
are in test_figures.py). 3: BERT-large on p3dn. 4: Horovod on two machines with one GPU each.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import NamedTuple

import pytest

from clusterjobs.runs.load import load

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


class Row(NamedTuple):
    """A line of a report, and where it is: a file, and a text that stands in it.

    `where`: an example, whose rendered files have the text; a page of docs/; or an example with
    `: SETTING`, which then has the text in a warning or an error.
    """

    source: int
    line: str
    where: str
    text: str


_NEOX, _ONE, _EIGHT = "gpt-neox-2node-docker", "gpt2-345m-1gpu", "gpt2-345m"
_FOUR, _7B, _BERT = "gpt2-345m-4gpu", "gpt2-7b", "bert-large-p3dn"
_HOROVOD = "horovod-2node-docker"
ROWS = [
    Row(1, "two nodes of eight A100", "gpt-neox-2node-gcp", "#SBATCH --nodes=2"),
    Row(1, "of 40 GB each, a2-highgpu-8g", "gpt-neox-2node-gcp", "a2-highgpu-8g"),
    Row(1, "DeepSpeed starts the ranks over ssh", _NEOX, '"launcher": "pdsh"'),
    Row(1, "from a hostfile, slots=8", _NEOX, "slots=8"),
    Row(1, "in Docker, host network", _NEOX, "--network=host"),
    Row(1, "eight GPUs", _NEOX, "--gpus=all"),
    Row(1, "16 GB of shared memory", _NEOX, "--shm-size=16g"),
    Row(1, "unlimited locked memory", _NEOX, "--ulimit=memlock=-1:-1"),
    Row(1, "an sshd in the container", _NEOX, 'ssh_serve.py" "$ssh_dir"'),
    Row(1, "no key in an image", "docs/containers.md", "it is in no image"),
    Row(1, "several config files", _NEOX, "deepy.py train.py"),
    Row(1, "small.yml and local_setup.yml", _NEOX, "small.yml local_setup.yml"),
    Row(1, "index files on shared storage", "docs/frameworks/gpt-neox.md", "Index files are built"),
    Row(
        1,
        "a file server in another region",
        "docs/frameworks/gpt-neox.md",
        "The file server is in another zone or region than the nodes",
    ),
    Row(1, "checked by validate", "docs/parallelcluster.md", "in another zone than the nodes"),
    Row(1, "a placement group without machines", "docs/cluster-configs.md", "PlacementGroup` is a"),
    Row(1, "ask in advance", "docs/cluster-configs.md", "ask for a reservation in advance"),
    Row(1, "gVNIC and Fast Socket", "docs/fabrics.md", "Fast Socket"),
    Row(
        1,
        "twice as fast as one node",
        "docs/frameworks/gpt-neox.md",
        "two nodes were about twice as fast",
    ),
    Row(2, "one GPU, started without a launcher", _ONE, "megatron-deepspeed started by srun"),
    Row(2, "eight GPUs by torchrun", _EIGHT, "--nproc-per-node=8"),
    Row(2, "four GPUs by deepspeed", _FOUR, "exec deepspeed"),
    Row(2, "batch and accumulation in both places", _FOUR, '"train_batch_size": 32'),
    Row(2, "ZeRO 1", _7B, '"stage": 1'),
    Row(2, "the project of wandb", _FOUR, '"project": "megatron-deepspeed"'),
    Row(2, "each step is printed", _FOUR, '"steps_per_print": 1'),
    Row(2, "CUDA_LAUNCH_BLOCKING", "examples/gpt2-345m-4gpu.yaml", "CUDA_LAUNCH_BLOCKING: 1"),
    Row(
        2,
        "betas that Megatron ignores",
        f"{_FOUR}: ds_config.optimizer.params.betas=[0.9, 0.95]",
        "0.95 is not used",
    ),
    Row(
        2,
        "max_grad_norm in the optimizer",
        f"{_FOUR}: ds_config.optimizer.params.max_grad_norm=1.0",
        "is not a parameter of DeepSpeed's optimizers",
    ),
    Row(2, "nvcc and ninja", _ONE, "build # megatron-deepspeed compiles extensions"),
    Row(2, "the headers of another Python", _ONE, '"helpers=$PWD/megatron/data"'),
    Row(2, "apex with its compiled module", _ONE, "imports=torch,apex.multi_tensor_apply,amp_C"),
    Row(
        2,
        "--local_rank of torch 2",
        "docs/frameworks/megatron-deepspeed.md",
        "`--local_rank` is never passed",
    ),
    Row(3, "eight nodes, 64 ranks", _BERT, "--ntasks=64"),
    Row(3, "roberta_large", _BERT, "--arch roberta_large"),
    Row(3, "24 layers", _BERT, "--encoder-layers 24"),
    Row(3, "hidden 1024", _BERT, "--encoder-embed-dim 1024"),
    Row(3, "16 heads", _BERT, "--encoder-attention-heads 16"),
    Row(3, "FFN 4096", _BERT, "--encoder-ffn-embed-dim 4096"),
    Row(3, "sequences of 512", _BERT, "--tokens-per-sample 512"),
    Row(3, "buckets of 200 MB", _BERT, "--bucket-cap-mb 200"),
    Row(3, "head node c5n.18xlarge", _BERT, "c5n.18xlarge"),
    Row(3, "p3dn.24xlarge", _BERT, "InstanceType: p3dn.24xlarge"),
    Row(3, "a placement group", _BERT, "PlacementGroup:"),
    Row(3, "EFA", _BERT, "Efa:"),
    Row(3, "a custom image", _BERT, "CustomAmi"),
    Row(3, "Lustre", _BERT, "FsxLustre"),
    Row(3, "linked to S3", _BERT, "DataRepository"),
    Row(3, "data", _BERT, "/fsx/data/wikitext-bin"),
    Row(3, "checkpoints", _BERT, "/fsx/checkpoints/bert-large"),
    Row(3, "logs", _BERT, "/fsx/logs/bert-large"),
    Row(3, "EFA on each node", _BERT, "efa=1 # the EFA interfaces of a p3dn.24xlarge"),
    Row(
        3,
        "words per second grow with the GPUs",
        "docs/frameworks/fairseq.md",
        "twice the nodes should give nearly twice",
    ),
    Row(4, "two machines", _HOROVOD, "-np 2"),
    Row(4, "gloo over ssh, on a port of its own", _HOROVOD, "horovodrun --gloo"),
    Row(4, "the interface by name", _HOROVOD, '--network-interfaces "$interface"'),
    Row(4, "host network", _HOROVOD, "--network=host"),
    Row(4, "batch 128", _HOROVOD, "--batch-size 128"),
    Row(4, "12 epochs", _HOROVOD, "--epochs 12"),
    Row(4, "divided by size", "examples/horovod-2node.yaml", "divides the epochs by hvd.size()"),
    Row(
        4,
        "learning rate by size",
        "docs/frameworks/horovod.md",
        "multiplies its one-GPU rate by `hvd.size()`",
    ),
    Row(4, "state from rank 0", "docs/frameworks/horovod.md", "broadcast rank 0's weights"),
    Row(4, "checkpoints by rank 0", "docs/frameworks/horovod.md", "write checkpoints on rank 0"),
    Row(
        4,
        "interface names differ",
        "docs/frameworks/horovod.md",
        "Interface names differ between machines",
    ),
    Row(4, "a slow network", "horovod-2node", "all-reduce of"),
    Row(
        4,
        "three times slower",
        "docs/frameworks/horovod.md",
        "two machines were three times slower",
    ),
]


_rendered: dict[str, str] = {}


@pytest.fixture
def text_of(clusterjobs: Callable[..., object], tmp_path: pathlib.Path) -> Callable[[str], str]:
    """All that is rendered of an example, once for all rows."""

    def of(name: str) -> str:
        if name not in _rendered:
            outcome = clusterjobs("render", EXAMPLES / f"{name}.yaml", "-o", tmp_path)
            assert outcome.code == 0, outcome.err
            files = sorted(path for path in tmp_path.rglob("*") if path.is_file())
            _rendered[name] = "\n".join(path.read_text(encoding="utf-8") for path in files)
        return _rendered[name]

    return of


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.source}: {row.line}")
def test_a_line_of_a_report_is_rendered_checked_or_written(
    row: Row, text_of: Callable[[str], str]
) -> None:
    name, colon, setting = row.where.partition(": ")
    if colon:
        plan = load(EXAMPLES / f"{name}.yaml", (setting,)).plan
        found = "\n".join(one.what for one in plan.warnings)
    elif "/" in name:
        found = (ROOT / name).read_text(encoding="utf-8")
    else:
        found = text_of(name)
    assert row.text in found


def test_each_report_has_its_lines() -> None:
    assert {row.source for row in ROWS} == {1, 2, 3, 4}
    assert len({(row.source, row.line) for row in ROWS}) == len(ROWS) >= 60


def test_no_text_is_in_every_rendered_example(text_of: Callable[[str], str]) -> None:
    """Such a row could not fail."""
    rendered = {row.where for row in ROWS if "/" not in row.where and ": " not in row.where}
    texts = [text_of(name) for name in sorted(rendered)]
    assert [row for row in ROWS if all(row.text in text for text in texts)] == []

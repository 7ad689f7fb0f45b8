"""The examples have the figures of the systems that they stand for, and each is valid."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable

import pytest

from clusterjobs.runs.load import load
from clusterjobs.text import show

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.yaml") if path.name != "site.yaml")

# Words of the command line, as they stand in job.sh.
WORDS = {
    "bert-large-p3dn": (
        *("--nodes=8", "--ntasks=64", "--arch roberta_large", "--bucket-cap-mb 200"),
        *("--encoder-layers 24", "--encoder-embed-dim 1024", "--encoder-ffn-embed-dim 4096"),
        *("--encoder-attention-heads 16", "--tokens-per-sample 512", "--update-freq 8"),
        *("--distributed-world-size 64", "--fp16", "--memory-efficient-fp16"),
        *("--save-dir /fsx/checkpoints/bert-large", "/fsx/data/wikitext-bin", "  preflight"),
    ),
    "horovod-2node": ("#SBATCH --nodes=2", "horovodrun --gloo", "-np 2", "--batch-size 128"),
    "gpt-neox-20b": ("#SBATCH --nodes=12", "deepy.py train.py"),
    "gpt-neox-2node": (
        *("#SBATCH --nodes=2", "deepy.py train.py", "small.yml local_setup.yml", "  preflight"),
    ),
    "gpt-neox-2node-docker": (
        *("#SBATCH --nodes=2", "--network=host", "--gpus=all", "--shm-size=16g"),
        *("--ulimit=memlock=-1:-1", "my.registry:5000/gpt-neox:2.0", '"launcher": "pdsh"'),
        *("deepy.py train.py", "small.yml local_setup.yml", "  preflight"),
    ),
    "horovod-2node-docker": (
        *("horovodrun --gloo", "-np 2", "--network=host", "my.registry:5000/horovod:0.28.1"),
        *('--network-interfaces "$interface"', "--batch-size 128"),
    ),
    "gpt3-175b-p5": (
        *("#SBATCH --nodes=64", "--tensor-model-parallel-size 8", "--num-layers 96"),
        *("--pipeline-model-parallel-size 16", "--hidden-size 12288", "--bf16"),
    ),
    "mixtral-8x7b": (
        *("#SBATCH --nodes=8", "--num-layers 32", "--num-experts 8", "--moe-router-topk 2"),
        *("--pipeline-model-parallel-size 4", "--num-virtual-stages-per-pipeline-rank 8"),
        *("--expert-model-parallel-size 8", "--global-batch-size 256", "--nproc-per-node=8"),
    ),
    "sft-llama-8b": (
        *("#SBATCH --nodes=2", "--nproc-per-node=8", "sft.py", "--bf16 True", "ds_config.json"),
        *("--per_device_train_batch_size 4", "--gradient_accumulation_steps 2"),
        *("--output_dir /fsx/checkpoints/sft-llama-8b", "command+=(--resume_from_checkpoint"),
    ),
    "gpt-neox-2node-gcp": (
        *("#SBATCH --nodes=2", "#SBATCH --gpus-per-node=8", "#SBATCH --partition=a2"),
        *("--shm-size=16g", "train.py"),
    ),
    "tiny-gpt-sweep": ("#SBATCH --array=0-5%2", '--lr "$lr"', "4e-3  4 ", "1e-3  8 "),
}
CONFIGS = {  # train_batch_size, micro batch, accumulation
    "gpt2-345m-4gpu": (32, 8, 1),
    "gpt2-7b": (16, 4, 1),
    "gpt3-175b-p5": (1536, 1, 384),
}
# Published runs of Megatron-DeepSpeed, argument by argument, beside the example of each.
_SAME: dict[str, object] = {
    "train-iters": 500000,
    "lr-decay-iters": 320000,
    "save-interval": 10000,
    "lr": 1.5e-4,
    "min-lr": 1e-5,
    "lr-decay-style": "cosine",
    "weight-decay": 1e-2,
    "clip-grad": 1.0,
    "fp16": "",
    "split": "949,50,1",
    "data-impl": "mmap",
    "log-interval": 100,
    "eval-iters": 10,
    "checkpoint-activations": "",
}
_345M: dict[str, object] = {
    **_SAME,
    "num-layers": 24,
    "hidden-size": 1024,
    "num-attention-heads": 16,
    "seq-length": 1024,
    "max-position-embeddings": 1024,
}
_PLAIN = {"eval-interval": 1000, "lr-warmup-fraction": 0.01, "distributed-backend": "nccl"}
_DEEPSPEED: dict[str, object] = {
    "eval-interval": 100,
    "lr-warmup-iters": 32000,
    "zero-stage": 1,
    "seed": 1234,
    "deepspeed": "",
    "deepspeed-activation-checkpointing": "",
    "no-masked-softmax-fusion": "",
    "override-opt_param-scheduler": "",  # --override-lr-scheduler in the version of the run
}
SOURCES: dict[str, dict[str, object]] = {
    "gpt2-345m-1gpu": {
        **_345M,
        **_PLAIN,
        "micro-batch-size": 4,
        "global-batch-size": 8,
    },
    "gpt2-345m": {**_345M, **_PLAIN, "micro-batch-size": 8, "global-batch-size": 64},
    "gpt2-345m-4gpu": {**_345M, **_DEEPSPEED, "micro-batch-size": 8, "global-batch-size": 32},
    "gpt2-7b": {
        **_SAME,
        **_DEEPSPEED,
        "num-layers": 32,
        "hidden-size": 4096,
        "num-attention-heads": 32,
        "seq-length": 2024,
        "max-position-embeddings": 2024,
        "micro-batch-size": 4,
        "global-batch-size": 16,
    },
}
# What an example has beside its source: the files, and the defaults that clusterjobs writes out.
BESIDE = {
    *("data-path", "vocab-file", "merge-file", "tokenizer-type", "save", "load"),
    *("tensor-model-parallel-size", "pipeline-model-parallel-size", "no-pipeline-parallel"),
    *("checkpoint-num-layers", "deepspeed_config"),
}
STARTED_BY = {
    "gpt2-345m-1gpu": ("srun", 1),
    "gpt2-345m": ("torchrun", 8),
    "gpt2-345m-4gpu": ("deepspeed", 4),
    "gpt2-7b": ("deepspeed", 4),
}


@pytest.mark.parametrize("name", SOURCES)
def test_an_example_has_every_argument_of_its_source_and_no_other(name: str) -> None:
    plan = load(EXAMPLES / f"{name}.yaml", ()).plan
    words = [show(word) for word in plan.launch.words]
    given: dict[str, object] = {}
    for position, word in enumerate(words):
        if word.startswith("--"):
            following = words[position + 1 : position + 2]
            is_value = bool(following) and not following[0].startswith("--")
            given[word[2:]] = following[0] if is_value else ""
    source = SOURCES[name]
    found = {
        flag: type(source[flag])(value)  # 1.5e-4 is 0.00015
        for flag, value in given.items()
        if flag in source
    }
    assert found == source
    assert given.keys() - source.keys() - BESIDE == set()
    started = plan.launch.launcher.name, plan.placement.shape.world_size
    assert started == STARTED_BY[name]
    configs = [file.name for file in plan.files.configs]
    assert configs == (["ds_config.json"] if "deepspeed" in source else [])


def test_betas_of_ds_config_alone_are_taken_with_a_warning_that_says_which_count() -> None:
    settings = ("ds_config.optimizer.params.betas=[0.9, 0.95]",)
    plan = load(EXAMPLES / "gpt2-345m-4gpu.yaml", settings).plan
    (problem,) = [one for one in plan.warnings if one.path.startswith("ds_config")]
    assert problem.warning
    assert problem.what == (
        "0.95 is not used: Megatron makes the optimizer, with adam-beta2 0.999, Megatron's default"
    )
    config = next(file for file in plan.files.configs if file.name == "ds_config.json")
    assert json.loads(show(config.text))["optimizer"]["params"]["betas"] == [0.9, 0.95]


@pytest.fixture
def rendered(
    clusterjobs: Callable[..., object], tmp_path: pathlib.Path
) -> Callable[[str], pathlib.Path]:
    def render(name: str) -> pathlib.Path:
        outcome = clusterjobs("render", EXAMPLES / f"{name}.yaml", "-o", tmp_path / name)
        assert outcome.code == 0, outcome.err
        return tmp_path / name

    return render


@pytest.mark.parametrize("name", WORDS)
def test_an_example_has_the_figures_of_its_source(
    name: str, rendered: Callable[[str], pathlib.Path]
) -> None:
    script = (rendered(name) / "job.sh").read_text(encoding="utf-8")
    assert [words for words in WORDS[name] if words not in script] == []


@pytest.mark.parametrize("name", CONFIGS)
def test_both_places_of_a_batch_agree(name: str, rendered: Callable[[str], pathlib.Path]) -> None:
    config = json.loads((rendered(name) / "ds_config.json").read_text(encoding="utf-8"))
    keys = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    assert tuple(config[key] for key in keys) == CONFIGS[name]
    assert config["zero_optimization"] == {"stage": 1}
    assert config["gradient_clipping"] == 1.0
    if name.startswith("gpt2"):
        assert config["fp16"] == {"enabled": True}
        assert config["wandb"] == {"enabled": True, "project": "megatron-deepspeed"}
        assert config["optimizer"]["params"]["betas"] == [0.9, 0.999]  # as Megatron trains


@pytest.mark.aws
@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_valid(name: str, clusterjobs: Callable[..., object]) -> None:
    pytest.importorskip("pcluster", reason="needs the extra 'aws'")
    outcome = clusterjobs("validate", EXAMPLES / f"{name}.yaml")
    assert outcome.code == 0, outcome.out + outcome.err


def test_every_example_is_looked_at() -> None:
    assert sorted({*WORDS, *SOURCES, "tiny-gpt"}) == NAMES

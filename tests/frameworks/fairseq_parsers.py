"""fairseq's own parsers, run where fairseq is installed: command lines in, settings out.

Reads a list of command lines (JSON) from stdin and writes a list of answers: what fairseq would
train with, or why it would not start. A hydra command line is answered by hydra's own `--cfg job`.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from typing import Any

from fairseq import options
from fairseq.dataclass.initialize import hydra_init
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq_cli.hydra_train import hydra_main
from hydra._internal.utils import get_args
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf

SETTINGS = (
    *("common.fp16", "common.bf16", "common.amp", "common.tpu", "common.cpu"),
    *("dataset.batch_size", "dataset.max_tokens", "dataset.required_batch_size_multiple"),
    *("optimization.update_freq", "optimization.lr", "optimization.max_update"),
    *("distributed_training.distributed_world_size", "checkpoint.save_dir", "task.data"),
    *("task.tokens_per_sample", "task._name", "model._name"),
)
MODEL = (
    *("encoder_layers", "encoder_embed_dim", "encoder_attention_heads", "encoder_ffn_embed_dim"),
    *("decoder_layers", "decoder_embed_dim", "decoder_attention_heads", "decoder_ffn_embed_dim"),
    "max_positions",
)


def train_config(arguments: list[str]) -> DictConfig:
    """The settings of fairseq-train; SystemExit where argparse refuses."""
    sys.argv = ["fairseq-train", *arguments]
    parsed = options.parse_args_and_arch(options.get_training_parser(), arguments)
    config = convert_namespace_to_omegaconf(parsed)
    model = {"_name": parsed.arch, **{name: getattr(parsed, name, None) for name in MODEL}}
    return OmegaConf.create({**OmegaConf.to_container(config), "model": model})


def hydra_config(arguments: list[str]) -> DictConfig:
    """The settings of fairseq-hydra-train, composed by hydra itself."""
    GlobalHydra.instance().clear()
    sys.argv = ["fairseq-hydra-train", *arguments, "--cfg", "job"]
    hydra_init(get_args().config_name or "config")
    os.environ["HYDRA_FULL_ERROR"] = "1"  # else hydra prints the error and exits
    with contextlib.redirect_stdout(io.StringIO()) as text:
        hydra_main()
    return OmegaConf.create(text.getvalue())


def answer(command: list[str]) -> dict[str, Any]:
    """The settings of one command line, or `error`."""
    program, *arguments = command
    read = hydra_config if program == "fairseq-hydra-train" else train_config
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            config = read(arguments)
    except (Exception, SystemExit) as error:
        said = errors.getvalue().strip().splitlines()
        return {"error": said[-1] if said and isinstance(error, SystemExit) else str(error)}
    names = (*SETTINGS, *(f"model.{name}" for name in MODEL))
    return {name: _plain(OmegaConf.select(config, name)) for name in names}


def _plain(value: Any) -> Any:
    return OmegaConf.to_container(value) if OmegaConf.is_config(value) else value


if __name__ == "__main__":
    commands = json.load(sys.stdin)
    answers = [answer(command) for command in commands]
    sys.stdout.write(json.dumps(answers, default=str) + "\n")

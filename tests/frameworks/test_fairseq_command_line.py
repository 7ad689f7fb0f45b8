"""fairseq's settings in the words of its two command lines."""

from __future__ import annotations

import pytest

from clusterjobs.frameworks.fairseq.settings import (
    Setting,
    _quoted,
    argument_keys,
    flag_of,
    half_of,
    override_of,
)
from clusterjobs.spec.experiment import Experiment

NODES = ("nodes",)


@pytest.mark.parametrize(
    ("setting", "flag", "override"),
    [
        (Setting("dataset", "batch_size", "8", NODES), "--batch-size", "dataset.batch_size=8"),
        (
            Setting("optimization", "update_freq", "4", NODES, is_list=True),
            "--update-freq",
            "optimization.update_freq=[4]",
        ),
        (Setting("common", "fp16", True, NODES), "--fp16", "common.fp16=true"),
        (Setting("task", "_name", "masked_lm", NODES), "--task", "task=masked_lm"),
        (Setting("model", "_name", "roberta", NODES), "--arch", "++model._name=roberta"),
        (
            Setting("model", "encoder_layers", "2", NODES),
            "--encoder-layers",
            "++model.encoder_layers=2",
        ),
        (
            Setting("checkpoint", "save_dir", "/a b", NODES),
            "--save-dir",
            "checkpoint.save_dir='/a b'",
        ),
    ],
)
def test_a_setting_has_a_flag_and_an_override(setting: Setting, flag: str, override: str) -> None:
    assert flag_of(setting) == flag
    assert override_of(setting) == override


@pytest.mark.parametrize("group", ["task", "criterion"])
def test_a_name_that_a_config_file_may_have_is_a_key_of_its_group(group: str) -> None:
    """`task=masked_lm` is refused by hydra where a config has no list of defaults."""
    setting = Setting(group, "_name", "masked_lm", NODES)
    assert override_of(setting, in_config=True) == f"++{group}._name=masked_lm"
    tokens = Setting("task", "tokens_per_sample", "512", NODES)
    assert override_of(tokens, in_config=True) == "++task.tokens_per_sample=512"
    assert override_of(tokens) == "task.tokens_per_sample=512"


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("/fsx/data-1.bin", "/fsx/data-1.bin"),
        ("a b", "'a b'"),
        ("it's", '"it\'s"'),
        ("both ' and \"", "'both \\' and \"'"),
        ("end\\", "'end\\\\'"),
        ("[1,2]", "'[1,2]'"),
    ],
)
def test_text_is_quoted_in_hydras_grammar(text: str, quoted: str) -> None:
    assert _quoted(text) == quoted


@pytest.mark.parametrize(
    "word",
    [
        "--update-freq",
        "--update-freq=4",
        "optimization.update_freq=[4]",
        "++optimization.update_freq=[4]",
        "~optimization.update_freq=",
    ],
)
def test_one_setting_is_known_in_all_its_spellings(word: str) -> None:
    spec = Experiment(name="a", cluster="small", framework="fairseq", args=(word,))
    assert [key for _, _, key in argument_keys(spec)] == ["update_freq"]


def test_a_groups_name_is_known_by_the_group() -> None:
    args = ("model._name=roberta", "task=masked_lm", "optimizer@x=adam")
    spec = Experiment(name="a", cluster="small", framework="fairseq", args=args)
    assert [key for _, _, key in argument_keys(spec)] == ["arch", "task", "optimizer"]


@pytest.mark.parametrize(
    ("arch", "half"),
    [("roberta_large", "encoder"), ("transformer_lm_gpt", "decoder"), ("wav2vec2", None)],
)
def test_the_half_of_a_transformer_follows_from_the_architecture(
    arch: str, half: str | None
) -> None:
    assert half_of(arch) == half

"""The log lines that frameworks declare are found in real lines, with their numbers."""

from __future__ import annotations

import re

import pytest

from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.frameworks.base import LogLine

DECLARED = [(name, line) for name, one in FRAMEWORKS.items() for line in one.log_lines]
NUMBERS = {
    "composer": {"step": "20", "steps": "1000"},
    "deepspeed": {"step": "5", "samples_per_second": "390.12"},
    "fairseq": {"step": "6", "words_per_second": "1551.4", "loss": "7.687", "epoch": "001"},
    "gpt-neox": {"step": "10", "samples_per_second": "51.234", "tflops_per_gpu": "112.3"},
    "horovod": {"step": "3", "samples_per_second": "1642.4"},
    "megatron-deepspeed": {"step": "2", "samples_per_second": "50.451", "milliseconds": "79.3"},
    "megatron-lm": {"step": "50", "tflops_per_gpu": "412.6", "loss": "6.681113E+00"},
    "torchtitan": {"step": "10", "tokens_per_second_per_gpu": "6,123", "loss": "7.12345"},
}


@pytest.mark.parametrize(("name", "line"), DECLARED, ids=[name for name, _ in DECLARED])
def test_a_declared_pattern_finds_its_numbers_in_the_sample(name: str, line: LogLine) -> None:
    found = re.search(line.pattern, line.sample)
    assert found, line.sample
    numbers = found.groupdict()
    assert {key: numbers[key] for key in NUMBERS[name]} == NUMBERS[name]
    assert all(numbers.values()), "a field that even the sample does not have"
    assert line.source


@pytest.mark.parametrize(("name", "line"), DECLARED, ids=[name for name, _ in DECLARED])
def test_a_declared_pattern_finds_nothing_in_other_lines(name: str, line: LogLine) -> None:
    others = [one.sample for other, one in DECLARED if other != name]
    assert not [text for text in others if re.search(line.pattern, text)]


def test_torchtitans_lines_without_colours_are_found_and_those_of_validation_are_not() -> None:
    (line,) = FRAMEWORKS["torchtitan"].log_lines
    plain = re.sub(r"\x1b\[[\d;]*m", "", line.sample)
    found = re.search(line.pattern, plain)
    assert found
    assert (found["step"], found["tflops_per_gpu"]) == ("10", "312.45")
    validation = "validate step: 20  loss:  7.1234  memory: 42.10GiB(53.20%)  tps: 6,123"
    assert not re.search(line.pattern, validation)


def test_hydras_lines_of_fairseq_are_found_too() -> None:
    (line,) = FRAMEWORKS["fairseq"].log_lines
    text = (
        "[2026-11-21 06:50:09,338][train_inner][INFO] - epoch 001:      2 / 9 loss=7.712, "
        "ppl=209.6, wps=10614.6, ups=10.8, wpb=1002.5, bsz=16, num_updates=2, lr=0.001"
    )
    found = re.search(line.pattern, text)
    assert found
    assert found["steps_per_second"] == "10.8"

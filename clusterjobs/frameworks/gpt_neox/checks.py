"""What GPT-NeoX refuses or misunderstands in its merged config: names, types and rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks.flags import mapping_findings, table
from clusterjobs.frameworks.gpt_neox.config import Config, report
from clusterjobs.frameworks.gpt_neox.model_rules import MODEL_RULES
from clusterjobs.frameworks.gpt_neox.training_rules import TRAINING_RULES
from clusterjobs.frameworks.rules import Finding, findings_of


def check_config(config: Config, diagnostics: Diagnostics) -> None:
    """Check all keys that are known, by the rules first: they say more."""
    for finding in findings_of((*TRAINING_RULES, *MODEL_RULES), config):
        report(finding, config, diagnostics)
    for finding in _names_and_types(config):
        report(finding, config, diagnostics)


def _names_and_types(config: Config) -> Iterator[Finding]:
    """Unknown keys may be a fork's, and choices may be a newer version's: warnings."""
    known = table("gpt-neox")
    is_tuned = config.value("autotuning") is not None
    given = {
        key: one.value
        for key, one in config.keys.items()
        if one.value is not None and not (is_tuned and one.value == "auto")
    }
    for finding in mapping_findings(given, known._replace(refuses_unknown=True)):
        kind = known.types.get(str(finding.path[0]))
        is_choice = isinstance(kind, list)
        if is_choice and str(given[str(finding.path[0])]).lower() in map(str.lower, kind or ()):
            continue  # it compares without regard to capitals
        yield finding._replace(warning=kind is None or is_choice)
    yield from _sections(given)


_SECTIONS = ("zero_optimization", "bf16", "activation_checkpointing", "flops_profiler", "fp16")
_DEEPERSPEED = (("fp16", "fp16"), ("fp16", "type"))  # another rule is about them


def _sections(given: Mapping[str, Any]) -> Iterator[Finding]:
    """Keys in the mappings that GPT-NeoX hands to DeepSpeed."""
    sections = {key: given[key] for key in _SECTIONS if isinstance(given.get(key), dict)}
    for finding in mapping_findings(sections, table("deepspeed")):
        if finding.path not in _DEEPERSPEED:
            yield finding

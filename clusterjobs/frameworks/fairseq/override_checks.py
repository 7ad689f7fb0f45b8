"""The overrides of fairseq-hydra-train compared with the keys of fairseq's config.

hydra refuses a key that the config lacks, and a value of another type. Source: fairseq 0.12, its
dataclasses; hydra 1.3.
"""

from __future__ import annotations

from collections.abc import Iterator

from clusterjobs.frameworks.arguments import Argument
from clusterjobs.frameworks.fairseq.given import Given
from clusterjobs.frameworks.flags import table, text_fits
from clusterjobs.frameworks.rules import Finding
from clusterjobs.spec.references import has_variable

_NOT_COMPARED = ("-", "hydra.", "model.", "+", "~")  # hydra's own; keys that are added or removed
_WISHES = {"integer": "an integer", "number": "a number", "boolean": "true or false"}
_EXAMPLES = {"integer": "1000", "number": "0.1", "boolean": "true"}


def override_findings(given: Given) -> Iterator[Finding]:
    """Overrides that fairseq's own config does not take."""
    known = table("fairseq-hydra-train").types
    for argument in given.arguments.values():
        name = argument.name
        if name.startswith(_NOT_COMPARED) or "@" in name or name == "model":
            continue
        if name not in known:
            yield from _unknown(argument)
        elif isinstance(known[name], str) and not _fits(str(known[name]), argument):
            kind = str(known[name])
            what = f"{name}: {' '.join(argument.values)}, but fairseq expects {_WISHES[kind]}"
            yield Finding(argument.path, what, f"write for example {_EXAMPLES[kind]}")


def _unknown(argument: Argument) -> Iterator[Finding]:
    """A key that looks like one of fairseq's, or that lacks its group."""
    known = table("fairseq-hydra-train")
    name = argument.name.replace("-", "_")
    whole = [key for key in known.types if key.endswith(f".{name}")]
    whole.sort(key=lambda key: not key.startswith("optimization."))  # has the usual lr, max_update
    near = whole[0] if whole else known.nearest(argument.name)
    if near:
        what = f"fairseq-hydra-train has no key {argument.name}"
        yield Finding(argument.path, what, f"did you mean {near}?", warning=True)


def _fits(kind: str, argument: Argument) -> bool:
    text = argument.values[0] if argument.values else ""
    if kind not in _WISHES or text == "null" or "${" in text or has_variable(text):
        return True
    if kind == "boolean":
        return text.lower() in ("true", "false", "yes", "no", "on", "off", "1", "0")
    return text_fits(kind, text)

"""GPT-NeoX's merged config: the keys of the user's files, of `neox` and of the spec."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.errors import InputError, Location, Problem
from clusterjobs.frameworks.ds_config import leaves
from clusterjobs.frameworks.rules import Finding
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.keys.model import Batch, Model, Parallel
from clusterjobs.text import show
from clusterjobs.yaml import document as yaml_document
from clusterjobs.yaml.document import Document, Path, dotted


class Given(NamedTuple):
    """The value of a key.

    `where` is the key's position, `path` its place in the spec, and `document` the file that it is
    in, if it is one of the user's.
    """

    value: Any
    where: Location
    path: Path
    document: Document | None = None


Givens = Mapping[str, Given]


class Config(NamedTuple):
    """All keys that are known. `is_complete`: every file has been read.

    `pins`: versions of packages that the spec requires. `has_training`: the spec's key `training`
    says how long the training is.
    """

    keys: Givens
    is_complete: bool
    pins: Mapping[str, str]
    has_training: bool = False

    def value(self, *names: str) -> Any:
        """The value of a key, or of a key in a mapping; None if there is none."""
        first, *rest = names
        found = self.keys[first].value if first in self.keys else None
        for name in rest:
            found = found.get(name) if isinstance(found, dict) else None
        return found

    def has(self, name: str) -> bool:
        """Whether a key has a value; `is_complete` and `has_training` are of the config itself."""
        if name in ("is_complete", "has_training"):
            return bool(getattr(self, name))
        return self.shown(name) is not None

    def shown(self, name: str) -> Any:
        """The value of a key: `optimizer.params.lr`."""
        return self.value(*name.split("."))

    def text(self, name: str) -> str | None:
        """The value as text."""
        return str(self.shown(name)) if self.has(name) else None

    def path(self, name: str) -> Path:
        """The key's place in the merged config."""
        return tuple(name.split("."))

    def as_written(self, name: str) -> str:
        """The key itself."""
        return name

    def number(self, name: str) -> float | None:
        """The value of a key, if it is a number."""
        found = self.shown(name)
        is_number = isinstance(found, (int, float)) and not isinstance(found, bool)
        return found if is_number else None

    def section(self, name: str) -> Mapping[str, Any]:
        """A mapping; empty where the key is missing or no mapping."""
        found = self.value(name)
        return found if isinstance(found, dict) else {}

    def lacks(self, name: str) -> bool:
        """Whether no file and no key of the spec has it, as far as all files have been read."""
        return self.is_complete and self.value(name) is None

    @property
    def precision(self) -> str | None:
        """fp16, bfloat16 or fp32, as GPT-NeoX derives it; None: neither key says it."""
        if self.value("precision") is not None:
            return str(self.value("precision")).lower()
        enabled = {"fp16": "fp16", "bf16": "bfloat16"}
        found = [name for key, name in enabled.items() if self.value(key, "enabled") is True]
        return found[0] if found else None


def report(finding: Finding, config: Config, diagnostics: Diagnostics) -> None:
    """Report a finding where its key is written, or at `configs` where it is missing."""
    given = config.keys.get(str(finding.path[0])) if finding.path else None
    if given is None:
        key = dotted(finding.path) or "configs"
        where = diagnostics.where(("configs",))
        diagnostics.add([Problem(finding.what, where, key, finding.hint, finding.warning)])
    elif given.document is None:
        path = (*given.path, *finding.path[1:])
        diagnostics.problem(path, finding.what, finding.hint, warning=finding.warning)
    else:
        where = _locate(given, finding.path[1:])
        key = dotted(finding.path)
        diagnostics.add([Problem(finding.what, where, key, finding.hint, finding.warning)])


def _locate(given: Given, path: Path) -> Location:
    """The position of a value in a file; of the key, where it is the key's own value."""
    assert given.document is not None
    return given.document.locate((*given.path, *path)) if path else given.where


def written_values(config: Config) -> Iterator[tuple[Path, Any]]:
    """The single values of the user's files, each with its path."""
    for name, given in config.keys.items():
        if given.document is not None:
            yield from leaves(given.value, (name,))


# ------------------------------------------------------------------ config loading
# GPT-NeoX's own YAML files, merged and checked as deepy.py does on the cluster.
# Source: GPT-NeoX 2.0, megatron/neox_arguments/arguments.py (from_ymls, calculate_derived).


def composed(texts: Mapping[str, str]) -> tuple[dict[str, Given], list[Problem]]:
    """All keys of the files, dashes as underscores; files and keys that deepy.py refuses."""
    found: dict[str, Given] = {}
    problems: list[Problem] = []
    for file, text in texts.items():
        for key, given in _keys(file, text, problems):
            if key in found:
                problems.append(_duplicate(key, given, found[key]))
            found.setdefault(key, given)
    return found, problems


def _keys(file: str, text: str, problems: list[Problem]) -> Iterator[tuple[str, Given]]:
    try:
        document = yaml_document.load(text, file, "1.1")
    except InputError as error:
        problems += error.problems
        return
    if not isinstance(document.value, dict):
        what = "a config of GPT-NeoX is a map of keys"
        problems.append(Problem(what, Location(file, 1, 1), hint="write `key: value` lines"))
        return
    for key, value in document.value.items():
        name = str(key).replace("-", "_")
        yield name, Given(value, document.locate_key((key,)), (key,), document)


def _duplicate(key: str, given: Given, first: Given) -> Problem:
    """deepy.py stops at the second, or silently uses it if only one is written with dashes."""
    there = first.where.line_in_file
    what = f"{key} is already in {there}: deepy.py refuses a key that is in two files"
    return Problem(what, given.where, key, "remove one of the two")


def refuse_keys(
    given: Givens, origins: Mapping[str, str], hint: str, diagnostics: Diagnostics
) -> None:
    """Refuse keys in the files: {key: where its value comes from}."""
    for key in given:
        if key in origins:
            what = f"{key} comes from {origins[key]}"
            diagnostics.problems.append(Problem(what, given[key].where, key, hint))


# ------------------------------------------------------------------ the plan's numbers

_MODEL = {
    "layers": "num_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "sequence": "seq_length",
}
_BATCH = {
    "micro": "train_micro_batch_size_per_gpu",
    "global": "train_batch_size",
    "accumulation": "gradient_accumulation_steps",
}
_PARALLEL = {"tensor": "model_parallel_size", "pipeline": "pipe_parallel_size"}


def with_their_numbers(
    spec: Experiment, given: Givens, is_complete: bool, diagnostics: Diagnostics
) -> Experiment:
    """The spec, with model, parallel and batch of the files where the spec has none.

    `is_complete`: all files have been read.
    """
    update: dict[str, Any] = {}
    if spec.precision is None and (precision := Config(given, is_complete, {}).precision):
        key = next(key for key in ("precision", "fp16", "bf16") if key in given)
        diagnostics.relocate(("precision",), given[key].where)
        update["precision"] = {"bfloat16": "bf16"}.get(precision, precision)
    if spec.model is None:
        model = _counts("model", _MODEL, given, diagnostics)
        update["model"] = Model.model_validate(model) if len(model) == len(_MODEL) else None
    if spec.batch is None:
        batch = _counts("batch", _BATCH, given, diagnostics)
        has_size = batch.keys() & {"micro", "global"}
        if is_complete and batch.keys() == {"micro", "global"}:
            diagnostics.relocate(("batch", "accumulation"), given["train_batch_size"].where)
            batch["accumulation"] = 1  # GPT-NeoX's default
        update["batch"] = Batch.model_validate(batch) if has_size else None
    if "parallel" not in spec.model_fields_set:
        update["parallel"] = Parallel.model_validate(
            _counts("parallel", _PARALLEL, given, diagnostics)
        )
    return spec.model_copy(update=update)


def has_batch(given: Givens) -> bool:
    """Whether the files have a batch size, right or wrong."""
    return bool(given.keys() & set(_BATCH.values()))


def _counts(
    part: str, keys: Mapping[str, str], given: Givens, diagnostics: Diagnostics
) -> dict[str, int]:
    """The integers among them; GPT-NeoX uses 0 to switch a parallel size off."""
    found: dict[str, int] = {}
    for name, key in keys.items():
        if key in given:
            diagnostics.relocate((part, name), given[key].where)
            diagnostics.relocate((part,), given[key].where)
        value = given[key].value if key in given else None
        if value is None or value == "auto" or (value == 0 and keys is _PARALLEL):
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            what, where = f"{value!r} is not a count", given[key].where
            diagnostics.problems.append(Problem(what, where, key, "expected an integer, 1 or more"))
        else:
            found[name] = int(value)
    return found


# ------------------------------------------------------------------ the launch file

_BARE_EXPONENT = re.compile(r'^(\s*(?:"(?:[^"\\]|\\.)*": )?-?\d+)(e[-+]\d+,?)$', re.MULTILINE)


def yaml_text(config: Mapping[str, Any]) -> str:
    """JSON that YAML 1.1 reads the same way: 1e-05 would be text, 1.0e-05 is a number."""
    # Of values with references, check_json reports a problem.
    text = json.dumps(config, indent=2, ensure_ascii=False, default=show)
    return _BARE_EXPONENT.sub(r"\1.0\2", text) + "\n"

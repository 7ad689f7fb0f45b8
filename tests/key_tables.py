"""The tables of keys in docs/, made from what is known of each key.

A page has a place for each table, `<!-- keys: NAMES -->` to `<!-- end of keys -->`. A name is a
module of spec/keys/ (`job`), `frameworks`, or a key with `.*` for the keys below it (`data.*`).
"""

from __future__ import annotations

import importlib
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pydantic.fields import FieldInfo

from clusterjobs.frameworks import option_models
from clusterjobs.launchers.base import LauncherOptions
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.keys.job import EXTENDS
from clusterjobs.spec.model import Key, SpecModel, known_keys, models_in

DOCS = pathlib.Path(__file__).parents[1] / "docs"
TABLE = re.compile(r"<!-- keys: ([\w.* ]+) -->\n(.*?)<!-- end of keys -->", re.DOTALL)
TABLES = {
    name: page for page in DOCS.rglob("*.md") for name, _ in TABLE.findall(page.read_text("utf-8"))
}


class Row(NamedTuple):
    """A key in a table. `of`: the frameworks or launchers that have it."""

    path: str
    key: Key
    default: str
    of: tuple[str, ...] = ()

    def text(self, page: pathlib.Path) -> str:
        """The line of the table; links are relative to the page."""
        meaning = self.key.doc + (f" ({self.key.unit})" if self.key.unit else "")
        if self.of:
            meaning += f" ({', '.join(self.of)})"
        if target := self.key.see:
            label = (target.partition("#")[2] or target.removesuffix(".md")).replace("-", " ")
            meaning += f"; see [{label.rpartition('/')[2]}]({target})"
        meaning = re.sub(r"\]\(([^)]*)\)", lambda link: f"]({_relative(link[1], page)})", meaning)
        cells = (f"`{self.path}`", meaning, f"`{self.key.example.strip()}`", self.default)
        return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _relative(link: str, page: pathlib.Path) -> str:
    """A link from docs/, or into docs/spec.md, as a link from the page."""
    file, sign, anchor = link.partition("#")
    target = DOCS / (file or "spec.md")
    if target == page:
        return f"#{anchor}"
    up = "../" * len(page.parent.relative_to(DOCS).parts)
    return f"{up}{target.relative_to(DOCS)}{sign}{anchor}"


def rows(names: str) -> Iterator[Row]:
    """The rows of a table."""
    for name in names.split():
        yield from _rows(name)


def _rows(name: str) -> Iterator[Row]:
    if name == "frameworks":
        yield from _of_frameworks()
    elif name.endswith(".*"):
        yield from _below(_model_at(name.removesuffix(".*")), "")
    else:
        module = importlib.import_module(f"clusterjobs.spec.keys.{name}")
        own = getattr(module, f"{name.title()}Keys").__annotations__
        yield from (row for row in _below(Experiment, "") if re.split(r"\W", row.path)[0] in own)
        if name == "job":
            yield Row("extends", EXTENDS, "none")


def table(names: str, page: pathlib.Path) -> str:
    """The table in Markdown."""
    lines = ["| key | meaning | example | default |", "|---|---|---|---|"]
    return "".join(f"{line}\n" for line in [*lines, *(one.text(page) for one in rows(names))])


def _of_frameworks() -> Iterator[Row]:
    models = option_models()
    owners: dict[str, list[str]] = {}
    found: dict[str, type[SpecModel]] = {}
    for framework, model in models.frameworks.items():
        for name in model.model_fields if model else ():
            owners.setdefault(name, []).append(framework)
            found.setdefault(name, model)  # type: ignore[arg-type]
    for name, model in found.items():
        for row in _below(model, ""):
            if row.path.partition(".")[0] == name:
                of = tuple(owners[name]) if row.path == name else ()
                yield row._replace(of=of)
    for name, model in models.launchers.items():
        if model and issubclass(model, LauncherOptions):
            yield Row(name, model.about, "")
            yield from _below(model, f"{name}.")


def _below(model: type[SpecModel], above: str) -> Iterator[Row]:
    """The keys of a model, each with the keys below it, if these have no table of their own."""
    keys, fields = known_keys(model), model.model_fields.values()
    for (name, key), field in zip(keys.items(), fields, strict=True):
        assert key, f"{model.__name__}.{name} has no Key"
        path = f"{above}{name}"
        yield Row(path, key, key.default_is or _default(field))
        yield from _inside(field, path)


def _inside(field: FieldInfo, path: str) -> Iterator[Row]:
    kind = getattr(field.annotation, "__origin__", None)
    steps = {tuple: "[].", dict: ".NAME."}.get(kind, ".") if kind else "."
    found: dict[str, Row] = {}
    for model in reversed(list(models_in(field.annotation))):  # of a model's sizes, then of a file
        if model not in _MODELS_WITH_TABLES:
            for row in _below(model, f"{path}{steps}"):
                found.setdefault(row.path, row)
    yield from found.values()


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.default
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, str) and value:
        return f"`{value}`"
    return str(value) if isinstance(value, int) else ""


def _model_at(path: str) -> type[SpecModel]:
    found: type[SpecModel] = Experiment
    models: Mapping[str, type[SpecModel] | None] = option_models().frameworks
    first, *steps = path.split(".")
    owners = [found, *(one for one in models.values() if one)]
    found = next(one for one in owners if first in one.model_fields)
    for step in (first, *steps):
        found = next(models_in(found.model_fields[step].annotation))
    return found


_MODELS_WITH_TABLES = {_model_at(one.removesuffix(".*")) for one in TABLES if one.endswith(".*")}

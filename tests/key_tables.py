"""The tables of keys in docs/, made from what is known of each key.

A page has a place for each table, `<!-- keys: NAMES -->` to `<!-- end of keys -->`. A name is a
class of spec/keys/ (`job` is JobKeys), `frameworks`, a key with `.*` for those below it, or a class
of the description of a cluster, `Partition`.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator, Mapping

from clusterjobs.clusters.described import description
from clusterjobs.frameworks import option_models
from clusterjobs.reference.keys import Documented, keys_of, keys_of_frameworks
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.keys.job import EXTENDS
from clusterjobs.spec.model import SpecModel, models_in

DOCS = pathlib.Path(__file__).parents[1] / "docs"
TABLE = re.compile(r"<!-- keys: ([\w.* ]+) -->\n(.*?)<!-- end of keys -->", re.DOTALL)
TABLES = {
    name: page for page in DOCS.rglob("*.md") for name, _ in TABLE.findall(page.read_text("utf-8"))
}


def _line(one: Documented, page: pathlib.Path) -> str:
    """The line of the table; links are relative to the page."""
    meaning = one.key.doc + (f" ({one.key.unit})" if one.key.unit else "")
    if one.of and "." not in one.path:
        meaning += f" ({', '.join(one.of)})"
    if target := one.key.see:
        label = target.partition("#")[2] or target.removesuffix(".md").rpartition("/")[2]
        label = label.replace("-", " ").replace("slurm", "Slurm")
        meaning += f"; see [{label}]({target})"
    meaning = re.sub(r"\]\(([^)]*)\)", lambda link: f"]({_relative(link[1], page)})", meaning)
    cells = (f"`{one.path}`", meaning, f"`{one.key.example.strip()}`", one.default)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _relative(link: str, page: pathlib.Path) -> str:
    """A link from docs/, or into docs/spec.md, as a link from the page."""
    file, sign, anchor = link.partition("#")
    target = DOCS / (file or "spec.md")
    if target == page:
        return f"#{anchor}"
    up = "../" * len(page.parent.relative_to(DOCS).parts)
    return f"{up}{target.relative_to(DOCS)}{sign}{anchor}"


def rows(names: str) -> Iterator[Documented]:
    """The rows of a table."""
    for name in names.split():
        yield from _rows(name)


def _rows(name: str) -> Iterator[Documented]:
    if name == "frameworks":
        yield from keys_of_frameworks(_MODELS_WITH_TABLES)
    elif model := getattr(description, name, None):
        yield from (
            one
            for one in keys_of(model, "", {*models_in(model)})
            if one.path in model.__annotations__
        )
    elif name.endswith(".*"):
        yield from keys_of(_model_at(name.removesuffix(".*")), "", _MODELS_WITH_TABLES)
    else:
        (own,) = (one for one in Experiment.__mro__ if one.__name__ == f"{name.title()}Keys")
        keys = keys_of(Experiment, "", _MODELS_WITH_TABLES)
        yield from (one for one in keys if re.split(r"\W", one.path)[0] in own.__annotations__)
        if name == "job":
            yield Documented("extends", EXTENDS, "none")


def table(names: str, page: pathlib.Path) -> str:
    """The table in Markdown."""
    lines = ["| key | meaning | example | default |", "|---|---|---|---|"]
    return "".join(f"{line}\n" for line in [*lines, *(_line(one, page) for one in rows(names))])


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

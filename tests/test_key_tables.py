"""The tables of keys in docs/ are those of the models; `--update-goldens` writes them."""

from __future__ import annotations

import pytest
from key_tables import TABLE, TABLES, rows, table
from reference_pages import DOCS, MADE, PARTS

from clusterjobs.spec.experiment import Experiment

LONGEST = 260  # characters of a meaning; further text stands below the table


@pytest.mark.parametrize("name", TABLES)
def test_the_table_has_what_is_known_of_the_keys(name: str, request: pytest.FixtureRequest) -> None:
    page = TABLES[name]
    text = page.read_text("utf-8")
    wanted = table(name, page)
    if request.config.getoption("--update-goldens"):
        new = f"<!-- keys: {name} -->\n{wanted}<!-- end of keys -->"
        text = TABLE.sub(lambda found: new if found[1] == name else found[0], text)
        page.write_text(text, encoding="utf-8")
    found = dict(TABLE.findall(text))
    assert found[name] == wanted, "--update-goldens rewrites it"


def test_every_key_at_the_top_of_a_spec_is_in_a_table_of_the_page() -> None:
    names = [name for name, page in TABLES.items() if page.name == "spec.md"]
    assert Experiment.model_fields.keys() <= {row.path for name in names for row in rows(name)}


def test_every_meaning_is_short() -> None:
    found = {row.path: len(row.key.doc) for name in TABLES for row in rows(name)}
    assert {path: length for path, length in found.items() if length > LONGEST} == {}


@pytest.mark.parametrize(("name", "page"), [("commands", "commands.md"), ("api", "python.md")])
def test_the_reference_of_commands_and_of_the_api_is_that_of_the_code(
    name: str, page: str, request: pytest.FixtureRequest
) -> None:
    path = DOCS / page
    wanted = PARTS[name]()
    if request.config.getoption("--update-goldens"):
        new = f"<!-- made from: {name} -->\n{wanted}<!-- end of what is made -->"
        path.write_text(MADE.sub(lambda _: new, path.read_text("utf-8")), encoding="utf-8")
    assert dict(MADE.findall(path.read_text("utf-8"))) == {name: wanted}, "see --update-goldens"

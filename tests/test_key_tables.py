"""The tables of keys in docs/ are those of the models; `--update-goldens` writes them."""

from __future__ import annotations

import pytest
from key_tables import TABLE, TABLES, rows, table

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

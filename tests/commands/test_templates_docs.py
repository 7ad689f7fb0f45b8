"""The page about a site: all that the site has, and no markup that a file of the site brings."""

from __future__ import annotations

import pathlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterjobs.admin.templates.command import code, link, markdown_table, plain

DEFAULTS = """\
all:
  setup: [module load fabric]
  sbatch: {account: research}
clusters:
  p4d-a100:
    env: {TITLE: "<script>alert(1)</script>|`x`"}
    queues: {train: {time_limit: 1-00:00:00}}
"""
POLICY = """\
rules:
  - name: account
    message: "<img src=x onerror=alert(1)> | [x](javascript:y) **who** pays?"
    link: https://wiki.example.org/accounts
    require: [sbatch.account]
"""


@pytest.fixture
def site(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A site folder with something of each kind, in the working folder."""
    site = folder / "site"
    (site / "templates").mkdir(parents=True)
    (site / "defaults.yaml").write_text(DEFAULTS)
    (site / "policy.yaml").write_text(POLICY)
    (site / "templates" / "before_launch.sh").write_text("  echo hello\n")
    monkeypatch.setenv("CLUSTERJOBS_SITE", "site")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "nowhere"))
    return site


def row_of(page: str, word: str) -> str:
    (found,) = [line for line in page.splitlines() if line.startswith("|") and word in line]
    return found


def test_the_page_has_what_the_site_has(clusterjobs, site) -> None:
    clusterjobs("templates", "override", "launch")
    outcome = clusterjobs("templates", "docs")
    assert (outcome.code, outcome.err) == (0, "")
    for row in (
        '| all jobs | `setup` | `["module load fabric"]` | `site/defaults.yaml:2` |',
        '| all jobs | `sbatch.account` | `"research"` | `site/defaults.yaml:3` |',
        '| queue train of p4d-a100 | `time_limit` | `"1-00:00:00"` | `site/defaults.yaml:7` |',
    ):
        assert row in outcome.out.splitlines()
    rule = row_of(outcome.out, "`account`")
    assert rule.startswith("| `account` | refuse | all jobs | require sbatch.account | ")
    assert rule.endswith(" | <https://wiki.example.org/accounts> | `site/policy.yaml:2` |")
    assert "`site/templates/before_launch.sh`" in row_of(outcome.out, "| `before_launch.sh`")
    launch = row_of(outcome.out, "| `blocks/launch.sh.j2`")
    assert "| `site/templates/blocks/launch.sh.j2` |" in launch
    assert row_of(outcome.out, "`launch.template`")


def test_no_text_of_the_site_becomes_markup(clusterjobs, site) -> None:
    page = clusterjobs("templates", "docs").out
    for markup in ("<script", "<img", "[x](javascript", "**who**"):
        assert markup not in page
    assert len(re.split(r"(?<!\\)\|", row_of(page, "env.TITLE"))) == 4 + 2
    assert len(re.split(r"(?<!\\)\|", row_of(page, "`account`"))) == 7 + 2


def test_a_page_is_written_again_but_over_no_other_file(clusterjobs, site) -> None:
    page = pathlib.Path("wiki.md")
    assert clusterjobs("templates", "docs", "-o", page).code == 0
    (site / "policy.yaml").unlink()
    assert clusterjobs("templates", "docs", "-o", page).code == 0
    assert "`account`" not in page.read_text()
    page.write_text("# Mine\n")
    refused = clusterjobs("templates", "docs", "-o", page)
    assert (refused.code, refused.err) == (
        1,
        "wiki.md was not written by `clusterjobs templates docs`\n   hint: -o names another file\n",
    )
    assert page.read_text() == "# Mine\n"


def test_a_site_without_anything_has_a_page(clusterjobs, folder, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "nowhere"))
    outcome = clusterjobs("templates", "docs")
    assert outcome.code == 0
    assert "## Rules\n" in outcome.out
    assert "None.\n" in outcome.out


@given(st.text(alphabet=st.sampled_from("ab|`\\<>&[]()*_~\n\t\x1b!#"), max_size=20))
def test_a_cell_is_one_cell_and_holds_no_markup(text: str) -> None:
    for cell in (plain(text), code(text), link(text)):
        row = markdown_table(["a", "b"], [[cell, "end"]]).splitlines()[-1]
        unescaped = re.sub(r"\\[\\|`*_\[\]~]", "", row)
        assert unescaped.count("|") == 3
        assert "\x1b" not in row
    assert "<" not in plain(text)
    assert not re.search(r"[`*\[\]~]", re.sub(r"\\[\\|`*_\[\]~]", "", plain(text)))
    assert code(text).count("`") in (0, 2)

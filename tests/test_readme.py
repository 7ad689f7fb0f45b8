"""The README's commands print exactly what the README shows."""

from __future__ import annotations

import pathlib
import re
import shlex

import pytest

README = pathlib.Path(__file__).parents[1] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def test_the_readmes_commands_print_what_it_shows(
    clusterjobs, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nowhere"))  # a new user has no site.yaml
    (tmp_path / "exp.yaml").write_text(blocks("yaml")[0], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    shown = blocks("console")
    assert len(shown) == 2
    for block in shown:
        command, _, expected = block.partition("\n")
        outcome = clusterjobs(*shlex.split(command.removeprefix("$ clusterjobs ")))
        assert outcome.err + outcome.out == expected


def test_the_keys_of_a_long_run_go_with_the_first_spec(clusterjobs, tmp_path: pathlib.Path) -> None:
    spec = tmp_path / "exp.yaml"
    spec.write_text("".join(blocks("yaml")[:2]), encoding="utf-8")
    outcome = clusterjobs("render", spec, "-o", tmp_path / "out")
    assert (outcome.code, outcome.err) == (0, "")
    script = (tmp_path / "out" / "job.sh").read_text()
    for block in ("# ---- stage:", "# ---- preflight:", "on_time_limit() {"):
        assert block in script


def test_every_file_that_the_readme_links_is_there() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (README.parent / link).exists()] == []

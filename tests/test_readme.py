"""The README's specs render."""

from __future__ import annotations

import pathlib
import re

README = pathlib.Path(__file__).parents[1] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def test_the_keys_of_a_long_run_go_with_the_first_spec(clusterjobs, tmp_path: pathlib.Path) -> None:
    spec = tmp_path / "exp.yaml"
    spec.write_text("".join(blocks("yaml")[:2]), encoding="utf-8")
    outcome = clusterjobs("render", spec, "-o", tmp_path / "out")
    assert (outcome.code, outcome.err) == (0, "")
    script = (tmp_path / "out" / "job.sh").read_text()
    for block in ("# ---- stage:", "# ---- preflight:", "on_time_limit() {"):
        assert block in script

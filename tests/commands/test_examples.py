"""clusterjobs examples: what is copied renders as in the checkout, and nothing is overwritten."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SPECS = sorted(
    path.relative_to(ROOT / "examples").with_suffix("").as_posix()
    for path in [*ROOT.glob("examples/*.yaml"), *ROOT.glob("examples/slurm/*.yaml")]
    if path.name != "site.yaml"
)


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nowhere"))


def test_the_list_has_every_example_with_the_first_sentence_of_its_comment(
    clusterjobs: Callable[..., Any],
) -> None:
    lines = clusterjobs("examples").out.splitlines()
    assert sorted(line.split()[0] for line in lines) == sorted(SPECS)  # site.yaml is no spec
    (tiny,) = (line for line in lines if line.startswith("tiny-gpt "))
    assert tiny.split(maxsplit=1)[1] == (
        "A first try: a byte-level GPT, trained with DeepSpeed on two small machines without GPUs"
    )
    listed = json.loads(clusterjobs("examples", "--json").out)
    assert [one["name"] for one in listed] == [line.split()[0] for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECS)
def test_a_copied_example_renders_as_it_does_in_the_checkout(
    clusterjobs: Callable[..., Any], name: str
) -> None:
    copied = clusterjobs("examples", name)
    assert (copied.code, copied.err) == (0, "")
    pathlib.Path("site.yaml").write_bytes((ROOT / "tests" / "cases" / "site.yaml").read_bytes())
    rendered = []
    for start, out in (("", "here"), (f"{ROOT}/", "there")):
        done = clusterjobs("render", f"{start}examples/{name}.yaml", "-o", out)
        assert done.code == 0
        texts = {path.name: path.read_text() for path in pathlib.Path(out).iterdir()}
        del texts["manifest.json"]  # the checksums of scripts that name their spec
        rendered.append({file: text.replace(f"{ROOT}/", "") for file, text in texts.items()})
    assert rendered[0] == rendered[1]


def test_a_spec_comes_with_what_it_extends_and_the_program_of_its_folder(
    clusterjobs: Callable[..., Any],
) -> None:
    written = clusterjobs("examples", "tiny-gpt-sweep.yaml").out.split()
    assert {"examples/tiny-gpt-sweep.yaml", "examples/tiny-gpt.yaml"} <= {*written}
    assert "examples/tiny_gpt/train.py" in written
    assert {pathlib.Path(one).is_file() for one in written} == {True}


def test_a_changed_file_is_not_overwritten_and_nothing_else_is_copied(
    clusterjobs: Callable[..., Any], tmp_path: pathlib.Path
) -> None:
    changed = tmp_path / "examples" / "tiny-gpt.yaml"
    changed.parent.mkdir()
    changed.write_text("name: mine\n")
    done = clusterjobs("examples", "tiny-gpt")
    assert done.code == 1
    assert "examples/tiny-gpt.yaml exists and differs" in done.err
    assert [*changed.parent.iterdir()] == [changed]
    assert changed.read_text() == "name: mine\n"
    assert clusterjobs("examples", "tiny-gpt", "-o", tmp_path / "new").code == 0
    again = clusterjobs("examples", "tiny-gpt", "-o", tmp_path / "new")
    assert (again.code, again.err) == (0, "")


def test_all_copies_every_file(clusterjobs: Callable[..., Any], tmp_path: pathlib.Path) -> None:
    assert clusterjobs("examples", "--all").code == 0
    here = ROOT / "examples"
    files = {
        path.relative_to(here)
        for path in here.rglob("*.*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert {path for path in files if not (tmp_path / "examples" / path).is_file()} == set()


def test_an_unknown_name_is_an_error_with_a_suggestion(clusterjobs: Callable[..., Any]) -> None:
    done = clusterjobs("examples", "tinygpt")
    assert done.code == 1
    assert "there is no example tinygpt\n   hint: did you mean tiny-gpt?" in done.err
    assert not pathlib.Path("examples").exists()

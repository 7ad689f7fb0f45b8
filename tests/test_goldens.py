"""Each folder in cases/good is a case: a spec and every file that it renders, to the byte.

So are the examples on clusters of all kinds; what they render is in cases/examples.

`pytest --update-goldens` rewrites the expected files; read what changes before committing it. Two
things are verified here and left out of the expected files, so that one change in a program for the
nodes or in a template changes few of them: the text of embedded programs, and checksums.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable

import pytest

from clusterjobs.resources import node_program, template_texts

ROOT = pathlib.Path(__file__).parents[1]
CASES = ROOT / "tests" / "cases" / "good"
EXAMPLES = [*ROOT.glob("examples/slurm/*.yaml"), ROOT / "examples" / "gpt-neox-2node-gcp.yaml"]
# Name of a case -> its spec, and the folder of the files that it renders.
GOLDENS = {
    **{path.name: (path / "spec.yaml", path / "expected") for path in CASES.iterdir()},
    **{f"example {spec.stem}": (spec, CASES.parent / "examples" / spec.stem) for spec in EXAMPLES},
}
NAMES = sorted(GOLDENS)
SHELLCHECK = pathlib.Path(sys.executable).with_name("shellcheck")


EMBEDDED = re.compile(r"(?ms)^: <<'end of ([a-z0-9_]+\.(?:py|sh))'\n(.*?)\nend of \1$")


def render(
    clusterjobs: Callable[..., object], spec: pathlib.Path, output: pathlib.Path
) -> dict[str, str]:
    """The rendered files with programs and checksums left out, once they are verified."""
    outcome = clusterjobs("render", spec, "-o", output)
    assert outcome.code == 0, outcome.err
    files = {path.name: path.read_text(encoding="utf-8") for path in output.iterdir()}
    files["manifest.json"] = without_checksums(files)
    scripts = {name: text for name, text in files.items() if name.endswith(".sh")}
    return {**files, **{name: EMBEDDED.sub(without_text, text) for name, text in scripts.items()}}


def without_text(embedded: re.Match[str]) -> str:
    name, text = embedded.groups()
    assert text == node_program(name).rstrip("\n"), f"{name} is not what clusterjobs/node/ holds"
    return f": <<'end of {name}'\n(the text of {name})\nend of {name}"


def without_checksums(files: dict[str, str]) -> str:
    """The manifest, whose checksums of outputs and templates are right."""
    manifest = json.loads(files["manifest.json"])
    for name, checksum in manifest["outputs"].items():
        assert checksum == hashlib.sha256(files[name].encode()).hexdigest(), name
        manifest["outputs"][name] = "(its SHA-256)"
    for name, checksum in manifest["inputs"]["templates"].items():
        text = template_texts()[name]
        assert checksum == hashlib.sha256(text.encode()).hexdigest(), name
        manifest["inputs"]["templates"][name] = "(its SHA-256)"
    return json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"


def test_a_golden_elides_only_what_it_has_verified() -> None:
    text = node_program("attempt.py").rstrip("\n")
    whole = f": <<'end of attempt.py'\n{text}\nend of attempt.py"
    assert EMBEDDED.sub(without_text, whole).count("\n") == 2
    with pytest.raises(AssertionError, match="is not what"):
        EMBEDDED.sub(without_text, whole.replace("import json", "import yaml"))


def read_expected(folder: pathlib.Path) -> dict[str, str]:
    if not folder.is_dir():
        return {}
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


def write_expected(folder: pathlib.Path, files: dict[str, str]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_case_renders_exactly_the_expected_files(
    name: str,
    clusterjobs: Callable[..., object],
    tmp_path: pathlib.Path,
    request: pytest.FixtureRequest,
) -> None:
    spec, expected = GOLDENS[name]
    files = render(clusterjobs, spec, tmp_path / "out")
    if request.config.getoption("--update-goldens"):
        write_expected(expected, files)
    wanted = read_expected(expected)
    assert sorted(files) == sorted(wanted), "a file too many or too few; --update-goldens rewrites"
    for file in sorted(files, key=lambda file: file == "manifest.json"):
        assert files[file] == wanted[file], f"{name}: {file} differs; --update-goldens rewrites it"


def scripts() -> list[pathlib.Path]:
    return sorted(script for _, folder in GOLDENS.values() for script in folder.glob("job*.sh"))


def test_every_golden_script_is_valid_bash() -> None:
    for script in scripts():
        subprocess.run(["bash", "-n", script], check=True)


def test_shellcheck_finds_nothing_in_any_golden_script() -> None:
    found = subprocess.run(
        [SHELLCHECK, "--norc", *scripts()], capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stdout) == (0, ""), found.stdout + found.stderr


def test_rendered_examples_are_valid_bash_and_shellcheck_finds_nothing(
    clusterjobs: Callable[..., object], tmp_path: pathlib.Path
) -> None:
    rendered = []
    for spec in sorted((ROOT / "examples").glob("*.yaml")):
        if spec.name == "site.yaml":
            continue
        output = tmp_path / spec.stem
        outcome = clusterjobs("render", spec, "-o", output)
        assert outcome.code == 0, outcome.err
        rendered.append(output / "job.sh")
    assert rendered
    for script in rendered:
        subprocess.run(["bash", "-n", script], check=True)
    found = subprocess.run(
        [SHELLCHECK, "--norc", *rendered], capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stdout) == (0, ""), found.stdout + found.stderr


def test_cases_exist() -> None:
    assert len(NAMES) >= 16

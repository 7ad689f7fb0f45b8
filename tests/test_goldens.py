"""Every case of cases/good renders exactly what the goldens store of it (tests/goldens.py).

`pytest --update-goldens` rewrites the goldens; read what changes before committing it. Some texts
are verified here and left out of the goldens: embedded programs, and checksums.
"""

from __future__ import annotations

import functools
import hashlib
import json
import pathlib
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable

import goldens
import pytest
from case_files import Case

from clusterjobs.resources import node_program, template_texts

SHELLCHECK = pathlib.Path(sys.executable).with_name("shellcheck")
EMBEDDED = re.compile(
    r"(?ms)^: <<'end of (?!start_again)([a-z0-9_]+\.(?:py|sh))'\n(.*?)\nend of \1$"
)


def render(clusterjobs: Callable[..., object], case: Case, folder: pathlib.Path) -> dict[str, str]:
    """The rendered files with programs and checksums left out, once they are verified."""
    output = folder / "out"
    outcome = clusterjobs("render", goldens.spec(case, folder), "-o", output)
    assert outcome.code == 0, outcome.err
    files = {path.name: path.read_text(encoding="utf-8") for path in output.iterdir()}
    files["manifest.json"] = without_checksums(files)
    scripts = {name: text for name, text in files.items() if name.endswith(".sh")}
    for name in files.keys() - scripts.keys() - {"manifest.json", "cluster.yaml", "points.csv"}:
        assert files[name].rstrip("\n") in scripts["job.sh"], f"job.sh writes another {name}"
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


@pytest.mark.parametrize("name", goldens.cases())
def test_case_renders_exactly_what_the_goldens_store(
    name: str,
    clusterjobs: Callable[..., object],
    tmp_path: pathlib.Path,
    request: pytest.FixtureRequest,
) -> None:
    case = goldens.cases()[name]
    files = render(clusterjobs, case, tmp_path)
    shown = goldens.shown(case, files)
    if request.config.getoption("--update-goldens"):
        goldens.write(name, shown)
        return
    its_own = stored().get(name, {})
    for golden in sorted(shown.keys() | its_own.keys()):
        assert shown.get(golden) == its_own.get(golden), f"--update-goldens rewrites {golden}"
    scripts = (text for file, text in files.items() if file.endswith(".sh"))
    unknown = set().union(*map(comments, scripts)) - files_by_comment().keys()
    assert not unknown, f"no golden has these comments: let {name} show the part that has them"


def comments(script: str) -> set[str]:
    """Headings and reasons, whatever numbers are in them; not those of the spec's own lines."""
    script = script.partition("\n: <<'end of argument_check.json'")[0]
    return {re.sub("[0-9]+", "0", one) for one in re.findall(r"(?m)(?:^| )# (\S.*)$", script)}


@functools.cache
def stored() -> dict[str, dict[str, str]]:
    return goldens.read()


@functools.cache
def files_by_comment() -> dict[str, set[str]]:
    """The files of the goldens that have a comment, for each comment of a script."""
    found: dict[str, set[str]] = defaultdict(set)
    for its_own in stored().values():
        for file, text in its_own.items():
            for one in comments(text) if file.endswith(".sh") else ():
                found[one].add(file)
    return found


def files_by_template_line() -> dict[str, set[str]]:
    """The same for each line of a template that has words of its own, whatever its values are."""
    found = {}
    texts: dict[str, str] = defaultdict(str)
    for its_own in stored().values():
        for file, text in its_own.items():
            texts[file] += text
    for template, text in template_texts().items():
        for line in re.sub(r"(?s)\{##.*?##\}", "", text).splitlines():
            words = re.split(r"\{\{.*?\}\}|\{%.*?%\}", line.strip())
            longest = max(words, key=len)
            if re.search(r"[A-Za-z]{3,}\W+[A-Za-z]{3,}", longest):
                pattern = re.compile(r"(?m)^\s*" + ".*".join(map(re.escape, words)) + "$")
                found[f"{template}: {line}"] = {
                    file
                    for file, rendered in texts.items()
                    if longest in rendered and pattern.search(rendered)
                }
    return found


def test_another_wording_of_one_line_changes_at_most_five_files() -> None:
    lines = {**files_by_comment(), **files_by_template_line()}
    assert {line: files for line, files in lines.items() if not 1 <= len(files) <= 5} == {}
    assert len(lines) > 1000


def test_every_golden_belongs_to_a_case() -> None:
    assert stored().keys() == goldens.cases().keys()


def test_every_example_is_a_case() -> None:
    folder = goldens.ROOT / "examples"
    specs = {*folder.glob("*.yaml"), *folder.glob("slurm/*.yaml")} - {folder / "site.yaml"}
    cases = goldens.cases().values()
    assert {goldens.ROOT / case.arguments[1] for case in cases if not case.files} >= specs


@pytest.mark.parametrize("name", goldens.cases())
def test_golden_script_is_valid_bash_and_shellcheck_finds_nothing(
    name: str, clusterjobs: Callable[..., object], tmp_path: pathlib.Path
) -> None:
    for file, text in render(clusterjobs, goldens.cases()[name], tmp_path).items():
        if file.endswith(".sh"):
            (tmp_path / file).write_text(text, encoding="utf-8")
    scripts = sorted(tmp_path.glob("job*.sh"))
    for script in scripts:
        subprocess.run(["bash", "-n", script], check=True)
    found = subprocess.run(
        [SHELLCHECK, "--norc", *scripts], capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stdout) == (0, ""), found.stdout + found.stderr

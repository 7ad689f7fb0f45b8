"""The same inputs give the same bytes: in any folder, for any user, on any hash seed."""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

import goldens
import pytest

CASES = pathlib.Path(__file__).parent / "cases"
CLUSTERJOBS = pathlib.Path(sys.executable).with_name("clusterjobs")
SPECS = ["everything", "own-config-unknown-instance", "names-in-other-scripts", "own-site"]
ENVIRONMENTS: list[dict[str, str]] = [
    {"PYTHONHASHSEED": "1", "TZ": "UTC", "LANG": "C.UTF-8", "COLUMNS": "80"},
    {"PYTHONHASHSEED": "2", "TZ": "Asia/Tokyo", "LANG": "C", "LC_ALL": "POSIX", "COLUMNS": "200"},
]


def rendered(case: str, base: pathlib.Path, number: int) -> dict[str, str]:
    """The digests of all files, rendered by a process of its own in a folder of its own."""
    project, home = base / f"run-{number}" / ("deep/er" * number) / "p", base / f"home-{number}"
    goldens.spec(goldens.cases()[case], project)
    (home / "clusterjobs").mkdir(parents=True)
    shutil.copy(CASES / "site.yaml", home / "clusterjobs")
    spec = "spec.yaml" if number else str(project / "spec.yaml")
    output = base / f"out-{number}"
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("LC_")},
        **ENVIRONMENTS[number],
        "XDG_CONFIG_HOME": str(home),
        "USER": f"user{number}",
        "SLURM_JOB_ID": str(number),
    }
    subprocess.run(
        [CLUSTERJOBS, "render", spec, "-o", str(output)],
        cwd=project if number else base,
        env=environment,
        check=True,
        capture_output=True,
    )
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in output.iterdir()}


@pytest.mark.parametrize("case", SPECS)
def test_two_folders_and_two_hash_seeds_give_the_same_bytes(
    case: str, tmp_path: pathlib.Path
) -> None:
    first, second = (rendered(case, tmp_path, number) for number in (0, 1))
    assert len(first) >= 3
    assert first == second


def test_no_file_names_a_folder_of_this_machine(tmp_path: pathlib.Path) -> None:
    rendered("everything", tmp_path, 1)
    for path in (tmp_path / "out-1").iterdir():
        text = path.read_text(encoding="utf-8")
        assert str(tmp_path) not in text, path.name
        assert str(CASES.parents[1]) not in text, path.name

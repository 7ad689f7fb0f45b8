"""The page of containers: its specs render, and its table says what is refused."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Iterator

import pytest
import yaml

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "containers.md"
IMAGES = {"pyxis": "a/b:1", "apptainer": "/fsx/a.sif", "docker": "a/b:1", "shifter": "a/b:1"}
IMAGES["singularity"] = IMAGES["apptainer"]
KEYS = {
    "srun": {"framework": "deepspeed", "script": "t.py", "batch": {"micro": 1}},
    "deepy": {"framework": "gpt-neox", "script": "t.py", "configs": ["a.yml"]},
    "horovodrun": {"framework": "horovod", "script": "t.py"},
}
KEYS |= dict.fromkeys(("torchrun", "deepspeed", "deepspeed-pdsh"), KEYS["srun"])
KEYS["mpirun"] = KEYS["horovodrun"]
KEYS["accelerate"] = {"framework": "accelerate", "script": "t.py"}
KEYS["composer"] = {"framework": "composer", "script": "t.py"}


def specs() -> Iterator[dict[str, object]]:
    """Those of the page; what is only a part of one takes the first one's place of it."""
    first: dict[str, object] = {}
    for text in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        read = yaml.safe_load(text)
        yield read if "name" in read else {**first, **read}
        first = first or read


def runtime_of(spec: dict[str, dict[str, dict[str, str]]]) -> str:
    return spec["software"]["container"]["runtime"]


@pytest.mark.parametrize("spec", list(specs()), ids=runtime_of)
def test_the_specs_of_the_page_render(
    spec: dict[str, object], clusterjobs: Callable[..., object], folder: pathlib.Path
) -> None:
    (folder / "exp.yaml").write_text(yaml.safe_dump(spec))
    outcome = clusterjobs("render", "exp.yaml")
    assert outcome.code == 0, outcome.err


def table() -> Iterator[tuple[str, str, bool]]:
    """Runtime, launcher, and whether the page says that the one takes the other."""
    rows = [line.strip("| ").split(" | ") for line in PAGE.read_text("utf-8").splitlines()]
    (head,) = [row for row in rows if row[-1] == "mpirun, deepspeed-pdsh"]
    for row in rows:
        if row[0] in IMAGES and len(row) == len(head) + 1:
            for launchers, says in zip(head, row[1:], strict=True):
                for launcher in launchers.split(", "):
                    yield row[0], launcher, says.startswith("yes")


@pytest.mark.parametrize(("runtime", "launcher", "taken"), list(table()))
def test_the_table_of_launchers_is_true(
    runtime: str,
    launcher: str,
    taken: bool,
    clusterjobs: Callable[..., object],
    folder: pathlib.Path,
) -> None:
    container = {"runtime": runtime, "image": IMAGES[runtime]}
    spec = {"name": "a", "cluster": "p4d-a100", "nodes": 2, "launcher": launcher}
    spec |= {**KEYS[launcher], "software": {"container": container}, "logs": "/fsx/logs"}
    (folder / "exp.yaml").write_text(yaml.safe_dump(spec))
    outcome = clusterjobs("render", "exp.yaml")
    assert outcome.code == (0 if taken else 1), outcome.err
    if not taken:
        assert "software.container.runtime: " in outcome.err

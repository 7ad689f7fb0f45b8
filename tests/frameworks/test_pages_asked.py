"""Every spec of the pages and examples whose framework is here goes through its real parser."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import re
import sys
from collections.abc import Callable

import pytest
from asked import CHECKOUTS, answers
from real_parsers import fairseq_environment

from clusterjobs.runs.load import load
from clusterjobs.sections.plan import Plan

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml")) + sorted(
    (ROOT / "examples/slurm").glob("*.yaml")
)
PAGES = sorted((ROOT / "docs/frameworks").glob("*.md"))
# framework: the module that it needs, or its folder among the checkouts.
MODULES = {
    "deepspeed": "deepspeed",
    "huggingface": "transformers",
    "accelerate": "accelerate",
    "lightning": "lightning",
}
FOLDERS = {
    "megatron-lm": "Megatron-LM",
    "megatron-deepspeed": "Megatron-DeepSpeed",
    "gpt-neox": "gpt-neox",
}
PYTHONS = {"gpt-neox": "gpt-neox-python"}  # a virtual environment among the checkouts


@pytest.fixture
def specs(tmp_path: pathlib.Path) -> list[tuple[str, Plan]]:
    """The plans of all specs that can be asked, each with its name."""
    found = [(path.name, path) for path in EXAMPLES if "framework:" in path.read_text()]
    for page in PAGES:
        for number, text in enumerate(
            re.findall(r"```yaml\n(name: .*?)```", page.read_text(), re.S)
        ):
            path = tmp_path / f"{page.stem}-{number}.yaml"
            path.write_text(text.replace("clusters/", f"{ROOT}/examples/clusters/"))
            found.append((f"{page.name}", path))
    plans = []
    for name, path in found:
        run = load(path, ("preflight=true",))
        if run.plan.argument_check:
            plans.append((name, run.plan))
    return plans


def with_configs(checkout: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """The checkout, with the examples' own config files among its own."""
    (folder / "configs").mkdir(parents=True)
    for path in [*checkout.iterdir(), *(checkout / "configs").glob("*")]:
        if path.name != "configs":
            (folder / path.relative_to(checkout)).symlink_to(path)
    for path in (ROOT / "examples/configs").iterdir():
        (folder / "configs" / path.name).unlink(missing_ok=True)
        (folder / "configs" / path.name).symlink_to(path)
    return folder


@pytest.mark.frameworks
@pytest.mark.parametrize("framework", ["fairseq", *MODULES, *FOLDERS])
def test_the_specs_of_pages_and_examples_are_taken(
    framework: str, specs: Callable[..., object], tmp_path: pathlib.Path
) -> None:
    environment, workdir = dict(os.environ), tmp_path
    if framework == "fairseq":
        environment = fairseq_environment()
    elif framework in FOLDERS:
        workdir = pathlib.Path(os.environ.get(CHECKOUTS, "/nonexistent")) / FOLDERS[framework]
        if not workdir.is_dir():
            pytest.skip(f"no checkout of {FOLDERS[framework]}")
        workdir = with_configs(workdir, tmp_path / "workdir")
    elif importlib.util.find_spec(MODULES[framework]) is None:
        pytest.skip(f"{framework} is not installed")
    asked = [(name, plan) for name, plan in specs if plan.job.framework == framework]
    assert asked
    for _, plan in asked:
        script = str(plan.launch.words[0])
        if framework not in FOLDERS and script.endswith(".py") and not script.startswith("/"):
            (tmp_path / script).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / script).write_text("")
    python = pathlib.Path(sys.executable)
    if framework in PYTHONS:
        python = pathlib.Path(os.environ[CHECKOUTS]) / PYTHONS[framework] / "bin/python"
        if not python.is_file():
            pytest.skip(f"no virtual environment {PYTHONS[framework]}")
    plans = [(plan, workdir) for _, plan in asked]
    said = answers(plans, tmp_path / "asked", [], environment, str(python))
    wrong = [(name, one) for (name, _), one in zip(asked, said, strict=True) if one["problems"]]
    for (name, _), one in zip(asked, said, strict=True):
        print(f"{name}: {one['version']}: {one['not_checked'] or one['problems'] or 'taken'}")
    assert not wrong
    unasked = [
        (name, one) for (name, _), one in zip(asked, said, strict=True) if one["not_checked"]
    ]
    assert all("Please install TE" in one["not_checked"] for _, one in unasked), unasked

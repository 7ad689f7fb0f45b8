"""The cases of page.yaml as specs: one for each refused case, and jobs for all others."""

from __future__ import annotations

import pathlib
from dataclasses import dataclass
from typing import Any

import yaml
from hostile import literal, literal_path

SUBMITTED = "P_SUBMITTED"


@dataclass(frozen=True)
class Case:
    """One line of the page."""

    name: str
    place: str
    value: str
    expected: str


def load_page() -> list[Case]:
    text = pathlib.Path(__file__).with_name("page.yaml").read_text(encoding="utf-8")
    return [
        Case(case["name"], case["place"], case["value"] * case.get("repeat", 1), case["expected"])
        for case in yaml.safe_load(text)
    ]


def base(folder: str) -> dict[str, Any]:
    """A spec without anything hostile in it; all that it writes is below `folder`."""
    return {
        "name": "page",
        "cluster": "small",
        "framework": "deepspeed",
        "launcher": "srun",
        "nodes": 2,
        "ranks_per_node": 1,
        "time_limit": "00:02:00",
        "batch": {"micro": 1, "global": 2},
        "script": "record.py",
        "workdir": f"{folder}/code",
        "logs": f"{folder}/logs",
        "args": {},
        "env": {},
        "ds_config": {},
    }


def put(spec: dict[str, Any], case: Case, folder: str, number: int) -> None:
    """Write the case into its place, as docs/hostile-values.md says."""
    value, place = case.value, case.place
    in_folder = literal_path(f"{folder}/{value}")
    if place == "args":
        spec["args"][f"a{number}"] = literal(value)
    elif place == "arg name":
        spec["args"][value] = "x"
    elif place == "env":
        spec["env"][f"H_{number}"] = literal_path(value)
    elif place == "env name":
        spec["env"][value] = "x"
    elif place in ("comment", "sbatch"):
        spec.setdefault("sbatch", {})["comment"] = literal(value)
    elif place == "sbatch name":
        spec.setdefault("sbatch", {})[value] = "x"
    elif place in ("workdir", "logs"):
        spec[place] = in_folder
    elif place == "checkpoints":
        spec[place] = {"path": in_folder}
    elif place == "script":
        spec[place] = literal_path(value)
    elif place in ("name", "queue", "cluster"):
        spec[place] = literal(value)
    elif place == "venv":
        spec["software"] = {"venv": in_folder}
    elif place == "module":
        spec["software"] = {"modules": [literal(value)]}
    elif place in ("parameter", "submitted"):
        name = SUBMITTED if place == "submitted" else f"P_{number}"
        default = "a default" if place == "submitted" else literal(value)
        _parameter(spec, name, {"default": default, "type": "text"}, number)
    elif place == "choice":
        _parameter(spec, f"P_{number}", {"default": value, "choices": [value]}, number)
    elif place == "before":
        command = ["python3", f"{folder}/code/record.py", literal(value)]
        spec.setdefault("before", []).append({"command": command, "per": "job"})
    elif place == "step":
        spec["before"] = [[value, "touch CANARY"]]
    elif place == "ds_config":
        spec["ds_config"][value] = literal(value)
    else:
        raise AssertionError(place)


def _parameter(spec: dict[str, Any], name: str, parameter: dict[str, Any], number: int) -> None:
    spec.setdefault("parameters", {})[name] = parameter
    spec["args"][f"a{number}"] = f"{{{{ parameters.{name} }}}}"

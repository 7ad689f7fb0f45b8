"""Jobs rendered from specs and run in a lab that has the shape of a ready config."""

from __future__ import annotations

import json
import os
import pathlib
import sys
from dataclasses import dataclass
from typing import Any

import yaml

from clusterjobs import resources
from clusterjobs.cli import main
from clusterjobs.clusters.parallelcluster.facts import slurm_shape
from clusterjobs.clusters.parallelcluster.source import read_cluster
from clusterjobs.lab.lab import Lab
from clusterjobs.lab.shape import LabSpec, lab_spec

RECORDER = pathlib.Path(__file__).with_name("record_rank.py")
VENV = pathlib.Path(sys.prefix)


def shape_of(cluster: str, nodes: int = 2, controller_only: bool = False) -> LabSpec:
    """The lab of a ready config."""
    file = resources.cluster_configs_dir() / f"{cluster}.yaml"
    return shape_of_text(file.read_text(encoding="utf-8"), str(file), nodes, controller_only)


def shape_of_text(config: str, file: str, nodes: int = 2, controller_only: bool = False) -> LabSpec:
    """The lab of a config's text."""
    facts, document = read_cluster(config, file, {})
    return lab_spec(slurm_shape(facts, document), nodes, controller_only=controller_only)


@dataclass(frozen=True)
class Ended:
    """A job that has ended: its id, exit code, log, and what its ranks wrote down, by rank."""

    job_id: str
    exit_code: int
    log: str
    ranks: dict[int, dict[str, Any]]


@dataclass(frozen=True)
class Jobs:
    """Renders specs and runs them in the lab."""

    lab: Lab
    folder: pathlib.Path
    venv: pathlib.Path = VENV

    def spec(self, name: str, **keys: Any) -> dict[str, Any]:
        """A spec of two nodes and four ranks whose program is the recorder."""
        records = f"/fsx/records/{name}"
        common = {
            "name": name,
            "cluster": "small",
            "nodes": 2,
            "ranks_per_node": 2,
            "software": {"venv": str(VENV)},
            "logs": "/fsx/logs",
        }
        if keys["framework"] == "command":
            program = {"command": ["python3", str(RECORDER), records]}
        else:
            program = {"script": str(RECORDER), "args": [records]}
        return {**common, **program, **keys}

    def render(self, spec: dict[str, Any]) -> pathlib.Path:
        """The path of the rendered job.sh."""
        folder = self.folder / spec["name"]
        folder.mkdir()
        (folder / "exp.yaml").write_text(yaml.safe_dump(spec), encoding="utf-8")
        assert main.run(["render", str(folder / "exp.yaml"), "-o", str(folder / "out")]) == 0
        return folder / "out" / "job.sh"

    def submit(self, script: pathlib.Path, **environment: str) -> str:
        env = {**os.environ, **environment}
        return self.lab.sbatch(script, env=env, cwd=script.parent)

    def end(self, job_id: str, name: str, timeout: float = 240) -> Ended:
        end = self.lab.wait(job_id, timeout)
        log = self.lab.folder.shared("/fsx") / "logs" / job_id / "job.log"
        records = self.lab.folder.shared("/fsx") / "records" / name
        ranks = {int(file.stem): json.loads(file.read_text()) for file in records.glob("*.json")}
        text = log.read_text(errors="replace") if log.exists() else "(no log)"
        return Ended(job_id, end.exit_code, text, ranks)

    def run(self, spec: dict[str, Any], **environment: str) -> Ended:
        return self.end(self.submit(self.render(spec), **environment), spec["name"])

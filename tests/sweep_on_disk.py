"""A sweep with the folders that its jobs leave, made without any job."""

from __future__ import annotations

import json
import pathlib
from typing import Any

from clusterjobs.runs.content import content_hash
from clusterjobs.runs.spec_files import SpecFiles

SPEC = """\
name: tiny
cluster: small
framework: command
command: ["true"]
args: {{lr: 1}}
logs: {logs}
sweep:
  name: lr-width
  grid: {{args.lr: [{values}]}}
"""
ENDED = {"completed": 0, "failure": 1, "cancelled": 143}


class SweepOnDisk:
    """`sweep.spec` in `folder`, and its jobs below `folder/logs/lr-width`."""

    def __init__(self, folder: pathlib.Path, points: int) -> None:
        self.spec, self.folder = folder / "sweep.yaml", folder / "logs" / "lr-width"
        values = ", ".join(f"{number}.5" for number in range(points))
        self.spec.write_text(SPEC.format(logs=folder / "logs", values=values))
        loaded = SpecFiles(self.spec).load_points()
        self.points = [one.point for one in loaded if one.point]
        self.contents = {
            one.point.name: content_hash(one.expanded, {}) for one in loaded if one.point
        }
        self.folder.mkdir(parents=True)

    def submitted(self, array: str, tasks: range, **more: Any) -> None:
        """Record the call of sbatch that submitted these points."""
        record = {
            "token": f"t{array}",
            "job_id": int(array),
            "user": "ann",
            "time": 1,
            "spec": "sweep.yaml",
            "array": True,
            "points": {str(index): self.points[index].name for index in tasks},
        }
        with (self.folder / "submissions.jsonl").open("a") as file:
            file.write(json.dumps({**record, **more}) + "\n")

    def job(self, index: int, job_id: str, reason: str = "", log: str = "") -> pathlib.Path:
        """The folder of a point's job; `reason`: why its attempt ended, "" while it runs."""
        point = self.points[index]
        folder = self.folder / point.name / job_id
        folder.mkdir(parents=True)
        known = {"name": point.name, "index": index, "values": dict(point.values)}
        known["content"] = self.contents[point.name]
        plan = {"name": "tiny", "spec": {"file": "sweep.yaml", "set": []}, "framework": "command"}
        (folder / "plan.json").write_text(json.dumps({**plan, "sweep": "lr-width", "point": known}))
        (folder / "job.log").write_text(log)
        if reason:
            record = {"attempt": 1, "reason": reason, "checkpoint": "", "nodes": "n1"}
            record |= {"exit_code": ENDED[reason], "seconds": 5, "ended": 9}
            (folder / "attempts.jsonl").write_text(json.dumps(record) + "\n")
        return folder

"""Data, secrets, checkpoints, restarts, exports and logs of a sweep's tasks on a real Slurm."""

from __future__ import annotations

import hashlib
import json
import pathlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from rendered_jobs import Jobs, shape_of_text

from clusterjobs import resources
from clusterjobs.lab.lab import Lab, running_lab, until
from clusterjobs.lab.slurm import Slurm

pytestmark = pytest.mark.lab

NODES = 4
FROM_ENVIRONMENT, FROM_FILE = "env-secret-51d7e0", "file-secret-c2b94f"
# Each start is a line: attempt, first step, checksum of both secrets, words of the data. Point 1
# saves step 5 and fails, and completes when it starts again. 2 and 3 run until they are ended.
POINT = r"""
number=$NUMBER saved=$1/latest attempt=${SLURM_RESTART_COUNT:-0}
step=$(cat "$saved" 2> /dev/null || echo 0)
digest=$(printf '%s' "$A_KEY:$B_KEY" | sha256sum)
printf '%s %s %s %s\n' "$attempt" "$step" "${digest%% *}" "$(cat /fsx/sections/data/words)" \
  >> "/fsx/sections/starts/$number"
until (( $(ls /fsx/sections/starts | wc -l) == 4 )); do sleep 0.1; done
echo "$(( step + 5 ))" > "$saved"
[[ $number != 1 || $step == 5 ]] || exit 3
until [[ $number -lt 2 || -e /fsx/sections/go ]]; do sleep 0.1; done
printf '{"number": %s, "step": %s}' "$number" "$step" > "$CLUSTERJOBS_RESULT"
"""


@pytest.fixture(scope="module")
def lab(slurm: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The cluster `small` with a node for each task."""
    text = (resources.cluster_configs_dir() / "small.yaml").read_text(encoding="utf-8")
    text = text.replace("MaxCount: 2", f"MaxCount: {NODES}")
    shape = shape_of_text(text, "small.yaml", NODES)
    with running_lab(shape, tmp_path_factory.mktemp("sections"), slurm) as running:
        yield running


class Sections:
    """The array of four points, and what its tasks wrote."""

    def __init__(self, jobs: Jobs) -> None:
        self.jobs = jobs
        self.fsx = jobs.lab.folder.shared("/fsx")
        self.folder = self.fsx / "sections"
        (self.folder / "from").mkdir(parents=True)
        (self.folder / "from" / "words").write_text("all-of-it\n")
        (self.folder / "starts").mkdir()
        token = jobs.folder / "token"
        token.write_text(f"{FROM_FILE}\n")
        spec = jobs.spec(
            "sections",
            framework="command",
            command=["bash", "-c", POINT, "point", "{{ checkpoints.path }}"],
            nodes=1,
            ranks_per_node=1,
            env={"NUMBER": "0"},
            data=[{"source": "/fsx/sections/from", "target": "/fsx/sections/data", "via": "copy"}],
            secrets={"A_KEY": {}, "B_KEY": {"file": str(token)}},
            checkpoints={"path": "/fsx/sections/saved"},
            restarts={"failure": 1},
            time_limit="00:30:00",
            logs={"path": "/fsx/logs", "export": "/fsx/exported"},
            sweep={"grid": {"env.NUMBER": [str(one) for one in range(NODES)]}},
        )
        self.script = jobs.render(spec)
        self.array = jobs.submit(self.script, A_KEY=FROM_ENVIRONMENT)

    def task(self, index: int) -> str:
        return f"{self.array}_{index}"

    def starts(self, index: int) -> list[list[str]]:
        file = self.folder / "starts" / str(index)
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []

    def job_folders(self) -> dict[int, pathlib.Path]:
        """The only job folder of each point."""
        found = [*(self.fsx / "logs" / "sections").glob("*/*/job.log")]
        points = {int(file.parts[-3][:4]): file.parent for file in found}
        assert len(points) == len(found), found
        return points

    def records(self) -> dict[int, list[tuple[str, int]]]:
        """How the attempts of each point ended."""
        ends = {}
        for index, folder in self.job_folders().items():
            lines = (folder / "attempts.jsonl").read_text().splitlines()
            last = {one["attempt"]: one for one in map(json.loads, lines)}
            ends[index] = [(one["reason"], one["exit_code"]) for one in last.values()]
        return ends

    def log(self) -> str:
        logs = (folder / "job.log" for folder in self.job_folders().values())
        return "\n".join(one.read_text(errors="replace") for one in logs)

    def wait_for(self, index: int, starts: int) -> None:
        until(lambda: len(self.starts(index)) == starts, 120, self.log)


@pytest.fixture(scope="module")
def ended(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Sections:
    """The array after all its tasks have ended: 2 by scancel, while 3 was running."""
    config = tmp_path_factory.mktemp("config")
    (config / "clusterjobs").mkdir()
    site = pathlib.Path(__file__).parents[2] / "examples" / "site.yaml"
    (config / "clusterjobs" / "site.yaml").write_text(site.read_text())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(config))
        sweep = Sections(Jobs(lab, tmp_path_factory.mktemp("spec")))
    assert lab.wait(sweep.task(0), 120).exit_code == 0, sweep.log()
    sweep.wait_for(1, starts=2)
    assert lab.wait(sweep.task(1), 120).exit_code == 0, sweep.log()
    sweep.wait_for(2, starts=1)
    assert lab.run(["scancel", sweep.task(2)]).returncode == 0
    lab.wait(sweep.task(2), 120)
    assert lab.job(sweep.task(3)).end is None
    (sweep.folder / "go").touch()
    assert lab.wait(sweep.task(3), 120).exit_code == 0, sweep.log()
    return sweep


def test_each_task_has_its_own_record_and_the_failed_one_alone_starts_again(
    ended: Sections,
) -> None:
    completed = ("completed", 0)
    assert ended.records() == {
        0: [completed],
        1: [("failure", 3), completed],
        2: [("cancelled", 143)],
        3: [completed],
    }
    found = {}
    for index, folder in ended.job_folders().items():
        result = folder / "result.json"
        found[index] = json.loads(result.read_text()) if result.exists() else None
    expected: dict[int, Any] = {one: {"number": one, "step": 0} for one in range(NODES)}
    assert found == {**expected, 1: {"number": 1, "step": 5}, 2: None}


def test_the_restarted_task_resumes_from_its_own_checkpoint(ended: Sections) -> None:
    starts = {one: [tuple(line[:2]) for line in ended.starts(one)] for one in range(NODES)}
    assert starts == {
        0: [("0", "0")],
        1: [("0", "0"), ("1", "5")],
        2: [("0", "0")],
        3: [("0", "0")],
    }
    saved = {one.name: (one / "latest").read_text() for one in (ended.folder / "saved").iterdir()}
    assert {name.partition("-")[0]: text for name, text in saved.items()} == {
        f"NUMBER={one}": "10\n" if one == 1 else "5\n" for one in range(NODES)
    }


def test_the_data_set_is_copied_once_for_all_tasks(ended: Sections) -> None:
    assert {line[3] for one in range(NODES) for line in ended.starts(one)} == {"all-of-it"}
    said: Counter[str] = Counter()
    for folder in ended.job_folders().values():
        lines = map(json.loads, (folder / "data.jsonl").read_text().splitlines())
        staged = [one["said"] for one in lines if one["what"] == "stage /fsx/sections/data"]
        said.update(text.partition(",")[0] for text in staged if "1 file" in text)
    # Three other tasks, and the second attempt of one.
    assert said == {"complete": 1, "up to date": 4}, ended.log()


def test_secrets_are_in_the_ranks_and_in_no_file(ended: Sections) -> None:
    both = hashlib.sha256(f"{FROM_ENVIRONMENT}:{FROM_FILE}".encode()).hexdigest()
    assert {line[2] for one in range(NODES) for line in ended.starts(one)} == {both}
    folders = (ended.script.parent, ended.fsx, ended.jobs.lab.folder / "log")
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    assert any(file.name == "job.log" for file in files)
    for secret in (FROM_ENVIRONMENT, FROM_FILE):
        assert [file for file in files if secret.encode() in file.read_bytes()] == []


def test_the_log_of_each_task_is_exported_to_its_own_folder(ended: Sections) -> None:
    folders = ended.job_folders()
    assert len(folders) == NODES
    for folder in folders.values():
        exported = ended.fsx / "exported" / folder.relative_to(ended.fsx / "logs")
        records = (exported / "attempts.jsonl").read_text()
        assert records == (folder / "attempts.jsonl").read_text()
        assert "clusterjobs: " in (exported / "job.log").read_text()

"""The page of hostile values: what is refused here, what is intact in a real Slurm."""

from __future__ import annotations

import collections
import json
import os
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hostile import ATTACKS, dump
from page import SUBMITTED, Case, base, load_page, put
from rendering import CONFIG, SMALL, SMALL_DOCUMENT, plan_of, script_of
from sbatch_lines import read_directives

from clusterjobs.clusters.parallelcluster.facts import slurm_shape
from clusterjobs.clusters.parallelcluster.source import read_cluster
from clusterjobs.errors import InputError
from clusterjobs.lab.lab import Lab, running_lab
from clusterjobs.lab.shape import lab_spec
from clusterjobs.lab.slurm import Slurm
from clusterjobs.script import shell
from clusterjobs.sections.plan import Plan

PAGE = load_page()
ALONE = ("name",)  # a job has one of them, and the page several
RECORD = """\
import os, pathlib, sys
env = os.environ
to = pathlib.Path(env["H_RECORD"], f"{env['SLURM_JOB_ID']}.{env.get('RANK', 'b')}")
to.mkdir()
(to / "argv").write_bytes(pathlib.Path("/proc/self/cmdline").read_bytes())
(to / "env").write_bytes(pathlib.Path("/proc/self/environ").read_bytes())
(to / "cwd").write_bytes(os.fsencode(os.getcwd()))
"""


def test_the_page_is_long_enough() -> None:
    assert len(PAGE) >= 40
    assert len({case.name for case in PAGE}) == len(PAGE)


@pytest.mark.parametrize(
    "case", [case for case in PAGE if case.expected == "refused"], ids=lambda case: case.name
)
def test_page_refuses_with_line_and_column(case: Case, tally: collections.Counter[str]) -> None:
    spec = base("/fsx/page")
    put(spec, case, "/fsx/page", 1)
    cluster = None
    if case.place == "queue":  # a config of the user's own, with a queue of that name
        text = CONFIG.read_text().replace("Name: train ", f"Name: {json.dumps(case.value)} ")
        cluster, _ = read_cluster(text, "own.yaml", {})
        assert [queue.name for queue in cluster.queues] == [case.value]
    with pytest.raises(InputError) as caught:
        plan_of(spec, cluster)
    problems = [problem for problem in caught.value.problems if not problem.warning]
    assert len(problems) == 1
    where = problems[0].where
    assert where is not None
    line = dump(spec, '"', allow_unicode=False).split("\n")[where.line - 1]
    written = json.dumps(case.value)[1:20].split("\\")[0]
    assert written in line, f"{where} is not where the value stands"
    tally["tried"] += 1
    tally["refused"] += 1


# ------------------------------------------------------------------ the real Slurm


@pytest.fixture(scope="module")
def small_lab(slurm: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two nodes of the cluster `small`."""
    spec = lab_spec(slurm_shape(SMALL, SMALL_DOCUMENT))
    with running_lab(spec, tmp_path_factory.mktemp("page"), slurm) as lab:
        yield lab


@pytest.mark.lab
def test_page_arrives_intact_in_a_real_slurm(
    small_lab: Lab, tmp_path: pathlib.Path, tally: collections.Counter[str]
) -> None:
    intact = [(i, case) for i, case in enumerate(PAGE) if case.expected == "intact"]
    shared = [(i, case) for i, case in intact if case.place not in ALONE]
    jobs = [shared] + [[(i, case)] for i, case in intact if case.place in ALONE]
    submitted = [_submit(small_lab, cases, tmp_path) for cases in jobs]
    for job_id, spec, plan, cases in submitted:
        end = small_lab.wait(job_id, 120)
        log = next(iter((small_lab.folder.shared("/fsx") / "page").glob(f"**/{job_id}/job.log")))
        assert end.state == "COMPLETED", log.read_text()
        _check_job(small_lab, job_id, plan, tmp_path)
        for number, case in cases:
            _check_case(small_lab, job_id, spec, number, case)
            tally["tried"] += 1
            tally["intact"] += 1
        tally["directives"] += len(plan.job.directives)
    roots = (small_lab.folder.shared("/fsx"), tmp_path)
    tally["executed"] = sum("CANARY" in files for root in roots for _, _, files in os.walk(root))
    assert tally["executed"] == 0
    tally["scripts"] = len(jobs)


def _submit(
    lab: Lab, cases: list[tuple[int, Case]], tmp_path: pathlib.Path
) -> tuple[str, dict[str, Any], Plan, list[tuple[int, Case]]]:
    folder = "/fsx/page"
    spec = base(folder)
    for number, case in cases:
        put(spec, case, folder, number)
    plan = plan_of(spec)
    here = lab.folder.shared("/fsx") / "page"
    values = {case.place: case.value for _, case in cases}
    for path in (here / "code", here / values.get("workdir", "code"), here / "record"):
        path.mkdir(parents=True, exist_ok=True)
        for program in {"record.py", values.get("script", "record.py")}:
            if not (path / program).exists():  # an earlier job may be reading it
                (path / program).write_text(RECORD)
    script = tmp_path / f"job{cases[0][0]}.sh"
    text = script_of(plan)
    wanted = [(one.name, one.value is True or str(one.value)) for one in plan.job.directives]
    assert read_directives(text) == wanted
    script.write_bytes(text.encode())
    environment = {**os.environ, "H_RECORD": f"{folder}/record"}
    if "submitted" in values:
        environment[SUBMITTED] = values["submitted"]
    return lab.sbatch(script, env=environment, cwd=tmp_path), spec, plan, cases


def _check_job(lab: Lab, job_id: str, plan: Plan, submit_dir: pathlib.Path) -> None:
    """Slurm's own record of the job against the plan's directives."""
    shown = lab.run(["scontrol", "show", "job", job_id]).stdout
    wanted = {one.name: one.value for one in plan.job.directives}
    assert _shows(shown, "JobName", wanted["job-name"])
    if comment := wanted.get("comment"):
        assert _shows(shown, "Comment", comment)
    else:
        assert "   Comment=" not in shown
    assert "   NumNodes=2 " in shown
    assert "   Partition=train " in shown
    assert "TimeLimit=00:02:00 " in shown
    out = submit_dir / f"{wanted['job-name']}-{job_id}.out"
    assert _shows(shown, "StdOut", str(out))
    assert out.is_file()


def _shows(shown: str, name: str, value: str) -> bool:
    """Whether a line ends with NAME=VALUE; up to Slurm 25.05, scontrol adds a blank to each."""
    line = rf"(?m)^(?:JobId=\d+|  ) {name}={re.escape(value)} ?$"
    return re.search(line, shown) is not None


def _check_case(lab: Lab, job_id: str, spec: dict[str, Any], number: int, case: Case) -> None:
    here = lab.folder.shared("/fsx") / "page"
    for rank in ("0", "1"):
        record = here / "record" / f"{job_id}.{rank}"
        argv = [os.fsdecode(word) for word in (record / "argv").read_bytes().split(b"\0")[:-1]]
        env = dict(
            os.fsdecode(item).split("=", 1)
            for item in (record / "env").read_bytes().split(b"\0")[:-1]
        )
        value = case.value
        if case.place in ("args", "parameter", "submitted", "choice"):
            assert argv[argv.index(f"--a{number}") + 1] == value
        elif case.place == "arg name":
            assert argv[argv.index(f"--{value}") + 1] == "x"
        elif case.place == "env":
            assert env[f"H_{number}"] == value
        elif case.place == "workdir":
            assert (record / "cwd").read_bytes().decode() == f"/fsx/page/{value}"
        elif case.place == "logs":
            assert (here / value / job_id / "job.log").is_file()
        elif case.place == "checkpoints":
            assert (here / value).is_dir()
        elif case.place == "script":
            assert argv[1] == value
        elif case.place == "name":
            assert env["SLURM_JOB_NAME"] == value
        elif case.place == "before":
            words = (here / "record" / f"{job_id}.b" / "argv").read_bytes().split(b"\0")
            assert words[2].decode() == value
        elif case.place == "ds_config":
            config = json.loads(pathlib.Path(lab.folder.host_path(argv[-1])).read_text())
            assert config[value] == value
        else:
            assert case.place == "comment", case.place  # _check_job has seen it


@pytest.mark.lab
def test_sbatch_reads_directives_as_our_reader_does(
    small_lab: Lab, tmp_path: pathlib.Path, tally: collections.Counter[str]
) -> None:
    """Both ways of reading, on every attack that a directive may hold: Slurm has the last word."""
    texts = [text for text in ATTACKS if not re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", text)]
    lines = []
    for number, text in enumerate(texts):
        directives = [shell.directive("comment", text), shell.directive("wckey", "x")]
        script = tmp_path / f"{number}.sh"
        script.write_text("\n".join(["#!/bin/bash", *directives, "exit 0", ""]))
        assert read_directives(script.read_text()) == [("comment", text), ("wckey", "x")]
        lines.append(f'scontrol show job "$(sbatch --parsable --hold {number}.sh)"')
    lines.append("scancel --state=PENDING --full 2>/dev/null || true")
    shown = small_lab.run(["bash", "-c", "\n".join(lines)], cwd=tmp_path).stdout
    jobs = shown.split("JobId=")[1:]
    assert len(jobs) == len(texts)
    for text, job in zip(texts, jobs, strict=True):
        assert _shows("JobId=" + job, "Comment", text), (text, job)
        tally["tried"] += 1
        tally["intact"] += 1
        tally["directives"] += 2

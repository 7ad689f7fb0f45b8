"""Whole specs of hostile text: each value arrives in the rank byte for byte, or is refused."""

from __future__ import annotations

import collections
import json
import re
import unicodedata
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hostile import MIXED, HostileSpec, Path, as_data, dump, hostile_specs
from hypothesis import given, note, settings
from hypothesis import strategies as st
from rendering import plan_of_text, script_of
from sbatch_lines import read_directives
from script_stage import JOB_ID, Run, Stage

from clusterjobs.errors import InputError, Location
from clusterjobs.sections.plan import Plan

RUNS_PER_SPEC = 6  # how often values may be refused before a spec must render


@settings(settings.get_profile("adversarial"))
@given(
    hostile_specs(),
    st.sampled_from((None, '"', "'")),
    st.booleans(),
    st.sampled_from(("exp.yaml", "a b.yaml", "x\n#SBATCH --nodes=99\n.yaml", "$(touch CANARY)")),
)
def _check_specs(
    stage: Stage,
    tally: collections.Counter[str],
    spec: HostileSpec,
    style: str | None,
    allow_unicode: bool,
    file: str,
) -> None:
    stage.clear()
    kept, plan = _plan_what_is_not_refused(spec, stage, style, allow_unicode, tally)
    script = script_of(plan, file)
    _check_directives(script, kept, plan, tally)
    (stage.folder / "w" / kept.workdir).mkdir(parents=True, exist_ok=True)
    stage.make_input(f"{stage.folder}/w/{kept.workdir}/{kept.script}")
    if kept.venv is not None:
        stage.make_venv(stage.folder / "v" / kept.venv)
    run = stage.run(script, {**kept.submitted, "H_OUTER": kept.outer}, len(kept.sidecars))
    tally["scripts"] += 1
    tally["executed"] += run.executed
    note(script)
    note(run.output)
    assert not run.executed, "a value was executed"
    log = stage.folder / "l" / kept.logs / JOB_ID / "job.log"
    assert run.code == 0, log.read_text() if log.exists() else run.output
    tally["intact"] += _check_arrival(kept, stage, run)
    tally["tried"] += _count(as_data(kept, ""))


@pytest.mark.slow
def test_each_hostile_value_arrives_or_is_refused(
    stage: Stage, tally: collections.Counter[str]
) -> None:
    _check_specs(stage, tally)
    assert tally["intact"] == tally["tried"] - tally["refused"]
    assert tally["intact"] > 10 * tally["refused"], "a suite that refuses everything proves nothing"


# ------------------------------------------------------------------ refused, with the position


def _plan_what_is_not_refused(
    spec: HostileSpec,
    stage: Stage,
    style: str | None,
    allow_unicode: bool,
    tally: collections.Counter[str],
) -> tuple[HostileSpec, Plan]:
    for _ in range(RUNS_PER_SPEC):
        data = as_data(spec, str(stage.folder))
        text = dump(data, style, allow_unicode)
        try:
            return spec, plan_of_text(text)
        except InputError as error:
            note(text)
            for problem in error.problems:
                if problem.warning or problem.info:
                    continue
                assert problem.where is not None, f"refused without a position: {problem}"
                path = _path_at(problem.where, text)
                reason = _may_be_refused(path, data)
                assert reason, f"refused for nothing: {problem}"
                smaller = spec.without(path)
                lost = _count(as_data(spec, "")) - _count(as_data(smaller, ""))
                spec = smaller
                tally["tried"] += lost
                tally["refused"] += lost
    raise AssertionError("refused again and again")


def _path_at(where: Location, text: str) -> Path:
    """What stands at the line and column that a message names, read by another YAML reader."""
    lines = text.split("\n")
    index = sum(len(line) + 1 for line in lines[: where.line - 1]) + where.column - 1
    found = [path for start, path in _starts(yaml.compose(text), ()) if start == index]
    assert found, f"nothing stands at {where}: {lines[where.line - 1]!r}"
    return found[0]


def _starts(node: yaml.Node, path: Path) -> Iterator[tuple[int, Path]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key.start_mark.index, (*path, key.value)
            yield from _starts(value, (*path, key.value))
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _starts(item, (*path, index))
    yield node.start_mark.index, path


def _may_be_refused(path: Path, data: dict[str, Any]) -> bool:
    """What docs/hostile-values.md says is refused in this place, in this test's own words."""
    head = path[0]
    value = _at(data, path)
    if head == "name":
        bad = (
            not value
            or _controls(value)
            or "/" in value
            or value.startswith("-")
            or value in (".", "..")
        )
        return bad or value != value.strip() or len(value.encode()) > 200
    if head in ("workdir", "logs", "checkpoints", "script", "software"):
        if path[:2] == ("software", "modules"):
            return True
        if path == ("software", "venv") and "conda" in data["software"]:
            return True  # each would hide the other's Python
        text = value if isinstance(value, str) else ""
        long = any(len(part.encode()) > 240 for part in text.split("/")) or len(text) > 1000
        edge = text[:1] in ("", "-") or (path[-1] == "venv" and ":" in text)
        return _controls(text) or long or edge or _has_home(text)
    if head == "env":
        return _has_home(value)
    if head in ("sbatch", "srun"):
        return _controls(value) or len(value.encode()) > 1024
    if head == "args" and isinstance(data["args"], dict):
        return path[1].split() != [path[1]]
    return False


def _has_home(text: str) -> bool:
    return re.search(r"(?:^|[:=])~[a-z_][\w-]*/|[:=]~/", text) is not None


def _controls(text: str) -> bool:
    return any(unicodedata.category(character) in ("Cc", "Zl", "Zp") for character in text)


def _at(data: Any, path: Path) -> Any:
    for step in path:
        data = data[step]
    return data


_FIXED = ("cluster", "nodes", "framework", "launcher", "batch", "ranks_per_node")


def _count(data: dict[str, Any]) -> int:
    """How many hostile values, keys among them, stand in a spec."""
    return sum(_count_in(value) for head, value in data.items() if head not in _FIXED)


def _count_in(value: Any) -> int:
    if isinstance(value, dict):
        return sum(1 + _count_in(item) for item in value.values())
    return sum(map(_count_in, value)) if isinstance(value, list) else 1


# ------------------------------------------------------------------ directives


def _check_directives(
    script: str, spec: HostileSpec, plan: Plan, tally: collections.Counter[str]
) -> None:
    found = read_directives(script)
    wanted = [
        (one.name, one.value if one.value is True else str(one.value))
        for one in plan.job.directives
    ]
    tally["directives"] += len(wanted)
    wrong = collections.Counter(found)
    wrong.subtract(wanted)
    tally["directives_wrong"] += sum(map(abs, wrong.values()))
    assert found == wanted
    said = dict(found)
    assert said["job-name"] == spec.name
    assert {name: said[name] for name in spec.sbatch} == spec.sbatch


# ------------------------------------------------------------------ arrival


def _check_arrival(spec: HostileSpec, stage: Stage, run: Run) -> int:
    """Compares every value with what was recorded; how many there were."""
    folder = stage.folder
    job_dir = folder / "l" / spec.logs / JOB_ID
    assert (job_dir / "job.log").is_file()
    assert (folder / "c" / spec.checkpoints).is_dir()
    assert json.loads((job_dir / "ds_config.json").read_text()) == {
        "train_batch_size": 8,
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 4,
        **spec.ds_config,
    }
    started_by_srun = "wrap" if spec.prefix else "python3"
    ranks = run.calls[started_by_srun if spec.launcher == "srun" else spec.launcher]
    assert len(ranks) == 1
    rank = ranks[0]
    words = (spec.script, *_arguments(spec), "--deepspeed", "--deepspeed_config")
    words += (f"{folder}/l/{spec.logs}/{JOB_ID}/ds_config.json",)
    if spec.prefix or spec.launcher == "srun":
        words = ("python3", *words) if spec.prefix else words
    if spec.launcher != "srun":
        words = ("wrap", *spec.prefix, *words) if spec.prefix else words
    else:
        words = (*spec.prefix, *words)
    assert rank.argv[len(rank.argv) - len(words) :] == words
    assert spec.launcher != "srun" or rank.argv == words
    assert rank.cwd == str(folder / "w" / spec.workdir)
    got = {name: rank.env.get(name) for name in spec.env}
    assert got == spec.env, {n: (got[n], v) for n, v in spec.env.items() if got[n] != v}
    assert rank.env[MIXED] == spec.outer.join(spec.around)
    if spec.venv is not None:
        assert rank.env["VIRTUAL_ENV"] == f"{folder}/v/{spec.venv}"
        assert rank.env["PATH"].startswith(f"{folder}/v/{spec.venv}/bin:{stage.bin}:")
    if spec.secret_words:
        assert rank.env["H_SECRET"] == "value of the secret"
    _check_steps(spec, run)
    return _count(as_data(spec, ""))


def _check_steps(spec: HostileSpec, run: Run) -> None:
    steps = (*spec.before, *spec.before_on_nodes, *spec.after)
    assert _all_words(run, "step") == sorted(steps)
    assert _all_words(run, "sidecar") == sorted(spec.sidecars)
    assert _all_words(run, "module") == ([("load", *spec.modules)] if spec.modules else [])
    conda = [("shell.bash", "hook"), ("activate", spec.conda)]
    assert _all_words(run, "conda") == (sorted(conda) if spec.conda is not None else [])
    assert _all_words(run, "secret") == ([spec.secret_words] if spec.secret_words else [])
    launch = [call for call in run.calls["srun"] if "--overlap" not in call.argv]
    assert len(launch) == 1
    options = launch[0].argv[: launch[0].argv.index("bash")]
    own = dict(option[2:].partition("=")[::2] for option in options)
    assert {name: own.get(name) for name in spec.srun} == spec.srun
    assert len(options) == 8 + len(spec.srun)


def _all_words(run: Run, name: str) -> list[tuple[str, ...]]:
    return sorted(call.argv for call in run.calls.get(name, []))


def _arguments(spec: HostileSpec) -> tuple[str, ...]:
    words: list[str] = []
    given = {**spec.parameters, **{k: v for k, v in spec.submitted.items() if v}}
    if isinstance(spec.args, tuple):
        return (*spec.args, *(given[name].join(spec.around) for name in spec.parameters))
    for key, value in spec.args.items():
        words += [key if key.startswith("-") else f"--{key}"]
        words += value if isinstance(value, tuple) else [value]
    for number, name in enumerate(spec.parameters):
        words += [f"--p{number}", given[name].join(spec.around)]
    return tuple(words)

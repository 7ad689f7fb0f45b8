"""Hostile names of data, exports and mounts: each arrives where it is used, or is refused.

What those programs do with such names is tested with them, in tests/node.
"""

from __future__ import annotations

import collections
import unicodedata
from typing import Any

import pytest
from hostile import components, dump, literal_path
from hypothesis import given, note, settings
from hypothesis import strategies as st
from rendering import plan_of_text, script_of
from script_stage import JOB_ID, Run, Stage

from clusterjobs.errors import InputError


def _run(
    stage: Stage,
    tally: collections.Counter[str],
    keys: dict[str, Any],
    hostile: tuple[str, ...],
    inputs: tuple[str, ...] = (),
) -> Run | None:
    """The run of a spec with these keys; None where it is refused, which has to be right.

    `inputs`: what is to lie there before.
    """
    stage.clear()
    data = {
        "name": "x",
        "cluster": "small",
        "nodes": 2,
        "framework": "command",
        "launcher": "torchrun",
        "command": ["step"],
        "logs": f"{stage.folder}/l",
        **keys,
    }
    tally["tried"] += len(hostile)
    try:
        plan = plan_of_text(dump(data))
    except InputError as error:
        wrong = [one for one in error.problems if not one.warning and not one.info]
        assert all(one.where for one in wrong)
        reasons = [text for text in hostile if _may_be_refused(text)]
        assert reasons, f"refused for nothing: {wrong[0]}"
        tally["refused"] += len(hostile)
        return None
    script = script_of(plan)
    for path in inputs:
        stage.make_input(path)
    note(script)
    run = stage.run(script, {})
    note(run.output)
    assert not run.executed, "a value was executed"
    assert run.code == 0, run.output
    tally["scripts"] += 1
    tally["intact"] += len(hostile)
    return run


def _may_be_refused(text: str) -> bool:
    """What docs say is refused in a path; `,`, `:`, `"` and, for pyxis, more separates mounts."""
    odd = any(unicodedata.category(character) in ("Cc", "Zl", "Zp") for character in text)
    return odd or len(text.encode()) > 240 or any(sign in text for sign in ',:" \\')


@settings(settings.get_profile("adversarial"), max_examples=150)
@given(st.tuples(components, components, components, components))
def _check_staging(
    stage: Stage, tally: collections.Counter[str], names: tuple[str, str, str, str]
) -> None:
    source, target, checkpoints, logs = names
    keys = {
        "data": [
            {
                "source": literal_path(f"{stage.folder}/s/{source}"),
                "target": literal_path(f"/fsx/t/{target}"),
            }
        ],
        "checkpoints": {
            "path": f"{stage.folder}/c",
            "export": literal_path(f"/fsx/e/{checkpoints}"),
        },
        "logs": {"path": f"{stage.folder}/l", "export": literal_path(f"/fsx/l/{logs}")},
    }
    run = _run(stage, tally, keys, names, (f"{stage.folder}/s/{source}",))
    if run is None:
        return
    job_dir = f"{stage.folder}/l/{JOB_ID}"
    programs = {call.argv[1]: call.argv for call in run.calls["python3"] if call.argv[0] == "-B"}
    assert programs[f"{job_dir}/stage.py"][2:] == (f"{stage.folder}/s/{source}", f"/fsx/t/{target}")
    exported = programs[f"{job_dir}/export.py"][-4:]
    into = (f"/fsx/e/{checkpoints}", f"/fsx/l/{logs}".rstrip("/") + f"/{JOB_ID}")
    assert exported == (f"{stage.folder}/c", into[0], job_dir, into[1])


@pytest.mark.slow
def test_names_of_data_and_exports_arrive_or_are_refused(
    stage: Stage, tally: collections.Counter[str]
) -> None:
    _check_staging(stage, tally)
    assert tally["intact"] > tally["refused"]


@settings(settings.get_profile("adversarial"), max_examples=100)
@given(st.tuples(components, components))
def _check_mounts(
    stage: Stage, tally: collections.Counter[str], runtime: str, names: tuple[str, str]
) -> None:
    source, target = f"/m/{names[0]}", f"/inside/{names[1]}"
    mount = {"source": literal_path(source), "target": literal_path(target)}
    image = {"pyxis": "/fsx/a.sqsh", "apptainer": "/fsx/a.sif", "docker": "image:1"}[runtime]
    container = {"runtime": runtime, "image": image, "mounts": [mount]}
    run = _run(stage, tally, {"software": {"container": container}}, names)
    if run is None:
        return
    called = [call.argv for call in run.calls["srun" if runtime == "pyxis" else runtime]]
    words = {word for argv in called for word in argv}
    if runtime == "pyxis":
        (mounts,) = {word for word in words if word.startswith("--container-mounts=")}
        assert f"{source}:{target}" in mounts.partition("=")[2].split(",")
    elif runtime == "apptainer":
        assert f"--bind={source}:{target}" in words
    else:
        assert f"--mount=type=bind,source={source},target={target}" in words


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["pyxis", "apptainer", "docker"])
def test_names_of_mounts_arrive_or_are_refused(
    stage: Stage, tally: collections.Counter[str], runtime: str
) -> None:
    _check_mounts(stage, tally, runtime)
    assert tally["intact"] > 20

"""`values`: what a command prints in the job reaches the ranks as plain data, or ends the job."""

from __future__ import annotations

import os
import pathlib
import signal

import pytest
from script_runs import Run, run_script, script

from clusterjobs.errors import InputError

HOSTILE = """$(touch planted) `touch planted` "$HOME" '~' * \\n é\nsecond {{ name }} ${A:-b} ;& |"""
SHOW = 'printf "%s" "$1" > argument; printf "%s" "$A_VALUE" > variable'


def run(folder: pathlib.Path, command: list[str], ranks: str = SHOW, **more: object) -> Run:
    text = script(
        nodes=1,
        values={"printed": {"command": command}},
        command=["bash", "-c", ranks, "rank", "{{ values.printed }}"],
        env=more.pop("env", {"A_VALUE": "<{{ values.printed }}>", "OTHER": "plain"}),
        setup=["export FROM_SETUP=yes"],
        workdir=str(folder),
        time_limit="1-00:00:00",
        **{key: value for key, value in more.items() if key != "environment"},
    )
    return run_script(folder, text, environment=more.get("environment"))  # type: ignore[arg-type]


def test_what_a_command_prints_is_an_argument_and_a_variable_unchanged(tmp_path) -> None:
    (tmp_path / "printed").write_text(HOSTILE + "\n\n")
    done = run(tmp_path, ["cat", "printed"])
    assert done.code == 0, done.log
    assert (tmp_path / "argument").read_text() == HOSTILE
    assert (tmp_path / "variable").read_text() == f"<{HOSTILE}>"
    assert not (tmp_path / "planted").exists()


def test_the_command_has_the_environment_of_the_job(tmp_path) -> None:
    done = run(tmp_path, ["bash", "-c", 'echo "$FROM_SETUP $OTHER"'])
    assert done.code == 0, done.log
    assert (tmp_path / "argument").read_text() == "yes plain"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            ["bash", "-c", "echo why; exit 3"],
            "the command of the value printed ended with exit code 3",
        ),
        (["./missing"], "the command of the value printed ended with exit code 127"),
        (["true"], "the command of the value printed printed nothing"),
        (["head", "-c", "131072", "/dev/zero"], "printed nothing"),
        (["bash", "-c", "yes | head -c 140000"], "printed more than Linux allows"),
    ],
)
def test_a_command_that_fails_ends_the_job_before_it_starts(tmp_path, command, said) -> None:
    checkpoints = {"path": str(tmp_path / "checkpoints")}
    done = run(tmp_path, command, "touch ran", restarts={"failure": 2}, checkpoints=checkpoints)
    assert (done.code, done.reasons, done.requeues) == (1, ["not_started"], 0)
    log = (tmp_path / "logs" / "4711" / "job.log").read_text()
    assert said in log
    assert "echo why" not in str(command) or "why\n" in log
    assert not (tmp_path / "ran").exists()


def test_a_value_is_the_same_in_all_attempts(tmp_path) -> None:
    counts = ["bash", "-c", "echo x >> runs; wc -l < runs"]
    ranks = f"{SHOW}; exit 9"
    checkpoints = {"path": str(tmp_path / "checkpoints")}
    keys = {"restarts": {"failure": 2}, "checkpoints": checkpoints}
    assert run(tmp_path, counts, ranks, **keys).code == 9
    again = {"SLURM_RESTART_COUNT": "1"}
    assert run(tmp_path, counts, ranks, environment=again, **keys).code == 9
    assert (tmp_path / "argument").read_text() == "1"


def test_a_signal_ends_a_command_that_does_not_end(tmp_path) -> None:
    text = script(
        nodes=1,
        values={"slow": {"command": ["bash", "-c", "touch started; exec sleep 1000"]}},
        command=["./run", "{{ values.slow }}"],
        workdir=str(tmp_path),
    )
    done = run_script(tmp_path, text, state="CANCELLED", signal=signal.SIGTERM)
    assert done.code == 143
    assert done.reasons == ["cancelled"]


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ({"logs": "/fsx/{{ values.a }}"}, "known once the environment is set up"),
        ({"workdir": "/fsx/{{ values.a }}"}, "known once the environment is set up"),
        (
            {"values": {"a": {"command": ["x", "{{ values.a }}"]}}},
            "the commands run in the order of the spec",
        ),
        ({"command": ["{{ values.other }}"]}, "there is no value values.other"),
        ({"values": {"a-b": {"command": ["x"]}}}, "a value's name has letters, digits and _"),
        ({"env": {"computed_a": "1"}}, "computed_a is reserved"),
    ],
)
def test_where_a_value_is_not_known_it_is_refused(keys, what) -> None:
    with pytest.raises(InputError) as error:
        script(**{"values": {"a": {"command": ["x"]}}, **keys})
    assert any(what in one.what for one in error.value.problems), error.value.problems


def test_a_variable_that_contains_a_computed_one_has_its_value(tmp_path) -> None:
    show = 'printf "%s" "$AROUND" > around'
    done = run(
        tmp_path,
        ["echo", "12"],
        show,
        env={"STEPS": "{{ values.printed }}", "AROUND": "<${STEPS}>"},
    )
    assert done.code == 0, done.log
    assert (tmp_path / "around").read_text() == "<12>"


def test_an_argument_is_the_newest_checkpoint_that_is_whole(tmp_path) -> None:
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    keys = {
        "command": ["bash", "-c", 'echo "$#:$*" > arguments', "rank", "{{ checkpoints.latest }}"],
        "checkpoints": {"path": str(folder)},
        "workdir": str(tmp_path),
    }
    text = script(nodes=1, **keys)
    assert run_script(tmp_path, text).code == 0
    assert (tmp_path / "arguments").read_text() == "0:\n"
    for seconds, content in enumerate((b"a pickle", b"")):  # the second one was cut
        path = folder / f"step {seconds}.pt"
        path.write_bytes(content)
        os.utime(path, (seconds, seconds))
    done = run_script(tmp_path, text)
    assert (tmp_path / "arguments").read_text() == f"1:{folder}/step 0.pt\n"
    assert f"{folder}/step 1.pt is empty: {folder}/step 0.pt is taken" in done.log


def test_a_marker_that_a_kill_has_cut_is_repaired_before_the_ranks_start(tmp_path) -> None:
    folder = tmp_path / "checkpoints"
    (folder / "global_step5").mkdir(parents=True)
    (folder / "latest").write_text("")
    (tmp_path / "train.py").write_text(f"print('resumes', open('{folder}/latest').read())")
    text = script(
        framework="deepspeed",
        script="train.py",
        batch={"micro": 1, "global": 8},
        nodes=1,
        checkpoints={"path": str(folder)},
        workdir=str(tmp_path),
    )
    done = run_script(tmp_path, text, stand_ins={"torchrun": f"exec python3 {tmp_path}/train.py"})
    assert "resumes global_step5" in done.log
    assert f"{folder}/latest is empty: {folder}/global_step5 is resumed instead" in done.log

"""The script as text: nothing unquoted, its order, and parameters as bash sees them."""

from __future__ import annotations

import pathlib
import re
import tempfile

import jinja2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from script_runs import JOB_ID, Run, run_script, script

from clusterjobs.errors import InputError
from clusterjobs.resources import node_program
from clusterjobs.script.environment import template_environment
from clusterjobs.script.parts import PROGRAMS
from clusterjobs.script.shell import UnquotedError


def test_a_template_that_prints_a_bare_value_is_an_error(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.j2").write_text("name={{ name }}")
    template = template_environment(tmp_path).get_template("t.j2")
    with pytest.raises(UnquotedError):
        template.render(name="$(reboot)")


def test_a_template_that_misspells_a_value_is_an_error(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.j2").write_text("{% if nmae %}x{% endif %}")
    with pytest.raises(jinja2.UndefinedError):
        template_environment(tmp_path).get_template("t.j2").render(name=1)


def test_every_directive_stands_before_the_first_command() -> None:
    lines = script(sbatch={"account": "ml", "comment": "x\\"}).splitlines()
    directives = [i for i, line in enumerate(lines) if line.startswith("#SBATCH")]
    command = next(i for i, line in enumerate(lines) if line and not line.startswith("#"))
    assert max(directives) < command
    assert all("#SBATCH" not in line for line in lines[command:])


def test_the_story_comes_before_the_housekeeping() -> None:
    text = script(preflight=True, restarts={"failure": 1}, checkpoints={"path": "/c"})
    marks = (
        "#SBATCH",
        "\nmain() {",
        "# ---- rendezvous",
        "# ---- launch",
        "\n  reason=completed\n}",
    )
    marks += ("# ==== housekeeping", "\nfinish() {", '\nmain "$@"\n', "\n: <<'end of attempt.py'")
    places = [text.index(mark) for mark in marks]
    assert places == sorted(places)


def test_a_spec_gets_only_the_functions_that_it_needs() -> None:
    plain = script(command=["true"])
    for name in (
        "-x true",  # on the node's PATH: no file to look for
        "unpack_programs",
        "start_attempt",
        "run_child",
        "check_nodes",
        "stage()",
        "start_export",
    ):
        assert name not in plain
    assert len(plain.partition(PROGRAMS)[0].splitlines()) <= 139


RUN_IN_PLACE = {"start_again.sh", "make_safe_folder.sh", "first_exit_code.sh"}


def test_every_program_that_a_script_carries_is_unpacked_whole(tmp_path: pathlib.Path) -> None:
    data = [{"source": "s3://corpus/a.tar", "target": "/fsx/to", "unpack": True}]
    keys = {"checkpoints": {"path": "/c", "export": "/d"}, "restarts": {"failure": 1}}
    keys["time_limit"] = "1-00:00:00"
    text = script(nodes=1, data=data, preflight=True, **keys)
    names = re.findall(r"(?m)^: <<'end of (.*\.(?:py|sh))'$", text)
    carried = {*names} - RUN_IN_PLACE
    assert {"stage_s3.py", "attempt.py", "preflight_node.sh", "export.py"} <= carried
    run = run_script(tmp_path, text.replace("  start_attempt\n", "  exit 7\n"))
    assert run.code == 7, run.log
    for name in carried:
        unpacked = (tmp_path / "logs" / JOB_ID / name).read_text()
        assert unpacked.rstrip("\n") == node_program(name).rstrip("\n"), name


def test_a_job_whose_script_has_lost_the_check_of_its_folders_does_not_start(
    tmp_path: pathlib.Path,
) -> None:
    text = script(nodes=1, command=["touch", "ran"], workdir=str(tmp_path))
    run = run_script(tmp_path, text.replace("<<'end of make_safe_folder.sh'", "<<'end of x.sh'"))
    assert run.code == 1
    assert "cannot read make_safe_folder.sh from " in run.log
    assert not (tmp_path / "ran").exists()


def test_a_job_whose_script_is_gone_at_the_end_keeps_the_exit_code_of_srun(
    tmp_path: pathlib.Path,
) -> None:
    text = script(nodes=1, command=["bash", "-c", "kill -KILL $$"], workdir=str(tmp_path))
    run = run_script(tmp_path, text.replace("<<'end of first_exit_code.sh'", "<<'end of x.sh'"))
    assert run.code == 137, run.log
    assert "cannot read first_exit_code.sh from " in run.log


NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)


@settings(max_examples=150, deadline=None)
@given(name=NAMES, file=NAMES)
def test_no_name_adds_a_line_or_a_directive(name: str, file: str) -> None:
    plain = script()
    try:
        text = script(file, name=name)
    except InputError:
        return
    assert text.count("\n") == plain.count("\n")
    starts = [line.split("=")[0] for line in text.split("\n") if line.startswith("#SBATCH")]
    assert starts == [x.split("=")[0] for x in plain.split("\n") if x.startswith("#SBATCH")]


# ------------------------------------------------------------------ parameters

PRINT = ["bash", "-c", "printf '%s\\0' \"$@\" > printed", "print"]


def run_parameters(
    parameters: dict[str, object], environment: dict[str, str] | None = None
) -> tuple[Run, list[str]]:
    """The run of a job with these parameters, and what its rank gets for each."""
    arguments = [f"{{{{ parameters.{name} }}}}" for name in parameters]
    text = script(parameters=parameters, command=[*PRINT, *arguments])
    with tempfile.TemporaryDirectory() as name:
        run = run_script(pathlib.Path(name), text, environment=environment)
        printed = pathlib.Path(name, "printed")
        found = printed.read_bytes().decode().split("\0")[:-1] if printed.exists() else []
    return run, found


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=15) | st.text(
    "'\"\\$`{}()*? \n\t~!#;&|-", max_size=12
)


def no_reference(text: str) -> str:
    """The text without two braces side by side, which would be read as a reference."""
    return re.sub(r"\{(?=\{)", "{ ", text)


@settings(max_examples=40, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=20))
def test_default_of_a_parameter_arrives_byte_for_byte(defaults: list[str]) -> None:
    values = {
        f"P{number}": {"default": no_reference(default), "type": "text"}
        for number, default in enumerate(defaults)
    }
    run, found = run_parameters(values)
    assert run.code == 0, run.log
    assert found == [value["default"] for value in values.values()]


@settings(max_examples=8, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=5, unique=True))
def test_each_choice_is_accepted_and_nothing_else(choices: list[str]) -> None:
    choices = [no_reference(choice) for choice in choices if choice] or ["a"]
    declared = {"P": {"default": choices[0], "choices": choices}}
    for choice in choices:
        assert run_parameters(declared, {"P": choice})[1] == [choice]
    other = choices[0] + "x*"
    if other not in choices:
        run, found = run_parameters(declared, {"P": other})
        assert (run.code, run.reasons, found) == (1, ["not_started"], [])


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("integer", ["0", "-3", "+12", "007"], ["x", "1.5", "1 2", "1;id", "a[$(id)]", "1\n2"]),
        ("number", ["1", "1.5e-4", ".5", "2."], ["e5", "1e", "nan", "1,5", "$(id)", "1\n"]),
    ],
)
def test_typed_parameter_is_checked_on_the_node(kind: str, good: list[str], bad: list[str]) -> None:
    declared = {"P": {"default": 1, "type": kind}}
    for value in good:
        assert run_parameters(declared, {"P": value})[1] == [value]
    for value in bad:
        run, found = run_parameters(declared, {"P": value})
        assert (run.code, found) == (1, [])
        assert f"the parameter P is not {'an' if kind == 'integer' else 'a'} {kind}" in run.log


def test_an_empty_parameter_takes_its_default() -> None:
    assert run_parameters({"P": {"default": 7, "type": "integer"}}, {"P": ""})[1] == ["7"]


def test_prefix_stands_in_front_of_python_and_the_launcher_starts_no_script() -> None:
    text = script(framework="torchrun", script="t.py", launcher="torchrun", prefix="nice -n 5")
    assert "--no-python" in text
    assert re.search(r"command=\(\n    nice -n 5\n    python3 t\.py\n  \)", text)

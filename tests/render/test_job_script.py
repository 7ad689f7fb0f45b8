"""The template and what it is handed: nothing unquoted, and parameters as bash sees them."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess

import jinja2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterjobs import resources
from clusterjobs.errors import InputError
from clusterjobs.frameworks import option_models
from clusterjobs.parallelcluster.facts import cluster_facts
from clusterjobs.parallelcluster.read import read_cluster
from clusterjobs.plan.resolve import resolve
from clusterjobs.render import job_script
from clusterjobs.render.shell import UnquotedError
from clusterjobs.spec.load import load_spec

SMALL = (resources.cluster_configs_dir() / "small.yaml").read_text()
BASE = {"name": "a", "cluster": "small", "framework": "command", "command": ["./run"]}


def as_yaml(data: object) -> str:
    """JSON is YAML, so that values need no quoting of ours; but YAML has no surrogate pairs."""
    pair = re.compile(r"\\ud[89ab]..\\ud[c-f]..")
    return pair.sub(
        lambda m: f"\\U{ord(json.loads(chr(34) + m[0] + chr(34))):08x}", json.dumps(data)
    )


def script(spec_file: str = "spec.yaml", **keys: object) -> str:
    """job.sh of a small spec; a script takes the place of the command."""
    base = {key: value for key, value in BASE.items() if key != "command" or "script" not in keys}
    spec = load_spec(as_yaml({**base, **keys}), spec_file, option_models())
    return job_script.render_job_script(
        resolve(spec, cluster_facts(read_cluster(SMALL, "small.yaml", {})[0])), spec_file
    )


def block(text: str, title: str) -> str:
    """The lines of a block that ends at the next empty line followed by a heading."""
    found = re.search(rf"# ---- {title}.*?\n(.*?)\n\n# ----", text, re.DOTALL)
    assert found, f"no block {title}"
    return found[1]


def test_a_template_that_prints_a_bare_value_is_an_error(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.j2").write_text("name={{ name }}")
    template = job_script._environment(tmp_path).get_template("t.j2")
    with pytest.raises(UnquotedError):
        template.render(name="$(reboot)")


def test_a_template_that_misspells_a_value_is_an_error(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.j2").write_text("{% if nmae %}x{% endif %}")
    with pytest.raises(jinja2.UndefinedError):
        job_script._environment(tmp_path).get_template("t.j2").render(name=1)


def test_every_directive_stands_before_the_first_command() -> None:
    lines = script(sbatch={"account": "ml", "comment": "x\\"}).splitlines()
    directives = [i for i, line in enumerate(lines) if line.startswith("#SBATCH")]
    command = next(i for i, line in enumerate(lines) if line and not line.startswith("#"))
    assert max(directives) < command
    assert all("#SBATCH" not in line for line in lines[command:])


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


def run_parameters(
    text: str, environment: dict[str, str], names: list[str]
) -> tuple[int, list[str]]:
    """The block of the parameters in a real bash, and what the variables are after it."""
    shown = " ".join(f'"${name}"' for name in names)
    program = (
        "set -euo pipefail\nfail() { printf '%s' \"$1\"; exit 1; }\n"
        f"{block(text, 'parameters')}\nprintf '%s\\0' {shown}"
    )
    done = subprocess.run(
        ["bash", "-c", program],
        capture_output=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", **environment},
    )
    assert done.stderr == b""
    return done.returncode, done.stdout.decode().split("\0")


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=15) | st.text(
    "'\"\\$`{}()*? \n\t~!#;&|-", max_size=12
)


def no_reference(text: str) -> str:
    """The text without two braces side by side, which would be read as a reference."""
    return re.sub(r"\{(?=\{)", "{ ", text)


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=20))
def test_default_of_a_parameter_arrives_byte_for_byte(defaults: list[str]) -> None:
    names = [f"P{i}" for i in range(len(defaults))]
    values = {
        name: {"default": no_reference(default), "type": "text"}
        for name, default in zip(names, defaults, strict=True)
    }
    code, found = run_parameters(script(parameters=values), {}, names)
    assert code == 0
    assert found[:-1] == [value["default"] for value in values.values()]


@settings(max_examples=30, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=8, unique=True))
def test_each_choice_is_accepted_and_nothing_else(choices: list[str]) -> None:
    choices = [no_reference(choice) for choice in choices if choice] or ["a"]
    text = script(parameters={"P": {"default": choices[0], "choices": choices}})
    for choice in choices:
        assert run_parameters(text, {"P": choice}, ["P"]) == (0, [choice, ""])
    assert run_parameters(text, {"P": choices[0] + "x*"}, ["P"])[0] == (
        0 if choices[0] + "x*" in choices else 1
    )


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("integer", ["0", "-3", "+12", "007"], ["", "x", "1.5", "1 2", "1;id", "a[$(id)]", "1\n2"]),
        ("number", ["1", "1.5e-4", ".5", "2."], ["e5", "1e", "nan", "1,5", "$(id)", "1\n"]),
    ],
)
def test_typed_parameter_is_checked_on_the_node(kind: str, good: list[str], bad: list[str]) -> None:
    text = script(parameters={"P": {"default": 1, "type": kind}})
    for value in good:
        assert run_parameters(text, {"P": value}, ["P"]) == (0, [value, ""])
    for value in bad:
        code, said = run_parameters(text, {"P": value}, ["P"])
        if value:  # an empty one takes the default, as `${P:-1}` says
            assert (code, said[0][:15]) == (1, "the parameter P")


def test_prefix_stands_in_front_of_python_and_the_launcher_starts_no_script() -> None:
    text = script(framework="torchrun", script="t.py", launcher="torchrun", prefix="nice -n 5")
    assert "--no-python" in text
    assert re.search(r"command=\(\n  nice -n 5\n  python3 t\.py\n\)", text)

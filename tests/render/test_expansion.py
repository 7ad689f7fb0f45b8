"""The table of docs/spec.md: what is expanded where. Each cell is one run of a rendered script."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable
from typing import Any

import pytest
from script_runs import Run, run_script, script

from clusterjobs.errors import InputError
from clusterjobs.script import shell

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "spec.md"
PRINT = ["bash", "-c", "printf '<%s>' \"$@\"", "print"]
ENVIRONMENT = {"NAME": "value", "HOME": "/home/me"}

# The head of a column -> what a spec has, and what it becomes if it is expanded. `command` would
# leave a trace if it ran.
IDIOMS = {
    "`${NAME}`": ("${NAME}", "value"),
    "`${NAME:-default}`": ("${MISSING:-default}", "default"),
    "`~/x`": ("~/x", "/home/me/x"),
    "`$NAME`": ("$NAME", "value"),
    "`$(command)`": ("$(echo ran)", "ran"),
    "`` `command` ``": ("`echo ran`", "ran"),
    "`{{ env.NAME }}`": ("{{ env.NAME }}", "value"),
    "`${NAME:=default}`": ("${MISSING:=default}", "default"),
    "`~user/x`": ("~root/x", "/root/x"),
    "`%j`": ("a-%j", "a-%j"),
    "`*.pt`": ("*.pt", "a.pt"),
    "`{a,b}`": ("{a,b}", "a"),
    "quotes": ("'it' \"is\"", "it"),
    "a line break": ("a\nb", "a"),
    "`-x` at the start": ("-x", "-x"),
}


def _argument(folder: pathlib.Path, text: str) -> Run:
    return _run(folder, command=[*PRINT, text])


def _variable(folder: pathlib.Path, text: str) -> Run:
    return _run(folder, command=["bash", "-c", "printf '<%s>' \"$X\""], env={"X": text})


def _path(folder: pathlib.Path, text: str) -> Run:
    """A file that is missing: the message has its path."""
    return _run(folder, command=["true"], software={"source": [text]})


def _option(folder: pathlib.Path, text: str) -> Run:
    return _run(folder, command=["true"], srun={"comment": text})


def _code(folder: pathlib.Path, text: str) -> Run:
    return _run(folder, command=["true"], setup=[f"printf '<%s>\\n' {text}"])


def _run(folder: pathlib.Path, **keys: Any) -> Run:
    (folder / "a.pt").touch()
    srun = 'printf "<%s>" "$@"; while [[ $1 == --* ]]; do shift; done; exec "$@"'
    return run_script(
        folder, script(nodes=1, **keys), environment=ENVIRONMENT, stand_ins={"srun": srun}
    )


PLACES: dict[str, Callable[[pathlib.Path, str], Run]] = {
    "paths, images, mounts": _path,
    "`env`": _variable,
    "`args`, `command`, `prefix`, steps, roles": _argument,
    "`sbatch`, `srun`": _option,
    "`setup`, `software.setup`": _code,
}


def _cells() -> list[Any]:
    """Of the two tables of the page."""
    text = PAGE.read_text()
    found = []
    for table in text[text.index("**What is expanded**") :].split("\n\n")[1:3]:
        lines = (
            [cell.strip() for cell in one.strip("| ").split(" | ")] for one in table.split("\n")
        )
        head, _, *rows = lines
        found += [
            pytest.param(row[0], idiom, said, id=f"{row[0]}-{idiom}")
            for row in rows
            for idiom, said in zip(head[1:], row[1:], strict=True)
        ]
    return found


def _arrived(place: str, text: str, run: Run) -> bool:
    if place.startswith("paths"):
        return any(f"no file {path} " in run.log for path in (text, run.folder / text))
    if place.startswith("`sbatch`"):
        return f"<--comment={text}>" in run.log
    return f"<{text}>" in run.log


@pytest.mark.parametrize(("place", "idiom", "said"), _cells())
def test_a_cell_of_the_table(tmp_path: pathlib.Path, place: str, idiom: str, said: str) -> None:
    written, expanded = IDIOMS[idiom]
    if said == "refused":
        with pytest.raises(InputError) as error:
            PLACES[place](tmp_path, written)
        assert all(one.hint for one in error.value.problems)
        return
    run = PLACES[place](tmp_path, written)
    if said == "passed on" and place.startswith("`setup`"):
        assert "<{{>" in run.log or "<{{" in run.log  # bash reads the braces
        return
    if said == "bash" and idiom == "`${NAME:-default}`":
        expanded = "default"
    assert _arrived(place, written if said == "passed on" else expanded, run), run.log
    if place.startswith("`sbatch`") and expanded != written:
        assert not _arrived(place, expanded, run)


# Other keys of a row: what they have in the script is what the row says.
KEYS: dict[str, dict[str, Callable[[str], dict[str, Any]]]] = {
    "paths, images, mounts": {
        "workdir": lambda text: {"workdir": text},
        "logs.path": lambda text: {"logs": text},
        "checkpoints.path": lambda text: {"checkpoints": {"path": text}},
        "checkpoints.export": lambda text: _exported(checkpoints=text),
        "logs.export": lambda text: _exported(logs=text),
        "data.source": lambda text: {"data": [{"source": f"/s/{text}", "target": "/fsx/d"}]},
        "data.target": lambda text: {"data": [{"source": "/s", "target": f"/fsx/{text}"}]},
        "venv": lambda text: {"software": {"venv": text}},
        "conda": lambda text: {"software": {"conda": text}},
        "creates": lambda text: {"before": [{"command": ["x"], "creates": text}]},
        "image": lambda text: _image(image=f"/i/{text}.sif"),
        "mount": lambda text: _image(image="/i.sif", mounts=[f"/m/{text}:/there"]),
    },
    "`args`, `command`, `prefix`, steps, roles": {
        "args": lambda text: {"args": {"x": text}},
        "prefix": lambda text: {"prefix": ["env", text]},
        "before": lambda text: {"before": [{"command": ["x", text]}]},
        "after": lambda text: {"after": [{"command": ["x", text]}]},
        "sidecars": lambda text: {"sidecars": [{"command": ["x", text]}]},
        "roles": lambda text: {"roles": {"server": {"command": ["x", text], "nodes": 1}}},
        "values": lambda text: {"values": {"a": {"command": ["x", text]}}},
        "secrets": lambda text: {"secrets": {"A": {"command": ["x", text]}}},
    },
    "`sbatch`, `srun`": {"sbatch": lambda text: {"sbatch": {"comment": text}}},
}
# Values with something before the idiom, so that what a shell reads at the start is none.
LATER = {
    "checkpoints.export": "/e/",
    "logs.export": "/e/",
    "data.source": "/s/",
    "data.target": "/fsx/",
    "image": "/i/",
    "mount": "/m/",
}
AT_THE_START = ("`~/x`", "`~user/x`", "`-x` at the start")
OTHERWISE = {
    **{(key, idiom): "passed on" for key in LATER for idiom in AT_THE_START},
    **{(key, "`{{ env.NAME }}`"): "refused" for key in ("image", "mount")},
    ("sbatch", "quotes"): "escaped",  # as sbatch reads its lines
    **{("mount", idiom): "refused" for idiom in ("quotes", "`{a,b}`")},  # separators of runtimes
    # No image has a blank in its name.
    **{("image", idiom): "refused" for idiom in ("quotes", "`` `command` ``")},
}


def _exported(**targets: str) -> dict[str, Any]:
    paths = {"checkpoints": "/fsx/c", "logs": "/fsx/l"}
    return {key: {"path": paths[key], "export": f"/e/{text}"} for key, text in targets.items()}


def _image(**keys: Any) -> dict[str, Any]:
    return {"software": {"container": {"runtime": "apptainer", **keys}}}


def _is_plain(before: str, written: str, text: str) -> bool:
    """Whether a script has it between quotes that keep it as it is."""
    in_double_quotes = re.sub(r'([$`"\\])', r"\\\1", written)
    return str(shell.quote(before + written)).rstrip("'") in text or in_double_quotes in text


@pytest.mark.parametrize(("place", "idiom", "said"), _cells())
def test_the_other_keys_of_a_row(place: str, idiom: str, said: str) -> None:
    written, _ = IDIOMS[idiom]
    for key, keys in KEYS.get(place, {}).items():
        wanted = OTHERWISE.get((key, idiom), said)
        if wanted == "refused":
            with pytest.raises(InputError):
                script(nodes=2, **keys(written))
        elif idiom != "`{{ env.NAME }}`":
            is_plain = _is_plain(LATER.get(key, ""), written, script(nodes=2, **keys(written)))
            assert is_plain == (wanted == "passed on"), key


REFERENCES = {
    "a path": ({"workdir": "${MISSING:-/tmp}"}, "{{ workdir }}/x", "/tmp/x"),
    "a variable": ({"env": {"A": "${NAME}/hub"}}, "{{ env.A }}", "value/hub"),
    "a dollar that is one": ({"env": {"A": "$$(date)"}}, "{{ env.A }}", "$(date)"),
    "what extends itself": ({"env": {"NAME": "a:${NAME}"}}, "{{ env.NAME }}", "a:value"),
    "an unset variable, which is empty in env": ({"env": {"A": "${GONE}/x"}}, "{{ env.A }}", "/x"),
    "two steps": (
        {"env": {"A": "{{ workdir }}/~"}, "workdir": "${MISSING:-/tmp}"},
        "{{ env.A }}",
        "/tmp/~",
    ),
    "an argument": ({"args": {"a": "${NAME}"}}, "{{ args.a }}", "${NAME}"),
}


@pytest.mark.parametrize("kind", REFERENCES)
def test_a_reference_in_an_argument_gives_what_the_node_makes_of_the_value(
    tmp_path: pathlib.Path, kind: str
) -> None:
    keys, written, arrived = REFERENCES[kind]
    run = _run(tmp_path, command=[*PRINT, written], **keys)
    assert f"<{arrived}>" in run.log, run.log


def test_a_reference_in_a_path_is_expanded_once(tmp_path: pathlib.Path) -> None:
    keys = {"command": ["true"], "env": {"A": "$$(date)/${NAME}"}}
    run = _run(tmp_path, software={"source": ["{{ env.A }}/x"]}, **keys)
    assert "$(date)/value/x " in run.log, run.log


def test_a_reference_gives_the_variable_also_if_the_job_extends_what_it_has(
    tmp_path: pathlib.Path,
) -> None:
    show = ["bash", "-c", '[[ $1 == "$P" ]] && echo "<same>"', "show", "{{ env.P }}"]
    setup = ["PATH=/added:$PATH"]
    run = _run(tmp_path, command=show, env={"P": "/opt/x:${PATH}"}, setup=setup)
    assert "<same>" in run.log, run.log


def test_an_item_of_a_list_is_a_value(tmp_path: pathlib.Path) -> None:
    run = _run(tmp_path, command=[*PRINT, "{{ prefix.1 }}"], prefix=["env", "A=1"])
    assert "<A=1>" in run.log, run.log

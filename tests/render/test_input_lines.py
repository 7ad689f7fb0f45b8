"""What a script looks for before it starts ranks: its own lines in bash, over real folders."""

from __future__ import annotations

import pathlib
import re
import subprocess

from test_job_script import script

LOOK = re.compile(r"(?m)^\[\[ -[re] .* \|\| fail .*$")


def said(folder: pathlib.Path, **keys: object) -> list[str]:
    """The complaints of a script that goes on after each."""
    lines = LOOK.findall(script(**keys))
    code = "\n".join(["set -eu", "fail() { printf '%s\\n' \"$1\"; }", *lines])
    run = ["bash", "-c", code]
    return subprocess.run(
        run, cwd=folder, capture_output=True, text=True, check=True
    ).stdout.splitlines()


def python(**keys: object) -> dict[str, object]:
    return {"framework": "torchrun", "workdir": "/fsx/code", **keys}


def test_a_missing_script_is_named_with_its_folder_and_the_keys_to_correct(
    tmp_path: pathlib.Path,
) -> None:
    (told,) = said(tmp_path, **python(script="trian.py"))
    keys = "correct the spec's script or workdir, or put it there"
    assert told == f"no script trian.py in {tmp_path}: {keys}"
    (told,) = said(tmp_path, **python(script=f"{tmp_path}/trian.py"))
    whole = f"no script {tmp_path}/trian.py here"
    assert told == f"{whole}: correct the spec's script, or put it there"


def test_a_script_that_can_be_read_is_no_complaint(tmp_path: pathlib.Path) -> None:
    for name in ("train.py", "==", "]]", "it's $(false)", "!", "("):
        (tmp_path / name).touch()
        assert said(tmp_path, **python(script=name)) == [], name


def test_a_link_to_nothing_is_no_script(tmp_path: pathlib.Path) -> None:
    (tmp_path / "train.py").symlink_to(tmp_path / "nowhere")
    assert len(said(tmp_path, **python(script="train.py"))) == 1


def test_a_source_is_missed_until_its_data_is_there(tmp_path: pathlib.Path) -> None:
    data = [{"source": f"{tmp_path}/from", "target": f"{tmp_path}/to", "scope": "node"}]
    (told,) = said(tmp_path, data=data)
    hint = "correct the spec's data[0].source, or put it there"
    assert told == f"no data source {tmp_path}/from here: {hint}"
    (tmp_path / "to").mkdir()  # brought by an earlier job: its source may be gone since
    assert said(tmp_path, data=data) == []


def test_what_another_data_set_brings_is_not_missed_before(tmp_path: pathlib.Path) -> None:
    data = [
        {"source": "s3://corpus/books", "target": "/fsx/books"},
        {"source": "/fsx/books/one", "target": "/scratch/one", "scope": "node"},
    ]
    assert said(tmp_path, data=data) == []


def place(text: str, what: str) -> int:
    return text.index(what)


def test_the_paths_are_looked_for_when_the_nodes_are_good_and_before_data_comes() -> None:
    text = script(**python(script="t.py"), preflight=True, data=[{"source": "/a", "target": "/b"}])
    asked, staged = place(text, "preflight.py"), place(text, '"$job_dir/stage.py"')
    assert asked < place(text, "[[ -e /a") < staged
    assert place(text, "[[ -r t.py") < staged


def test_what_a_command_before_or_the_data_may_bring_is_looked_for_behind_them() -> None:
    text = script(**python(script="t.py"), before=[["git", "clone", "x"]])
    assert place(text, "git clone") < place(text, "[[ -r t.py") < place(text, "ranks=$!")
    data = [{"source": "s3://bucket/code", "target": "/fsx/code"}]
    text = script(**python(script="t.py"), data=data)
    assert place(text, "\nstage python3") < place(text, "[[ -r t.py")


def test_a_script_that_only_the_container_has_is_not_looked_for() -> None:
    def looked(name: str) -> int:
        software = {"container": {"image": "/fsx/a.sif", "runtime": "apptainer"}}
        return len(LOOK.findall(script(**python(script=name), software=software)))

    assert looked("/opt/train.py") == 0
    assert looked("train.py") == 1

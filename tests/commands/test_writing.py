"""Files of a render: whole or not at all, and never over what somebody else wrote."""

from __future__ import annotations

import errno
import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from clusterjobs.errors import InputError
from clusterjobs.runs import write

SPEC = "name: a\ncluster: small\nframework: command\ncommand: ./run\n"
DEEPSPEED = (
    "name: a\ncluster: small\nframework: deepspeed\nscript: t.py\nbatch: {micro: 1}\nnodes: 2\n"
)


@pytest.fixture
def render(folder: pathlib.Path, clusterjobs: Callable[..., object]) -> Callable[..., object]:
    """`render(spec)` writes the spec and renders it into `out`."""

    def call(spec: str = SPEC, *arguments: str) -> object:
        (folder / "spec.yaml").write_text(spec)
        return clusterjobs("render", "spec.yaml", "-o", "out", *arguments)

    return call


def names(folder: pathlib.Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_render_writes_all_files_and_says_which(
    render: Callable[..., object], folder: pathlib.Path
) -> None:
    outcome = render()
    assert (outcome.code, outcome.err) == (0, "")
    assert names(folder / "out") == ["cluster.yaml", "job.sh", "manifest.json"]
    for name in names(folder / "out"):
        assert f"  out/{name}\n" in outcome.out
    assert "submit it with: sbatch out/job.sh" in outcome.out


def test_a_second_render_changes_nothing(
    render: Callable[..., object], folder: pathlib.Path
) -> None:
    render()
    before = {path: path.stat().st_ino for path in (folder / "out").iterdir()}
    outcome = render()
    assert outcome.out.count("(unchanged)") == 3
    assert {path: path.stat().st_ino for path in (folder / "out").iterdir()} == before


def test_the_files_of_another_spec_are_replaced_with_a_notice(
    render: Callable[..., object], clusterjobs: Callable[..., object], folder: pathlib.Path
) -> None:
    notice = "out had the files of spec.yaml; -o selects another folder\n"
    assert notice not in render().out
    assert notice not in render(SPEC.replace("./run", "./walk")).out
    (folder / "other.yaml").write_text(SPEC)
    assert notice in clusterjobs("render", "other.yaml", "-o", "out").out


def test_script_can_be_run_and_the_umask_is_kept(
    render: Callable[..., object], folder: pathlib.Path
) -> None:
    old = os.umask(0o027)
    try:
        render()
    finally:
        os.umask(old)
    assert (folder / "out" / "job.sh").stat().st_mode & 0o777 == 0o750
    assert (folder / "out" / "cluster.yaml").stat().st_mode & 0o777 == 0o640


def test_a_file_that_clusterjobs_did_not_write_is_kept(
    render: Callable[..., object], folder: pathlib.Path
) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "cluster.yaml").write_text("mine")
    outcome = render()
    assert outcome.code == 1
    assert "out/cluster.yaml" in outcome.err
    assert "--force" in outcome.err
    assert names(folder / "out") == ["cluster.yaml"]
    assert render(SPEC, "--force").code == 0
    assert (folder / "out" / "cluster.yaml").read_text() != "mine"


def test_a_manifest_that_clusterjobs_did_not_write_is_kept(
    render: Callable[..., object], folder: pathlib.Path
) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "manifest.json").write_text('{"name": "a web app"}')
    assert render().code == 1
    assert (folder / "out" / "manifest.json").read_text() == '{"name": "a web app"}'


def test_a_file_that_was_edited_since_is_kept(
    render: Callable[..., object], folder: pathlib.Path
) -> None:
    render()
    script = folder / "out" / "job.sh"
    script.write_text(script.read_text() + "# mine\n")
    outcome = render(SPEC.replace("./run", "./walk"))
    assert outcome.code == 1
    assert "out/job.sh was edited" in outcome.err
    assert script.read_text().endswith("# mine\n")


def test_foreign_files_beside_ours_do_not_matter(
    render: Callable[..., object], folder: pathlib.Path
) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "notes.txt").write_text("mine")
    assert render().code == 0
    assert (folder / "out" / "notes.txt").read_text() == "mine"


def test_what_is_needed_no_more_is_removed(
    render: Callable[..., object], folder: pathlib.Path
) -> None:
    render(DEEPSPEED)
    assert "ds_config.json" in names(folder / "out")
    outcome = render(SPEC)
    assert "out/ds_config.json (removed" in outcome.out
    assert "ds_config.json" not in names(folder / "out")


def test_what_is_needed_no_more_but_was_edited_is_kept(
    render: Callable[..., object], folder: pathlib.Path
) -> None:
    render(DEEPSPEED)
    (folder / "out" / "ds_config.json").write_text("{}")
    assert render(SPEC).code == 1
    assert (folder / "out" / "ds_config.json").read_text() == "{}"


@pytest.mark.parametrize(
    "manifest",
    [
        "",
        "[]",
        "null",
        '"text"',
        "{",
        '{"written_by": "clusterjobs"}',
        '{"written_by": "clusterjobs", "outputs": []}',
        '{"written_by": "clusterjobs", "outputs": {"a": {"b": 1}}}',
        '{"written_by": "clusterjobs", "outputs": {"job.sh": null}}',
        "[" * 100_000,
        '{"written_by": "clusterjobs", "outputs": {"\\u0000": "x"}}',
        '{"written_by": "clusterjobs", "outputs": {"": "x", ".": "x", "..": "x"}}',
    ],
    ids=range(12),
)
def test_a_damaged_manifest_is_answered_not_crashed_on(
    manifest: str, render: Callable[..., object], folder: pathlib.Path
) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "manifest.json").write_text(manifest)
    outcome = render()
    assert outcome.code in (0, 1), outcome.err
    assert "bug of ours" not in outcome.err


@pytest.mark.parametrize("name", ["../precious", "/etc/precious", "..", "sub/precious", "."])
def test_a_hostile_manifest_removes_nothing_outside_the_folder(
    name: str, render: Callable[..., object], folder: pathlib.Path
) -> None:
    (folder / "precious").write_text("kept")
    render()
    manifest = folder / "out" / "manifest.json"
    data = json.loads(manifest.read_text())
    data["outputs"][name] = "00"
    manifest.write_text(json.dumps(data))
    render(SPEC, "--force")
    assert (folder / "precious").read_text() == "kept"
    assert (folder / "out" / "job.sh").exists()


@pytest.mark.parametrize("victim", ["job.sh", "cluster.yaml", "manifest.json"])
def test_a_full_disk_leaves_the_old_file_whole(
    victim: str,
    render: Callable[..., object],
    folder: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    render()
    before = {path.name: path.read_bytes() for path in (folder / "out").iterdir()}
    real = pathlib.Path.write_bytes

    def full(path: pathlib.Path, data: bytes) -> int:
        if path.name.startswith(f".{victim}."):
            real(path, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return real(path, data)

    monkeypatch.setattr(pathlib.Path, "write_bytes", full)
    outcome = render(SPEC.replace("name: a", "name: b") + "nodes: 2\n", "--set", "args.x=1")
    if victim != "cluster.yaml":  # it does not depend on the spec, so it is not written
        assert outcome.code == 1
        assert "No space left on device" in outcome.err
    monkeypatch.undo()
    assert (folder / "out" / victim).read_bytes() == before[victim]
    assert names(folder / "out") == sorted(before)


def test_a_render_that_failed_midway_can_be_repeated(
    render: Callable[..., object], folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    render()
    with monkeypatch.context() as patch:
        patch.setattr(write, "replace_file", fail_for("manifest.json", write.replace_file))
        assert render(SPEC + "nodes: 2\n").code == 1
    outcome = render(SPEC + "nodes: 2\n")
    assert outcome.code == 0, outcome.err


def fail_for(name: str, real: Callable[[pathlib.Path, str], None]) -> Callable[..., None]:
    def replace(path: pathlib.Path, text: str) -> None:
        if path.name == name:
            raise OSError(errno.EIO, "Input/output error", str(path))
        real(path, text)

    return replace


KILLED = """
import pathlib, sys, time
from clusterjobs.runs import write
real = pathlib.Path.replace
def slow(self, target):
    print("half", flush=True)
    time.sleep(60)
    return real(self, target)
pathlib.Path.replace = slow
write.write_outputs(pathlib.Path(sys.argv[1]), {"job.sh": "new", "manifest.json": "{}"}, True)
"""


def test_a_killed_render_leaves_the_old_file_whole(folder: pathlib.Path) -> None:
    (folder / "job.sh").write_text("old")
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, folder], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "half\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert (folder / "job.sh").read_text() == "old"


_READER = """
import select, sys
def read():
    text = open(sys.argv[1]).read()
    assert len(text) == 200_000 and len(set(text)) == 1
read()
print(flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    read()
"""


def test_readers_never_see_half_a_file(folder: pathlib.Path) -> None:
    texts = {"job.sh": "a" * 200_000}, {"job.sh": "b" * 200_000}
    write.write_outputs(folder, texts[0], True)
    reader = subprocess.Popen(
        [sys.executable, "-c", _READER, folder / "job.sh"], stdin=-1, stdout=-1, text=True
    )
    assert reader.stdout is not None
    assert reader.stdout.readline() == "\n"
    for turn in range(100):
        write.write_outputs(folder, texts[turn % 2], True)
    reader.communicate(timeout=120)  # stdin's end is the reader's
    assert reader.returncode == 0


def test_a_folder_that_cannot_be_made_is_named(folder: pathlib.Path) -> None:
    (folder / "file").write_text("")
    with pytest.raises(InputError) as caught:
        write.write_outputs(folder / "file" / "out", {"job.sh": "x"}, False)
    assert "file" in caught.value.problems[0].what


# ------------------------------------------------------------------ --check and diff


def test_check_says_which_files_are_not_current_and_writes_nothing(
    render: Callable[..., object], folder: pathlib.Path
) -> None:
    outcome = render(SPEC, "--check")
    assert outcome.code == 1
    assert "out/job.sh: missing" in outcome.err
    assert not (folder / "out").exists()
    render()
    current = render(SPEC, "--check")
    assert (current.code, current.out, current.err) == (0, "out: current\n", "")
    (folder / "out" / "job.sh").write_text("edited")
    changed = render(SPEC, "--check")
    assert changed.code == 1
    assert changed.err == "out/job.sh: changed\n"


def test_check_names_stale_files(render: Callable[..., object]) -> None:
    render(DEEPSPEED)
    outcome = render(SPEC, "--check")
    assert outcome.code == 1
    assert "out/ds_config.json: stale" in outcome.err


def test_diff_shows_lines_and_writes_nothing(
    render: Callable[..., object], folder: pathlib.Path, clusterjobs: Callable[..., object]
) -> None:
    render()
    before = (folder / "out" / "job.sh").read_bytes()
    outcome = clusterjobs("diff", "spec.yaml", "-o", "out", "--set", "name=b")
    assert outcome.code == 0
    assert "-#SBATCH --job-name=a" in outcome.out.splitlines()
    assert "+#SBATCH --job-name=b" in outcome.out.splitlines()
    assert "manifest" not in outcome.out
    assert (folder / "out" / "job.sh").read_bytes() == before


def test_diff_says_when_nothing_would_change(
    render: Callable[..., object], clusterjobs: Callable[..., object]
) -> None:
    render()
    assert clusterjobs("diff", "spec.yaml", "-o", "out").out == "out: nothing would change\n"


def test_diff_of_a_folder_that_is_not_there_shows_whole_files(
    folder: pathlib.Path, clusterjobs: Callable[..., object]
) -> None:
    (folder / "spec.yaml").write_text(SPEC)
    outcome = clusterjobs("diff", "spec.yaml", "-o", "none")
    assert outcome.code == 0
    assert "--- /dev/null" in outcome.out
    assert "+++ none/job.sh" in outcome.out


def test_no_script_is_writable_for_everyone(folder: pathlib.Path) -> None:
    (folder / "spec.yaml").write_text(SPEC)
    program = "from clusterjobs.cli.main import main; main()"
    words = [sys.executable, "-c", program, "render", "spec.yaml", "-o", "out"]
    subprocess.run(words, umask=0, capture_output=True, check=True)
    made = [folder / "out", *(folder / "out").iterdir()]
    assert {oct(path.stat().st_mode & 0o777) for path in made} == {"0o775", "0o664"}


def test_what_is_no_regular_file_is_written_to_and_stays(tmp_path: pathlib.Path) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True)
    write.replace_file(pipe, "a,b\n")
    assert reader.communicate(timeout=60)[0] == "a,b\n"
    assert pipe.is_fifo()

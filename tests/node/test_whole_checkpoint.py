"""whole_checkpoint.py: which checkpoint is whole, and what a training resumes from after a kill."""

from __future__ import annotations

import io
import json
import os
import pathlib
import random
import subprocess
import zipfile
from collections.abc import Callable

import pytest
from node_programs import command

from clusterjobs.frameworks import FRAMEWORKS


def overwritten(framework: str) -> tuple[str, ...]:
    """NAME PATTERN... as the job gives them."""
    return tuple(word for pair in FRAMEWORKS[framework].saving.overwritten for word in pair)


def archive(seed: int, size: int = 20_000) -> bytes:
    """What torch.save writes: a zip archive without compression."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        file.writestr(zipfile.ZipInfo("archive/data.pkl"), b"pickled")  # without the time of now
        file.writestr(zipfile.ZipInfo("archive/data/0"), random.Random(seed).randbytes(size))
    return content.getvalue()


def tensors(size: int = 4000) -> bytes:
    """What safetensors writes."""
    header = json.dumps({"__metadata__": {}, "a": {"data_offsets": [0, size]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(size)


def run(*words: object) -> tuple[str, str]:
    """What the program prints, and what it says."""
    done = subprocess.run(
        command("whole_checkpoint.py", *map(str, words)), capture_output=True, text=True, check=True
    )
    return done.stdout.strip(), done.stderr


def save(folder: pathlib.Path, name: str, *contents: bytes, age: int = 0) -> pathlib.Path:
    """A checkpoint of one file, or a folder of several; `age` in seconds."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if len(contents) == 1:
        path.write_bytes(contents[0])
    else:
        path.mkdir()
        for number, content in enumerate(contents):
            (path / f"mp_rank_{number}.pt").write_bytes(content)
    os.utime(path, (1.7e9 - age, 1.7e9 - age))
    return path


@pytest.mark.parametrize("kept", [0, 1, 4096, 0.5, 0.99, -1])
def test_a_file_that_fairseq_had_not_copied_to_its_end_is_copied_again(tmp_path, kept) -> None:
    whole = archive(2)
    old = save(tmp_path, "checkpoint_1_40.pt", archive(1), age=60)
    new = save(tmp_path, "checkpoint_2_80.pt", whole, age=30)
    length = kept if isinstance(kept, int) else int(kept * len(whole))
    cut = whole[:length]
    last = save(tmp_path, "checkpoint_last.pt", cut)
    said = run("repair", tmp_path, *overwritten("fairseq"))[1]
    assert f"{new} is resumed instead" in said
    assert last.read_bytes() == whole
    assert not last.samefile(new)  # fairseq overwrites it in place
    assert (tmp_path / ".checkpoint_last.pt.cut-1").read_bytes() == cut
    assert old.read_bytes() == archive(1)
    assert run("repair", tmp_path, *overwritten("fairseq")) == ("", "")


def test_pages_that_a_lost_node_had_not_written_are_no_checkpoint(tmp_path) -> None:
    whole = archive(2)
    save(tmp_path, "checkpoint3.pt", whole, age=30)
    last = save(tmp_path, "checkpoint_last.pt", bytes(len(whole)))
    assert "starts with zeros" in run("repair", tmp_path, *overwritten("fairseq"))[1]
    assert last.read_bytes() == whole


def test_the_newest_checkpoint_may_be_cut_as_well(tmp_path) -> None:
    whole = archive(1)
    save(tmp_path, "checkpoint_best.pt", archive(7), age=90)
    save(tmp_path, "checkpoint_1_40.pt", whole, age=60)
    save(tmp_path, "checkpoint_2_80.pt", archive(2)[:-9], age=30)
    last = save(tmp_path, "checkpoint_last.pt", b"")
    run("repair", tmp_path, *overwritten("fairseq"))
    assert last.read_bytes() == whole


@pytest.mark.parametrize("content", [archive(1), b"\x80\x02}q\x00."], ids=("zip", "pickle"))
def test_a_whole_file_and_one_of_an_unknown_format_stay_as_they_are(tmp_path, content) -> None:
    save(tmp_path, "checkpoint_2_80.pt", archive(2), age=30)
    last = save(tmp_path, "checkpoint_last.pt", content)
    assert run("repair", tmp_path, *overwritten("fairseq")) == ("", "")
    assert last.read_bytes() == content


def test_a_cut_file_stays_if_no_other_is_whole(tmp_path) -> None:
    last = save(tmp_path, "checkpoint_last.pt", archive(1)[:100])
    said = run("repair", tmp_path, *overwritten("fairseq"))[1]
    assert "there is no other whole checkpoint" in said
    assert last.read_bytes() == archive(1)[:100]
    assert run("repair", tmp_path / "missing", *overwritten("fairseq")) == ("", "")


MARKERS = {
    "deepspeed": ("latest", "global_step{}", "global_step{}"),
    "gpt-neox": ("latest", "global_step{}", "global_step{}"),
    "megatron-deepspeed": ("latest_checkpointed_iteration.txt", "global_step{}", "{}"),
    "megatron-lm": ("latest_checkpointed_iteration.txt", "iter_{:07}", "{}"),
}


@pytest.mark.parametrize("framework", MARKERS)
@pytest.mark.parametrize("fault", ["empty", "zeros", "cut"])
def test_a_marker_that_a_kill_has_cut_names_the_newest_whole_checkpoint(
    tmp_path, framework: str, fault: str
) -> None:
    name, folder, text = MARKERS[framework]
    save(tmp_path, folder.format(100), archive(1), archive(2), age=60)
    newest = archive(4)[:50] if fault == "cut" else archive(4)
    save(tmp_path, folder.format(200), archive(3), newest, age=30)
    written = {"empty": "", "zeros": "\0" * 14, "cut": text.format(200)}[fault]
    (tmp_path / name).write_text(written)
    run("repair", tmp_path, *overwritten(framework))
    assert (tmp_path / name).read_text() == text.format(100 if fault == "cut" else 200)
    assert (tmp_path / f".{name}.cut-1").read_text() == written
    assert run("repair", tmp_path, *overwritten(framework)) == ("", "")


def test_a_checkpoint_that_some_rank_had_not_begun_to_write_is_not_taken(tmp_path) -> None:
    save(tmp_path, "global_step1", *[archive(1)] * 3, age=60)
    save(tmp_path, "global_step2", *[archive(1)] * 2, age=30)
    marker = save(tmp_path, "latest", b"")
    run("repair", tmp_path, *overwritten("deepspeed"))
    assert marker.read_text() == "global_step1"


@pytest.mark.parametrize("text", ["release", "a tag of my own"])
def test_a_marker_of_another_name_stays(tmp_path, text: str) -> None:
    marker = save(tmp_path, "latest", text.encode())
    assert "which is missing" in run("repair", tmp_path, *overwritten("deepspeed"))[1]
    save(tmp_path, text, archive(1), archive(2))
    assert run("repair", tmp_path, *overwritten("deepspeed")) == ("", "")
    assert marker.read_text() == text


WHOLE: dict[str, Callable[[pathlib.Path], pathlib.Path]] = {
    "torch.save": lambda folder: save(folder, "old.pt", archive(1), age=9),
    "safetensors": lambda folder: save(folder, "old.safetensors", tensors(), age=9),
    "a folder": lambda folder: save(folder, "old", archive(1), archive(2), age=9),
}


def _without_metadata(folder: pathlib.Path) -> pathlib.Path:
    save(folder, "new/__0_0.distcp", b"x")
    return folder / "new"


CUT: dict[str, Callable[[pathlib.Path], pathlib.Path]] = {
    "torch.save": lambda folder: save(folder, "new.pt", archive(2)[:-30]),
    "safetensors": lambda folder: save(folder, "new.safetensors", tensors()[:-1]),
    "a cut header": lambda folder: save(folder, "new.safetensors", tensors()[:20]),
    "a damaged header": lambda folder: save(folder, "new.safetensors", b"\x04" + bytes(7) + b"[[["),
    "an empty file": lambda folder: save(folder, "new.ckpt", b""),
    "a folder": lambda folder: save(folder, "new", archive(2), archive(1)[:-5]),
    "distributed": _without_metadata,
}


@pytest.mark.parametrize("whole", WHOLE)
@pytest.mark.parametrize("cut", CUT)
def test_the_newest_whole_checkpoint_is_the_latest(tmp_path, whole: str, cut: str) -> None:
    older, newer = WHOLE[whole](tmp_path), CUT[cut](tmp_path)
    printed, said = run("latest", tmp_path)
    assert (printed, f"{newer} " in said) == (str(older), True)
    marker = tmp_path / "marker"
    marker.write_text(newer.name)
    os.utime(marker, (1, 1))
    assert run("latest", tmp_path, marker)[0] == str(older)
    marker.write_text("")
    assert run("latest", tmp_path, marker)[0] == str(older)
    marker.write_text(older.name)
    assert run("latest", tmp_path, marker) == (str(older), "")


def test_without_a_checkpoint_there_is_no_latest(tmp_path) -> None:
    assert run("latest", tmp_path) == ("", "")
    assert run("latest", tmp_path / "missing", tmp_path / "marker") == ("", "")
    save(tmp_path, "half written", archive(1), archive(2))
    assert run("latest", tmp_path, tmp_path / "marker") == ("", "")  # no training has ended a save

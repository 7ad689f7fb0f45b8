"""How cases in text files are read, and how their expected texts are replaced."""

from __future__ import annotations

import pathlib
from concurrent.futures import ThreadPoolExecutor

import case_files
import pytest
from case_files import Case, read_cases

TEXT = """\
About these cases.

=== first ===
A remark.
--- a/spec.yaml ---
name: a
$ clusterjobs render 'a/spec.yaml'
old
exit code 1

=== second ===
--- spec.yaml ---
name: b
$ clusterjobs render spec.yaml

=== third ===
$ clusterjobs render
"""


@pytest.fixture
def path(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A file of cases, which read_cases finds."""
    folder = tmp_path / "tests" / "cases"
    (folder / "bad").mkdir(parents=True)
    monkeypatch.setattr(case_files, "FOLDER", folder)
    return folder / "bad" / "some.txt"


def test_a_case_has_files_a_command_line_and_what_it_prints(path: pathlib.Path) -> None:
    path.write_text(TEXT)
    first, second, third = read_cases("bad/*.txt")
    assert (str(first), first.place) == ("first", "tests/cases/bad/some.txt:3")
    assert {name: file.data for name, file in first.files.items()} == {"a/spec.yaml": b"name: a\n"}
    assert first.arguments == ["render", "a/spec.yaml"]
    assert first.expected == "$ clusterjobs render 'a/spec.yaml'\nold\nexit code 1\n"
    assert (second.expected, third.files) == ("$ clusterjobs render spec.yaml\n", {})


@pytest.mark.parametrize(
    ("form", "text", "data"),
    [
        ("", "ü \\t\n", "ü \\t\n".encode()),
        ("", "", b""),
        ("", "---\na: 1\n--- b\n", b"---\na: 1\n--- b\n"),
        (" (utf-8)", "\\ufeffü €\\t\\r\n\\x00\n", "\ufeffü €\t\r\n\0\n".encode()),
        (" (utf-8)", "\\\\r\nlast line\\\n", b"\\r\nlast line"),
        (" (utf-8)", "\\x24 clusterjobs render\n", b"$ clusterjobs render\n"),
        (" (latin-1)", "ü\\xff\n", b"\xfc\xff\n"),
        (" (utf-16-le)", "a\\\n", b"a\0"),
        (" (base64)", "/wA=\n", b"\xff\0"),
    ],
)
def test_a_file_may_have_any_bytes(path: pathlib.Path, form: str, text: str, data: bytes) -> None:
    path.write_bytes(f"=== a ===\n--- f{form} ---\n{text}$ clusterjobs render\n".encode())
    (case,) = read_cases("bad/*.txt")
    case.write(path.parent / "here")
    assert (path.parent / "here" / "f").read_bytes() == data


def test_a_link_is_written_as_a_link(path: pathlib.Path) -> None:
    path.write_text("=== a ===\n--- b/f (link) ---\n../nowhere\n--- c ---\n$ clusterjobs render\n")
    (case,) = read_cases("bad/*.txt")
    case.write(path.parent, left_out=["c"])
    assert (path.parent / "b" / "f").readlink() == pathlib.Path("../nowhere")
    assert not (path.parent / "c").exists()


@pytest.mark.parametrize("end", ["\n", ""])
def test_an_update_writes_the_expected_text_and_nothing_else(path: pathlib.Path, end: str) -> None:
    path.write_text(TEXT.removesuffix("\n") + end)
    for case in read_cases("bad/*.txt"):
        new = f"$ clusterjobs {case.command}\nnew of {case}\nexit code 2\n"
        assert case.update(new).expected == new
    new = TEXT.replace("old\nexit code 1\n", "new of first\nexit code 2\n")
    new = new.replace("spec.yaml\n\n", "spec.yaml\nnew of second\nexit code 2\n\n")
    assert path.read_text() == new + "new of third\nexit code 2\n"


def test_processes_that_update_one_file_lose_nothing(path: pathlib.Path) -> None:
    path.write_text("".join(f"=== {number} ===\n$ clusterjobs render\n" for number in range(60)))
    cases = read_cases("bad/*.txt")
    expected = [f"$ clusterjobs render\n{case}\nexit code 1\n" for case in cases]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(Case.update, cases, expected))
    assert [case.expected for case in read_cases("bad/*.txt")] == expected


def test_a_name_that_two_cases_have_is_refused(path: pathlib.Path) -> None:
    path.write_text(TEXT)
    path.with_name("more.txt").write_text("=== second ===\n$ clusterjobs render\n")
    with pytest.raises(ValueError, match=r"some.txt:11: second is also .*/bad/more.txt:1$"):
        read_cases("bad/*.txt")


def test_a_case_without_a_command_line_is_refused(path: pathlib.Path) -> None:
    path.write_text("\n=== a ===\n--- spec.yaml ---\n=== b ===\n$ clusterjobs render\n")
    with pytest.raises(ValueError, match=r"some.txt: a has no line `\$ clusterjobs ...`$"):
        read_cases("bad/*.txt")

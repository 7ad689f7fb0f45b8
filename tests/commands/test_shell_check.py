"""`bash -n` reads a text from a temporary file, or through a pipe if there is no space for one."""

from __future__ import annotations

import tempfile

import pytest

from clusterjobs.script.shell_check import bash_complaint

UNCLOSED = "if true; then\necho é\n"


def test_bash_names_the_line_of_an_unclosed_if() -> None:
    found = bash_complaint(UNCLOSED)
    assert found is not None
    assert (found.line, "unexpected end of file" in found.said) == (3, True)
    assert bash_complaint(UNCLOSED + "fi\n") is None


def test_without_space_for_a_file_bash_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = bash_complaint(UNCLOSED + "# in a file")

    def no_space() -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", no_space)
    assert bash_complaint(UNCLOSED + "# in a pipe") == expected

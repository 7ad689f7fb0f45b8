"""The vendored uPlot is the pinned one, with its licence."""

from __future__ import annotations

import hashlib
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[3]
FOLDER = ROOT / "clusterjobs/report/page/uplot"
VERSION = "1.6.32"
CHECKSUMS = {
    "LICENSE": ("8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd"),
    "uPlot.iife.min.js": ("19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f"),
    "uPlot.min.css": ("df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04"),
}


@pytest.mark.parametrize(("name", "checksum"), CHECKSUMS.items(), ids=list(CHECKSUMS))
def test_vendored_file_is_the_published_one(name: str, checksum: str) -> None:
    assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == checksum


def test_folder_has_nothing_else() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(CHECKSUMS)


def test_script_that_vendors_it_pins_the_same_version() -> None:
    script = (ROOT / "tools/vendor_uplot.sh").read_text(encoding="utf-8")
    assert re.search(r"^readonly version=(.+)$", script, re.MULTILINE)[1] == VERSION  # type: ignore[index]
    code = (FOLDER / "uPlot.iife.min.js").read_text(encoding="utf-8")
    assert code.startswith(f"/*! https://github.com/leeoniya/uPlot (v{VERSION}) */")


def test_code_can_stand_in_a_page() -> None:
    """Nothing in it ends the script or style element that it is put into."""
    code = (FOLDER / "uPlot.iife.min.js").read_text(encoding="utf-8").lower()
    assert "</script" not in code
    assert "<!--" not in code
    assert "</style" not in (FOLDER / "uPlot.min.css").read_text(encoding="utf-8").lower()

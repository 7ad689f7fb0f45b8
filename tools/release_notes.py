#!/usr/bin/env python3
"""Prints what CHANGELOG.md says of the version of a tag: tools/release_notes.py v0.1.0

Fails if the tag is not that of the version in clusterjobs/version.py, or if its heading in
CHANGELOG.md has no date: `## 0.1.0 (2026-12-01)`.
"""

from __future__ import annotations

import pathlib
import re
import runpy
import sys

ROOT = pathlib.Path(__file__).parents[1]


def notes(tag: str, version: str, changelog: str) -> str:
    """The entries of the version. Raises SystemExit if it cannot be released."""
    if tag != f"v{version}":
        raise SystemExit(f"the tag is {tag}, the version in clusterjobs/version.py is {version}")
    section = re.search(rf"(?ms)^## {re.escape(version)} \((.*?)\)\n(.*?)(?=^## |\Z)", changelog)
    if not section:
        raise SystemExit(f"CHANGELOG.md has no heading `## {version} (DATE)`")
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", section[1]):
        raise SystemExit(f"CHANGELOG.md: write the date of {version} instead of ({section[1]})")
    return section[2].strip()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: tools/release_notes.py TAG")
    print(
        notes(
            sys.argv[1],
            runpy.run_path(str(ROOT / "clusterjobs" / "version.py"))["__version__"],
            (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
        )
    )

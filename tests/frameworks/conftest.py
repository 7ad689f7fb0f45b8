"""Plans are made as the tests of the plan make them, and files are rendered for a user's site."""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "plan"))  # plans.py

from real_parsers import fairseq_parses  # noqa: F401

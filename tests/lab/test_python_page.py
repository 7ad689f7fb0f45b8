"""docs/python.md: its script is typed as an outside user's code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
SCRIPT, *_ = re.findall(r"(?s)```python\n(.*?)```", PAGE)


def test_the_script_is_short() -> None:
    assert len(SCRIPT.splitlines()) <= 32


def test_the_script_is_typed(tmp_path: Path) -> None:
    (tmp_path / "best.py").write_text(SCRIPT)
    (tmp_path / "mypy.ini").write_text("[mypy]\n")
    check = [sys.executable, "-m", "mypy", "--strict", "--config-file", "mypy.ini", "best.py"]
    done = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    wrong = SCRIPT.replace("job.wait(timeout=3600)", "job.wait(minutes=60)")
    (tmp_path / "best.py").write_text(wrong)
    done = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert 'Unexpected keyword argument "minutes" for "wait" of "Job"' in done.stdout

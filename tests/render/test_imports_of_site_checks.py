"""What a render with a site's templates imports: checks of templates only if one is overridden."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

PROGRAM = """
import sys
from clusterjobs.cli.main import run
assert run(["render", "exp.yaml"]) == 0
print("clusterjobs.script.site.check" in sys.modules)
"""
SPEC = "name: a\ncluster: p4d-a100\nframework: torchrun\nscript: t.py\n"


@pytest.mark.parametrize(
    ("name", "checked"), [("before_launch.sh", "False"), ("blocks/header.sh.j2", "True")]
)
def test_templates_are_checked_only_if_one_is_overridden(
    tmp_path: pathlib.Path, name: str, checked: str
) -> None:
    (tmp_path / "exp.yaml").write_text(SPEC)
    file = tmp_path / "site/templates" / name
    file.parent.mkdir(parents=True)
    file.write_text(
        "# ours\n" if checked == "False" else '{% include "packaged/blocks/header.sh.j2" %}\n'
    )
    site = {"CLUSTERJOBS_SITE": str(tmp_path / "site"), "XDG_CONFIG_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env={**os.environ, **site},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.endswith(f"{checked}\n"), done.stderr

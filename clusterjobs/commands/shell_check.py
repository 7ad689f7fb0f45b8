"""Checks the spec's own lines of bash with `bash -n`, which does not run them."""

from __future__ import annotations

import functools
import re
import shutil

from clusterjobs.errors import Problem
from clusterjobs.spec.load import Spec
from clusterjobs.yaml.document import dotted


def code_problems(spec: Spec) -> tuple[Problem, ...]:
    """Problems of the `setup` lines; none if this machine has no bash."""
    experiment = spec.experiment
    code = {("setup",): experiment.setup, ("software", "setup"): experiment.software.setup}
    return tuple(
        Problem(f"bash cannot read it: {said}", spec.source.locate(path), dotted(path), _HINT)
        for path, lines in code.items()
        if lines and (said := _complaint("\n".join(lines)))
    )


_HINT = "it would end the job on nodes that are paid for: try it with bash -n"


def _complaint(code: str) -> str:
    bash = shutil.which("bash")
    return _said_by(bash, code) if bash else ""


@functools.lru_cache(maxsize=256)  # the specs of a site often have the same lines
def _said_by(bash: str, code: str) -> str:
    import subprocess  # only for specs with code

    done = subprocess.run([bash, "-n"], input=code.encode(), capture_output=True, check=False)
    if done.returncode == 0:
        return ""
    first = done.stderr.decode(errors="replace").strip().splitlines()[0]
    return re.sub(r"^.*?bash: ", "", first)

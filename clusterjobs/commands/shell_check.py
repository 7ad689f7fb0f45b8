"""Checks the spec's own lines of bash with `bash -n`, which does not run them."""

from __future__ import annotations

import re
import shutil

from clusterjobs.errors import Problem
from clusterjobs.spec.load import Spec
from clusterjobs.yaml.document import Path, dotted, look_at


def code_problems(spec: Spec) -> tuple[Problem, ...]:
    """Problems of the `setup` lines; none if this machine has no bash."""
    experiment = spec.experiment
    code = {("setup",): experiment.setup, ("software", "setup"): experiment.software.setup}
    return tuple(
        _problem(spec, path, said)
        for path, lines in code.items()
        if lines and (said := _complaint("\n".join(lines)))
    )


def _problem(spec: Spec, path: Path, said: str) -> Problem:
    """At the lines of the file that bash cannot read alone, if several files have lines."""
    files: dict[str, list[int]] = {}
    written = look_at(spec.merged.data, path)
    for index in range(len(written)) if isinstance(written, list) else ():
        files.setdefault(spec.source.locate((*path, index)).file, []).append(index)
    for indexes in files.values() if len(files) > 1 else ():
        if of_file := _complaint("\n".join(str(written[index]) for index in indexes)):
            path, said = (*path, indexes[0]), of_file
            break
    return Problem(f"bash cannot read it: {said}", spec.source.locate(path), dotted(path), _HINT)


_HINT = "it would end the job on nodes that are paid for: try it with bash -n"


def _complaint(code: str) -> str:
    import subprocess  # only for specs with code

    bash = shutil.which("bash")
    if bash is None:
        return ""
    done = subprocess.run([bash, "-n"], input=code.encode(), capture_output=True, check=False)
    if done.returncode == 0:
        return ""
    first = done.stderr.decode(errors="replace").strip().splitlines()[0]
    return re.sub(r"^.*?bash: ", "", first)

"""Reads lines of #SBATCH back: the option of each, and its value."""

from __future__ import annotations

import re

from clusterjobs.slurm_options import known_options

_WRITTEN = re.compile(r"#SBATCH\s+(?:--([\w-]+)|-(\w))(?:\s*=\s*|\s+|(?<=-\w))?(.*)")


def option_of(directive: str) -> tuple[str, str]:
    """The long name of a directive's option, and its value as written."""
    match = _WRITTEN.match(directive.strip())
    if match is None:
        return directive, ""
    long, short, value = match.groups("")
    name = long or known_options("sbatch").short.get(short, short)
    return name, re.sub(r"\s+#.*", "", value).strip().strip("'\"")

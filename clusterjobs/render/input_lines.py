"""The lines of job.sh that look for what has to be there before a rank starts."""

from __future__ import annotations

from typing import Any

from clusterjobs.plan.inputs import Input
from clusterjobs.plan.plan import Plan
from clusterjobs.render import shell
from clusterjobs.render.shell import ShellText
from clusterjobs.spec.references import variable


def inputs_context(plan: Plan) -> dict[str, Any]:
    """What is looked for before the data is brought, and what behind the commands before."""
    return {
        "inputs": [_look(one) for one in plan.staging.inputs if not one.made_late],
        "late_inputs": [_look(one) for one in plan.staging.inputs if one.made_late],
    }


def _look(one: Input) -> ShellText:
    path, is_absolute = shell.quote(one.path), one.path.startswith(("/", "\0"))
    there = f"-r {path}" if one.staged is None else f"-e {path} || -e {shell.quote(one.staged)}"
    place = "here" if is_absolute else f"in {variable('PWD')}"
    keys = one.key if is_absolute else f"{one.key} or workdir"
    complaint = shell.quote(
        f"no {one.what} {one.path} {place}: correct the spec's {keys}, or put it there"
    )
    return ShellText(f"[[ {there} ]] || fail {complaint}")

"""The lines of job.sh that set the environment up: variables, secrets, modules, lines of bash."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from clusterjobs.frameworks.base import Variable
from clusterjobs.plan.plan import Plan
from clusterjobs.render import shell
from clusterjobs.render.lines import command_text, path_text, program_text, with_reason
from clusterjobs.render.shell import ShellText
from clusterjobs.spec.experiment import Secret


class _CodeText(NamedTuple):
    key: ShellText
    code: ShellText


def software_context(plan: Plan) -> dict[str, Any]:
    """What the blocks of the environment, the secrets and the software print."""
    software = plan.experiment.software
    return {
        "environment": [line for one in plan.environment for line in _export(one)],
        "secrets": [_secret(*item) for item in plan.experiment.secrets.items()],
        "modules": command_text(software.modules),
        "conda_given": software.conda is not None,
        "conda": shell.quote_expanding(software.conda or ""),
        "venv_given": software.venv is not None and software.container is None,
        "venv": path_text(software.venv or ""),
        "software_setup": _code("software.setup", software.setup),
        "setup": _code("setup", plan.experiment.setup),
    }


def _code(key: str, lines: tuple[str, ...]) -> list[_CodeText]:
    return [_CodeText(ShellText(key), shell.code(lines))] if lines else []


def _export(variable: Variable) -> list[ShellText]:
    quote = functools.partial(shell.quote_expanding, unset="-") if variable.expand else shell.quote
    name, value = variable.name, quote(variable.value)
    if variable.append:
        value = ShellText(f'"${{{name}:+${name}:}}{value}"')
    line = ShellText(f"export {name}={value}")
    return [line] if variable.expand else with_reason(line, variable.reason)


class _SecretText(NamedTuple):
    name: ShellText
    current: ShellText
    value: ShellText
    complaint: ShellText
    is_fetched: bool


def _secret(name: str, secret: Secret) -> _SecretText:
    """How the value is had when the job runs: it is in no file, and on no command line."""
    if secret.file is not None:
        path = path_text(secret.file)
        value, complaint = f"$(< {path})", f"the secret {name} is empty: its file has no text"
    else:
        value = f"$({program_text(secret.command or ())})"
        complaint = f"the secret {name} is empty: its command printed nothing"
        if not secret.command:
            complaint = f"the secret {name} is not set: export {name} before sbatch"
    is_fetched = secret.file is not None or secret.command is not None
    current = ShellText(f"${{{name}:-}}")
    return _SecretText(
        ShellText(name), current, ShellText(value), shell.quote(complaint), is_fetched
    )

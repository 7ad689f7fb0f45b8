"""The lines of job.sh that set the environment up: variables, secrets, modules, lines of bash."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from clusterjobs.frameworks.base import Variable
from clusterjobs.plan.plan import Plan
from clusterjobs.plan.secrets import Secret
from clusterjobs.render import shell
from clusterjobs.render.lines import command_text, program_text, with_reason
from clusterjobs.render.shell import ShellText


class _CodeText(NamedTuple):
    key: ShellText
    code: ShellText


def software_context(plan: Plan) -> dict[str, Any]:
    """What the blocks of the environment, the secrets and the software print."""
    software = plan.environment
    venv = plan.container.venv if plan.container else software.venv
    return {
        "environment": [line for one in software.variables for line in _export(one)],
        "secrets": [_secret(one) for one in software.secrets],
        "modules": command_text(software.modules),
        "conda_given": software.conda is not None,
        "conda": shell.quote(software.conda or ""),
        "venv_given": software.venv is not None,
        "venv": shell.quote(venv or "."),
        "software_setup": _code("software.setup", software.software_setup),
        "setup": _code("setup", software.setup),
    }


def _code(key: str, lines: tuple[str, ...]) -> list[_CodeText]:
    return [_CodeText(ShellText(key), shell.code(lines))] if lines else []


def _export(variable: Variable) -> list[ShellText]:
    quote = functools.partial(shell._quote, unset="-") if variable.expand else shell.quote
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


def _secret(secret: Secret) -> _SecretText:
    """How the value is had when the job runs: it is in no file, and on no command line."""
    name = secret.name
    if secret.file is not None:
        path = shell.quote(secret.file)
        value, complaint = f"$(< {path})", f"the secret {name} is empty: its file has no text"
    else:
        value = f"$({program_text(secret.command)})"
        complaint = f"the secret {name} is empty: its command printed nothing"
        if not secret.command:
            complaint = f"the secret {name} is not set: export {name} before sbatch"
    is_fetched = secret.file is not None or bool(secret.command)
    current = ShellText(f"${{{name}:-}}")
    return _SecretText(
        ShellText(name), current, ShellText(value), shell.quote(complaint), is_fetched
    )

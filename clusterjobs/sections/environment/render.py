"""The section `environment` of the plan as text: variables, secrets, modules, the spec's code."""

from __future__ import annotations

import functools
import textwrap
from typing import Any

from clusterjobs.frameworks.base import TOKEN, Variable
from clusterjobs.script import shell
from clusterjobs.script.lines import WIDTH, command_text, program_text, with_reason, wrapped
from clusterjobs.script.shell import ShellText
from clusterjobs.sections.plan import ModuleCall, Secret
from clusterjobs.sections.rendering import Rendering
from clusterjobs.text import references


def render(rendering: Rendering) -> dict[str, Any]:
    """What the block `environment` prints."""
    environment = rendering.plan.environment
    unset = (*environment.unset, *(f'"${{!{one}@}}"' for one in environment.unset_prefixes))
    return {
        "kept_slurm": _kept(environment.kept_slurm),
        "unset": [ShellText(f"unset {line}") for line in wrapped(unset)],
        "variables": [line for one in environment.variables for line in _export(one)],
        "has_token": any(TOKEN.parts[0] in references(one.value) for one in environment.variables),
        "secrets": [_secret(one) for one in environment.secrets],
        "has_modules": bool(environment.modules),
        "modules": [_module_call(one) for one in environment.modules],
        "has_profile": bool(environment.profile),
        "profile": shell.quote(environment.profile),
        "has_source": bool(environment.source),
        "source": command_text(environment.source),
        "has_conda": environment.conda is not None,
        "conda": shell.quote(environment.conda or ""),
        "has_venv": environment.venv is not None,
        "venv": shell.quote(environment.venv or ""),
        "site_setup": _own_code("setup", environment.site_setup, "The cluster's"),
        "software_setup": _own_code("software.setup", environment.software_setup),
        "setup": _own_code("setup", environment.setup),
    }


@functools.lru_cache(maxsize=64)  # nearly all jobs have the same
def _kept(patterns: tuple[str, ...]) -> tuple[ShellText, ...]:
    """The kept names, without `SLURM_`, as quoted parts of a regular expression."""
    names = [one.removeprefix("SLURM_").replace("*", ".*") for one in patterns]
    lines = textwrap.wrap(" ".join(names), WIDTH - 14)
    joined = ["|".join(line.split()) for line in lines]
    return tuple(
        ShellText(f"'{'|' if number else ''}{line}'") for number, line in enumerate(joined)
    )


def _own_code(
    key: str, lines: tuple[str, ...], whose: str = "The spec's own"
) -> list[dict[str, ShellText]]:
    if not lines:
        return []
    code = shell.code(lines)
    return [
        {
            "whose": ShellText(whose),
            "key": ShellText(key),
            "code": code,
            "end": shell.heredoc_word(code),
        }
    ]


def _module_call(one: ModuleCall) -> ShellText:
    names = f" {command_text(one.names)}" if one.names else ""
    return ShellText(f"module {one.command}{names}")


@functools.lru_cache(maxsize=1024)  # most jobs of a site have the same
def _export(variable: Variable) -> list[ShellText]:
    name = variable.name
    value = shell.quote(variable.value, unset="-" if variable.expand else "")
    if variable.append:
        inner = value.strip('"')  # of a value with variables
        value = ShellText(f'"${{{name}:+${name}:}}{inner}"')
    if variable.default:
        value = ShellText(f'"${{{name}:-{value}}}"')  # plain letters and digits, as fabrics.py has
    line = ShellText(f"export {name}={value}")
    if variable.only_with:
        given = "".join(f"${{{other}:-}}" for other in variable.only_with)
        line = ShellText(f"[[ -z {given} ]] || {line}")
    return [line] if variable.expand and not variable.source else with_reason(line, variable.reason)


def _secret(secret: Secret) -> dict[str, Any]:
    """The lines that read the value when the job runs: no file and no command line contains it."""
    name = secret.name
    if secret.file is not None:
        value = f"$(cat -- {shell.quote(secret.file)})"  # bash ends the script if `<` finds no file
        complaint = f"the secret {name} is empty: its file is missing or has no text"
    else:
        value = f"$({program_text(secret.command)})"
        complaint = f"the secret {name} is empty: its command printed nothing"
        if not secret.command:
            complaint = f"the secret {name} is not set: export {name} before sbatch"
    return {
        "name": ShellText(name),
        "current": ShellText(f"${{{name}:-}}"),
        "value": ShellText(value),
        "complaint": shell.quote(complaint),
        "is_fetched": secret.file is not None or bool(secret.command),
    }

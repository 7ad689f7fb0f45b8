"""The directives of a script: all before the first command, each once, and none lost."""

from __future__ import annotations

from collections.abc import Iterator

from clusterjobs.render.directive_options import option_of
from clusterjobs.render.invariants.base import Broken, Scripts


def below_a_command(scripts: Scripts) -> Iterator[Broken]:
    start = min((one.number for one in scripts.site.lines if one.code), default=0)
    for one in scripts.site.directives:
        if one.number > start > 0:
            hint = "print it before `set -euo pipefail`, or write it into templates/directives.sh"
            home = "blocks/directives.sh.j2"
            yield Broken("a directive is below the first command", hint, one.text, home)
        elif not one.text.startswith("#SBATCH"):
            yield Broken(f"{one.text.strip()} is indented", "start the line with #SBATCH", one.text)


def twice(scripts: Scripts) -> Iterator[Broken]:
    seen: dict[str, tuple[str, str]] = {}
    planned = {one.text for one in scripts.packaged.directives}
    for one in scripts.site.directives:
        name, value = option_of(one.text)
        earlier, line = seen.setdefault(name, (value, one.text))
        if earlier != value:
            what = f"--{name} is set twice: {earlier or 'without a value'}, and {value}"
            hint = "set it once: in defaults.yaml under `sbatch`, where a spec can change it"
            added = line if one.text in planned else one.text
            yield Broken(what, hint, added, "blocks/directives.sh.j2")


def lost(scripts: Scripts) -> Iterator[Broken]:
    found = dict(option_of(one.text) for one in scripts.site.directives)
    names = [option_of(one.text)[0] for one in scripts.packaged.directives]
    missing = [name for name in names if name not in found]
    if missing:
        hint = "keep the loop over job.directives; a spec drops one with `sbatch: {NAME: false}`"
        what = f"directives of the plan are lost, --{missing[0]} among them"
        yield Broken(what, hint, template="blocks/directives.sh.j2")

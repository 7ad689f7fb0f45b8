"""The program's own config files that a spec names, and the content hash that includes their texts.

It must not know what the texts mean.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

from clusterjobs.commands.files import read_text
from clusterjobs.commands.lab_paths import on_this_machine
from clusterjobs.plan.resolve import config_files
from clusterjobs.spec.content import content_hash
from clusterjobs.spec.load import Spec


class OwnConfigs:
    """The config files of the points of one spec file; each set of files is read once."""

    def __init__(self, spec: pathlib.Path) -> None:
        self._folder = spec.parent
        self._texts: dict[object, Mapping[str, str]] = {}

    def texts(self, loaded: Spec) -> Mapping[str, str]:
        """Name -> text of those found on this machine. Raises InputError if one is unreadable."""
        names = config_files(loaded)
        key = (loaded.experiment.workdir, names)
        if key not in self._texts:
            workdir = on_this_machine(self._folder / (loaded.experiment.workdir or "."))
            self._texts[key] = _read(names, (self._folder, workdir))
        return self._texts[key]

    def content(self, loaded: Spec) -> str:
        """The content hash of a spec or point."""
        return content_hash(loaded.expanded, self.texts(loaded))


def _read(names: tuple[str, ...], folders: tuple[pathlib.Path, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in names:
        places = [folder / name for folder in folders if (folder / name).is_file()]
        if places:
            found[name] = read_text(places[0])
    return found

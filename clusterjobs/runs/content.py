"""What a training is: its content hash, with the config files that it names, and its origin.

The content hash covers what the ranks compute, but not scheduling keys: a point whose job has
completed with it does not run again.
"""

import hashlib
import json
import pathlib
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from clusterjobs.plugins import on_this_machine
from clusterjobs.sections.order import config_files
from clusterjobs.sites.folders import read_text
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.load import LoadedSpec
from clusterjobs.spec.model import SpecModel, known_keys
from clusterjobs.text import marked, show


def content_hash(
    values: Mapping[str, Any], configs: Mapping[str, str], options: type[SpecModel] | None = None
) -> str:
    """16 hex digits of the merged spec with its references expanded, and of its config files.

    `configs`: name -> text of the program's own config files. `options`: the framework's keys. A
    completed job with another content has to run again.
    """
    known = {**known_keys(Experiment), **(known_keys(options) if options else {})}
    scheduling = {name for name, key in known.items() if key and key.schedules}
    kept: Any = {key: value for key, value in values.items() if key not in scheduling}
    # Without config files, the hash is that of jobs which earlier versions have recorded.
    whole = [kept, dict(configs)] if configs else kept
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"), default=marked)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# ------------------------------------------------------------------ own configs
# The program's own config files that a spec names, and the content hash that includes their texts.


class OwnConfigs:
    """The config files of the points of one spec file; each set of files is read once."""

    def __init__(self, spec: pathlib.Path) -> None:
        self._folder = spec.parent
        self._texts: dict[object, Mapping[str, str]] = {}

    def texts(self, loaded: LoadedSpec) -> Mapping[str, str]:
        """Name -> text of those found on this machine. Raises InputError if one is unreadable."""
        names = config_files(loaded)
        key = (loaded.spec.workdir, names)
        if key not in self._texts:
            workdir = on_this_machine(self._folder / show(loaded.spec.workdir or "."))
            self._texts[key] = _read(names, (self._folder, workdir))
        return self._texts[key]

    def content(self, loaded: LoadedSpec) -> str:
        """The content hash of a spec or point."""
        options = type(loaded.options) if loaded.options else None
        return content_hash(loaded.expanded, self.texts(loaded), options)


def _read(names: tuple[str, ...], folders: tuple[pathlib.Path, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in names:
        places = [folder / name for folder in folders if (folder / name).is_file()]
        if places:
            found[name] = read_text(places[0])
    return found


# ------------------------------------------------------------------ origin
# What a training must keep to go on from its checkpoints: a digest of each such setting. A job
# notes them beside the checkpoints, and does not resume those of another training. What only says
# how long a training is, how often it saves or logs, or where it runs, may differ.


_KEYS = ("framework", "script", "command", "args", "model", "parallel", "ds_config")
_PROGRAM = ("command", "args")
# Parts of the names of arguments with which a training may be extended or watched.
_MAY_DIFFER = re.compile(
    r"(?i)(^|[-_.])(steps?|iters?|iterations?|epochs?|updates?|samples|tokens|duration|minutes|"
    r"hours|time|until|interval|every|freq|frequency|save|saved?|log|logs|logging|eval|evaluation|"
    r"val|test|print|verbose|debug|profile|wandb|tensorboard|report|run|name|dir|path|folder|output|"
    r"checkpoint|checkpoints|ckpt|resume|load|workers|port|host)([-_.]|$)"
)
_ASSIGNMENT = re.compile(r"([A-Za-z_+~][\w.+~/-]*)=(.*)", re.DOTALL)
_NUMBER = re.compile(r"-[0-9.]")


def origin_of(points: Sequence[LoadedSpec]) -> str:
    """`args.lr=1a2b3c4d ...`, of what all points share: each has a folder of its own for the rest.

    "" without checkpoints.
    """
    if points[0].spec.checkpoints is None:
        return ""
    shared = set.intersection(*(set(_settings(one.expanded)) for one in points))
    return " ".join(sorted(shared))


def _settings(values: Mapping[str, Any]) -> Iterator[str]:
    for key in _KEYS:
        if key in values:
            yield from (_digest(name, value) for name, value in _leaves(key, values[key]))


def _leaves(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The settings of a key by their names; of a command line by its options."""
    if key in _PROGRAM and isinstance(value, (str, list)):
        words = value if isinstance(value, list) else _words(value)
        named: Iterable[tuple[str, Any]] = _options(words)
    elif isinstance(value, dict):
        named = value.items()
    else:
        yield key, value
        return
    for name, item in named:
        whole = f"{key}.{name}" if name else key
        if key in _PROGRAM and name and _MAY_DIFFER.search(str(name)):
            continue
        if isinstance(item, dict):
            yield from _leaves(whole, item)
        else:
            yield whole, item


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:
        return [line]


def _options(words: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Each option with its values, `lr` for `--lr 1e-3`, `--lr=1e-3`, `lr=1e-3`; the rest as ""."""
    found: dict[str, list[Any]] = {}
    name = ""
    for word in words:
        text = word if isinstance(word, str) else ""
        assigned = _ASSIGNMENT.fullmatch(text.lstrip("-"))
        is_option = text.startswith("-") and not _NUMBER.match(text)
        if assigned and (is_option or not name):
            found.setdefault(assigned[1], []).append(assigned[2])
            name = ""
        elif is_option:
            name = text.lstrip("-")
            found.setdefault(name, [])
        else:
            found.setdefault(name, []).append(word)
    yield from found.items()


def _digest(name: str, value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=marked)
    return (
        f"{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}={hashlib.sha256(text.encode()).hexdigest()[:8]}"
    )

"""PyTorch's flight recorder: which rank waited in which collective, and who did not come.

A job writes a dump for each rank when a collective times out (TORCH_FR_DUMP_TEMP_FILE). A dump is
a pickle of plain values: `pg_config`, `pg_status` and `entries`, as torch/csrc/distributed/c10d/
FlightRecorder writes them and torch/distributed/flight_recorder reads them.
"""

import io
import pickle
import pickletools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

# A dump may neither run code nor take more time or memory than the data is long. So pickles of
# plain values are loaded by Python's own loader in Python, with few opcodes, and all others are
# refused: the loader in C reserves memory for any index that a pickle names, and computes hashes of
# nested tuples for hours.

# Those that PyTorch writes, and those that Python writes for the same values.
_ALLOWED = (
    *("PROTO", "FRAME", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE"),
    *("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"),
    *("BINUNICODE", "SHORT_BINUNICODE", "BINPUT", "LONG_BINPUT", "MEMOIZE", "BINGET"),
    *("LONG_BINGET", "EMPTY_LIST", "APPEND", "APPENDS", "EMPTY_DICT", "SETITEM", "SETITEMS"),
    *("EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
    *("GLOBAL", "STACK_GLOBAL"),  # refused by find_class, which says the name
)
_NAMES = {ord(one.code): one.name for one in pickletools.opcodes}


class _Loader(pickle._Unpickler):
    stack: list[Any]  # these two are Python's own
    pop_mark: Callable[[], list[Any]]

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module}.{name}, and plain values need no names")

    def load_setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._set(key, value)

    def load_setitems(self) -> None:
        items = self.pop_mark()
        for key, value in zip(items[::2], items[1::2], strict=True):
            self._set(key, value)

    def _set(self, key: Any, value: Any) -> None:
        if not isinstance(key, str) or not isinstance(self.stack[-1], dict):
            raise pickle.UnpicklingError("a mapping's keys must be texts")
        self.stack[-1][key] = value


def _refuse(code: int) -> Any:
    def refuse(_: _Loader) -> None:
        raise pickle.UnpicklingError(f"it has {_NAMES[code]}, and plain values need none")

    return refuse


_Loader.dispatch = {
    code: load if _NAMES[code] in _ALLOWED else _refuse(code)
    for code, load in pickle._Unpickler.dispatch.items()
} | {
    pickle.SETITEM[0]: _Loader.load_setitem,
    pickle.SETITEMS[0]: _Loader.load_setitems,
}


def load(data: bytes) -> Any:
    """Numbers, texts, lists, tuples and mappings. Raises ValueError for all else."""
    try:
        return _Loader(io.BytesIO(data)).load()
    except Exception as error:  # a damaged pickle raises nearly anything
        raise ValueError(str(error) or type(error).__name__) from None


MOST_BYTES = 256 << 20  # of a dump: 20,000 collectives take about 30 MB
_MOST_RANKS = 16  # that a sentence names
_MOST_TEXT = 200  # characters of a name that a sentence shows
_MOST_NUMBER = 1 << 62


class Entry(NamedTuple):
    """A collective of one rank. `where`: file and line of the program that called it."""

    group: str
    number: int
    name: str
    sizes: str
    where: str
    has_ended: bool


class Dump(NamedTuple):
    """What one rank has recorded. `groups`: the ranks of each process group."""

    rank: int
    groups: Mapping[str, tuple[int, ...]]
    entries: tuple[Entry, ...]


def read_dump(data: bytes, rank: int) -> Dump:
    """The dump of a rank. Raises ValueError if it is none, or too large."""
    if len(data) > MOST_BYTES:
        raise ValueError(f"larger than {MOST_BYTES >> 20} MiB")
    try:
        content = load(data)
    except ValueError as error:
        raise ValueError(f"no dump of a flight recorder: {error}") from None
    if not isinstance(content, dict) or not isinstance(content.get("entries"), list):
        raise ValueError("no dump of a flight recorder: it has no entries")
    entries = (_entry(one) for one in content["entries"] if isinstance(one, dict))
    config = content.get("pg_config")
    groups = config.items() if isinstance(config, dict) else ()
    configs = {name: one if isinstance(one, dict) else {} for name, one in groups}
    ranks = {_text(one.get("desc")) or _text(name): _ranks(one) for name, one in configs.items()}
    return Dump(rank, ranks, tuple(one for one in entries if one))


def _entry(one: Mapping[str, Any]) -> Entry | None:
    """The collective; None for messages between two ranks, as their numbers are not shared."""
    number, name = one.get("collective_seq_id"), _text(one.get("profiling_name"))
    if not _is_number(number) or one.get("is_p2p"):
        return None
    group = one.get("process_group")
    title = group[1] if isinstance(group, (tuple, list)) and len(group) > 1 else ""
    has_ended = bool(one.get("retired")) or one.get("state") == "completed"
    types = one.get("input_dtypes")
    first_type = _text(types[0]) if isinstance(types, list) and types else ""
    sizes = f"{_sizes(one.get('input_sizes'))} {first_type}".strip()
    return Entry(_text(title), number, name.rpartition(":")[2], sizes, _caller(one), has_ended)


def _caller(one: Mapping[str, Any]) -> str:
    """The innermost line that is not PyTorch's own."""
    frames = one.get("frames")
    for frame in frames if isinstance(frames, list) else ():
        file = frame.get("filename") if isinstance(frame, dict) else None
        if isinstance(file, str) and file and "/torch/" not in file:
            name, line = _text(file.rpartition("/")[2]), frame.get("line")
            return f"{name}:{line}" if _is_number(line) else name
    return ""


def _sizes(value: Any) -> str:
    shapes = value if isinstance(value, list) else []
    return ", ".join(
        "x".join(str(size) for size in one[:16] if _is_number(size))
        for one in shapes[:4]
        if isinstance(one, list)
    )


def _ranks(config: Mapping[str, Any]) -> tuple[int, ...]:
    """`"[0, 1]"`, or a list."""
    found = config.get("ranks")
    if isinstance(found, list):
        return tuple(one for one in found if _is_number(one))
    parts = found.strip("[]").split(",") if isinstance(found, str) else []
    numbers = (one.strip() for one in parts)
    return tuple(int(one) for one in numbers if one.isdecimal() and len(one) < 10)


def _text(value: Any) -> str:
    """Nothing else is turned into text: a nested list may be longer than any memory."""
    return value[:_MOST_TEXT] if isinstance(value, str) else ""


def _is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and 0 <= value < _MOST_NUMBER


def hang(dumps: Sequence[Dump], ranks: int | None = None) -> tuple[str, ...]:
    """Sentences: for each group, who waits in which collective, and who has not come.

    `ranks`: of the whole job; those without a dump are named.
    """
    groups = sorted({entry.group for dump in dumps for entry in dump.entries})
    found = [sentence for group in groups for sentence in _of_group(group, dumps)]
    missing = sorted(set(range(ranks or 0)) - {one.rank for one in dumps})
    if missing:
        found.append(f"No dump of {named(missing)}: killed, or gone before the timeout.")
    return tuple(found)


def _of_group(group: str, dumps: Sequence[Dump]) -> list[str]:
    last: dict[int, Entry] = {}
    waiting: dict[int, Entry] = {}
    calls: defaultdict[int, dict[int, Entry]] = defaultdict(dict)
    for dump in dumps:
        for entry in dump.entries:
            if entry.group == group:
                last[dump.rank] = entry
                calls[entry.number][dump.rank] = entry
                if not entry.has_ended:
                    waiting.setdefault(dump.rank, entry)
    title = f"Process group {group or 'default'}"
    if different := _mismatch(calls):
        return [f"{title}: {different}"]
    if not waiting:
        return []
    first = min(entry.number for entry in waiting.values())
    there = {rank: entry for rank, entry in waiting.items() if entry.number == first}
    behind = {rank: entry for rank, entry in last.items() if entry.number < first}
    what = _shown(next(iter(there.values())))
    sentence = f"{title}: {named(there)} {_verb(there, 'wait')} in {what}"
    if not behind:
        return [f"{sentence}. Every rank with a dump has come: the network or a GPU is at fault."]
    members: set[int] = set()
    for dump in dumps:  # a job's only group has no name there, and `default_pg` in the entries
        only = next(iter(dump.groups.values())) if len(dump.groups) == 1 else ()
        members.update(dump.groups.get(group, only))
    silent = f" of {len(members)}" if members else ""
    where = {_shown(entry) for entry in behind.values()}
    done = f", last seen in {next(iter(where))}" if len(where) == 1 else ""
    return [f"{sentence}; {named(behind)}{silent} {_verb(behind, 'have')} not come{done}."]


def _mismatch(calls: Mapping[int, Mapping[int, Entry]]) -> str:
    """The first collective that ranks call differently."""
    for number in sorted(calls):
        kinds: defaultdict[str, list[int]] = defaultdict(list)
        for rank, entry in calls[number].items():
            kinds[_kind(entry)].append(rank)
        if len(kinds) > 1:
            parts = [
                f"{named(ranks)} {_verb(ranks, 'call')} {kind}" for kind, ranks in kinds.items()
            ]
            return f"collective {number} differs: " + ", but ".join(parts) + "."
    return ""


def _kind(entry: Entry) -> str:
    """What all ranks must agree on; the sizes of gathers and scatters may differ."""
    same_sizes = entry.name in ("all_reduce", "broadcast", "reduce")
    return f"{entry.name} of {entry.sizes}" if same_sizes and entry.sizes else entry.name


def _shown(entry: Entry) -> str:
    where = f" at {entry.where}" if entry.where else ""
    return f"collective {entry.number}, {_kind(entry)}{where}"


def _verb(ranks: Sequence[int] | Mapping[int, Any], verb: str) -> str:
    if len(ranks) > 1:
        return verb
    return {"have": "has"}.get(verb, f"{verb}s")


def named(ranks: Iterable[int]) -> str:
    """`rank 3`, `ranks 0, 2 and 3`, and the number of further ones."""
    ordered = sorted(ranks)
    if len(ordered) == 1:
        return f"rank {ordered[0]}"
    if len(ordered) > _MOST_RANKS:
        first = ", ".join(map(str, ordered[:_MOST_RANKS]))
        return f"ranks {first} and {len(ordered) - _MOST_RANKS} more"
    return f"ranks {', '.join(map(str, ordered[:-1]))} and {ordered[-1]}"

"""YAML text read into plain data, with the position of every value kept.

Two sets of rules: "core" (YAML 1.2 core
schema, for specs: `12:00:00`, `on` and `no` are text, `1e-4` is a number) and "1.1" (PyYAML's
safe_load, which ParallelCluster uses for its configs).
"""

import contextlib
import functools
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.cyaml import CParser  # type: ignore[attr-defined]
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from clusterjobs.errors import InputError, Location, Problem, one_problem
from clusterjobs.yaml.syntax import (
    OTHER_BREAK,
    STANDARD_TAG,
    TAG_NAMES,
    Rules,
    core_kind,
    legacy_kind,
    line_of,
    other_break,
    quoted_reference,
    syntax_problem,
    value_of,
)

# ------------------------------------------------------------------ mappings
# The keys and values of YAML mappings, with merge keys (`<<`) resolved by the 1.1 rules.


class Mappings:
    """The keys and values of mapping nodes; each node is read once, however often it is used."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._pairs: dict[MappingNode, list[tuple[Node, Node]]] = {}
        self._entries: dict[MappingNode, dict[str, tuple[Node, Node]]] = {}

    def entry(self, node: MappingNode, name: str | int) -> tuple[Node, Node] | None:
        """The key and the value of that name, the first one if it is given twice."""
        if node not in self._entries:
            pairs = reversed(self.pairs(node))
            self._entries[node] = {
                key.value: (key, value) for key, value in pairs if isinstance(key, ScalarNode)
            }
        return self._entries[node].get(name) if isinstance(name, str) else None

    def pairs(self, node: MappingNode) -> list[tuple[Node, Node]]:
        """Keys and values; by the 1.1 rules with `<<` merged, own keys first."""
        if node not in self._pairs:
            self._pairs[node] = []  # a mapping that merges itself gets nothing from it
            self._pairs[node] = self._merged(node)
        return self._pairs[node]

    def _merged(self, node: MappingNode) -> list[tuple[Node, Node]]:
        sources: list[Node] = []
        own: list[tuple[Node, Node]] = []
        for key, value in node.value:
            if self._rules == "1.1" and key.tag == "merge":
                sources += value.value if isinstance(value, SequenceNode) else [value]
            else:
                own.append((key, value))
        names = {key.value for key, _ in own if isinstance(key, ScalarNode)}
        for source in sources:
            for key, value in self.pairs(source) if isinstance(source, MappingNode) else ():
                if isinstance(key, ScalarNode) and key.value not in names:
                    names.add(key.value)
                    own.append((key, value))
        return own


Path = tuple[str | int, ...]

MAX_BYTES = 1 << 20
MAX_DEPTH = 60
MAX_VALUES = 200_000  # after aliases are expanded; specs have about a hundred
MAX_ITEMS = 10_000  # of one list or mapping: as many as a sweep has points
_MAX_CHARACTERS = 4 * MAX_BYTES  # after aliases are expanded
_TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"
_WRONG_FILE = "is this the right file?"
_MAX_DIGITS = 4000  # Python refuses to read longer whole numbers


@dataclass(frozen=True)
class Document:
    """One YAML document. `value` is plain data; positions are looked up on demand."""

    value: Any
    file: str
    text: str
    rules: Rules
    root: Node | None
    mappings: Mappings
    # The points of a sweep look up the same positions many times.
    _located: dict[Path, Location] = field(default_factory=dict, init=False, compare=False)
    _located_keys: dict[Path, Location] = field(default_factory=dict, init=False, compare=False)

    def locate(self, path: Path) -> Location:
        """The position of the value at `path`, or of its nearest parent if it is missing."""
        if path not in self._located:
            node, _ = self._walk(path)
            start = Location(self.file, 1, 1, line_of(self.text, 0))
            self._located[path] = self._location(node) if node else start
        return self._located[path]

    def locate_key(self, path: Path) -> Location:
        """The position of the key at `path`; of an item of a list, which has no key, its own."""
        if path not in self._located_keys:
            _, key = self._walk(path)
            self._located_keys[path] = self._location(key) if key else self.locate(path)
        return self._located_keys[path]

    def span(self, path: Path) -> tuple[int, int]:
        """Start and end of the value at `path` in `text`, in characters."""
        node, _ = self._walk(path)
        if node is None:
            raise KeyError(path)
        return node.start_mark.index, node.end_mark.index

    def key_span(self, path: Path) -> tuple[int, int]:
        """Start and end of the key at `path` in `text`, in characters."""
        _, key = self._walk(path)
        if key is None:
            raise KeyError(path)
        return key.start_mark.index, key.end_mark.index

    def _walk(self, path: Path) -> tuple[Node | None, Node | None]:
        node, key = self.root, None
        for step in path:
            found = self._child(node, step)
            if found is None:  # a scalar may be the short form of a mapping
                return (node if isinstance(node, ScalarNode) else key or node, key)
            key, node = found
        return node, key

    def _child(self, node: Node | None, step: str | int) -> tuple[Node | None, Node] | None:
        if isinstance(node, MappingNode):
            return self.mappings.entry(node, step)
        if isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
            return None, node.value[step]
        return None

    @functools.cached_property
    def _lines(self) -> list[str]:
        return self.text.split("\n")

    def _location(self, node: Node) -> Location:
        start, end = node.start_mark, node.end_mark
        line = self._lines[start.line].rstrip("\r") if start.line < len(self._lines) else ""
        last = end.column if end.line == start.line else len(line)
        block = not isinstance(node, ScalarNode) and end.line != start.line
        width = 1 if block else max(1, last - start.column)
        return Location(self.file, start.line + 1, start.column + 1, line, width)


def decode(data: bytes, file: str) -> str:
    """The text of a file's bytes. Raises InputError where it is too large or not UTF-8."""
    if len(data) > MAX_BYTES:
        raise one_problem(
            f"the file has more than {MAX_BYTES:,} bytes",
            Location(file, 1, 1),
            hint="is this the right file? specs and configs are much smaller",
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig")
        line = before.count("\n")
        column = len(before) - (before.rfind("\n") + 1)
        raise one_problem(
            f"not UTF-8 text: byte 0x{data[error.start]:02x}",
            Location(file, line + 1, column + 1, before[len(before) - column :] + "\ufffd"),
            hint="save the file as UTF-8",
        ) from None


def load(text: str, file: str, rules: Rules = "core") -> Document:
    """Read one document. Raises InputError with all problems of the YAML itself."""
    if rules == "core" and (found := OTHER_BREAK.search(text)):
        raise InputError([other_break(found, text, file)])
    try:
        root = _compose(text, rules)
    except yaml.YAMLError as error:
        raise InputError([syntax_problem(error, text, file)]) from None
    except _TooDeepError as error:
        line, column = error.mark.line, error.mark.column
        where = Location(file, line + 1, column + 1, line_of(text, line))
        raise one_problem(_TOO_DEEP, where, hint=_WRONG_FILE) from None
    if root is None:
        return Document(None, file, text, rules, None, Mappings(rules))
    mappings = Mappings(rules)
    reader = _Reader(Document(None, file, text, rules, root, mappings))
    value = reader.read(root, 0)
    if reader.problems:
        raise InputError(reader.problems)
    return Document(value, file, text, rules, root, mappings)


def dotted(path: Path) -> str:
    """`("batch", "global")` as `batch.global`, indexes of lists as `before[0]`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text


def look_at(data: Any, path: Path) -> Any:
    """What is at `path` in plain data; None if there is nothing."""
    for step in path:
        if isinstance(data, dict):
            data = data.get(step)
        else:
            data = data[step] if isinstance(data, list) and isinstance(step, int) else None
    return data


# ------------------------------------------------------------------ text to nodes

_KIND_OF_COLLECTION: dict[type[Node], str] = {MappingNode: "map", SequenceNode: "seq"}


class _TooDeepError(Exception):
    def __init__(self, mark: yaml.Mark) -> None:
        self.mark = mark


def _compose(text: str, rules: Rules) -> Node | None:
    """The root node. Raises _TooDeepError, else YAMLError.

    libyaml reads ahead, and newer ones refuse 1,000 open brackets in words of their own: the text
    before an error is composed again, since it may be nested too deeply already.
    """
    try:
        return _Composer(text, rules).get_single_node()
    except yaml.MarkedYAMLError as error:
        if error.problem_mark:
            with contextlib.suppress(yaml.YAMLError):
                _Composer(text[: error.problem_mark.index - 1], rules).get_single_node()
        raise


class _Composer(CParser):
    """libyaml's parser with tags shortened to the names that `_Reader` knows.

    libyaml composes recursively in C, so the depth is limited here: 200,000 open brackets would
    crash the process.
    """

    def __init__(self, text: str, rules: Rules) -> None:
        super().__init__(text)
        self._kind = core_kind if rules == "core" else legacy_kind
        self._depth = 0

    def resolve(self, node_type: type[Node], value: str, implicit: Any) -> str:
        if node_type is not ScalarNode:
            return _KIND_OF_COLLECTION[node_type]
        return self._kind(value) if implicit[0] else "str"

    def descend_resolver(self, parent: Node | None, _index: Any) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH and parent is not None:
            raise _TooDeepError(parent.start_mark)

    def ascend_resolver(self) -> None:
        self._depth -= 1


# ------------------------------------------------------------------ nodes to data


class _Reader:
    """Turns nodes into plain data and collects their problems."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems: list[Problem] = []
        self.values = self.characters = 0

    def read(self, node: Node, depth: int) -> Any:
        self.values += 1
        if self.values > MAX_VALUES:
            self._stop(f"more than {MAX_VALUES:,} values once aliases are expanded", node)
        kind = self._kind(node)
        if type(node) is ScalarNode:
            self.characters += len(node.value)
            if self.characters > _MAX_CHARACTERS:
                most = f"{_MAX_CHARACTERS:,} characters"
                self._stop(f"more than {most} once aliases are expanded", node)
            return self._scalar(node, kind)
        if len(node.value) > MAX_ITEMS:
            self._stop(f"more than {MAX_ITEMS:,} items", node)
        if depth > MAX_DEPTH:  # an alias contains itself
            self._stop(_TOO_DEEP, node)
        value: Any
        if type(node) is MappingNode:
            value = self._mapping(node, depth)
        else:
            value = [self.read(item, depth + 1) for item in node.value]
        # CloudFormation's `!FindInMap [...]` in a config is short for {Fn::FindInMap: [...]}.
        return {f"Fn::{kind[1:]}": value} if kind.startswith("!") else value

    def _kind(self, node: Node) -> str:
        tag: str = node.tag
        if not tag.startswith(("!", "tag:")):
            return tag
        kind = tag.removeprefix(STANDARD_TAG)
        if kind in TAG_NAMES:
            return kind
        if self.document.rules == "core":
            self._problem(f"unknown tag {tag!r}", node, "write the value without a tag")
            return "str"
        return tag

    def _scalar(self, node: ScalarNode, kind: str) -> Any:
        text: str = node.value
        self._refuse_nul(node)
        if kind == "str":
            return text
        if kind == "null":
            return None
        if kind in ("int", "float", "bool"):
            return self._typed(node, kind)
        # CloudFormation's `!Ref X` in a config: kept as text, an unknown value to its readers.
        return f"{kind} {text}" if kind.startswith("!") else text

    def _typed(self, node: ScalarNode, kind: str) -> Any:
        text: str = node.value
        if len(text) > _MAX_DIGITS:
            self._problem(f"a number of {len(text):,} digits", node, "quote it if it is text")
            return 0
        try:
            return value_of(kind, node, self.document.rules)
        except (ValueError, KeyError):
            self._problem(f"{text!r} is not a YAML {kind}", node, "quote it if it is text")
            return None

    def _mapping(self, node: MappingNode, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        first: dict[str, Node] = {}
        for key, value in self.document.mappings.pairs(node):
            if type(key) is not ScalarNode:
                self._problem(*self._about_key(key))
                continue
            name: str = key.value
            self._refuse_nul(key)
            if key.tag == "merge" or (name == "<<" and not key.style):
                self._problem(
                    "merge keys (<<) are not part of YAML 1.2", key, "write the keys themselves"
                )
            elif name in first:
                line = first[name].start_mark.line + 1
                self._problem(f"the key {name!r} is given twice", key, f"first on line {line}")
            else:
                first[name] = key
                result[name] = self.read(value, depth + 1)
        return result

    def _about_key(self, key: Node) -> tuple[str, Node, str]:
        _, braces, rest = line_of(self.document.text, key.start_mark.line).partition("{{")
        if braces:
            return "a reference without quotes", key, quoted_reference(braces + rest)
        return "a key must be plain text", key, "write `key: value`"

    def _refuse_nul(self, node: ScalarNode) -> None:
        if "\0" in node.value:
            self._problem(
                "a NUL character", node, "remove it: no variable, argument or path can contain one"
            )

    def _problem(self, what: str, node: Node, hint: str) -> None:
        self.problems.append(Problem(what, self.document._location(node), hint=hint))

    def _stop(self, what: str, node: Node) -> None:
        self._problem(what, node, _WRONG_FILE)
        raise InputError(self.problems)

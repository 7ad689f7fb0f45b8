"""Expressions of templates as text: what is wrong with them, and where a value may stand."""

import functools
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Literal, NamedTuple

from jinja2 import nodes

from clusterjobs.errors import nearest
from clusterjobs.script.site import PACKAGED

# ------------------------------------------------------------------ quoting context
# Where in bash each printed variable of a template stands: in a command, in quotes, in a comment.


Context = Literal["command", "comment", "quotes", "here-document", "quoted here-document"]

_JINJA = re.compile(
    r"\{%[-+]?\s*raw\s*[-+]?%\}.*?\{%[-+]?\s*endraw\s*[-+]?%\}|\{\{.*?\}\}|\{%.*?%\}|\{##.*?##\}",
    re.DOTALL,
)
_PLAIN = re.compile(r"""[^\n\\'"(){}<#$]+""")
_HERE = re.compile(r"<<-?[ \t]*(['\"\\]?)(\{\{.*?\}\}|\w+)\1?")


class Printed(NamedTuple):
    """A `{{ variable }}`: its line, what is written in it, and where it stands."""

    line: int
    text: str
    context: Context


def contexts_of(template: str, line: int, text: str) -> set[Context]:
    """The contexts in which `{{ text }}` stands in that line of the template."""
    found = printed_variables(template)
    return {one.context for one in found if (one.line, one.text) == (line, text)}


def is_line_of(templates: Iterable[str], line: str) -> bool:
    """Whether one of the templates has the line, however it is indented."""
    return any(line.strip() in _lines(one) for one in templates)


@functools.lru_cache(maxsize=256)
def _lines(template: str) -> frozenset[str]:
    return frozenset(map(str.strip, template.split("\n")))


@functools.lru_cache(maxsize=256)
def printed_variables(template: str) -> frozenset[Printed]:
    """All printed variables. What follows an unclosed quote counts as quoted."""
    return frozenset(_Scan(template).printed())


class _Scan:
    """Reads a template once. `stack`: what is open, the innermost last."""

    def __init__(self, template: str) -> None:
        self.text = template
        self.position = 0
        self.line = 1
        self.stack: list[str] = ["command"]
        self.documents: list[tuple[str, str]] = []  # the word that ends it, and its quote
        self.in_document = False
        self.last_line = {line.lstrip("\t"): n for n, line in enumerate(template.split("\n"), 1)}

    def printed(self) -> Iterator[Printed]:
        while self.position < len(self.text):
            if found := _JINJA.match(self.text, self.position):
                if found[0].startswith("{{"):
                    yield Printed(self.line, found[0][2:-2].strip("-+ \t\n"), self._context())
                self._skip(found[0])
            else:
                self._read()

    def _context(self) -> Context:
        if self.in_document:
            word, quote = self.documents[0]
            # Only a delimiter that is chosen for the text cannot be a line of it.
            return "quoted here-document" if quote and word.startswith("{{") else "here-document"
        inner = self.stack[-1]
        if inner == "#":
            return "comment"
        return "quotes" if inner in _QUOTES else "command"

    def _skip(self, text: str) -> None:
        self.line += text.count("\n")
        self.position += len(text)

    def _read(self) -> None:
        one = self.text[self.position]
        if plain := _PLAIN.match(self.text, self.position):
            self._skip(plain[0])
        elif one == "\n":
            self._end_line()
        elif self.in_document or self.stack[-1] == "#":
            self._skip(one)
        elif one == "\\" and self.stack[-1] != "'":
            self._skip(self.text[self.position : self.position + 2])
        elif self.stack[-1] in _QUOTES:
            self._read_quoted(one)
        else:
            self._read_command(one)

    def _read_quoted(self, one: str) -> None:
        if self.stack[-1] == '"' and self.text.startswith("$(", self.position):
            self.stack.append("(")
            self._skip("$(")
            return
        if one == self.stack[-1][-1]:
            self.stack.pop()
        self._skip(one)

    def _read_command(self, one: str) -> None:
        before = self.text[self.position - 1 : self.position]
        here = _HERE.match(self.text, self.position) if one == "<" else None
        # Without a later line that ends it, it is no here-document: `<<` also shifts numbers.
        if here and before != "<" and self.last_line.get(here[2], 0) > self.line:
            self.documents.append((here[2], here[1]))
            self._skip(here[0])
            return
        if one in _QUOTES:
            self.stack.append("$'" if one == "'" and before == "$" else one)
        elif one == "(":
            self.stack.append("(")
        elif one == ")" and self.stack[-1] == "(":
            self.stack.pop()
        elif one == "#" and (not before or before in " \t\n;"):
            self.stack.append("#")
        self._skip(one)

    def _end_line(self) -> None:
        if self.stack[-1] == "#":
            self.stack.pop()
        self._skip("\n")
        self.in_document = bool(self.documents)
        if self.documents:
            end = self.text.find("\n", self.position)
            line = self.text[self.position : end if end >= 0 else None]
            if line.lstrip("\t") == self.documents[0][0]:
                self._skip(line)
                self.documents.pop(0)
                self.in_document = False


_QUOTES = ("'", '"', "$'")


def is_super(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Call) and text_of(node.node) == "super" and not node.args


def text_of(node: nodes.Node) -> str:
    """A variable as it is written."""
    if isinstance(node, nodes.Getattr):
        return f"{text_of(node.node)}.{node.attr}"
    return node.name if isinstance(node, nodes.Name) else ""


def unquoted(node: nodes.Node) -> tuple[str, str]:
    """What is wrong with an expression that is no variable, and a word of it."""
    if isinstance(node, nodes.Filter):
        return f"the filter {node.name} is not allowed", node.name
    if isinstance(node, nodes.Test):
        return f"the test `is {node.name}` is not allowed", node.name
    if isinstance(node, nodes.Call):
        return "a call is not allowed", text_of(node.node)
    if isinstance(node, nodes.Const):
        return "a constant is not quoted: write the text itself, without {{ }}", ""
    return "an expression is not allowed here", next(map(text_of, node.find_all(nodes.Name)), "")


def misplaced(kind: str, text: str, contexts: Collection[Context]) -> tuple[str, str] | None:
    """Whether a value stands where its kind of quoting does not protect it: what, and a hint."""
    if kind in ("comment", "here-document", "expanding here-document", "text") and not contexts:
        return (
            f"the quotes around {text} cannot be checked here",
            f"write {{{{ {text} }}}} on one line",
        )
    if kind == "comment" and set(contexts) != {"comment"}:
        return f"{text} is quoted for a comment alone", "put a # before it, outside of quotes"
    if kind == "here-document" and set(contexts) != {"quoted here-document"}:
        hint = "print it on a line of its own, between <<'{{ ...end }}' and {{ ...end }}"
        return f"{text} is quoted for a here-document alone", hint
    if kind == "expanding here-document" and set(contexts) != {"here-document"}:
        hint = "print it on a line of its own, between <<{{ ...end }} and {{ ...end }}"
        return f"{text} is quoted for a here-document that expands variables", hint
    if kind == "text" and "quotes" in contexts:
        return f"{text} is quoted already: quotes around it undo that", _WITHOUT_QUOTES.format(text)
    if kind == "text" and "here-document" in contexts:
        what = f"{text} is quoted for a command: in a here-document bash would expand it"
        return what, f"print it with a command: echo {{{{ {text} }}}}"
    return None


_WITHOUT_QUOTES = 'end the quotes before it: echo "in "{{{{ {} }}}}'


def similar_name(name: str, known: Iterable[str]) -> str:
    """A hint: the name that is meant, of the packaged ones by their prefix if that was written."""
    candidates = [one for one in known if one.startswith(PACKAGED) == name.startswith(PACKAGED)]
    match = nearest(name, candidates, cutoff=0.7)
    return f"did you mean {match}?" if match else "`clusterjobs templates list` shows all"


def used_names(text: str) -> Iterator[str]:
    """The templates that a text includes or extends by name."""
    return (m[1] for m in re.finditer(r"""\{%[-+]?\s*(?:include|extends)\s+["'](.+?)["']""", text))

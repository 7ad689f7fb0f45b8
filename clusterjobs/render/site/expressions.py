"""Expressions of templates as text: what is wrong with them, and where a value may stand."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from jinja2 import nodes

from clusterjobs.errors import nearest
from clusterjobs.render.site.quoting_context import Context
from clusterjobs.render.site.templates import PACKAGED


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

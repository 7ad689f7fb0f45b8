"""Expressions of templates as text: what is wrong with them, and where a value may stand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from jinja2 import nodes

from clusterjobs.errors import nearest
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


def misplaced(kind: str, text: str, line: str) -> tuple[str, str] | None:
    """Whether a value stands where its kind of quoting does not protect it: what, and a hint."""
    match = re.search(r"\{\{[-+]?\s*" + re.escape(text) + r"\s*[-+]?\}\}", line)
    before, after = (line[: match.start()], line[match.end() :]) if match else ("", "")
    if kind == "comment" and match and not re.search(r"(^|\s)#", before):
        return f"{text} is quoted for a comment alone", "put a # before it"
    if kind == "here-document" and match and (before + after).strip():
        return f"{text} is quoted for a here-document alone", "print it on a line of its own"
    if kind == "text" and before[-1:] in ('"', "'") and before[-1:] == after[:1]:
        return f"{text} is quoted already: quotes around it undo that", f"remove the {after[:1]}"
    return None


def similar_name(name: str, known: Iterable[str]) -> str:
    """A hint: the name that is meant, of the packaged ones by their prefix if that was written."""
    candidates = [one for one in known if one.startswith(PACKAGED) == name.startswith(PACKAGED)]
    match = nearest(name, candidates, cutoff=0.7)
    return f"did you mean {match}?" if match else "`clusterjobs templates list` shows all"


def used_names(text: str) -> Iterator[str]:
    """The templates that a text includes or extends by name."""
    return (m[1] for m in re.finditer(r"""\{%[-+]?\s*(?:include|extends)\s+["'](.+?)["']""", text))

"""Checks a site's templates before they are rendered: unknown variables, and unquoted values.

A template may print variables and blocks, loop over lists, ask for conditions, and include or
extend others. Nothing else is allowed, since the rest of Jinja makes text that nobody quoted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from jinja2 import nodes

from clusterjobs.errors import InputError, Problem, did_you_mean, nearest
from clusterjobs.render.site_templates import PACKAGED, SiteFile
from clusterjobs.render.template_syntax import at, parse
from clusterjobs.render.variables import PRINTED, Shape

_MAX_LOOPS = 2
_LOOP = Shape(
    "record",
    {
        **{name: Shape("number") for name in ("index", "index0", "length", "revindex")},
        **{name: Shape("condition") for name in ("first", "last")},
    },
)
_TAGS: Mapping[type[nodes.Node], str] = {
    nodes.Assign: "set",
    nodes.AssignBlock: "set",
    nodes.Macro: "macro",
    nodes.CallBlock: "call",
    nodes.FilterBlock: "filter",
    nodes.Import: "import",
    nodes.FromImport: "from",
    nodes.ScopedEvalContextModifier: "autoescape",
}
_NO_TAG = "it makes text that nobody quoted: print variables, and share lines with {% include %}"
_NO_FILTER = "print the variable as it is: its value is quoted already"

Scope = Mapping[str, Shape | None]  # None: nothing is known of it


def check_template(file: SiteFile, scope: Scope, texts: Mapping[str, str]) -> list[Problem]:
    """All problems of one template. `texts`: every template that it can include, by name."""
    try:
        tree = parse(file)
    except InputError as error:
        return list(error.problems)
    checker = _Checker(file, texts)
    checker.body(tree.body, scope)
    checker.extending(tree)
    return list(dict.fromkeys(checker.problems))


class _Checker:
    def __init__(self, file: SiteFile, texts: Mapping[str, str]) -> None:
        self.file = file
        self.texts = texts
        self.problems: list[Problem] = []
        self.loops = 0

    def problem(self, node: nodes.Node, text: str, what: str, hint: str = "") -> None:
        self.problems.append(Problem(what, at(self.file, node.lineno or 1, text), "", hint))

    # ---- tags ------------------------------------------------------------------------------

    def body(self, body: list[nodes.Node], scope: Scope) -> None:
        for node in body:
            self.tag(node, scope)

    def tag(self, node: nodes.Node, scope: Scope) -> None:
        if isinstance(node, nodes.Output):
            for child in node.nodes:
                self.printed(child, scope)
        elif isinstance(node, nodes.If):
            self.condition(node.test, scope)
            self.body([*node.body, *node.elif_, *node.else_], scope)
        elif isinstance(node, nodes.For):
            self.loop(node, scope)
        elif isinstance(node, nodes.With):
            values = {
                target.name: self.shape(value, scope)
                for target, value in zip(node.targets, node.values, strict=True)
                if isinstance(target, nodes.Name)
            }
            self.body(node.body, {**scope, **values})
        elif isinstance(node, nodes.Block):
            self.body(node.body, scope)
        elif isinstance(node, (nodes.Include, nodes.Extends)):
            self.included(node, scope)
        else:
            name = _TAGS.get(type(node), type(node).__name__.lower())
            self.problem(node, f"{{% {name}", f"{{% {name} %}} is not allowed here", _NO_TAG)

    def loop(self, node: nodes.For, scope: Scope) -> None:
        found = self.shape(node.iter, scope)
        text = _text(node.iter)
        if found and found.kind not in ("list", "nothing"):
            self.problem(node, text, f"{text} is no list but a {found.kind}", "loop over a list")
        if self.loops >= _MAX_LOOPS or node.recursive:
            what = f"more than {_MAX_LOOPS} loops inside one another"
            self.problem(node, "{% for", what, "print the lists one after the other")
            return
        if node.test:
            self.condition(node.test, scope)
        names = [one.name for one in node.target.find_all(nodes.Name)] or [_text(node.target)]
        item = found.item if found else None
        inner = {**scope, "loop": _LOOP, **dict.fromkeys(names, item if len(names) == 1 else None)}
        self.loops += 1
        self.body(node.body, inner)
        self.loops -= 1
        self.body(node.else_, scope)

    def included(self, node: nodes.Include | nodes.Extends, scope: Scope) -> None:
        target = node.template
        if not isinstance(target, nodes.Const):
            found = self.shape(target, scope)
            if found and found.kind not in ("template", "nothing"):
                what = f"{_text(target)} is not the name of a template"
                self.problem(node, _text(target), what, 'write it in quotes: "blocks/job.sh.j2"')
        elif target.value not in self.texts:
            hint = similar_name(str(target.value), self.texts)
            self.problem(target, str(target.value), f"there is no template {target.value}", hint)
        elif target.value == self.file.name:
            verb = "extends" if isinstance(node, nodes.Extends) else "includes"
            hint = f'for the packaged one, write "{PACKAGED}{target.value}"'
            self.problem(target, str(target.value), f"this template {verb} itself", hint)

    def extending(self, tree: nodes.Template) -> None:
        """In a template that extends another one, only blocks are printed, and only its blocks."""
        parent = tree.find(nodes.Extends)
        if parent is None or not isinstance(parent.template, nodes.Const):
            return
        name = str(parent.template.value)
        known = re.findall(r"\{%-?\s*block\s+(\w+)", self.texts.get(name, ""))
        for node in tree.body:
            if isinstance(node, nodes.Block) and name in self.texts and node.name not in known:
                what = f"{name} has no block {node.name}"
                self.problem(node, node.name, what, did_you_mean(node.name, known))
            elif isinstance(node, nodes.Output):
                self.outside(node)

    def outside(self, node: nodes.Output) -> None:
        for child in node.nodes:
            text = child.data if isinstance(child, nodes.TemplateData) else "x"
            if text.strip():
                skipped = text[: len(text) - len(text.lstrip())].count("\n")
                place = nodes.TemplateData("", lineno=child.lineno + skipped)
                what = "this is never printed: it is outside the blocks of the extended template"
                self.problem(place, "", what, "move it into a {% block %}, with {{ super() }}")
                return

    # ---- what is printed ---------------------------------------------------------------------

    def printed(self, node: nodes.Expr, scope: Scope) -> None:
        if isinstance(node, nodes.TemplateData) or _is_super(node):
            return
        if not isinstance(node, (nodes.Name, nodes.Getattr)):
            what, text = _unquoted(node)
            self.problem(node, text, what, _NO_FILTER)
            return
        found, text = self.shape(node, scope), _text(node)
        if found is None or found.kind == "nothing":
            return
        if found.kind not in PRINTED:
            hint = _USES.get(found.kind, "").format(text)
            self.problem(node, text, f"{text} cannot be printed: it is a {found.kind}", hint)
        elif wrong := _misplaced(found.kind, text, at(self.file, node.lineno, text).source):
            self.problem(node, text, *wrong)

    def shape(self, node: nodes.Node, scope: Scope) -> Shape | None:
        """What a variable holds; None if it is unknown. Reports what does not exist."""
        if isinstance(node, nodes.Name):
            if node.name not in scope:
                hint = did_you_mean(node.name, sorted(scope))
                self.problem(node, node.name, f"there is no variable {node.name}", hint)
            return scope.get(node.name)
        if not isinstance(node, nodes.Getattr):
            what, text = _unquoted(node)
            self.problem(node, text, what, "write a variable")
            return None
        parent = self.shape(node.node, scope)
        if parent is None or parent.kind == "nothing":
            return None
        if node.attr not in parent.fields:
            hint = did_you_mean(node.attr, sorted(parent.fields))
            self.problem(node, _text(node), f"{_text(node.node)} has no {node.attr}", hint)
        return parent.fields.get(node.attr)

    def condition(self, node: nodes.Node, scope: Scope) -> None:
        """Variables and constants, compared and combined."""
        if isinstance(node, (nodes.Name, nodes.Getattr)):
            self.shape(node, scope)
        elif isinstance(node, _CONDITIONS):
            for child in node.iter_child_nodes():
                self.condition(child, scope)
        elif not isinstance(node, nodes.Const):
            what, text = _unquoted(node)
            self.problem(node, text, what, "compare variables with constants: ==, <, in, and, not")


_CONDITIONS = (
    nodes.And,
    nodes.Or,
    nodes.Not,
    nodes.Compare,
    nodes.Operand,
    nodes.Tuple,
    nodes.List,
)
_USES = {
    "condition": "ask for it: {{% if {} %}}",
    "list": "print its items: {{% for one in {} %}}",
    "record": "print one of its fields",
    "template": "include it: {{% include {} %}}",
}


def _is_super(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Call) and _text(node.node) == "super" and not node.args


def _text(node: nodes.Node) -> str:
    """A variable as it is written."""
    if isinstance(node, nodes.Getattr):
        return f"{_text(node.node)}.{node.attr}"
    return node.name if isinstance(node, nodes.Name) else ""


def _unquoted(node: nodes.Node) -> tuple[str, str]:
    """What is wrong with an expression that is no variable, and a word of it."""
    if isinstance(node, nodes.Filter):
        return f"the filter {node.name} is not allowed", node.name
    if isinstance(node, nodes.Test):
        return f"the test `is {node.name}` is not allowed", node.name
    if isinstance(node, nodes.Call):
        return "a call is not allowed", _text(node.node)
    if isinstance(node, nodes.Const):
        return "a constant is not quoted: write the text itself, without {{ }}", ""
    return "an expression is not allowed here", next(map(_text, node.find_all(nodes.Name)), "")


def _misplaced(kind: str, text: str, line: str) -> tuple[str, str] | None:
    """Whether a value stands where its kind of quoting does not protect it: what, and a hint."""
    match = re.search(r"\{\{[-+]?\s*" + re.escape(text) + r"\s*[-+]?\}\}", line)
    before, after = (line[: match.start()], line[match.end() :]) if match else ("", "")
    if kind == "comment" and match and not re.search(r"(^|\s)#", before):
        return f"{text} is quoted for a comment alone", "put a # before it"
    if kind == "here-document" and match and (before + after).strip():
        return f"{text} is quoted for a here-document alone", "print it on a line of its own"
    if kind == "text" and before[-1:] in ('"', "'") and before[-1:] == after[:1]:
        return f"{text} is quoted already: inside quotes it is not", f"remove the {after[:1]}"
    return None


def similar_name(name: str, known: Iterable[str]) -> str:
    """A hint: the name that is meant, of the packaged ones by their prefix if that was written."""
    candidates = [one for one in known if one.startswith(PACKAGED) == name.startswith(PACKAGED)]
    match = nearest(name, candidates, cutoff=0.7)
    return f"did you mean {match}?" if match else "`clusterjobs templates list` shows all"


def used_names(text: str) -> Iterator[str]:
    """The templates that a text includes or extends by name."""
    return (m[1] for m in re.finditer(r"""\{%[-+]?\s*(?:include|extends)\s+["'](.+?)["']""", text))

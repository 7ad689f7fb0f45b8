"""Checks a site's templates before they are rendered: unknown variables, and unquoted values.

A template may print variables and blocks, loop over lists, ask for conditions, and include or
extend others. Nothing else is allowed, since the rest of Jinja makes text that nobody quoted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from jinja2 import nodes

from clusterjobs.errors import InputError, Problem, did_you_mean
from clusterjobs.render.site.expressions import (
    is_super,
    misplaced,
    similar_name,
    text_of,
    unquoted,
)
from clusterjobs.render.site.syntax import at, parse
from clusterjobs.render.site.templates import PACKAGED, SiteFile
from clusterjobs.render.site.variables import PRINTED, Shape

_MAX_LOOPS = 2
_MAX_DEPTH = 15  # Python compiles no more than 20 blocks inside one another
_TOO_DEEP = (
    "tags nested too deep",
    "put the inner lines into a template of their own: {% include %}",
)
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
    try:
        checker.body(tree.body, scope)
        checker.extending(tree)
    except RecursionError:
        checker.problem(tree, "", *_TOO_DEEP)
    return list(dict.fromkeys(checker.problems))


class _Checker:
    def __init__(self, file: SiteFile, texts: Mapping[str, str]) -> None:
        self.file = file
        self.texts = texts
        self.problems: list[Problem] = []
        self.loops = 0
        self.depth = 0

    def problem(self, node: nodes.Node, text: str, what: str, hint: str = "") -> None:
        self.problems.append(Problem(what, at(self.file, node.lineno or 1, text), "", hint))

    # ---- tags ------------------------------------------------------------------------------

    def body(self, body: list[nodes.Node], scope: Scope) -> None:
        if self.depth == _MAX_DEPTH:
            self.problem(body[0], "", *_TOO_DEEP)
            return
        self.depth += 1
        for node in body:
            self.tag(node, scope)
        self.depth -= 1

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
        text = text_of(node.iter)
        if found and found.kind not in ("list", "nothing"):
            self.problem(node, text, f"{text} is no list but a {found.kind}", "loop over a list")
        if self.loops >= _MAX_LOOPS or node.recursive:
            what = f"more than {_MAX_LOOPS} loops inside one another"
            self.problem(node, "{% for", what, "print the lists one after the other")
            return
        if node.test:
            self.condition(node.test, scope)
        names = [one.name for one in node.target.find_all(nodes.Name)] or [text_of(node.target)]
        item = found.item if found else None
        inner = {**scope, "loop": _LOOP, **dict.fromkeys(names, item if len(names) == 1 else None)}
        self.loops += 1
        self.body(node.body, inner)
        self.loops -= 1
        self.body(node.else_, scope)

    def included(self, node: nodes.Include | nodes.Extends, scope: Scope) -> None:
        target = node.template
        if isinstance(node, nodes.Extends) and self.depth > 1:
            what = "{% extends %} is inside another tag"
            self.problem(node, "{% extends", what, "write it as the first line of the file")
        if not isinstance(target, nodes.Const):
            found = self.shape(target, scope)
            if found and found.kind not in ("template", "nothing"):
                what = f"{text_of(target)} is not the name of a template"
                self.problem(node, text_of(target), what, 'write it in quotes: "blocks/job.sh.j2"')
        elif target.value not in self.texts:
            hint = similar_name(str(target.value), self.texts)
            self.problem(target, str(target.value), f"there is no template {target.value}", hint)
        elif target.value == self.file.name:
            verb = "extends" if isinstance(node, nodes.Extends) else "includes"
            hint = f'for the packaged one, write "{PACKAGED}{target.value}"'
            self.problem(target, str(target.value), f"this template {verb} itself", hint)

    def extending(self, tree: nodes.Template) -> None:
        """In a template that extends another one, only blocks are printed, and only its blocks."""
        found = [one for one in tree.body if isinstance(one, nodes.Extends)]
        parent = found[0].template if found else None
        if not isinstance(parent, nodes.Const):
            return
        name = str(parent.value)
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
        if isinstance(node, nodes.TemplateData) or is_super(node):
            return
        if not isinstance(node, (nodes.Name, nodes.Getattr)):
            what, text = unquoted(node)
            self.problem(node, text, what, _NO_FILTER)
            return
        found, text = self.shape(node, scope), text_of(node)
        if found is None or found.kind == "nothing":
            return
        if found.kind not in PRINTED:
            hint = _USES.get(found.kind, "").format(text)
            self.problem(node, text, f"{text} cannot be printed: it is a {found.kind}", hint)
        elif wrong := misplaced(found.kind, text, at(self.file, node.lineno, text).source):
            self.problem(node, text, *wrong)

    def shape(self, node: nodes.Node, scope: Scope) -> Shape | None:
        """What a variable holds; None if it is unknown. Reports what does not exist."""
        if isinstance(node, nodes.Name):
            if node.name not in scope:
                hint = did_you_mean(node.name, sorted(scope))
                self.problem(node, node.name, f"there is no variable {node.name}", hint)
            return scope.get(node.name)
        if not isinstance(node, nodes.Getattr):
            what, text = unquoted(node)
            self.problem(node, text, what, "write a variable")
            return None
        parent = self.shape(node.node, scope)
        if parent is None or parent.kind == "nothing":
            return None
        if node.attr not in parent.fields:
            hint = did_you_mean(node.attr, sorted(parent.fields))
            self.problem(node, text_of(node), f"{text_of(node.node)} has no {node.attr}", hint)
        return parent.fields.get(node.attr)

    def condition(self, node: nodes.Node, scope: Scope) -> None:
        """Variables and constants, compared and combined."""
        if isinstance(node, (nodes.Name, nodes.Getattr)):
            self.shape(node, scope)
        elif isinstance(node, _CONDITIONS):
            for child in node.iter_child_nodes():
                self.condition(child, scope)
        elif not isinstance(node, nodes.Const):
            what, text = unquoted(node)
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

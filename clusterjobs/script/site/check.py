"""Checks all files of a site's `templates/` together, before they are rendered."""

import pathlib
import re
from collections.abc import Iterator, Mapping

from jinja2 import nodes

from clusterjobs import resources
from clusterjobs.errors import InputError, Location, Problem, did_you_mean, in_order
from clusterjobs.script.site import (
    INSERTION_POINTS,
    PACKAGED,
    SiteFile,
    SiteTemplates,
    at,
    check_lines,
    parse,
)
from clusterjobs.script.site.expressions import (
    contexts_of,
    is_line_of,
    is_super,
    misplaced,
    similar_name,
    text_of,
    unquoted,
    used_names,
)
from clusterjobs.script.site.variables import PRINTED, Shape

# ------------------------------------------------------------------ template check
# Checks a site's templates before they are rendered: unknown variables, and unquoted values.
# A template may print variables and blocks, loop over lists, ask for conditions, and include or
# extend others. Nothing else is allowed, since the rest of Jinja makes text that nobody quoted.


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
        elif wrong := misplaced(found.kind, text, contexts_of(self.file.text, node.lineno, text)):
            packaged = [one for name, one in self.texts.items() if name.startswith(PACKAGED)]
            if not is_line_of(packaged, at(self.file, node.lineno, text).source):  # known as safe
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


def check_site(
    site: SiteTemplates, context: Shape, folders: tuple[pathlib.Path, ...] = ()
) -> list[Problem]:
    """All problems. `context`: of the variables; `folders`: templates of other packages."""
    texts = all_texts(site, folders)
    looped = _loop_variables(texts, context)
    problems: list[Problem] = []
    for file in site.overrides().values():
        if file.name.endswith(".j2"):
            scope = {**context.fields, **looped.get(file.name, {})}
            problems += check_template(file, scope, texts)
    problems += [*check_lines(site), *_unused(site, texts), *_circles(site, texts)]
    return in_order(problems)


def packaged_texts(folders: tuple[pathlib.Path, ...] = ()) -> dict[str, str]:
    """Every template that came with clusterjobs, or with another package, by its name."""
    others = {name: text for one in folders for name, text in resources.template_texts(one).items()}
    return {**others, **resources.template_texts()}


def all_texts(site: SiteTemplates, folders: tuple[pathlib.Path, ...] = ()) -> dict[str, str]:
    """Every template that an {% include %} can name."""
    packaged = packaged_texts(folders)
    prefixed = {f"{PACKAGED}{name}": text for name, text in packaged.items()}
    own = {name: file.text for name, file in site.overrides().items() if name.endswith(".j2")}
    return {**packaged, **prefixed, **own}


_INCLUDED_IN_LOOP = re.compile(
    r"""\{%\s*for (\w+) in ([\w.]+)\s*%\}\s*\{%\s*include ["'](.+?)["']"""
)


def _loop_variables(texts: Mapping[str, str], context: Shape) -> dict[str, dict[str, Shape | None]]:
    """Template -> the variables that it gets from the loop in which another one includes it."""
    found: dict[str, dict[str, Shape | None]] = {}
    for text in texts.values():
        for variable, path, name in _INCLUDED_IN_LOOP.findall(text):
            shape: Shape | None = context
            for part in path.split("."):
                shape = shape.fields.get(part) if shape else None
            item = shape.item if shape else None
            known = found.setdefault(name.removeprefix(PACKAGED), {})
            known[variable] = known.get(variable) or item
    return found


def _unused(site: SiteTemplates, texts: Mapping[str, str]) -> Iterator[Problem]:
    """Files that replace nothing, and that no other template includes."""
    own = site.overrides()
    included = {name for one in own.values() for name in used_names(one.text)}
    for name, file in own.items():
        if f"{PACKAGED}{name}" in texts or name in included or _may_be_a_launcher(name):
            continue
        known = [*INSERTION_POINTS, *(one for one in texts if one not in own)]
        if name.endswith(".sh"):
            known = [f"{point}.sh" for point in INSERTION_POINTS]
        what = f"{name} is used nowhere: no template and no insertion point has this name"
        yield Problem(what, Location(file.file, 1, 1), "", similar_name(name, known))


def _may_be_a_launcher(name: str) -> bool:
    """Whether it may be the template of a launcher of another package, which this job lacks."""
    from clusterjobs.launchers import LAUNCHERS

    stem = name.removeprefix("launch/").removesuffix(".sh.j2").removesuffix("_in_docker")
    return name.startswith("launch/") and stem in LAUNCHERS


def _circles(site: SiteTemplates, texts: Mapping[str, str]) -> Iterator[Problem]:
    """Templates that include themselves through others: the render would not end."""
    known: set[str] = set()
    for name, file in sorted(site.overrides().items()):
        if name not in known and (path := _way_back(name, texts)) and len(path) > 2:
            known.update(path)
            what = f"these templates include one another without end: {' -> '.join(path)}"
            line = file.text[: file.text.index(path[1])].count("\n") + 1
            hint = f"include the packaged one: {PACKAGED}{name}"
            yield Problem(what, at(file, line, path[1]), "", hint)


def _way_back(name: str, texts: Mapping[str, str]) -> list[str]:
    """The shortest way from a template through its includes back to itself; empty without one."""
    ways, seen = [[name]], {name}
    while ways:
        way = ways.pop(0)
        for following in used_names(texts.get(way[-1], "")):
            if following == name:
                return [*way, name]
            if following not in seen:
                seen.add(following)
                ways.append([*way, following])
    return []

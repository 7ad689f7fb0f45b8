"""Jinja's environment for the templates, and the render of job.sh with a site's templates.

Quoting is enforced, and a site's templates come first.
"""

import contextlib
import functools
import os
import pathlib
import re
import sys
from collections.abc import Callable, Iterable, MutableMapping
from importlib.util import cache_from_source
from typing import Any

import jinja2
from jinja2.bccache import Bucket

from clusterjobs import resources
from clusterjobs.errors import InputError, Problem, in_order, one_problem
from clusterjobs.script import shell
from clusterjobs.script.shell import ShellText, UnquotedError
from clusterjobs.script.site import (
    NO_SITE,
    PACKAGED,
    SYNTAX,
    SiteFile,
    SiteTemplates,
    at,
    check_lines,
    set_twice,
    syntax_problem,
)


class _ByteCode(jinja2.BytecodeCache):
    """Keeps compiled templates where Python keeps compiled modules: in `__pycache__`.

    Compiling them takes as long as all other rendering. They are trusted as far as the modules:
    who can write to that folder can change the program too.
    """

    def __init__(self) -> None:
        self._installed = pathlib.Path(jinja2.__file__).stat().st_mtime_ns

    def get_bucket(
        self, environment: jinja2.Environment, name: str, filename: str | None, source: str
    ) -> Bucket:
        """What is kept of this name, if the same Jinja made it from the same text and file."""
        path = cache_from_source(str(resources.templates_dir() / name.replace("/", ".")))
        made_from = f"{self._installed}\n{filename}\n{source}"
        bucket = Bucket(environment, path, self.get_source_checksum(made_from))
        self.load_bytecode(bucket)
        return bucket

    def load_bytecode(self, bucket: Bucket) -> None:
        with contextlib.suppress(OSError):
            bucket.bytecode_from_string(pathlib.Path(bucket.key).read_bytes())

    def dump_bytecode(self, bucket: Bucket) -> None:
        if sys.dont_write_bytecode:
            return
        path = pathlib.Path(bucket.key)
        unfinished = path.with_suffix(f".{os.getpid()}")
        with contextlib.suppress(OSError):  # the next render compiles the template again
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                unfinished.write_bytes(bucket.bytecode_to_string())
                unfinished.replace(path)
            finally:
                unfinished.unlink(missing_ok=True)


class _Loader(jinja2.BaseLoader):
    """A site's template, or else the packaged one; `packaged/NAME` is always the packaged one.

    `texts`: the packaged ones that were loaded.
    """

    def __init__(self, site: SiteTemplates, packaged: jinja2.BaseLoader) -> None:
        self._overrides = site.overrides()
        self._packaged = packaged
        self.texts: dict[str, str] = {}

    def get_source(
        self, environment: jinja2.Environment, template: str
    ) -> tuple[str, str | None, Callable[[], bool] | None]:
        if found := self._overrides.get(template):
            return found.text, found.file, None
        name = template.removeprefix(PACKAGED)
        text, file, is_current = self._packaged.get_source(environment, name)
        self.texts[name] = text
        return text, file, is_current


class TemplateEnvironment(jinja2.Environment):
    """Records which templates a render uses: some are included only under a condition."""

    def __init__(self, loader: _Loader, **options: Any) -> None:
        super().__init__(loader=loader, **options)
        self.used: set[str] = set()
        self._texts = loader.texts
        self._loaded: dict[str, jinja2.Template] = {}

    def get_template(self, name: Any, *more: Any, **options: Any) -> jinja2.Template:
        self.used.add(str(name))
        if name not in self._loaded:  # Jinja's own cache is slower than the rest of an include
            self._loaded[name] = super().get_template(name, *more, **options)
        return self._loaded[name]

    def texts(self, templates: Iterable[str]) -> dict[str, str]:
        """The texts of packaged templates that were used, sorted by name."""
        names = sorted(name.removeprefix(PACKAGED) for name in templates)
        return {name: self._texts[name] for name in names}

    def make_globals(self, d: MutableMapping[str, Any] | None) -> MutableMapping[str, Any]:
        """The globals without Jinja's: no template uses those, and each include would copy them."""
        return d or {}

    def getattr(self, obj: Any, attribute: str) -> Any:
        """`a.b` of a template. Contexts are mappings, so the key is tried first."""
        if type(obj) is dict and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)

    @staticmethod
    def concat(parts: Iterable[str]) -> str:
        """The text of a block: each part of it was quoted, so that {{ super() }} may be printed."""
        return ShellText("".join(parts))


@functools.lru_cache(maxsize=16)
def template_environment(
    further: pathlib.Path | None, site: SiteTemplates = NO_SITE
) -> TemplateEnvironment:
    """`further` is a folder with the templates of another package."""
    folders = [resources.templates_dir(), *([further] if further else [])]
    return TemplateEnvironment(
        _Loader(site, jinja2.FileSystemLoader(folders)),
        bytecode_cache=_ByteCode(),
        finalize=shell.finalize,
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        auto_reload=False,  # else each render would check every template on the disk
        **SYNTAX,
    )


# ---------------------------------------------------------- rendering with a site's templates


# What a template can do wrong; any other exception is ours.
TEMPLATE_ERRORS = (jinja2.TemplateError, UnquotedError, TypeError, RecursionError, AttributeError)


def template_problem(error: Exception, site: SiteTemplates) -> Problem | None:
    """The problem of the site's template that raised it; None if none of them did."""
    files = {file.file: file for file in site.overrides().values()}
    if isinstance(error, jinja2.TemplateSyntaxError):
        file = files.get(error.filename or "")
        return syntax_problem(file, error) if file else None
    import traceback  # only for a mistake

    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if file := files.get(frame.filename):
            return _problem(error, file, frame.lineno or 1)
    return None


def _problem(error: Exception, file: SiteFile, line: int) -> Problem:
    if isinstance(error, RecursionError):
        what = "these templates include one another without end"
        return Problem(what, at(file, line), hint="include the packaged one: packaged/NAME")
    said = str(error)
    if isinstance(error, jinja2.UndefinedError):
        return _undefined(said, file, line)
    if isinstance(error, jinja2.TemplateNotFound):
        return Problem(f"there is no template {said}", at(file, line, said))
    if isinstance(error, TypeError) and not isinstance(error, UnquotedError):
        hint = "compare numbers with <, <=, > and >=, and texts with == or !="
        return Problem("this template compares different types", at(file, line), "", hint)
    return Problem(f"the template cannot be rendered: {said}", at(file, line))


def _undefined(said: str, file: SiteFile, line: int) -> Problem:
    """A field of a section that this job has not: `'None' has no attribute 'failure'`."""
    name = (re.findall(r"'([^']+)'", said) or [""])[-1]
    source = at(file, line).source
    written = re.search(rf"(\w+)\.{re.escape(name)}\b", source)
    if written is None:
        return Problem(f"there is no variable {name}", at(file, line, name))
    section = written[1]
    what = f"this job has no {section}, so that there is no {written[0]}"
    return Problem(what, at(file, line, written[0]), hint=f"ask first: {{% if {section} %}}")


def render_with_site(
    environment: TemplateEnvironment,
    context: dict[str, Any],
    site: SiteTemplates,
    folders: tuple[pathlib.Path, ...],
) -> str:
    """The text of job.sh. Raises InputError with the positions of what is wrong."""
    problems = _problems(site, context, folders)
    if problems := [*problems, *set_twice(site, context["job"]["directives"])]:
        raise InputError(problems)
    parts: list[str] = []
    size = 0
    try:
        for part in environment.get_template("job.sh.j2").generate(context):
            parts.append(part)
            size += len(part)
            if size > _MAX_SCRIPT:
                raise one_problem(*_TOO_LARGE)
    except TEMPLATE_ERRORS as error:
        if problem := template_problem(error, site):
            raise InputError([problem]) from None
        raise
    return "".join(parts)


def _problems(
    site: SiteTemplates, context: dict[str, Any], folders: tuple[pathlib.Path, ...]
) -> list[Problem]:
    if not site.overrides():
        return in_order(check_lines(site))
    from clusterjobs.script.site.check import check_site  # most sites have no overrides
    from clusterjobs.script.site.variables import shape_of

    return check_site(site, shape_of(context), folders)


_MAX_SCRIPT = 4 << 20  # Slurm's max_script_size
_TOO_LARGE = (
    "with the templates of this site, job.sh is larger than the 4 MiB that Slurm accepts",
    None,
    "",
    "look for a loop that prints too much",
)

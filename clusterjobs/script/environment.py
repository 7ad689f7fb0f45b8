"""Jinja's environment for the templates: quoting is enforced, and a site's templates come first.

Knows where a template's text is found; it must not know what the templates print.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
from collections.abc import Callable, Iterable, MutableMapping
from typing import Any

import jinja2
from jinja2.bccache import Bucket

from clusterjobs import resources
from clusterjobs.script import shell
from clusterjobs.script.shell import ShellText
from clusterjobs.script.site.templates import NO_SITE, PACKAGED, SYNTAX, SiteTemplates
from clusterjobs.version import __version__

# ------------------------------------------------------------------ template cache
#
# Jinja's own cache of compiled templates, in the user's cache folder.
#
# Compiling all templates takes as long as the rest of a render. If the folder cannot be used, or
# the disk is full, the templates are compiled each time.


class _Cache(jinja2.FileSystemBytecodeCache):
    def dump_bytecode(self, bucket: Bucket) -> None:
        with contextlib.suppress(OSError):
            super().dump_bytecode(bucket)


def template_cache() -> jinja2.BytecodeCache | None:
    """The cache for this version of clusterjobs and of Jinja; None if its folder cannot be made."""
    try:
        caches = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
        folder = pathlib.Path(
            caches, "clusterjobs", f"templates-{__version__}-{jinja2.__version__}"
        )
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # no permission to write, or no home folder
        return None
    return _Cache(str(folder))


class TemplateEnvironment(jinja2.Environment):
    """Records which templates a render uses: some are included only under a condition."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.used: set[str] = set()
        self._loaded: dict[str, jinja2.Template] = {}

    def get_template(self, name: Any, *more: Any, **options: Any) -> jinja2.Template:
        self.used.add(str(name))
        if name not in self._loaded:  # Jinja's own cache is slower than the rest of an include
            self._loaded[name] = super().get_template(name, *more, **options)
        return self._loaded[name]

    def make_globals(self, d: MutableMapping[str, Any] | None) -> MutableMapping[str, Any]:
        """Without Jinja's own: no template uses them, and each include would copy them."""
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
        loader=_Loader(site, jinja2.FileSystemLoader(folders)),
        bytecode_cache=template_cache(),
        finalize=shell.finalize,
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        auto_reload=False,  # else each render would check every template on the disk
        **SYNTAX,
    )


class _Loader(jinja2.BaseLoader):
    """A site's template, or else the packaged one; `packaged/NAME` is always the packaged one."""

    def __init__(self, site: SiteTemplates, packaged: jinja2.BaseLoader) -> None:
        self._overrides = site.overrides()
        self._packaged = packaged

    def get_source(
        self, environment: jinja2.Environment, template: str
    ) -> tuple[str, str | None, Callable[[], bool] | None]:
        if found := self._overrides.get(template):
            return found.text, found.file, None
        return self._packaged.get_source(environment, template.removeprefix(PACKAGED))

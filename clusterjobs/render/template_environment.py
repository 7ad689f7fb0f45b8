"""Jinja's environment for the templates: quoting is enforced, and a site's templates come first.

Knows where a template's text is found; it must not know what the templates print.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable, Iterable
from typing import Any

import jinja2

from clusterjobs import resources
from clusterjobs.render import shell
from clusterjobs.render.shell import ShellText
from clusterjobs.render.site.syntax import SYNTAX
from clusterjobs.render.site.templates import NO_SITE, PACKAGED, SiteTemplates
from clusterjobs.render.template_cache import template_cache


class TemplateEnvironment(jinja2.Environment):
    """Records which templates a render uses: some are included only under a condition."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.used: set[str] = set()
        self.globals.clear()  # no template uses them, and each include would copy them

    def get_template(self, name: Any, *more: Any, **options: Any) -> jinja2.Template:
        self.used.add(str(name))
        return super().get_template(name, *more, **options)

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

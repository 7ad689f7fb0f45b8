"""The variables of the templates, as they are listed for admins, are those of rendered jobs."""

from __future__ import annotations

from jinja2 import meta

from clusterjobs import resources
from clusterjobs.admin.templates.check import packaged_samples, template_variables
from clusterjobs.admin.templates.command import description
from clusterjobs.script.site import SiteFile, SiteTemplates, parse
from clusterjobs.script.site.check import check_site
from clusterjobs.script.site.variables import KINDS, variables

SHAPE = template_variables(packaged_samples())
# A loop of one template that includes another one gives it this variable.
LOOPED = {"own", "inserted", "step"}


def test_the_samples_have_a_value_for_every_variable() -> None:
    for one in variables(SHAPE):
        kinds = one.kind.removeprefix("list of ").removesuffix(", or nothing")
        assert {kinds, kinds.removesuffix("s")} & set(KINDS), one
        assert one.example or "record" in one.kind or one.name in NO_EXAMPLE, one


NO_EXAMPLE = {"launch.options", "launch.ssh_server", "restarts.stall_option"}  # often empty


def test_every_launcher_runtime_and_template_is_in_a_sample() -> None:
    used = {name for one in packaged_samples() for name in one.rendered().templates}
    assert set(resources.template_texts()) - used == {"blocks/inserted.sh.j2"}


def test_the_packaged_templates_use_only_listed_variables() -> None:
    for name, text in resources.template_texts().items():
        used = meta.find_undeclared_variables(parse(SiteFile(name, name, text)))
        assert used <= {*SHAPE.fields, *LOOPED}, name


def test_the_packaged_templates_obey_the_rules_for_those_of_a_site() -> None:
    files = [SiteFile(name, name, text) for name, text in resources.template_texts().items()]
    assert check_site(SiteTemplates(tuple(files)), SHAPE) == []


def test_every_template_says_what_it_prints() -> None:
    for name, text in resources.template_texts().items():
        assert description(text).endswith("."), name

"""Templates of a site, put together at random: each is refused with its position, or its values are
as quoted as in a packaged template."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from rendering import plan_of_text

from clusterjobs.errors import InputError
from clusterjobs.script.site import SiteFile, SiteTemplates
from clusterjobs.sections.render import Inputs, render_script

EVIL = "/x/$(touch evil)/it's"
QUOTED = "'/x/$(touch evil)/it'\\''s'"
WORKDIR, PACKAGED = "{{ job.workdir }}", '"packaged/blocks/launch.sh.j2"'
PIECES = [
    *("{{ ", " }}", "{% ", " %}", "{## ", " ##}", "\n", " ", WORKDIR, "{{ super() }}", PACKAGED),
    *("if ", "endif", "else", "for x in ", "endfor", "in", "not ", "and ", "== 3", "loop.index"),
    *("job", ".workdir", "job.workdir", "job.directives", "restarts", "placement.nodes", "x"),
    *("| safe", '| replace("\'", "")', "| join", "~ ", "+ ", "[0]", "()", ".format()", "self"),
    *("block x", "block command", "endblock", "include ", "extends ", ".__class__", "range(9)"),
    *("set y = ", "endset", "macro m()", "endmacro", "call m()", "endcall", "filter upper"),
    *("endfilter", "with y = ", "endwith", "raw", "endraw", "import ", "autoescape true"),
    *("'", '"', "\\", "#", "$", "`", "launch.template", "é", "\t", "{% endif %}", "{% endfor %}"),
    *("{% endblock %}", "{% if placement.nodes %}", "{% for x in job.directives %}"),
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)


PLAN = plan_of_text(
    "{name: a, cluster: small, framework: command, command: [/bin/true], "
    f"workdir: {json.dumps(EVIL.replace('$', '$$'))}}}"
)


def unquoted(*files: SiteFile) -> int:
    """How often the hostile value is in the script other than quoted for bash."""
    inputs = Inputs(("a.yaml", ""), ("small.yaml", ""), templates=SiteTemplates(files))
    return render_script(PLAN, inputs).text.replace(QUOTED, "").count("$(touch evil)")


IN_PLAN_JSON = unquoted()


@settings(max_examples=200, deadline=None)
@given(text=TEXTS, name=st.sampled_from(["blocks/launch.sh.j2", "blocks/placement.sh.j2"]))
def test_a_template_is_refused_or_keeps_its_values_quoted(text: str, name: str) -> None:
    file = SiteFile(name, f"site/templates/{name}", text)
    try:
        assert unquoted(file) == IN_PLAN_JSON
    except InputError as error:
        for problem in error.problems:
            assert problem.where is not None
            assert problem.where.file == file.file
            assert 1 <= problem.where.line <= text.count("\n") + 1

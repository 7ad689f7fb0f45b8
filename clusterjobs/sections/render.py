"""Renders job.sh from a plan: the templates with the texts of all sections."""

import functools
import hashlib
import json
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from clusterjobs.frameworks.base import ConfigFile
from clusterjobs.script.environment import template_environment
from clusterjobs.script.site import (
    NO_SITE,
    SiteFile,
    SiteTemplates,
    site_context,
    with_used_files,
)
from clusterjobs.sections.context import PointPlan, PointTable, Rendering
from clusterjobs.sections.order import PRINTED, SECTIONS
from clusterjobs.sections.plan import Plan
from clusterjobs.spec.references import as_text
from clusterjobs.text import Value, joined, variable
from clusterjobs.version import __version__
from clusterjobs.yaml import document as yaml_document

# ------------------------------------------------------------------ what a render was made from


class Inputs(NamedTuple):
    """The texts that a render was made from, by kind: (file name, text). No name has a folder,
    except those of the site's templates. `content`: the hash of what the ranks compute. `origin`:
    what a job that resumes the checkpoints has to share: see runs/content.py."""

    spec: tuple[str, str]
    cluster: tuple[str, str]
    sites: tuple[tuple[str, str], ...] = ()
    settings: tuple[str, ...] = ()
    defaults: tuple[tuple[str, str], ...] = ()
    bases: tuple[tuple[str, str], ...] = ()
    templates: SiteTemplates = NO_SITE
    content: str = ""
    origin: str = ""


@functools.lru_cache(maxsize=8)  # the same spec for every point of a sweep
def digest(text: str) -> str:
    """SHA-256 of a text's UTF-8 bytes."""
    return hashlib.sha256(text.encode()).hexdigest()


# ------------------------------------------------------------------ plan record
# plan.json: what a job was rendered from and what was derived, for `status`, `logs` and reports.
# The script writes it into the job's folder. It holds names of files, never folders, so that the
# same input gives the same bytes everywhere.


def _written_name(text: str, settings: Sequence[str]) -> dict[str, str]:
    """The name in the spec's file, if the job has another one by `--set name=...`."""
    if not any(one.startswith("name=") for one in settings):
        return {}
    name = yaml_document.load(text, "").value.get("name")
    return {"name": name} if isinstance(name, str) and "{{" not in name else {}


def plan_json(plan: Plan, inputs: Inputs, point: PointPlan | None = None) -> Value:
    """The text of plan.json: one object in one line. `point`: the plan's, if it is of a sweep."""
    file, text = inputs.spec
    spec = {"file": file, "sha256": digest(text), "set": list(inputs.settings)}
    record: dict[str, Any] = {
        "name": plan.job.name,
        "spec": {**spec, **_written_name(text, inputs.settings)},
        "clusterjobs": __version__,
        "cluster": plan.job.cluster,
        "framework": plan.job.framework,
        "launcher": plan.launch.launcher.name,
        **({} if point else {"content": inputs.content}),
        **({"origin": inputs.origin} if inputs.origin else {}),
    }
    record["derived"] = {one.name: one.value for one in plan.derived}
    if plan.roles:
        record["roles"] = [role.data() for role in plan.roles]
    text = json.dumps(record)
    if point is None or plan.points is None:
        return text
    start = f'{text[:-1]}, "sweep": {json.dumps(plan.points.name)}, "point": '
    return joined(start, _point(point), "}")


def joined_records(table: PointTable, inputs: Inputs) -> tuple[Value, PointTable]:
    """plan.json of all points in one text, and the table with the columns that it needs."""
    from clusterjobs.sections.points.arrays import columns_to_extend, extended  # for a sweep

    columns = columns_to_extend(table)
    texts = tuple(plan_json(one.plan, inputs, one) for one in table.points)
    return columns.joined_config(texts), extended(table, columns)


_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")


def _point(one: PointPlan) -> Value:
    """The point as JSON, with the script's variables; numbers stay as they were written: `1e-4`."""
    values = (f"{json.dumps(key)}: {_value(value)}" for key, value in one.point.values.items())
    name, index = variable("point_name"), variable("point_index")
    rest = f', "values": {{{", ".join(values)}}}, "content": {json.dumps(one.content)}}}'
    return joined('{"name": "', name, '", "index": ', index, rest)


def _value(value: Any) -> str:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    written = as_text(value) if is_number else ""
    return written if _NUMBER.fullmatch(written) else json.dumps(value)


class Script(NamedTuple):
    """The text of job.sh, the templates that it was made from, and the site's files among them.

    `templates`: name -> text, of the packaged ones and those of the launcher's package.
    `packaged_text`: job.sh without the site's files, if there are any.
    """

    text: str
    templates: Mapping[str, str]
    site_files: tuple[SiteFile, ...]
    packaged_text: str = ""


def render_script(plan: Plan, inputs: Inputs, table: PointTable | None = None) -> Script:
    """Render job.sh; of a sweep, with its points. Raises InputError if a site's template is wrong.

    Raises UnquotedError if a packaged template prints a value that is not quoted.
    """
    site, further = inputs.templates, plan.launch.launcher.template_folder
    context = template_context(plan, inputs, table)
    packaged = _without_site(context, further)
    if not site.files:
        return packaged
    from clusterjobs.script.environment import render_with_site  # only for a site with templates

    environment = template_environment(further, site)
    environment.used.clear()
    text = render_with_site(environment, context, site, (further,) if further else ())
    own = site.used(environment.used)
    templates = environment.texts(environment.used.difference(site.overrides()))
    return Script(with_used_files(text, own), templates, own, packaged.text)


def _without_site(context: dict[str, Any], further: pathlib.Path | None) -> Script:
    environment = template_environment(further)
    environment.used.clear()
    packaged = context | {"site": site_context(NO_SITE)}
    text = environment.get_template("job.sh.j2").render(packaged)
    return Script(text, environment.texts(environment.used), ())


def template_context(plan: Plan, inputs: Inputs, table: PointTable | None = None) -> dict[str, Any]:
    """The variables of the templates: one per section of the plan."""
    record = plan_json(plan, inputs)
    table = table if table and table.columns else None  # a job of its own has no columns
    if table:
        record, table = joined_records(table, inputs)
    rendering = Rendering(plan, inputs.spec[0], inputs.settings, record, table, inputs.origin)
    renders = {one.name: one.render for one in SECTIONS if one.render}
    texts = {name: renders[name](rendering) for name in PRINTED}
    return {**texts, "site": site_context(inputs.templates)}


# ------------------------------------------------------------------ outputs
# All files of one render as texts, the manifest among them. Nothing is written here.


MANIFEST = "manifest.json"


def joined_outputs(
    scripts: Mapping[str, tuple[Plan, Script]],
    further: Mapping[str, str],
    inputs: Inputs,
    with_manifest: bool,
) -> dict[str, str]:
    """File name -> text, of all scripts. `further`: those of the cluster's source: cluster.yaml.

    A config file whose text differs between points is in the scripts alone.
    """
    files = {name: script.text for name, (_, script) in scripts.items()} | {**further}
    templates: dict[str, str] = {}
    site_files: dict[SiteFile, None] = {}
    for _, script in scripts.values():
        templates |= script.templates
        site_files |= dict.fromkeys(script.site_files)
    files |= _same_configs([plan for plan, _ in scripts.values()])
    if not with_manifest:
        return files
    return {**files, MANIFEST: _manifest(files, templates, tuple(site_files), inputs)}


def _same_configs(plans: Sequence[Plan]) -> Iterator[tuple[str, str]]:
    """The config files of the plans that are the same for all of their points."""
    found: dict[str, set[ConfigFile]] = {}
    for plan in plans:
        for file in plan.files.configs:
            found.setdefault(file.name, set()).add(file)
    for name, files in found.items():
        text = next(iter(files)).text
        if len(files) == 1 and isinstance(text, str):
            yield name, text


def _manifest(
    files: Mapping[str, str],
    templates: Mapping[str, str],
    site_files: Sequence[SiteFile],
    inputs: Inputs,
) -> str:
    of_site = [(one.file, one.text) for one in site_files]
    manifest = {
        "written_by": "clusterjobs",
        "version": __version__,
        "inputs": {
            "spec": _named([inputs.spec]),
            "cluster": _named([inputs.cluster]),
            "site": _named(inputs.sites),
            **_layers(inputs),
            "set": list(inputs.settings),
            "templates": {name: digest(text) for name, text in templates.items()},
            **({"site_templates": _named(of_site)} if of_site else {}),
        },
        "outputs": {name: digest(text) for name, text in sorted(files.items())},
    }
    return json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"


def _layers(inputs: Inputs) -> dict[str, list[dict[str, str]]]:
    """What the spec was merged with, the lowest precedence first; nothing for most specs."""
    kinds = {"defaults": inputs.defaults, "bases": inputs.bases}
    return {kind: _named(texts) for kind, texts in kinds.items() if texts}


def _named(texts: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    # A file's name may be any bytes; the manifest is UTF-8.
    return [
        {"name": name.encode(errors="backslashreplace").decode(), "sha256": digest(text)}
        for name, text in texts
    ]

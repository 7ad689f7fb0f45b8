"""All files of one render as texts, the manifest among them. Nothing is written here."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence

from clusterjobs import __version__, resources
from clusterjobs.frameworks.base import ConfigFile
from clusterjobs.plan.plan import Plan
from clusterjobs.render.inputs import Inputs, digest
from clusterjobs.render.script import Script, render_script
from clusterjobs.render.site.templates import SiteFile
from clusterjobs.spec.references import has_variable

MANIFEST = "manifest.json"


def render_outputs(plan: Plan, cluster_files: Mapping[str, str], inputs: Inputs) -> dict[str, str]:
    """File name -> text. `cluster_files` are those of the cluster's source: cluster.yaml."""
    return joined_outputs({"job.sh": (plan, render_script(plan, inputs))}, cluster_files, inputs)


def joined_outputs(
    scripts: Mapping[str, tuple[Plan, Script]], further: Mapping[str, str], inputs: Inputs
) -> dict[str, str]:
    """The same for several scripts. `further`: other files.

    A config file whose text differs between points is in the scripts alone.
    """
    files = {name: script.text for name, (_, script) in scripts.items()} | {**further}
    templates: dict[str, str] = {}
    site_files: dict[SiteFile, None] = {}
    for plan, script in scripts.values():
        texts = _template_texts(plan.launch.launcher.template_folder)
        templates |= {name: texts[name] for name in script.templates}
        site_files |= dict.fromkeys(script.site_files)
    for file in _same_configs([plan for plan, _ in scripts.values()]):
        files[file.name] = file.text
    return {**files, MANIFEST: _manifest(files, templates, tuple(site_files), inputs)}


def _same_configs(plans: Sequence[Plan]) -> Iterator[ConfigFile]:
    """The config files of the plans that are the same for all of their points."""
    found: dict[str, set[ConfigFile]] = {}
    for plan in plans:
        for file in plan.files.configs:
            found.setdefault(file.name, set()).add(file)
    for files in found.values():
        if len(files) == 1 and not has_variable((one := next(iter(files))).text):
            yield one


def _template_texts(further: pathlib.Path | None) -> dict[str, str]:
    own = resources.template_texts(further) if further else {}
    return {**own, **resources.template_texts()}


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

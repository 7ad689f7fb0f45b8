"""All files of one render as texts, the manifest among them. Nothing is written here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from clusterjobs import __version__, resources
from clusterjobs.plan.plan import Plan
from clusterjobs.render.inputs import Inputs, digest
from clusterjobs.render.script import render_script

MANIFEST = "manifest.json"


def render_outputs(plan: Plan, cluster_files: Mapping[str, str], inputs: Inputs) -> dict[str, str]:
    """File name -> text. `cluster_files` are those of the cluster's source: cluster.yaml."""
    script = render_script(plan, inputs)
    configs = {file.name: file.text for file in plan.files.configs}
    files = {"job.sh": script.text, **cluster_files, **configs}
    return {**files, MANIFEST: _manifest(files, script.templates, inputs)}


def _manifest(files: Mapping[str, str], templates: Iterable[str], inputs: Inputs) -> str:
    texts = resources.template_texts()
    manifest = {
        "written_by": "clusterjobs",
        "version": __version__,
        "inputs": {
            "spec": _named([inputs.spec]),
            "cluster": _named([inputs.cluster]),
            "site": _named(inputs.sites),
            "set": list(inputs.settings),
            "templates": {name: digest(texts[name]) for name in templates if name in texts},
        },
        "outputs": {name: digest(text) for name, text in sorted(files.items())},
    }
    return json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"


def _named(texts: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    # A file's name may be any bytes; the manifest is UTF-8.
    return [
        {"name": name.encode(errors="backslashreplace").decode(), "sha256": digest(text)}
        for name, text in texts
    ]

"""All files of one render as texts, the manifest among them. Nothing is written here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from clusterjobs import __version__, resources
from clusterjobs.plan.plan import Plan
from clusterjobs.render.job_script import render_job_script

MANIFEST = "manifest.json"


class Inputs(NamedTuple):
    """The texts that a render was made from, by kind: (file name, text)."""

    spec: tuple[str, str]
    cluster: tuple[str, str]
    sites: tuple[tuple[str, str], ...] = ()
    settings: tuple[str, ...] = ()


def render_outputs(plan: Plan, cluster_files: Mapping[str, str], inputs: Inputs) -> dict[str, str]:
    """File name -> text. Only names of inputs go in, no folders: the same bytes anywhere."""
    files = {
        "job.sh": render_job_script(plan, inputs.spec[0], inputs.settings),
        **cluster_files,
        **{file.name: file.text for file in plan.files.configs},
    }
    return {**files, MANIFEST: _manifest(files, inputs, _templates(plan))}


def _templates(plan: Plan) -> dict[str, str]:
    folder = plan.launch.launcher.template_folder
    own = resources.template_texts(folder) if folder else {}
    return {**resources.template_texts(), **own}


def _manifest(files: Mapping[str, str], inputs: Inputs, templates: Mapping[str, str]) -> str:
    manifest = {
        "written_by": "clusterjobs",
        "version": __version__,
        "inputs": {
            "spec": _named([inputs.spec]),
            "cluster": _named([inputs.cluster]),
            "site": _named(inputs.sites),
            "set": list(inputs.settings),
            "templates": {name: digest(text) for name, text in sorted(templates.items())},
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


def digest(text: str) -> str:
    """SHA-256 of a text's UTF-8 bytes."""
    return hashlib.sha256(text.encode()).hexdigest()

"""A site folder for the benchmarks, with every kind of file that an admin may write."""

from __future__ import annotations

from pathlib import Path

from benchmarks.specs import ROOT, SITE

_FILES = {
    "defaults.yaml": "all:\n  sbatch: {account: research}\n  time_limit: 1-00:00:00\n",
    "policy.yaml": (
        "rules:\n"
        "  - {name: account, message: name an account, require: [sbatch.account]}\n"
        "  - {name: size, message: ask the admins, limits: {nodes: 64, gpu_hours: 100000}}\n"
    ),
    "templates/before_environment.sh": "  module load fabric\n",
}


def write_values(folder: Path) -> Path:
    """Only a site.yaml, without which no cluster.yaml is rendered."""
    folder.mkdir(parents=True)
    (folder / "site.yaml").write_text(SITE.read_text())
    return folder


_OVERRIDE = """\
{% include "packaged/blocks/header.sh.j2" %}
# Questions: the admins
"""


def write_site(folder: Path, override: bool = False) -> Path:
    """The same, with defaults, policies, lines for all scripts, and a cluster.

    `override`: with a template that is changed; then bash checks each script.
    """
    write_values(folder)
    for name, text in _FILES.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    if override:
        (folder / "templates/blocks").mkdir()
        (folder / "templates/blocks/header.sh.j2").write_text(_OVERRIDE)
    (folder / "clusters").mkdir()
    config = (ROOT / "cluster-configs/small.yaml").read_text()
    (folder / "clusters/ours.yaml").write_text(config)
    return folder

"""The launch: from the batch script's first line to the first rank's main, in a real Slurm.

The baseline is the shortest script that one would write by hand: MASTER_ADDR, MASTER_PORT, one
srun. Each rank is a program that records its start time. Script and ranks run on one machine and
therefore share a clock. The preflight is an srun of its own, so its baseline is the same script
with one more srun over all nodes: of `true`, or of a Python that does nothing.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from benchmarks.specs import ROOT, SITE
from benchmarks.timing import Row, at_most
from clusterjobs.clusters.parallelcluster.config import Cluster
from clusterjobs.clusters.parallelcluster.facts import cluster_facts, slurm_shape
from clusterjobs.clusters.parallelcluster.source import read_cluster
from clusterjobs.frameworks import option_models
from clusterjobs.lab.lab import Lab, running_lab
from clusterjobs.lab.shape import lab_spec
from clusterjobs.sections.order import resolve
from clusterjobs.sections.render import Inputs, render_script
from clusterjobs.sites.folders import load_site
from clusterjobs.spec.load import load_spec

TITLE = "Launch: from the batch script's first line to the first rank's main, in the lab"
NODES = (2, 32)
RUNS = 9
_TIMEOUT_SECONDS = 120

_SPEC = """\
name: launch
cluster: small
nodes: {nodes}
ranks_per_node: 1
framework: command
command: [/fsx/rank.sh]
logs: /fsx/logs
"""

_BY_HAND = """\
#!/bin/bash
#SBATCH --job-name=by-hand
#SBATCH --partition=train
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --output=%x-%j.out
set -euo pipefail
mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
export MASTER_ADDR=${{hosts[0]}} MASTER_PORT=$((12000 + SLURM_JOB_ID % 20000))
{more}srun /fsx/rank.sh
"""

_PYTHON = "/usr/bin/python3 -IS -c pass"

_RANK = """\
#!/bin/bash
printf '%s\\n' "$EPOCHREALTIME" >"/fsx/began/$SLURM_JOB_ID.$SLURM_PROCID"
"""

_START = 'printf "%s\\n" "$EPOCHREALTIME" >"/fsx/began/$SLURM_JOB_ID.script"'


def measure() -> list[Row]:
    return [row for nodes in NODES for row in _measured(nodes)]


def _measured(nodes: int) -> list[Row]:
    config = (
        (ROOT / "cluster-configs/small.yaml")
        .read_text()
        .replace("MaxCount: 2", f"MaxCount: {nodes}")
    )
    cluster, document = read_cluster(config, "small.yaml", load_site([_site()]))
    shape = lab_spec(slurm_shape(cluster, document), nodes)
    scripts = {
        "by hand": _BY_HAND.format(nodes=nodes, more=""),
        "one more srun": _BY_HAND.format(nodes=nodes, more="srun /bin/true\n"),
        "srun of Python": _BY_HAND.format(nodes=nodes, more=f"srun {_PYTHON}\n"),
        "ours": _rendered(_SPEC.format(nodes=nodes), cluster),
        "preflight": _rendered(_SPEC.format(nodes=nodes) + "preflight: true\n", cluster),
    }
    with tempfile.TemporaryDirectory() as folder, running_lab(shape, Path(folder)) as lab:
        _write_rank(lab)
        found = _in_turns(lab, {name: _stamped(text) for name, text in scripts.items()})
    return _rows(nodes, found)


def _rows(nodes: int, found: dict[str, list[float]]) -> list[Row]:
    medians = {name: statistics.median(runs) for name, runs in found.items()}
    hand, ours, with_srun = medians["by hand"], medians["ours"], medians["one more srun"]
    preflight = medians["preflight"]
    slowest = max(found["by hand"]), max(found["ours"])
    added = f"added by a preflight / by one more srun of %s, {nodes} nodes"
    return [
        _within(f"rendered / by hand, {nodes} nodes", hand, ours),
        Row(f"the slowest run of each, {nodes} nodes", "ms", *slowest),
        _within(
            f"with preflight / by hand with one more srun, {nodes} nodes", with_srun, preflight
        ),
        at_most(added % "nothing", "ms", with_srun - hand, preflight - ours, 1),
        Row(added % "Python", "ms", medians["srun of Python"] - hand, preflight - ours),
    ]


def _within(what: str, baseline: float, ours: float) -> Row:
    is_met = ours <= max(1.1 * baseline, baseline + 200)
    return Row(what, "ms", baseline, ours, "<= baseline + 10 % or 200 ms", is_met)


def _rendered(text: str, cluster: Cluster) -> str:
    spec = load_spec(text, "launch.yaml", option_models())
    plan = resolve(spec, cluster_facts(cluster))
    return render_script(plan, Inputs(("launch.yaml", text), ("small.yaml", ""))).text


def _site() -> tuple[str, str]:
    return str(SITE), SITE.read_text()


def _write_rank(lab: Lab) -> None:
    fsx = lab.folder.shared("/fsx")
    (fsx / "began").mkdir()
    (fsx / "rank.sh").write_text(_RANK)
    (fsx / "rank.sh").chmod(0o755)


def _stamped(script: str) -> str:
    """The script, with a first command that records its start time."""
    lines = script.splitlines()
    last = max(i for i, line in enumerate(lines) if line.startswith("#SBATCH"))
    return "\n".join([*lines[: last + 1], _START, *lines[last + 1 :]]) + "\n"


def _in_turns(lab: Lab, scripts: dict[str, str]) -> dict[str, list[float]]:
    fsx = lab.folder.shared("/fsx")
    found: dict[str, list[float]] = {name: [] for name in scripts}
    for number in range(RUNS + 1):
        for name, text in scripts.items():
            path = fsx / f"{name.replace(' ', '-')}.sh"
            path.write_text(text)
            milliseconds = _one(lab, path) * 1000
            if number:  # the first run of each is a warm-up
                found[name].append(milliseconds)
    return found


def _one(lab: Lab, script: Path) -> float:
    """Run the job; return the seconds from its script's first command to the first rank's."""
    fsx = lab.folder.shared("/fsx")
    job = lab.sbatch(f"/fsx/{script.name}", cwd=fsx)
    end = lab.wait(job, _TIMEOUT_SECONDS)
    if end.state != "COMPLETED":
        logs = "".join(path.read_text(errors="replace") for path in fsx.glob(f"*-{job}.out"))
        raise RuntimeError(f"{script.name} ended {end}: {logs}")
    began = {path.suffix: float(path.read_text()) for path in (fsx / "began").glob(f"{job}.*")}
    return min(at for suffix, at in began.items() if suffix != ".script") - began[".script"]

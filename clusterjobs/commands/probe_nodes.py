"""Runs node/probe/probe.py on one node of each type, all at once, and shows the progress."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import click

from clusterjobs import resources
from clusterjobs.commands.show import show_problems
from clusterjobs.counted import counted
from clusterjobs.errors import Problem
from clusterjobs.slurm.probe_job import ProbeJob
from clusterjobs.slurmcluster.importing.probe import Candidate, Probed, read_probe

_POLL_SECONDS = 0.2


def run_probes(candidates: Sequence[Candidate], seconds: float) -> list[Probed]:
    """What the nodes say; a type without an answer in that time causes a warning.

    The jobs are cancelled if the caller stops, for example by Ctrl-C.
    """
    program = resources.node_program("probe.py")
    waiting: dict[str, ProbeJob] = {}
    found = []
    try:
        for one in candidates:
            click.echo(f"probing {one.kind}: a job on {one.nodes[0]} of {one.partition}", err=True)
            waiting[one.kind] = ProbeJob(one.partition, one.nodes[0], one.gres, program)
        for kind, output in _outputs(waiting, seconds):
            node = next(one.nodes[0] for one in candidates if one.kind == kind)
            probed = read_probe(output, node)
            if probed is None:
                _warn(kind, node, _reason(output))
            else:
                found.append(probed)
                click.echo(f"{kind}: {_summary(probed)}", err=True)
    finally:
        for job in waiting.values():
            job.cancel()
    for kind, job in waiting.items():
        text = f"it did not start within {seconds:g} s"
        _warn(kind, job.node, f"{text}: try again with --probe-seconds {seconds * 10:g}")
    return found


def _outputs(waiting: dict[str, ProbeJob], seconds: float) -> Iterator[tuple[str, str]]:
    """Each job that has ended, with its output; it then waits no more."""
    end = time.monotonic() + seconds
    while waiting and time.monotonic() < end:
        for kind, job in [*waiting.items()]:
            if (output := job.output()) is not None:
                del waiting[kind]
                yield kind, output
        time.sleep(_POLL_SECONDS)


def _reason(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it printed nothing"


def _warn(kind: str, node: str, reason: str) -> None:
    what = f"the probe of {kind} on {node} has found nothing: {reason}"
    hint = "fill in its fabric, GPUs and disks by hand, in the commented lines"
    show_problems([Problem(what, hint=hint, warning=True)])


def _summary(probed: Probed) -> str:
    values = probed.values
    parts = [str(values.get("fabric", "no network was found"))]
    if values.get("gpus"):
        model = f" ({values['gpu_model']})" if "gpu_model" in values else ""
        parts.append(counted(values["gpus"], "GPU") + model)
    if "scratch" in values:
        parts.append(f"{values['local_disk_gb']} GB in {values['scratch']}")
    return ", ".join(parts)

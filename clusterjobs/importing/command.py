"""clusterjobs clusters import: a description of a Slurm cluster from its Slurm, or from files."""

import os
import pathlib
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

import click

from clusterjobs import resources
from clusterjobs.clusters.described.read import read_description
from clusterjobs.console import show_problems
from clusterjobs.errors import InputError, Problem, counted
from clusterjobs.importing.collect import collect
from clusterjobs.importing.nodes import Seen
from clusterjobs.importing.probe import Candidate, Probed, complete_cluster, read_probe
from clusterjobs.importing.texts import texts_of_files, texts_of_slurm
from clusterjobs.importing.write import description_text, nodes_to_probe

# ------------------------------------------------------------------ probe job
# A job of one task that runs a Python program on one node: srun with the program as its input.


# Slurm's GRES guide: a step sees no GPUs that its job has by --exclusive alone. Python without the
# user's packages and settings.
_OPTIONS = ("--nodes=1", "--ntasks=1", "--exclusive", "--time=5", "--job-name=clusterjobs-probe")
_PYTHON = ("python3", "-BEs", "-")
_LOOK_SECONDS = 0.05
_CANCEL_SECONDS = 10


class ProbeJob:
    """The job, which waits in the queue or runs."""

    def __init__(self, partition: str, node: str, gres: str, program: str) -> None:
        self.node = node
        place = [f"--partition={partition}", f"--nodelist={node}"]
        place += [f"--gres={gres}"] if gres else []
        self._process: subprocess.Popen[bytes] | None = None
        self._failure = ""
        try:
            self._process = subprocess.Popen(
                ["srun", *_OPTIONS, *place, *_PYTHON],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=_environment(),
                start_new_session=True,  # Ctrl-C reaches srun by `cancel` alone
            )
        except OSError as error:
            self._failure = f"srun cannot be started: {error.strerror}"
        else:
            _give(self._process, program)

    def output(self) -> str | None:
        """All that the job has printed, with the messages of srun; None until it has ended."""
        if self._process is None:
            return self._failure
        try:
            printed, _ = self._process.communicate(timeout=_LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            return None  # what it has printed so far is kept for the next call
        return printed.decode(errors="replace")

    def cancel(self) -> None:
        """End srun, which cancels the job, whether it waits or runs."""
        if self._process is None or self._process.poll() is not None:
            return
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.communicate(timeout=_CANCEL_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()


def _give(process: subprocess.Popen[bytes], program: str) -> None:
    """The whole program at once: a pipe's buffer is larger. srun may have ended already."""
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as pipe:
        pipe.write(program.encode())
    process.stdin = None


def _environment() -> dict[str, str]:
    """The environment without the variables of the job around it, but with account and QOS."""
    kept = ("SLURM_ACCOUNT", "SLURM_QOS", "SLURM_CONF", "SLURM_RESERVATION")
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("SLURM_") or name in kept
    }


# ------------------------------------------------------------------ probe nodes
# Runs node/probe/probe.py on one node of each type, all at once, and shows the progress.


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


_TIMEOUT = 30.0


@click.command(name="import", short_help="Describe a Slurm cluster, from its Slurm or from files.")
@click.option("--from-slurm", is_flag=True, help="Ask Slurm: run this on a login node.")
@click.option("--from-files", is_flag=True, help="Read FILES instead, if you have no login.")
@click.argument("files", nargs=-1, type=click.Path(path_type=pathlib.Path))
@click.option(
    "--partition",
    "partitions",
    multiple=True,
    help="Describe only this one; may be repeated.",
)
@click.option("--name", default="", help="The cluster's name; by default Slurm's ClusterName.")
@click.option(
    "--probe", is_flag=True, help="Run a small job on one node of each type: fabric, GPUs, disks."
)
@click.option(
    "--probe-seconds",
    default=300.0,
    show_default=True,
    type=click.FloatRange(min=1, max=86400),
    help="Seconds to wait for a free node of each type.",
)
@click.option(
    "--timeout",
    default=_TIMEOUT,
    show_default=True,
    type=click.FloatRange(min=0.1, max=3600),
    help="Seconds to wait for Slurm.",
)
def import_(
    from_slurm: bool,
    from_files: bool,
    files: tuple[pathlib.Path, ...],
    partitions: tuple[str, ...],
    name: str,
    probe: bool,
    probe_seconds: float,
    timeout: float,
) -> None:
    """Print the description of a Slurm cluster that ParallelCluster did not make.

    The output is a file for `cluster:` of a spec: partitions, node types, limits, shared folders.
    A value that was not found is a commented line that says what the value decides.

    With --probe, a job of a few seconds on one node of each type finds its fabric, GPUs, disks and
    mounts. It uses SLURM_ACCOUNT and SLURM_QOS, as srun does.

    FILES are saved outputs of scontrol show node, partition or config, of sinfo, of sacctmgr show
    assoc and of /proc/mounts; or slurm.conf and gres.conf. They are recognised by their content.

    \b
    Examples:
      clusterjobs clusters import --from-slurm > mycluster.yaml
      clusterjobs clusters import --from-slurm --partition gpu --probe > mycluster.yaml
      scontrol --oneliner show node > nodes.txt
      scontrol show partition > partitions.txt
      scontrol show config > config.txt
      clusterjobs clusters import --from-files nodes.txt partitions.txt config.txt > mycluster.yaml
      clusterjobs clusters import --from-files /etc/slurm/slurm.conf > mycluster.yaml
    """
    _check_usage(from_slurm, from_files, files)
    if probe and not from_slurm:
        raise click.UsageError("--probe runs jobs: it needs --from-slurm")
    if from_slurm:
        given, include, warnings, seen_here = texts_of_slurm(timeout, _say)
        how = "clusterjobs clusters import --from-slurm"
    else:
        given, include = texts_of_files(files)
        warnings, seen_here = [], Seen()
        how = f"clusterjobs clusters import --from-files {_names(files)}"
    show_problems(warnings)
    seen = collect(given, include)
    show_problems(seen.warnings)
    seen.found_programs, seen.slurm_commands = seen_here.found_programs, seen_here.slurm_commands
    if probe:
        complete_cluster(seen, run_probes(nodes_to_probe(seen, partitions), probe_seconds))
        how += " --probe"
    click.echo(_description(seen, partitions, how, name), nl=False)
    has_all = from_slurm or "slurm.conf" in {one.kind for one in given}
    if len(seen.nodes) == 1 and not has_all:
        what = f"the files have one node, {next(iter(seen.nodes))}, so this is a cluster of one"
        hint = "save those of all nodes: scontrol --oneliner show node > nodes.txt"
        show_problems([Problem(what, hint=hint, warning=True)])


def _check_usage(from_slurm: bool, from_files: bool, files: Sequence[pathlib.Path]) -> None:
    if from_slurm == from_files:
        raise click.UsageError("write --from-slurm, or --from-files and the files")
    if from_slurm and files:
        raise click.UsageError(f"--from-slurm reads no files: leave out {files[0]}")
    if from_files and not files:
        raise click.UsageError("--from-files needs files: --from-files nodes.txt partitions.txt")


def _names(files: Sequence[pathlib.Path]) -> str:
    return " ".join(file.name for file in files)


def _say(command: str) -> None:
    click.echo(f"asking {command}", err=True)


def _description(seen: Seen, partitions: Sequence[str], how: str, name: str) -> str:
    """The text, which must be one that `cluster:` accepts."""
    text = description_text(seen, partitions, how, name)
    try:
        read_description(text, "imported description")
    except InputError as error:
        hint = "save the output with > FILE, and correct these values by hand"
        problems = [problem._replace(hint=problem.hint or hint) for problem in error.problems]
        show_problems([*_as_warnings(problems)])
    return text


def _as_warnings(problems: Sequence[Problem]) -> list[Problem]:
    return [problem._replace(warning=True) for problem in problems]

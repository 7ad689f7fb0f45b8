"""From a spec and a cluster to the plan. Pure: no clock, no network, no files, no environment."""

from __future__ import annotations

from collections.abc import Mapping

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.errors import did_you_mean
from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.frameworks.base import Framework, Program, Shape, Task
from clusterjobs.launchers import LAUNCHERS, Launcher
from clusterjobs.parallelcluster.config import Cluster
from clusterjobs.plan.bucket_access import check_bucket_access
from clusterjobs.plan.container import resolve_container
from clusterjobs.plan.directives import resolve_directives, resolve_srun_options
from clusterjobs.plan.environment import resolve_environment
from clusterjobs.plan.exports import resolve_exports
from clusterjobs.plan.inherited_env import inherited_variables, own_slurm_variables
from clusterjobs.plan.inputs import resolve_inputs
from clusterjobs.plan.lint import check_intentions
from clusterjobs.plan.parallelism import check_model, resolve_parallelism, resolve_samples
from clusterjobs.plan.parameters import check_literal_words, check_parameters, check_secrets
from clusterjobs.plan.placement import Placement, resolve_placement
from clusterjobs.plan.plan import Plan
from clusterjobs.plan.preflight import resolve_preflight
from clusterjobs.plan.restarts import (
    resolve_restarts,
    restart_directives,
    restart_variables,
)
from clusterjobs.plan.staging import associations_of, programs_of, resolve_stages
from clusterjobs.plan.storage import find_storage
from clusterjobs.provenance import Provenance
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.load import Spec


def resolve(spec: Spec, cluster: Cluster, texts: Mapping[str, str] | None = None) -> Plan:
    """Derive everything. Raises InputError with every problem, the warnings among them.

    `texts`: the program's own config files, as far as they were found (`config_files`).
    """
    experiment = spec.experiment
    diagnostics, provenance = Diagnostics(spec.source), Provenance()
    framework = _framework(experiment, diagnostics)
    check_parameters(experiment, diagnostics)
    check_secrets(experiment, diagnostics)
    check_literal_words(experiment, diagnostics)
    launcher = _launcher(experiment, framework, diagnostics, provenance)
    placement = resolve_placement(experiment, cluster, launcher, diagnostics, provenance)
    if framework is None or placement is None:
        diagnostics.raise_if_failed()
        raise AssertionError("no framework or placement, and no problem says why")
    return _resolve_job(
        spec, cluster, framework, launcher, placement, texts or {}, diagnostics, provenance
    )


def _resolve_job(
    spec: Spec,
    cluster: Cluster,
    framework: Framework,
    launcher: Launcher,
    placement: Placement,
    texts: Mapping[str, str],
    diagnostics: Diagnostics,
    provenance: Provenance,
) -> Plan:
    experiment = spec.experiment
    numbers = framework.completed(experiment, spec.options, texts, diagnostics)
    _check_precision(experiment, placement, diagnostics)
    _check_shared_gpus(launcher, placement, diagnostics)
    _check_ssh(experiment, launcher, diagnostics)
    _check_software(experiment, diagnostics)
    check_intentions(experiment, framework, placement, cluster, diagnostics)
    shape = Shape(placement.nodes, placement.ranks_per_node, placement.gpus_per_node)
    parallelism = resolve_parallelism(numbers, shape, diagnostics, provenance)
    check_model(numbers.model, numbers.parallel, diagnostics, provenance)
    samples = (
        None
        if _is_misshaped(diagnostics)
        else resolve_samples(numbers.batch, parallelism, diagnostics, provenance)
    )
    program = framework.program(
        Task(experiment, spec.options, shape, parallelism, samples), diagnostics, provenance
    )
    restarts = resolve_restarts(experiment, framework, launcher, diagnostics, provenance)
    directives = resolve_directives(
        experiment, placement, restart_directives(restarts), diagnostics
    )
    options = resolve_srun_options(experiment, placement, diagnostics)
    if program is None:
        diagnostics.raise_if_failed()
        raise AssertionError("no program, and no problem says why")
    preflight = resolve_preflight(
        experiment, framework, placement, cluster, diagnostics, provenance
    )
    asked = preflight.environment if preflight else ()
    further = (*restart_variables(restarts), *asked, *program.environment)
    environment = resolve_environment(experiment, placement, further, diagnostics)
    container = resolve_container(
        experiment, placement, cluster, launcher, environment, diagnostics, provenance
    )
    srun_options = options if _calls_srun(launcher, experiment) else ()
    if container and container.runtime == "pyxis":
        srun_options += container.options
    storage = find_storage(cluster, placement)
    stages = resolve_stages(experiment, storage, diagnostics, provenance)
    exports = resolve_exports(experiment, storage, diagnostics, provenance)
    check_bucket_access(experiment, cluster, placement.queue, stages, exports, diagnostics)
    diagnostics.raise_if_failed()
    _derive_rendezvous(provenance)
    return Plan(
        experiment=experiment,
        cluster_name=cluster.name,
        launcher=launcher,
        placement=placement,
        shape=shape,
        parallelism=parallelism,
        samples=samples,
        marker=_marker(experiment, framework),
        restarts=restarts,
        directives=directives,
        srun_options=srun_options,
        environment=environment,
        own_slurm_variables=own_slurm_variables(directives),
        unset=inherited_variables(placement),
        starts_script=_starts_script(program, launcher, experiment),
        interface=program.interface,
        command=_command(program, launcher, experiment),
        files=program.files,
        programs=(
            *(preflight.programs if preflight else ()),
            *programs_of(stages, exports),
            *launcher.programs,
            *(container.programs if container else ()),
        ),
        inputs=resolve_inputs(experiment, program, diagnostics),
        container=container,
        preflight=preflight,
        stages=stages,
        exports=exports,
        associations=associations_of(stages, exports),
        derived=tuple(provenance),
        warnings=tuple(diagnostics.problems),
    )


def _calls_srun(launcher: Launcher, experiment: Experiment) -> bool:
    """Whether the script itself calls srun for the ranks, or for the sshd that they need."""
    elsewhere = experiment.ssh or experiment.software.container
    return launcher.calls_srun and not (launcher.over_ssh and elsewhere)


def _is_misshaped(diagnostics: Diagnostics) -> bool:
    """Whether the numbers of nodes and ranks are wrong: no batch is to be judged by them."""
    keys = ("nodes", "gpus_per_node", "ranks_per_node", "parallel")
    return any(
        problem.path.partition(".")[0] in keys and not problem.warning
        for problem in diagnostics.problems
    )


def _framework(experiment: Experiment, diagnostics: Diagnostics) -> Framework | None:
    framework = FRAMEWORKS.get(experiment.framework)
    if framework is None:
        diagnostics.problem(
            ("framework",),
            f"no framework {experiment.framework!r}",
            did_you_mean(experiment.framework, list(FRAMEWORKS)),
        )
    return framework


def _launcher(
    experiment: Experiment,
    framework: Framework | None,
    diagnostics: Diagnostics,
    provenance: Provenance,
) -> Launcher:
    choices = framework.launchers if framework else tuple(LAUNCHERS)
    name = experiment.launcher
    if name is None:
        default = choices[0]
        if framework:
            provenance.record("launcher", default, f"the default of {framework.name}")
        return LAUNCHERS[default]
    if name in LAUNCHERS:
        launcher = LAUNCHERS[name]
        if name in choices or (framework and framework.name in launcher.frameworks):
            return launcher
    what = f"no launcher {name!r}"
    if framework:
        if name in LAUNCHERS:
            what = f"{framework.name} is not started by {name}"
        others = (one.name for one in LAUNCHERS.values() if framework.name in one.frameworks)
        choices = (*choices, *others)
    diagnostics.problem(("launcher",), what, did_you_mean(name, choices))
    return LAUNCHERS[choices[0]]


def _marker(experiment: Experiment, framework: Framework) -> str | None:
    """What the training writes after each complete checkpoint, in their folder."""
    checkpoints = experiment.checkpoints
    marker = checkpoints and (checkpoints.marker or framework.saving.marker)
    return f"{checkpoints.path}/{marker}" if checkpoints and marker else None


def _check_shared_gpus(launcher: Launcher, placement: Placement, diagnostics: Diagnostics) -> None:
    if launcher.takes_first_gpus and placement.gpus_per_node and not placement.exclusive:
        diagnostics.problem(
            ("launcher",),
            f"{launcher.name} takes a node's first GPUs, and this job shares its nodes",
            "whole nodes, or a launcher that Slurm starts: srun, torchrun, mpirun",
        )


def _check_ssh(experiment: Experiment, launcher: Launcher, diagnostics: Diagnostics) -> None:
    """ssh carries no environment, so that what the ranks find lies in a file meanwhile."""
    if experiment.ssh is not None and not launcher.over_ssh:
        diagnostics.problem(
            ("ssh",),
            f"{launcher.name} uses no ssh",
            "remove it, or choose a launcher that does: deepspeed-pdsh, horovodrun",
        )
    contained = experiment.software.container is not None  # has checks of its own
    if experiment.srun and not _calls_srun(launcher, experiment) and not contained:
        diagnostics.problem(
            ("srun",),
            f"{launcher.name} starts the ranks without these options",
            "remove it, or choose a launcher that the job starts with srun",
        )
    if experiment.secrets and launcher.over_ssh and not contained:
        diagnostics.problem(
            ("secrets",),
            f"with {launcher.name} a secret would have to go over ssh, in a file",
            "choose a launcher that Slurm starts (srun, mpirun), or have the program read it",
        )


def _check_software(experiment: Experiment, diagnostics: Diagnostics) -> None:
    if experiment.software.conda and experiment.software.venv:
        diagnostics.problem(
            ("software", "venv"),
            "conda and venv: each would hide the other's Python",
            "keep one",
        )


def _check_precision(
    experiment: Experiment, placement: Placement, diagnostics: Diagnostics
) -> None:
    instance = placement.instance
    if experiment.precision == "bf16" and instance and instance.gpu_model == "V100":
        diagnostics.problem(
            ("precision",),
            f"the V100 of a {instance.name} has no bf16",
            "precision: fp16",
        )


def _starts_script(program: Program, launcher: Launcher, experiment: Experiment) -> bool:
    """Whether the launcher itself runs Python on the script; a prefix must stand before Python."""
    return launcher.starts_python and program.is_python and not experiment.prefix


def _command(program: Program, launcher: Launcher, experiment: Experiment) -> tuple[str, ...]:
    if program.is_python and not _starts_script(program, launcher, experiment):
        return (*experiment.prefix, "python3", *program.command)
    return (*experiment.prefix, *program.command)


def _derive_rendezvous(provenance: Provenance) -> None:
    provenance.record(
        "MASTER_ADDR",
        "the first of SLURM_JOB_NODELIST",
        "every node knows it, and the batch script runs there",
        "Slurm: scontrol show hostnames",
    )
    provenance.record(
        "MASTER_PORT",
        "12000 + SLURM_JOB_ID % 20000, the next free one",
        "jobs that share a node differ, and it stays below the ephemeral ports (32768 and up)",
        "Linux: ip_local_port_range",
    )


def config_files(spec: Spec) -> tuple[str, ...]:
    """The program's own config files that the plan would like to read, seen from `workdir`."""
    framework = FRAMEWORKS.get(spec.experiment.framework)
    return framework.config_files(spec.options) if framework else ()

"""Makes the plan from a spec and a cluster. Pure: no clock, network, files or environment."""

from __future__ import annotations

from collections.abc import Mapping

from clusterjobs.clusters.facts import ClusterFacts
from clusterjobs.diagnostics import Diagnostics, Provenance
from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.frameworks.base import Program, Task, Variable
from clusterjobs.sections.checkpoints.bucket_access import check_bucket_access
from clusterjobs.sections.checkpoints.plan import plan_checkpoints
from clusterjobs.sections.choice import find_framework, find_launcher, find_launcher_options
from clusterjobs.sections.cluster_settings import check_site, with_runtime, with_site_settings
from clusterjobs.sections.container.plan import plan_container
from clusterjobs.sections.derived_references import with_derived
from clusterjobs.sections.environment.forced import check_forced, plan_node_rank
from clusterjobs.sections.environment.plan import plan_environment, plan_secrets
from clusterjobs.sections.files.plan import check_data_paths, plan_files, plan_inputs
from clusterjobs.sections.job.checks import check_age, check_dropped, check_version
from clusterjobs.sections.job.plan import plan_job, plan_parameters, variables_of_parameters
from clusterjobs.sections.launch.plan import plan_launch
from clusterjobs.sections.lint import check_intentions, check_literal_words
from clusterjobs.sections.model.config import config_of, record_sequence, with_model_config
from clusterjobs.sections.model.plan import (
    check_model,
    check_model_keys,
    plan_batch,
    plan_parallelism,
    supported_parallel,
)
from clusterjobs.sections.placement.checks import check_neuron
from clusterjobs.sections.placement.gpu_requests import check_hint
from clusterjobs.sections.placement.plan import plan_placement
from clusterjobs.sections.plan import Plan
from clusterjobs.sections.points.plan import plan_sweep
from clusterjobs.sections.preflight.plan import plan_preflight
from clusterjobs.sections.restarts.auto_resume import is_resumed_by_the_cluster
from clusterjobs.sections.restarts.plan import plan_restarts
from clusterjobs.sections.roles.plan import plan_roles
from clusterjobs.sections.staging.checks import check_own_folders
from clusterjobs.sections.staging.plan import plan_staging
from clusterjobs.sections.steps.plan import plan_steps
from clusterjobs.sections.storage import find_storage
from clusterjobs.spec.load import Spec

_NO_TEXTS: Mapping[str, str] = {}


def resolve(spec: Spec, facts: ClusterFacts, texts: Mapping[str, str] = _NO_TEXTS) -> Plan:
    """Make the plan. Raises InputError with all problems, warnings included.

    `texts`: the program's own config files (`config_files`) that were found.
    """
    wanted, diagnostics, provenance = spec.experiment, Diagnostics(spec.source), Provenance()
    diagnostics.add(spec.notes)
    both = (diagnostics, provenance)
    wanted = with_runtime(wanted, facts, *both)
    parameters = plan_parameters(wanted.parameters, wanted.env, diagnostics)
    secrets = plan_secrets(wanted.secrets, wanted.env, wanted.parameters, diagnostics)
    check_literal_words(wanted, diagnostics)
    framework = find_framework(wanted.framework, diagnostics)
    launcher = find_launcher(wanted.launcher, framework, *both)
    launcher_options = find_launcher_options(spec, launcher, diagnostics)
    placement = plan_placement(wanted, facts, launcher, *both)
    if framework is None or placement is None:
        diagnostics.raise_if_failed()
        raise AssertionError("no framework or placement, but no problem was reported")

    own = texts_of_the_framework(spec, texts)
    wanted = with_model_config(wanted, texts, diagnostics)
    record_sequence(spec.experiment.model, wanted.model, provenance)
    check_model_keys(wanted, diagnostics)
    numbers = framework.completed(wanted, spec.options, own, diagnostics)
    parallel = supported_parallel(numbers.parallel, framework, diagnostics)
    parallelism = plan_parallelism(parallel, placement.shape, *both)
    check_model(numbers.model, parallel, framework.division(wanted), *both)
    batch = plan_batch(numbers.batch, parallelism.data, *both)
    wanted = with_derived(wanted, placement, parallelism, batch, diagnostics)
    wanted = with_site_settings(wanted, placement.node_type)
    check_site(wanted, placement, facts, diagnostics)
    gpu_model = placement.node_type.gpu_model
    task = Task(wanted, spec.options, placement.shape, parallelism, batch, gpu_model, own)
    program = framework.program(task, *both) or _NO_PROGRAM

    restarts = plan_restarts(
        wanted.restarts,
        wanted.checkpoints,
        wanted.time_limit,
        framework,
        launcher,
        placement.per_node,
        is_resumed_by_the_cluster(wanted, facts, launcher),
        *both,
    )
    further = restarts.directives if restarts else ()
    check_dropped(wanted.sbatch, placement, facts, diagnostics)
    sweep = plan_sweep(wanted)
    job = plan_job(wanted, facts, launcher.name, placement, parameters, sweep, further, diagnostics)
    storage = find_storage(facts, placement.partition, placement.node_type)
    inputs = plan_inputs(wanted, program, diagnostics)
    data_paths = framework.data_paths(wanted, spec.options, own)
    check_data_paths(data_paths, placement.shape.nodes, wanted, storage, diagnostics)
    check_own_folders(wanted, diagnostics)
    staging = plan_staging(wanted.data, wanted.name, inputs, storage, *both)
    checkpoints = plan_checkpoints(wanted, framework.saving, storage, *both)
    preflight = plan_preflight(
        wanted.preflight,
        wanted.software,
        framework,
        placement,
        facts,
        checkpoints.path,
        wanted.script,
        *both,
    )
    check_forced(wanted.env, launcher, placement, *both)
    node_rank = plan_node_rank(wanted, launcher, diagnostics)
    more = [section.environment for section in (restarts, preflight, program, sweep) if section]
    of_launcher = (
        [Variable(*one) for one in launcher_options.variables()] if launcher_options else ()
    )
    environment = plan_environment(
        wanted.env,
        wanted.software,
        wanted.setup,
        secrets,
        placement,
        job.directives,
        [*more, node_rank, of_launcher, variables_of_parameters(wanted.parameters, wanted.env)],
        framework,
        launcher.uses_mpi or "mpi" in wanted.srun,
        diagnostics,
    )
    container = plan_container(
        wanted, facts, placement, launcher, job, checkpoints.path, environment, *both
    )
    launch = plan_launch(
        wanted, program, launcher, launcher_options, placement, container, restarts, *both
    )
    steps = plan_steps(wanted, launch, placement, container, diagnostics)
    roles = plan_roles(wanted, launcher, placement, container, *both)
    check_hint(wanted, launcher, placement.node_type, facts.terms, diagnostics)
    check_age(facts, diagnostics)
    check_version("sbatch", wanted.sbatch, facts, diagnostics)
    check_version("srun", wanted.srun, facts, diagnostics)
    check_intentions(numbers, framework, placement, facts, diagnostics)
    check_neuron(wanted, framework, launcher, placement, facts, diagnostics)
    check_bucket_access(
        facts.partition(placement.partition), wanted.data, staging, checkpoints, diagnostics
    )
    diagnostics.raise_if_failed()
    return Plan(
        job=job,
        placement=placement,
        parallelism=parallelism,
        batch=batch,
        environment=environment,
        files=plan_files(program, checkpoints.path),
        preflight=preflight,
        staging=staging,
        container=container,
        steps=steps,
        launch=launch,
        roles=roles,
        checkpoints=checkpoints,
        restarts=restarts,
        sweep=sweep,
        derived=tuple(provenance),
        warnings=tuple(diagnostics.problems),
    )


# If the framework reports a problem, the other sections are still planned, so that all problems are
# reported together.
_NO_PROGRAM = Program((), is_python=False)


def config_files(spec: Spec) -> tuple[str, ...]:
    """The program's own config files that the plan can use, relative to `workdir`."""
    return (*_of_the_framework(spec), *config_of(spec.experiment.model))


def texts_of_the_framework(spec: Spec, texts: Mapping[str, str]) -> Mapping[str, str]:
    """Without the file of `model: {config: ...}`, which no framework reads."""
    return {name: texts[name] for name in _of_the_framework(spec) if name in texts}


def _of_the_framework(spec: Spec) -> tuple[str, ...]:
    framework = FRAMEWORKS.get(spec.experiment.framework)
    return framework.config_files(spec.options) if framework else ()

"""Makes the plan from a spec and a cluster. Pure: no clock, network, files or environment."""

from __future__ import annotations

from collections.abc import Mapping

from clusterjobs.cluster.facts import ClusterFacts
from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.frameworks.base import Program, Task, Variable
from clusterjobs.plan.auto_resume import is_resumed_by_the_cluster
from clusterjobs.plan.bucket_access import check_bucket_access
from clusterjobs.plan.checkpoints import plan_checkpoints
from clusterjobs.plan.choice import find_framework, find_launcher, find_launcher_options
from clusterjobs.plan.container import plan_container
from clusterjobs.plan.container_runtime import with_runtime
from clusterjobs.plan.data_paths import check_data_paths
from clusterjobs.plan.derived_references import with_derived
from clusterjobs.plan.directive_checks import check_age, check_version
from clusterjobs.plan.dropped_directives import check_dropped
from clusterjobs.plan.environment import plan_environment
from clusterjobs.plan.files import plan_files
from clusterjobs.plan.forced_variables import check_forced
from clusterjobs.plan.hints import check_hint
from clusterjobs.plan.inputs import plan_inputs
from clusterjobs.plan.job import plan_job
from clusterjobs.plan.launch import plan_launch
from clusterjobs.plan.lint import check_intentions, check_literal_words
from clusterjobs.plan.model_checks import check_model_keys
from clusterjobs.plan.model_config import config_of, record_sequence, with_model_config
from clusterjobs.plan.neuron_checks import check_neuron
from clusterjobs.plan.node_rank import plan_node_rank
from clusterjobs.plan.parallelism import (
    check_model,
    plan_batch,
    plan_parallelism,
    supported_parallel,
)
from clusterjobs.plan.parameters import plan_parameters, variables_of_parameters
from clusterjobs.plan.placement import plan_placement
from clusterjobs.plan.plan import Plan
from clusterjobs.plan.preflight import plan_preflight
from clusterjobs.plan.restarts import plan_restarts
from clusterjobs.plan.roles import plan_roles
from clusterjobs.plan.secrets import plan_secrets
from clusterjobs.plan.site_settings import check_site, with_site_settings
from clusterjobs.plan.staging import plan_staging
from clusterjobs.plan.staging_checks import check_own_folders
from clusterjobs.plan.steps import plan_steps
from clusterjobs.plan.storage import find_storage
from clusterjobs.plan.sweep import plan_sweep
from clusterjobs.provenance import Provenance
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

"""The sections of a job, in the order in which they are planned, and the checks around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from clusterjobs.sections.checkpoints import check_bucket_access, check_folders
from clusterjobs.sections.checkpoints import plan as plan_checkpoints
from clusterjobs.sections.checkpoints import render as render_checkpoints
from clusterjobs.sections.context import Context
from clusterjobs.sections.environment.checks import check_arguments, check_paths
from clusterjobs.sections.environment.plan import check_secrets
from clusterjobs.sections.environment.plan import plan as plan_environment
from clusterjobs.sections.environment.plan import render as render_environment
from clusterjobs.sections.files import plan as plan_files
from clusterjobs.sections.files import render as render_files
from clusterjobs.sections.job.checks import check_age, check_clock, check_versions
from clusterjobs.sections.job.plan import check_parameters
from clusterjobs.sections.job.plan import plan as plan_job
from clusterjobs.sections.job.plan import render as render_job
from clusterjobs.sections.launch import plan as plan_launch
from clusterjobs.sections.launch import plan_program
from clusterjobs.sections.launch import render as render_launch
from clusterjobs.sections.model import check_precision
from clusterjobs.sections.placement.checks import check_neuron, check_use_of_nodes
from clusterjobs.sections.placement.gpu_requests import check_gpu_requests, check_hint
from clusterjobs.sections.placement.node_share import check_packing
from clusterjobs.sections.placement.plan import plan as plan_placement
from clusterjobs.sections.placement.plan import render as render_placement
from clusterjobs.sections.plan import Container
from clusterjobs.sections.points.plan import plan as plan_points
from clusterjobs.sections.points.plan import render as render_points
from clusterjobs.sections.preflight import plan as plan_preflight
from clusterjobs.sections.preflight import render as render_preflight
from clusterjobs.sections.rendering import Rendering
from clusterjobs.sections.restarts import plan as plan_restarts
from clusterjobs.sections.restarts import render as render_restarts
from clusterjobs.sections.roles import plan as plan_roles
from clusterjobs.sections.roles import render as render_roles
from clusterjobs.sections.staging import plan as plan_staging
from clusterjobs.sections.staging import render as render_staging
from clusterjobs.sections.steps import plan as plan_steps
from clusterjobs.sections.steps import render as render_steps

Check = Callable[[Context], None]


def plan_container(context: Context) -> Container | None:
    """The section `container`: its module is imported for a spec that has one."""
    if context.spec.software.container is None:
        return None
    from clusterjobs.sections.container import plan

    return plan(context)


def render_container(rendering: Rendering) -> dict[str, Any] | None:
    """What the block `container` prints; None without a container."""
    if rendering.plan.container is None:
        return None
    from clusterjobs.sections.container import render

    return render(rendering)


class Section(NamedTuple):
    """A section of the plan: the field of Context, Plan and of the templates' variables.

    `plan` reads the sections before it, and `checks` follow it. `render`: None if the templates do
    not print it.
    """

    name: str
    plan: Callable[[Context], Any]
    render: Callable[[Rendering], Any] | None
    checks: tuple[Check, ...] = ()


# The placement is planned first: the spec is completed with its numbers before the others.
SECTIONS = (
    Section("placement", plan_placement, render_placement, (check_packing, check_gpu_requests)),
    Section("program", plan_program, None),
    Section("restarts", plan_restarts, render_restarts),
    Section("points", plan_points, render_points),
    Section("job", plan_job, render_job),
    Section("staging", plan_staging, render_staging),
    Section("checkpoints", plan_checkpoints, render_checkpoints),
    Section("preflight", plan_preflight, render_preflight),
    Section("environment", plan_environment, render_environment, (check_paths,)),
    Section("container", plan_container, render_container),
    Section("launch", plan_launch, render_launch),
    Section("steps", plan_steps, render_steps),
    Section("roles", plan_roles, render_roles),
    Section("files", plan_files, render_files),
)

# The order of their variables in lists of the templates: that of the script.
PRINTED = (
    *("job", "placement", "environment", "files", "checkpoints", "preflight", "staging"),
    *("steps", "container", "launch", "restarts", "roles", "points"),
)

# Of the spec alone, before anything is planned.
CHECKS_OF_THE_SPEC: tuple[Check, ...] = (check_parameters, check_secrets, check_arguments)
# Of all sections together.
CHECKS: tuple[Check, ...] = (
    check_hint,
    check_age,
    check_versions,
    check_clock,
    check_precision,
    check_use_of_nodes,
    check_folders,
    check_neuron,
    check_bucket_access,
)

"""How the ranks are started: the command, its launcher, and the options of both."""

from __future__ import annotations

from collections.abc import Mapping

from clusterjobs.frameworks.arguments import argument_names
from clusterjobs.frameworks.base import Program, Task, folder_on_the_node
from clusterjobs.launchers.base import SSH_PROGRAMS, Launched
from clusterjobs.sections.context import Context
from clusterjobs.sections.environment.forced import (
    forced_for_ranks,
    node_environment,
    refers_to_node_rank,
)
from clusterjobs.sections.job.directives import srun_options
from clusterjobs.sections.placement.node_share import port_stride
from clusterjobs.sections.plan import Launch, SshServer
from clusterjobs.sections.restarts.auto_resume import AUTO_RESUME
from clusterjobs.text import expanding, partition, show


def plan_program(context: Context) -> Program:
    """What a rank runs; nothing after a problem, so that the other sections are still planned."""
    spec, placement = context.spec, context.placement
    task = Task(
        spec,
        context.options,
        placement.shape,
        context.parallelism,
        context.batch,
        placement.node_type.gpu_model,
        context.texts,
    )
    program = context.framework.program(task, context.diagnostics, context.provenance)
    return program or Program((), is_python=False)


def plan(context: Context) -> Launch:
    """The section `launch`."""
    spec, launcher, options = context.spec, context.launcher, context.launcher_options
    program, container, restarts = context.program, context.container, context.restarts
    ssh, srun, prefix = spec.ssh, spec.srun, spec.prefix
    prefix = (*node_environment(spec.env), *prefix)
    by_pyxis = container is not None and container.runtime == "pyxis"
    directives = srun_options(context, by_pyxis)
    if restarts and restarts.auto_resume and AUTO_RESUME.name not in srun:
        directives += (AUTO_RESUME,)
    calls_srun = launcher.calls_srun and not (launcher.over_ssh and container)
    _check_gpus(context)
    _check_ssh(context)
    if srun and not calls_srun:
        _refuse_srun(context)
    if container and by_pyxis:
        directives += container.options
    # A prefix must come before Python.
    runs_script = launcher.starts_python and program.is_python and not prefix
    python = ("python3",) if program.is_python and not runs_script else ()
    needs_option = launcher.no_python_option and not runs_script
    ssh_inside = container is not None and container.ssh_inside
    _record_rendezvous(context)
    shape = context.placement.shape
    launched = Launched(
        spec,
        shape.nodes,
        shape.ranks_per_node,
        ends_by_clock=restarts is not None and restarts.saving.stop_channel == "clock",
        has_node_rank=refers_to_node_rank(spec),
    )
    return Launch(
        launcher,
        launcher.reason_inside if ssh_inside else launcher.reason,
        prefix,
        (*python, *program.command),
        _origins(context),
        directives if calls_srun else (),
        (launcher.no_python_option,) if needs_option else (),
        options.words(launched, context.diagnostics) if options else (),
        options.text() if options else "",
        {name: one.reason for name, one in forced_for_ranks(spec.env).items()},
        spec.job_arguments,
        options.template(launcher.name) if options else launcher.name,
        program.interface,
        SshServer(ssh.port, ssh.key and folder_on_the_node(ssh.key)) if ssh else None,
        (*(SSH_PROGRAMS if ssh_inside else launcher.programs), *program.programs),
    )


def _origins(context: Context) -> Mapping[str, str]:
    """`--lr` -> `args.lr (exp.yaml:9)`; the derived ones as the framework names them."""
    spec = context.spec
    started = [("script", spec.script), *(("command", w) for w in spec.command or ())]
    programs = {
        show(expanding(partition(word, "=")[0] if word.startswith("-") else word)): key
        for key, word in started
        if word
    }
    programs = {word: context.diagnostics.describe_key((key,)) for word, key in programs.items()}
    own = {
        name.partition("=")[0]: context.diagnostics.describe_key(("args", position))
        for position, name in argument_names(spec)
    }
    if not isinstance(spec.args, Mapping):  # overrides, as hydra and MaxText have them
        own |= {
            word.partition("=")[0]: context.diagnostics.describe_key(("args", index))
            for index, word in enumerate(map(show, spec.args))
            if "=" in word and not word.startswith("-")
        }
    flags = {f"--{name}": origin for name, origin in own.items() if not name.startswith("-")}
    return {**context.program.origins, **programs, **own, **flags}


def _check_gpus(context: Context) -> None:
    has_gpus = context.placement.shape.gpus_per_node > 0
    if context.launcher.takes_first_gpus and has_gpus and not context.placement.exclusive:
        context.problem(
            ("launcher",),
            f"{context.launcher.name} takes a node's first GPUs, and this job shares its nodes",
            "whole nodes, or a launcher that Slurm starts: srun, torchrun, mpirun",
        )


def _check_ssh(context: Context) -> None:
    ssh = context.spec.ssh
    if ssh is not None and not context.launcher.over_ssh:
        context.problem(
            ("ssh",),
            f"{context.launcher.name} uses no ssh",
            "remove it, or choose a launcher that does: deepspeed-pdsh, horovodrun",
        )
    elif ssh is not None and context.container:
        context.problem(
            ("ssh",),
            "an sshd of the node leads to the node, and not into its container",
            "remove it: each container has an sshd of this job alone",
        )


def _refuse_srun(context: Context) -> None:
    launcher, container = context.launcher, context.container
    if container and launcher.over_ssh:
        what = f"{launcher.name} starts the ranks by ssh, and srun only the containers"
        context.problem(("srun",), what, "remove it")
    elif not container:
        context.problem(
            ("srun",),
            f"{launcher.name} starts the ranks without these options",
            "remove it, or choose a launcher that the job starts with srun",
        )


def _record_rendezvous(context: Context) -> None:
    placement = context.placement
    packed = f"(SLURM_JOB_ID + slot x {port_stride(placement.per_node)})"
    added = placement.address_suffix
    suffix = f" + {added}, its address in the fast network" if added else ""
    first = packed if placement.per_node > 1 else "SLURM_JOB_ID"
    context.record(
        "MASTER_ADDR",
        f"the first of SLURM_JOB_NODELIST{suffix}",
        "every node knows it, and the batch script runs there",
        "Slurm: scontrol show hostnames",
    )
    context.record(
        "MASTER_PORT",
        f"12000 + {first} % 20000, the next free one",
        "jobs that share a node differ, and it stays below the ephemeral ports (32768 and up)",
        "Linux: ip_local_port_range",
    )

"""What a launcher is, the program that starts the ranks, and all launchers by name.

A launcher is one file here, its template launch/<name>.sh.j2, which has its commands, and a line in
pyproject.toml: an entry point `clusterjobs.launchers`, as other packages have them. This module
names no launcher: each difference between them is a field with a default.
"""

import pathlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, NamedTuple

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.registry import Registry
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.model import Key, SpecModel
from clusterjobs.text import Value

SSH_PROGRAMS = ("ssh_settings.py", "ssh_serve.py", "ssh_interface.py")
# The container runtimes of a spec, and those that run the ranks as processes of Slurm.
RUNTIMES = ("pyxis", "apptainer", "singularity", "docker", "shifter")
BY_SLURM = ("pyxis", "apptainer", "singularity", "shifter")


class Launched(NamedTuple):
    """What a launcher's options may depend on.

    `ends_by_clock`: the training is told when to end, as `Saving.stop_channel` says.
    `has_node_rank`: the spec refers to the node's rank.
    """

    spec: Experiment
    nodes: int
    ranks_per_node: int
    ends_by_clock: bool = False
    has_node_rank: bool = False


class LauncherOptions(SpecModel):
    """A launcher's own keys, which stand in the spec under its name: `torchrun: {tee: 3}`.

    Each has a default, since a spec need not have them. `about`: what is known of the name.
    """

    about: ClassVar[Key]

    def words(
        self,
        launched: Launched,  # noqa: ARG002  for subclasses
        diagnostics: Diagnostics,  # noqa: ARG002
    ) -> tuple[Value, ...]:
        """The launcher's own options, one `--option=value` each; problems go into `diagnostics`."""
        return ()

    def variables(self) -> tuple[tuple[str, str, str], ...]:
        """Environment variables of the job, each with its value and reason."""
        return ()

    def text(self) -> str:
        """What the template prints as `launch.own_text`: letters, digits and _@%+=:,./^- alone."""
        return ""

    def template(self, name: str) -> str:
        """The template of the launch section, without its folder and ending: `name`."""
        return name


class Launcher(NamedTuple):
    """How a launcher starts ranks: all that the plan and the job script need to know.

    `reason`: one sentence, the title of the script's launch section.
    `task_per_rank`: one Slurm task per rank; else one per node, which starts the node's ranks.
    `starts_python`: it starts Python with the script itself; else it gets a whole command.
    `no_python_option`: the option with which it runs a command instead of a script; without it, a
    spec with `prefix` is refused.
    `module_option`: the option with which it starts a module in place of a script.
    `calls_srun`: the script calls srun for the ranks, with the spec's `srun` options.
    `uses_mpi`: it starts the ranks of MPI programs.
    `over_ssh`: it reaches the other nodes by ssh.
    `takes_first_gpus`: it numbers GPUs from 0, whichever GPUs Slurm has allocated.
    `runs_commands`: it can start any command as the ranks, for steps `per: rank`.
    `shares_nodes`: it starts ranks by srun alone, on a share of a node, beside other points.
    `label_setting`: the setting in a spec that makes it label each line with its rank.
    `sets_node_rank`: its template begins with blocks/inside.sh.j2 on every node, which puts the
    node's rank in place of {{ job.node_rank }}.
    `forwards_signals`: a signal to the step reaches the ranks alone, as `restarts.signal` needs.
    `refused_runtimes`: container runtime -> (why it cannot be used, what to write instead).
    `ssh_inside`: container runtimes with which it reaches the other nodes' containers by ssh, and
    `reason_inside` the title of the launch section in that case.
    `programs`: programs for the nodes (clusterjobs/node/) that it needs.
    `frameworks`: frameworks that it can start, in addition to those that list it.
    `argument_check`: as that of a framework, for the launcher's own options.
    `variables_of_options`: prefixes of variables that are options, or that its package reads.
    `program_options`: options of its program that a script should not get, with underscores: the
    size that each follows from, such as `nodes`, or the key that has it; "" where the job sets it.
    `options`: the model of its own keys in the spec. Its template prints `launch.own_options`
    where these options belong.
    `template_folder`: contains launch/<name>.sh.j2, if clusterjobs' own templates do not.
    """

    name: str
    reason: str
    task_per_rank: bool = False
    starts_python: bool = False
    no_python_option: str = ""
    module_option: str = "-m"
    calls_srun: bool = True
    uses_mpi: bool = False
    over_ssh: bool = False
    takes_first_gpus: bool = False
    runs_commands: bool = True
    shares_nodes: bool = False
    label_setting: str = ""
    sets_node_rank: bool = False
    forwards_signals: bool = False
    refused_runtimes: Mapping[str, tuple[str, str]] = MappingProxyType({})
    ssh_inside: tuple[str, ...] = ()
    reason_inside: str = ""
    programs: tuple[str, ...] = ()
    frameworks: tuple[str, ...] = ()
    template_folder: pathlib.Path | None = None
    options: type[LauncherOptions] | None = None
    argument_check: str = ""
    variables_of_options: tuple[str, ...] = ()
    program_options: Mapping[str, str] = MappingProxyType({})


__all__ = ["LAUNCHERS", "Launcher"]

LAUNCHERS: Mapping[str, Launcher] = Registry("clusterjobs.launchers", Launcher)

"""Names of environment variables that a spec must not set, each with the reason.

The script exports the variables of the ranks, the parameters and the secrets, so they share its
namespace.
"""

import re

_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PARAMETER_NAME = re.compile(r"[A-Z][A-Z0-9_]*")

# Variables that the templates assign: script and ranks would overwrite each other's values. A test
# compares them with the templates.
# fmt: off
OF_THE_SCRIPT = frozenset((
    "alive", "all_nodes", "attempt", "background_pids", "budgets", "checks", "child",
    "child_status", "clusterjobs_words", "command", "container", "container_env",
    "container_mounts", "creates",
    "decision", "differing", "dropped", "during", "end", "excluded", "exit_minutes", "exit_second",
    "export_pid", "exports", "fabric_profile", "failed", "folders", "found", "hostfile", "hosts",
    "inside", "interface", "job", "job_dir", "kept", "latest", "launcher", "launcher_options",
    "lifeline", "limit", "log_before", "log_copy", "log_writer", "lowest", "min_bus_bandwidth",
    "mounts", "mpirun", "name", "names", "newest", "node", "nodes", "on_every_node", "once",
    "origin", "origin_file", "others", "output", "pending", "pid", "pids", "point_index",
    "point_label", "point_name", "port", "problem", "program", "python", "ranks", "reason",
    "reports", "requeue", "result", "role", "role_pids", "role_watch", "script_arguments",
    "script_folder", "sent", "signal", "site_file", "slot", "slurm_job_id", "srun_options",
    "ssh_dir", "started", "states", "status", "step", "step_seconds", "steps", "submitted",
    "time_left", "token", "waiting", "with_interface",
))
# fmt: on

COMPUTED = "computed_"  # and the name of one of the spec's `values`
_READ_BY_SLURM_AND_BASH = ("SLURM", "SBATCH_", "SRUN_", "SQUEUE_", "SCANCEL_", "SCONTROL_", "BASH")

RESERVED_NAMES = {
    "VIRTUAL_ENV": "software.venv sets it",
    "DLTS_HOSTFILE": "the script sets it for DeepSpeed",
    **dict.fromkeys(
        ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
        "the launcher sets it for every rank",
    ),
    "NODE_RANK": "it differs on each node, and the script sets it for every rank",
    "GROUP_RANK": "torchrun sets it for every rank",
    **dict.fromkeys(("MASTER_ADDR", "MASTER_PORT"), "the script sets it from Slurm's variables"),
    **dict.fromkeys(
        ("LD_PRELOAD", "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "IFS", "PS4", "BASH", "UID"),
        "it would change how the script itself runs",
    ),
    **dict.fromkeys(("POSIXLY_CORRECT", "GLOBIGNORE", "TMOUT"), "it would change how bash runs"),
    **dict.fromkeys(
        (
            *("_", "RANDOM", "SRANDOM", "SECONDS", "LINENO", "EPOCHSECONDS", "EPOCHREALTIME"),
            *("PPID", "EUID", "GROUPS", "DIRSTACK", "FUNCNAME", "HISTCMD", "PIPESTATUS", "SHLVL"),
            *("PWD", "OLDPWD", "OPTIND", "OPTERR", "PS1", "COMP_WORDBREAKS"),
        ),
        "bash sets it, so the value would be lost",
    ),
    **dict.fromkeys(
        ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"), "Slurm sets it to the job's GPUs"
    ),
}


# Reserved, but a spec may set them with `force: true`. No other can be forced: the script, bash,
# Slurm or the launcher would overwrite the value, or would no longer work.
# Only the command of each rank sets the first ones: Slurm sets the GPUs in every step, and a
# preloaded library is for the training only.
FORCED_FOR_RANKS = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "LD_PRELOAD")
FORCEABLE = (*FORCED_FOR_RANKS, "MASTER_ADDR", "MASTER_PORT")


# In front of the pattern of a name: it is none of those that environment_name() refuses.
NOT_RESERVED = (
    rf"(?!(?:{'|'.join((*OF_THE_SCRIPT, *RESERVED_NAMES))})$)"
    rf"(?!{'|'.join((*_READ_BY_SLURM_AND_BASH, 'CLUSTERJOBS_', COMPUTED))})"
)


USEFUL_NAMES = ("PWD", "UID", "EUID")  # bash sets them too, but to what a user expects


def is_of_the_script(name: str) -> bool:
    """Whether the script assigns a variable of this name."""
    return name in OF_THE_SCRIPT or name.startswith(COMPUTED)


def environment_name(value: str) -> str:
    """The name of an environment variable that a spec may set."""
    if not _ENVIRONMENT_NAME.fullmatch(value):
        raise ValueError(
            "a variable's name has only letters, digits and _, and does not start with a digit"
        )
    if is_of_the_script(value):
        raise ValueError(f"{value} is reserved: the script uses it, so choose another name")
    if reason := RESERVED_NAMES.get(value):
        raise ValueError(f"{value} is reserved: {reason}")
    if value.startswith(_READ_BY_SLURM_AND_BASH):
        raise ValueError(f"{value} is reserved: Slurm or bash reads it, so use sbatch: or srun:")
    if value.startswith("CLUSTERJOBS_"):
        raise ValueError(f"{value} is reserved: the script sets it for the ranks")
    return value


def parameter_name(value: str) -> str:
    """The name of a parameter: in capitals, unlike the variables of the script."""
    if not _PARAMETER_NAME.fullmatch(value):
        raise ValueError(f"a parameter's name is in capitals: write {value.upper()}")
    return environment_name(value)

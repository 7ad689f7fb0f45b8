"""Environments in which somebody might call sbatch, made at random.

It knows what bash, Python, Slurm and coreutils read from an environment; not what a job does.
"""

from __future__ import annotations

import subprocess

from hypothesis import strategies as st

Environment = dict[str, str | None]  # None: the variable is missing


def _words(command: str) -> list[str]:
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    return sorted(set(done.stdout.split()))


SET_OPTIONS = _words("set +o | cut -d' ' -f3")
SHOPT_OPTIONS = _words("shopt | cut -f1")
BUILTINS = [one for one in _words("compgen -b") if one not in (".", ":", "[")]
PROGRAMS = [
    "awk",
    "cat",
    "date",
    "env",
    "grep",
    "mkdir",
    "mv",
    "python3",
    "rm",
    "scancel",
    "sed",
    "sleep",
]
PROGRAMS += ["scontrol", "squeue", "srun", "tail", "tee", "timeout", "tr"]
OF_THE_SCRIPT = ["main", "fail", "finish", "start_job", "run_ranks", "decide", "requeue"]
BODIES = ["return 1", ":", "exit 3", "echo hostile", "cd /", "set -x"]

# Values that a job must not take over.
VARIABLES = {
    "BASH_COMPAT": "3.1", "CDPATH": "/tmp:/", "EXECIGNORE": "*", "FUNCNEST": "1",
    "GLOBIGNORE": "*", "TMOUT": "1", "SECONDS": "99999999", "POSIXLY_CORRECT": "1",
    "PYTHONPATH": "/nowhere", "PYTHONHOME": "/nowhere", "PYTHONSAFEPATH": "1",
    "PYTHONINSPECT": "1", "PYTHONIOENCODING": "ascii:strict", "PYTHONSTARTUP": "/dev/tty",
    "PYTHONWARNINGS": "error", "PYTHONOPTIMIZE": "2", "PYTHONUTF8": "0",
    "TMPDIR": "/nowhere", "RANK": "7", "WORLD_SIZE": "0", "LOCAL_RANK": "9",
    "MASTER_ADDR": "nowhere", "MASTER_PORT": "x", "TORCHELASTIC_RUN_ID": "x", "PMI_RANK": "5",
    "PMIX_RANK": "5", "OMPI_COMM_WORLD_RANK": "5", "SQUEUE_FORMAT": "%A", "SCONTROL_ALL": "1",
    "SCANCEL_STATE": "PENDING", "SLURM_PROCID": "3", "SLURM_EXPORT_ENV": "NONE",
    "SLURM_NTASKS_PER_NODE_X": "3", "SLURM_STEP_ID": "4", "SRUN_DEBUG": "5",
}  # fmt: skip
# Values that are the caller's own affair: the ranks get them.
KEPT = {
    "IFS": "0/.", "PS4": "$(touch executed)", "GREP_OPTIONS": "-v", "TAR_OPTIONS": "--help",
    "_POSIX2_VERSION": "199209", "DF_BLOCK_SIZE": "7", "BLOCKSIZE": "x", "TZ": "Mars/North",
    "COLUMNS": "1", "LS_COLORS": "x", "QUOTING_STYLE": "c", "PROMPT_COMMAND": "exit",
    "PS1": "$(touch executed)", "INPUTRC": "/dev/tty", "HISTFILE": "/nowhere", "MAIL": "/",
    "ENV": "/dev/null/x", "POSIX_ME_HARDER": "1", "IGNOREEOF": "1", "TERM": "?",
}  # fmt: skip
LOCALES = ["C", "POSIX", "C.UTF-8", "tr_TR.UTF-8", "xx_YY", "", "C/../x"]
# Variables that the script has for itself.
OWN = ["reason", "ranks", "status", "attempt", "job_dir", "child", "decision", "kept", "name"]
OWN += ["dropped", "others"]
OWN += ["slurm_job_id", "signal", "nodes", "command", "export_pid", "background_pids", "limit"]
MISSING = ["HOME", "USER", "PATH", "LC_ALL", "LANG"]


def _joined(names: list[str]) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(names), min_size=1, unique=True).map(":".join)


def _some(names: dict[str, str]) -> st.SearchStrategy[Environment]:
    chosen = st.lists(st.sampled_from(sorted(names)), max_size=6, unique=True)
    return chosen.map(lambda few: {name: names[name] for name in few})


_FUNCTIONS: st.SearchStrategy[Environment] = st.dictionaries(
    st.sampled_from([f"BASH_FUNC_{one}%%" for one in (*BUILTINS, *PROGRAMS, *OF_THE_SCRIPT)]),
    st.sampled_from(BODIES).map(lambda body: f"() {{ {body}\n}}"),
    max_size=12,
)
_OWN_NAMES: st.SearchStrategy[Environment] = st.dictionaries(
    st.sampled_from(OWN), st.sampled_from(["1", "completed", "", "a b", "$(exit)"]), max_size=5
)
_OPTIONS: st.SearchStrategy[Environment] = st.fixed_dictionaries(
    {}, optional={"SHELLOPTS": _joined(SET_OPTIONS), "BASHOPTS": _joined(SHOPT_OPTIONS)}
)
_LOCALES: st.SearchStrategy[Environment] = st.dictionaries(
    st.sampled_from(["LC_ALL", "LANG", "LC_COLLATE", "LC_NUMERIC", "LANGUAGE"]),
    st.sampled_from(LOCALES),
)
_MISSING: st.SearchStrategy[Environment] = st.lists(st.sampled_from(MISSING), max_size=3).map(
    lambda names: dict.fromkeys(names, None)
)


ENVIRONMENTS: st.SearchStrategy[Environment] = st.tuples(
    _OPTIONS, _FUNCTIONS, _some(VARIABLES), _some(KEPT), _OWN_NAMES, _LOCALES, _MISSING
).map(lambda parts: {name: value for part in parts for name, value in part.items()})

"""What every job script has to keep, whatever a site changes in the templates, and why.

Each invariant compares a script with the one of the packaged templates. It reads text alone: the
lines of a site are never run to check them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from clusterjobs.render.invariants import directives, ends, shell
from clusterjobs.render.invariants.base import Broken, Scripts


class Invariant(NamedTuple):
    """A promise of the job script, with the sentence that says why it must hold."""

    name: str
    why: str
    broken: Callable[[Scripts], Iterator[Broken]]


INVARIANTS = (
    Invariant(
        "directives-first",
        "sbatch reads no directive after the first command",
        directives.below_a_command,
    ),
    Invariant(
        "directives-once",
        "of two directives sbatch takes the last one, so that the plan would be wrong",
        directives.twice,
    ),
    Invariant(
        "directives-kept",
        "the plan counts on every directive: nodes, ranks and GPUs follow from them",
        directives.lost,
    ),
    Invariant(
        "strict-mode",
        "without `set -euo pipefail` the job goes on after a command that failed",
        shell.not_strict,
    ),
    Invariant(
        "no-trace", "`set -x` prints every command into the log, with its secrets", shell.traced
    ),
    Invariant(
        "secrets", "the log can be read by others, and is kept for years", shell.prints_secrets
    ),
    Invariant(
        "rendezvous",
        "without an address and a port the ranks do not find one another",
        ends.no_rendezvous,
    ),
    Invariant(
        "launch", "the ranks are started once, and their exit code is the job's", ends.launched_else
    ),
    Invariant(
        "exit-code",
        "a job that failed would be recorded as completed, and never be run again",
        ends.exit_code_lost,
    ),
    Invariant(
        "exit-trap",
        "the end of the job is recorded, exported and requeued by the EXIT trap",
        ends.no_exit_trap,
    ),
    Invariant(
        "signal-traps",
        "at the time limit and on scancel, the ranks save only if TERM and USR1 are trapped",
        ends.no_signal_traps,
    ),
    Invariant(
        "main-last",
        "bash runs nothing of the job unless `main` is called, at the end",
        ends.main_last,
    ),
    Invariant(
        "completed",
        "a job is completed only if the last command of `main` says so",
        ends.not_completed,
    ),
    Invariant(
        "functions", "a function that is called and missing ends the job", ends.missing_functions
    ),
    Invariant(
        "programs",
        "the node programs are cut out of the end of the script, byte by byte",
        shell.programs_changed,
    ),
    Invariant(
        "insertion-points",
        "lines of an insertion point that no template prints have no effect",
        shell.not_inserted,
    ),
)

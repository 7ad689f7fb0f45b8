"""Which of torchrun's options cannot be used together, or not in a job of clusterjobs, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.launchers.base import Launched
from clusterjobs.yaml.document import Path

if TYPE_CHECKING:
    from clusterjobs.launchers.torchrun_options import Options

_KEY = "torchrun"
_PREFIX = "PET_"  # torchrun takes PET_MAX_RESTARTS for --max-restarts
_NO_STATIC_RESTARTS = (
    "with a static rendezvous, torchrun starts only the ranks of its own node again, and those of "
    "other nodes wait for them"
)


def check_options(options: Options, launched: Launched, diagnostics: Diagnostics) -> None:
    """Problems go into `diagnostics`."""
    _check_variables(options, launched, diagnostics)
    _check_local_ranks(options, launched, diagnostics)
    _check_logs(options, diagnostics)
    _check_rendezvous(options, launched, diagnostics)
    if options.max_restarts:
        _check_restarts(launched, diagnostics)


def _check_variables(options: Options, launched: Launched, diagnostics: Diagnostics) -> None:
    """PET_*: each is an option of torchrun, and a spec has options of its own for some."""
    given = options.model_fields_set
    for name in launched.experiment.env:
        option = name.removeprefix(_PREFIX).lower()
        if not name.startswith(_PREFIX):
            continue
        if option in given:
            what = f"this is torchrun's --{option.replace('_', '-')}, which the spec also sets"
            where = diagnostics.describe_key((_KEY, option))
            diagnostics.problem(("env", name), what, f"remove one of them: {where}")
        elif option == "max_restarts" or option.startswith("rdzv_"):
            what = f"this option of torchrun must be set under {_KEY}:"
            key = option.replace("rdzv_", "rdzv: {") + (": ...}" if "rdzv" in option else ": ...")
            diagnostics.problem(("env", name), what, f"write {_KEY}: {{{key}}}")


def _check_local_ranks(options: Options, launched: Launched, diagnostics: Diagnostics) -> None:
    named: dict[Path, list[int]] = {
        (_KEY, "local_ranks_filter"): list(options.local_ranks_filter or ())
    }
    for key in ("tee", "redirects"):
        streams = getattr(options, key) or ""
        named[_KEY, key] = [int(one[0]) for one in streams.split(",") if ":" in one]
    for path, ranks in named.items():
        if wrong := [rank for rank in ranks if rank >= launched.ranks_per_node]:
            what = f"a node has no rank {wrong[0]}: its {launched.ranks_per_node} ranks start at 0"
            diagnostics.problem(path, what, f"write 0 to {launched.ranks_per_node - 1}")


def _check_logs(options: Options, diagnostics: Diagnostics) -> None:
    if (options.redirects or "0") != "0" and options.log_dir is None:
        diagnostics.problem(
            (_KEY, "redirects"),
            "without log_dir, these files are in a temporary folder of each node",
            "add log_dir: '{{ job.dir }}/ranks', or write tee: to have the lines in job.log too",
        )


def _check_rendezvous(options: Options, launched: Launched, diagnostics: Diagnostics) -> None:
    rdzv, path = options.rdzv, (_KEY, "rdzv")
    if rdzv.endpoint is not None:
        diagnostics.problem(
            (*path, "endpoint"),
            "the nodes are known only when the job runs: the script passes MASTER_ADDR:MASTER_PORT",
            "remove it",
        )
    if options.backend == "static" and options.max_restarts and launched.nodes > 1:
        diagnostics.problem((*path, "backend"), _NO_STATIC_RESTARTS, "remove it, or write c10d")
    for key in rdzv.conf.given():
        if (key == "timeout") != (options.backend == "static"):
            known = "timeout" if options.backend == "static" else "join_timeout"
            what = f"a rendezvous of the backend {options.backend} has no option {key}"
            diagnostics.problem((*path, "conf", key), what, f"write {known}: ..., or remove it")
    if options.backend == "c10d" and launched.has_node_rank:
        diagnostics.problem(
            (_KEY,),
            "with c10d, torchrun numbers the nodes by their names, not as Slurm does: "
            "job.node_rank would differ from GROUP_RANK",
            "read GROUP_RANK in your program instead",
        )


def _check_restarts(launched: Launched, diagnostics: Diagnostics) -> None:
    path = (_KEY, "max_restarts")
    if launched.ends_by_clock:
        diagnostics.problem(
            path,
            "the training gets the number of minutes until it must save and end, and would count "
            "them anew after each restart: the time limit would come first",
            "remove it; restarts: {failure: 3} starts a new attempt instead",
        )
    if launched.experiment.checkpoints is None:
        diagnostics.problem(
            path,
            "the spec has no checkpoints: a training that is restarted may begin at its first step",
            "add checkpoints: {path: ...}, and load the newest one whenever the program starts",
            warning=True,
        )

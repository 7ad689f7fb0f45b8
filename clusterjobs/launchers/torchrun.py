"""torchrun, one per node. Source: PyTorch, torch/distributed/run.py."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.launchers import Launched, Launcher, LauncherOptions
from clusterjobs.spec import field_types
from clusterjobs.spec.field_types import Budget, Count
from clusterjobs.spec.model import Key, SpecModel
from clusterjobs.text import Text, Value, expanding, joined, variable
from clusterjobs.yaml.document import Path

# ------------------------------------------------------------------ torchrun checks
# Which of torchrun's options cannot be used together, or not in a job of clusterjobs, and why.


_KEY = "torchrun"
_PREFIX = "PET_"  # torchrun takes PET_MAX_RESTARTS for --max-restarts
_NO_STATIC_RESTARTS = (
    "with a static rendezvous, torchrun starts only the ranks of its own node again, and those of "
    "other nodes wait for them"
)


def check_options(options: "Options", launched: Launched, diagnostics: Diagnostics) -> None:
    """Problems go into `diagnostics`."""
    _check_variables(options, launched, diagnostics)
    named = {"tee": options.tee, "redirects": options.redirects}
    _check_local_ranks(options, launched, diagnostics)
    check_streams(_KEY, named, launched, diagnostics)
    _check_logs(options, diagnostics)
    _check_rendezvous(options, launched, diagnostics)
    if options.max_restarts:
        check_restarts(_KEY, launched, diagnostics)


def _check_variables(options: "Options", launched: Launched, diagnostics: Diagnostics) -> None:
    """PET_*: each is an option of torchrun, and a spec has options of its own for some."""
    given = options.model_fields_set
    for name in launched.spec.env:
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


def _check_local_ranks(options: "Options", launched: Launched, diagnostics: Diagnostics) -> None:
    ranks = list(options.local_ranks_filter or ())
    _check_ranks((_KEY, "local_ranks_filter"), ranks, launched, diagnostics)


def check_streams(
    launcher: str, given: Mapping[str, str | None], launched: Launched, diagnostics: Diagnostics
) -> None:
    """The ranks that keys of a launcher name, as `tee: "0:3,1:2"`."""
    for key, streams in given.items():
        ranks = [int(one[0]) for one in (streams or "").split(",") if ":" in one]
        _check_ranks((launcher, key), ranks, launched, diagnostics)


def _check_ranks(
    path: Path, ranks: list[int], launched: Launched, diagnostics: Diagnostics
) -> None:
    if wrong := [rank for rank in ranks if rank >= launched.ranks_per_node]:
        what = f"a node has no rank {wrong[0]}: its {launched.ranks_per_node} ranks start at 0"
        diagnostics.problem(path, what, f"write 0 to {launched.ranks_per_node - 1}")


def _check_logs(options: "Options", diagnostics: Diagnostics) -> None:
    if (options.redirects or "0") != "0" and options.log_dir is None:
        diagnostics.problem(
            (_KEY, "redirects"),
            "without log_dir, these files are in a temporary folder of each node",
            "add log_dir: '{{ job.dir }}/ranks', or write tee: to have the lines in job.log too",
        )


def _check_rendezvous(options: "Options", launched: Launched, diagnostics: Diagnostics) -> None:
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
    if options.backend == "c10d":
        check_node_rank(_KEY, launched, diagnostics)


def check_node_rank(launcher: str, launched: Launched, diagnostics: Diagnostics) -> None:
    """Refuse a node's rank together with c10d, which numbers the nodes unlike Slurm."""
    if launched.has_node_rank:
        diagnostics.problem(
            (launcher,),
            "with c10d, torchrun numbers the nodes by their names, not as Slurm does: "
            "job.node_rank would differ from GROUP_RANK",
            "read GROUP_RANK in your program instead",
        )


def check_restarts(launcher: str, launched: Launched, diagnostics: Diagnostics) -> None:
    """`max_restarts` of a launcher beside `restarts` and `checkpoints`."""
    path = (launcher, "max_restarts")
    if launched.ends_by_clock:
        diagnostics.problem(
            path,
            "the training gets the number of minutes until it must save and end, and would count "
            "them anew after each restart: the time limit would come first",
            "remove it; restarts: {failure: 3} starts a new attempt instead",
        )
    if launched.spec.checkpoints is None:
        diagnostics.problem(
            path,
            "the spec has no checkpoints: a training that is restarted may begin at its first step",
            "add checkpoints: {path: ...}, and load the newest one whenever the program starts",
            warning=True,
        )


# ------------------------------------------------------------------ torchrun options
# torchrun's own options: logs of the ranks, and restarts inside an attempt.
# Source: PyTorch 2.13, torch/distributed/run.py, elastic/rendezvous/{c10d_rendezvous_backend,
# dynamic_rendezvous, static_tcp_rendezvous}.py and elastic/multiprocessing/api.py.


# No `from __future__ import annotations`: pydantic would have to parse each annotation at start.


_STREAMS = re.compile(r"[0-3]|\d:[0-3](?:,\d:[0-3])*")


def _streams(value: Any) -> str:
    text = field_types.literal_text(value)
    if not _STREAMS.fullmatch(text):
        raise ValueError(
            f"{text!r} names no streams: write 1 (output), 2 (errors) or 3 (both), or one of them "
            'for each rank of a node, "0:3,1:2"'
        )
    return text


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("expected a number of seconds: for example 0.5")
    return float(value)


def _backend(value: Any) -> str:
    text = field_types.plain(value)
    if text in ("etcd", "etcd-v2"):
        raise ValueError(
            f"a rendezvous of {text} ends with its first attempt, and a requeued job cannot join "
            "it again: write c10d, which needs no server"
        )
    if text not in ("static", "c10d"):
        raise ValueError(f"torchrun has no rendezvous {text!r}: write static or c10d")
    return text


LABEL = ("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "[rank${rank}]: ", "torchrun's label of a line")

# Else torch 2.5 and later keep one store, in which restarted ranks find the old addresses:
# pytorch 135712, and seen with torch 2.13 on two nodes.
NEW_STORE = ("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1", "a new store for restarted ranks")

Streams = Annotated[str, BeforeValidator(_streams)]
Interval = Annotated[float, Field(ge=0.01, le=3600), BeforeValidator(_number)]

# Options of torchrun that other launchers pass on, too.
MaxRestarts = Annotated[
    Budget, Key("how often a node's launcher starts the ranks again inside an attempt", "3")
]
MonitorInterval = Annotated[
    Interval | None, Key("the time between two checks of the ranks", "0.5", unit="seconds")
]
Role = Annotated[
    field_types.AnyText | None,
    Key(
        "the value of `ROLE_NAME` in the ranks; with `{{ job.node_rank }}`, each node has its own",
        '"node-{{ job.node_rank }}"',
    ),
]
LogDir = Annotated[
    field_types.Path | None,
    Key(
        "a folder for the ranks' logs; each node adds a folder of its own, named by the job's id",
        "/fsx/logs/ranks",
    ),
]
Tee = Annotated[
    Streams | None,
    Key(
        "streams that go to files and to job.log, where `[rank3]: ` labels each line: `1` the "
        "output, `2` the errors, `3` both; `0:3,1:2` for each rank of a node",
        "3",
    ),
]


class Conf(SpecModel):
    """Seconds and counts. `timeout` is of a static rendezvous, the others of c10d."""

    timeout: Annotated[
        Count | None, Key("seconds in which all nodes must join (static)", "900")
    ] = None
    join_timeout: Annotated[
        Count | None, Key("seconds in which all nodes must join (c10d)", "900")
    ] = None
    last_call_timeout: Annotated[
        Count | None, Key("seconds to wait for more nodes (c10d)", "30")
    ] = None
    close_timeout: Annotated[
        Count | None, Key("seconds in which a rendezvous must close (c10d)", "30")
    ] = None
    heartbeat_timeout: Annotated[
        Count | None, Key("seconds for a heartbeat of a node (c10d)", "5")
    ] = None
    read_timeout: Annotated[Count | None, Key("seconds to read from the store (c10d)", "60")] = None
    keep_alive_interval: Annotated[
        Count | None, Key("seconds between two heartbeats (c10d)", "5")
    ] = None
    keep_alive_max_attempt: Annotated[
        Count | None, Key("heartbeats that may be missing (c10d)", "3")
    ] = None

    def given(self) -> dict[str, int]:
        """The options that the spec has."""
        return self.model_dump(exclude_none=True)


class Rendezvous(SpecModel):
    """How the torchruns of a job find each other. `endpoint` is always the job's first node."""

    backend: Annotated[
        Annotated[str, BeforeValidator(_backend)] | None,
        Key("`static` or `c10d`", "c10d", default_is="`static`; `c10d` with `max_restarts`"),
    ] = None
    endpoint: Annotated[
        field_types.AnyText | None,
        Key("refused: it is always the job's first node", "node-1:29400", default_is="derived"),
    ] = None
    id: Annotated[
        field_types.AnyText | None,
        Key("the name of the rendezvous", "my-run", default_is="the job's id"),
    ] = None
    conf: Annotated[
        Conf, Key("seconds and counts of the rendezvous", "{timeout: 900}", default_is="torch's")
    ] = Conf()


class Options(LauncherOptions):
    """The options of `torchrun --help` that do not follow from the rest of the spec."""

    about: ClassVar[Key] = Key(
        "options of the launcher `torchrun`",
        "{max_restarts: 3, tee: 3}",
        schedules=False,
        see="frameworks/torchrun.md#options-of-torchrun",
    )

    max_restarts: MaxRestarts = 0
    monitor_interval: MonitorInterval = None
    role: Role = None
    log_dir: LogDir = None
    redirects: Annotated[
        Streams | None,
        Key(
            "streams that go to files only, with the values of `tee`",
            "3",
        ),
    ] = None
    tee: Tee = None
    local_ranks_filter: Annotated[
        Annotated[tuple[Budget, ...], Field(min_length=1)] | None,
        Key("the ranks of each node whose lines are in the job's log", "[0]"),
    ] = None
    rdzv: Annotated[
        Rendezvous,
        Key("how the torchruns of a job find each other", "{conf: {timeout: 900}}"),
    ] = Rendezvous()

    @property
    def backend(self) -> str:
        """Restarts need a rendezvous that the nodes can repeat."""
        return self.rdzv.backend or ("c10d" if self.max_restarts else "static")

    def template(self, name: str) -> str:
        """The template's name: with c10d another one, since torchrun itself numbers the nodes."""
        return name if self.backend == "static" else f"{name}_c10d"

    def variables(self) -> tuple[tuple[str, str, str], ...]:
        """A store that restarts can use, and the label of the ranks' lines.

        torchrun's own label has the role, and not the rank.
        """
        found = [] if self.backend == "static" else [NEW_STORE]
        return (*found, LABEL) if (self.tee or "0") != "0" else tuple(found)

    def text(self) -> str:
        """The further options of the rendezvous, each after a comma."""
        return "".join(f",{key}={value}" for key, value in self.rdzv.conf.given().items())

    def words(self, launched: Launched, diagnostics: Diagnostics) -> tuple[Value, ...]:
        """The options, in the order of `torchrun --help`."""
        check_options(self, launched, diagnostics)
        is_static = self.backend == "static"
        own_id = None if is_static else variable("SLURM_JOB_ID")
        conf, ranks = self.text(), self.local_ranks_filter
        given = {
            "--rdzv-id": expanding(self.rdzv.id) if self.rdzv.id else own_id,
            "--rdzv-conf": conf.removeprefix(",") if is_static and conf else None,
            "--max-restarts": self.max_restarts or None,
            "--monitor-interval": self.monitor_interval,
            "--role": self.role,
            "--log-dir": expanding(self.log_dir) if self.log_dir else None,
            "--redirects": self.redirects,
            "--tee": self.tee,
            "--local-ranks-filter": ",".join(map(str, ranks)) if ranks else None,
        }
        return tuple(
            joined(name, "=", value if isinstance(value, Text) else str(value))
            for name, value in given.items()
            if value is not None
        )


TORCHRUN = Launcher(
    "torchrun",
    "one torchrun per node starts the node's ranks",
    starts_python=True,
    no_python_option="--no-python",
    shares_nodes=True,
    label_setting="torchrun: {tee: 3}",
    sets_node_rank=True,
    options=Options,
    argument_check="check_torchrun",
    variables_of_options=(_PREFIX, "TORCH_ELASTIC_", "TORCH_LOGS"),
    program_options={
        "nnodes": "nodes",
        "nproc_per_node": "ranks_per_node",
        "node_rank": "",
        "master_addr": "",
        "master_port": "",
        "local_addr": "",
        "standalone": "",
        "rdzv_endpoint": "",
        "rdzv_backend": "torchrun: {rdzv: {backend: c10d}}",
        "rdzv_id": "torchrun: {rdzv: {id: my-run}}",
        "rdzv_conf": "torchrun: {rdzv: {conf: {timeout: 900}}}",
        "max_restarts": "torchrun: {max_restarts: 3}",
        "monitor_interval": "torchrun: {monitor_interval: 0.5}",
        "local_ranks_filter": "torchrun: {local_ranks_filter: [0]}",
    },
)

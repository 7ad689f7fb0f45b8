"""torchrun's own options: logs of the ranks, and restarts inside an attempt.

Source: PyTorch 2.13, torch/distributed/run.py, elastic/rendezvous/{c10d_rendezvous_backend,
dynamic_rendezvous, static_tcp_rendezvous}.py and elastic/multiprocessing/api.py.
"""

# No `from __future__ import annotations`: pydantic would have to parse each annotation at start.
import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.launchers.base import Launched, LauncherOptions
from clusterjobs.launchers.torchrun_checks import check_options
from clusterjobs.spec import field_types
from clusterjobs.spec.field_types import Budget, Count
from clusterjobs.spec.model import SpecModel
from clusterjobs.spec.references import expanding, variable

_STREAMS = re.compile(r"[0-3]|\d:[0-3](?:,\d:[0-3])*")
_WORD = re.compile(r"[A-Za-z0-9_.-]+")


def _streams(value: Any) -> str:
    text = field_types.scalar_text(value)
    if not _STREAMS.fullmatch(text):
        raise ValueError(
            f"{text!r} names no streams: write 1 (output), 2 (errors) or 3 (both), or one of them "
            'for each rank of a node, "0:3,1:2"'
        )
    return text


def _word(value: Any) -> str:
    text = field_types.plain(value)
    if not _WORD.fullmatch(text):
        raise ValueError("expected a plain word: use letters, digits, '_', '.' and '-'")
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


_LABEL = ("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "[rank${rank}]: ", "torchrun's label of a line")

# Else torch 2.5 and later keep one store, where restarted ranks find the addresses of ended ones:
# pytorch 135712, and seen with torch 2.13 on two nodes.
_NEW_STORE = ("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1", "a new store for restarted ranks")

Streams = Annotated[str, BeforeValidator(_streams)]
Word = Annotated[str, BeforeValidator(_word)]
Interval = Annotated[float, Field(ge=0.01, le=3600), BeforeValidator(_number)]


class Conf(SpecModel):
    """Seconds and counts. `timeout` is of a static rendezvous, the others of c10d."""

    timeout: Count | None = None
    join_timeout: Count | None = None
    last_call_timeout: Count | None = None
    close_timeout: Count | None = None
    heartbeat_timeout: Count | None = None
    read_timeout: Count | None = None
    keep_alive_interval: Count | None = None
    keep_alive_max_attempt: Count | None = None

    def given(self) -> dict[str, int]:
        """Those that the spec has."""
        return self.model_dump(exclude_none=True)


class Rendezvous(SpecModel):
    """How the torchruns of a job find each other. `endpoint` is always the job's first node."""

    backend: Annotated[str, BeforeValidator(_backend)] | None = None
    endpoint: field_types.Text | None = None
    id: field_types.Text | None = None
    conf: Conf = Conf()


class Options(LauncherOptions):
    """The options of `torchrun --help` that do not follow from the rest of the spec.

    `max_restarts`: how often a node's torchrun starts the ranks again inside an attempt.
    `tee` and `redirects`: streams of the ranks that are also, or only, written to files in
    `log_dir`. `local_ranks_filter`: the ranks of each node whose lines are in the job's log.
    """

    max_restarts: Budget = 0
    monitor_interval: Interval | None = None
    role: Word | None = None
    log_dir: field_types.Path | None = None
    redirects: Streams | None = None
    tee: Streams | None = None
    local_ranks_filter: Annotated[tuple[Budget, ...], Field(min_length=1)] | None = None
    rdzv: Rendezvous = Rendezvous()

    @property
    def backend(self) -> str:
        """Restarts need a rendezvous that the nodes can repeat."""
        return self.rdzv.backend or ("c10d" if self.max_restarts else "static")

    def template(self, name: str) -> str:
        """With c10d, torchrun itself numbers the nodes."""
        return name if self.backend == "static" else f"{name}_c10d"

    def variables(self) -> tuple[tuple[str, str, str], ...]:
        """A store that restarts can use, and the label of the ranks' lines.

        torchrun's own label has the role, and not the rank.
        """
        found = [] if self.backend == "static" else [_NEW_STORE]
        return (*found, _LABEL) if (self.tee or "0") != "0" else tuple(found)

    def text(self) -> str:
        """The further options of the rendezvous, each after a comma."""
        return "".join(f",{key}={value}" for key, value in self.rdzv.conf.given().items())

    def words(self, launched: Launched, diagnostics: Diagnostics) -> tuple[str, ...]:
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
        return tuple(f"{name}={value}" for name, value in given.items() if value is not None)

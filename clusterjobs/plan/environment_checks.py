"""Variables and software that a spec must not set, with the reason and what to do instead."""

from __future__ import annotations

import re
from collections.abc import Mapping

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.plan.fabrics import fabric_of
from clusterjobs.plan.inherited_env import is_unset
from clusterjobs.plan.placement import Placement
from clusterjobs.spec.experiment import Software
from clusterjobs.spec.field_types import MAX_WORD_BYTES
from clusterjobs.spec.references import as_text, expanding, show, variable_names
from clusterjobs.yaml.document import Path

_NOT_INSIDE = {
    "modules": (
        "modules change the node's environment, and the image has its own",
        "remove them; where the runtime itself is a module, setup: [module load apptainer]",
    ),
    "conda": (
        "a conda environment of the node needs the node's libraries, and the image has its own",
        "remove it; or venv: /path/in/the/image",
    ),
    "setup": (
        "software.setup would prepare the node's environment, and the ranks use the image's",
        "prepare the image; setup: runs on the node, before the containers",
    ),
}


def check_software(software: Software, diagnostics: Diagnostics) -> None:
    """Refuse environments that exclude each other, or that a container excludes."""
    if software.conda and software.venv:
        diagnostics.problem(
            ("software", "venv"),
            "conda and venv exclude each other: each replaces Python",
            "keep one",
        )
    if software.container is None:
        return
    for key, (what, hint) in _NOT_INSIDE.items():
        if getattr(software, key):
            diagnostics.problem(("software", key), what, hint)


# Common mistakes in public scripts: (why not, what to do instead). True: an error, not a warning.
_MUST_NOT = {
    "RDMAV_FORK_SAFE": ("breaks EFA with huge pages", "remove it", True),
    "RDMAV_HUGEPAGES_SAFE": ("breaks EFA with huge pages", "remove it", True),
    "NCCL_BUFFERSIZE": ("is no variable of NCCL", "did you mean NCCL_BUFFSIZE?", True),
    "NCCL_TREE_THRESHOLD": ("has no effect in NCCL 2.5 and later", "remove it", False),
    "FI_EFA_TX_MIN_CREDITS": ("is an old workaround", "remove it", False),
    "NCCL_ASYNC_ERROR_HANDLING": ("is the old name", "it is on by default in torch 2.2", False),
}


# The same on some fabrics.
_ON_FABRICS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "NCCL_PROTO": {"efa": ("overrides the plugin's tuner", "remove it (aws-ofi-nccl 1.16)")},
    "NCCL_ALGO": {"efa": ("overrides the plugin's tuner", "remove it (aws-ofi-nccl 1.16)")},
    "NCCL_IB_DISABLE": {
        "infiniband": ("turns InfiniBand off: NCCL would use TCP", "remove it"),
        "efa": ("has no effect with EFA", "remove it"),
    },
}
_TCP_INSTEAD = {"FI_PROVIDER": "tcp", "NCCL_NET": "socket"}
_INTERFACE = re.compile(r"=?(?:eth|ens|enp)\w+")


def check_variables(
    env: Mapping[str, str], contained: bool, placement: Placement, diagnostics: Diagnostics
) -> None:
    """Check the spec's `env`. `contained`: the ranks run in a container."""
    fabric = fabric_of(placement.fabric)
    for name, value in env.items():
        path = ("env", name)
        if len(f"{name}={value}".encode()) > MAX_WORD_BYTES:
            limit = f"{MAX_WORD_BYTES:,} bytes, the name among them"
            diagnostics.problem(
                path, f"longer than Linux allows for a variable ({limit})", "shorten it"
            )
        if contained and name in ("PATH", "LD_LIBRARY_PATH"):
            diagnostics.problem(
                path,
                f"{name} of the node would take the place of the image's",
                "set it in the image; software.venv puts a folder in front of PATH",
            )
        if name in _MUST_NOT:
            why, instead, is_error = _MUST_NOT[name]
            diagnostics.problem(path, f"{name} {why}", instead, warning=not is_error)
        elif found := _ON_FABRICS.get(name, {}).get(placement.fabric):
            diagnostics.problem(path, f"{name} {found[0]}", found[1], warning=True)
        elif name == "FI_EFA_USE_HUGE_PAGE" and as_text(value) != "0":
            diagnostics.problem(path, "with huge pages, fork() runs out of memory", "remove it")
        elif fabric.network and _TCP_INSTEAD.get(name) == as_text(value).lower():
            what = f"{value}: {fabric.title} is not used"
            diagnostics.problem(path, what, "remove it", warning=True)
        elif name == "NCCL_SOCKET_IFNAME" and _INTERFACE.fullmatch(as_text(value)):
            diagnostics.problem(
                path,
                f"{value} is not the name on every instance type and image",
                f"remove it: {fabric.interfaces} is set",
                warning=True,
            )
        elif (
            name == "FI_EFA_USE_DEVICE_RDMA"
            and as_text(value) != "0"
            and not placement.node_type.neuron_cores
        ):
            _check_device_rdma(path, placement, diagnostics)


def check_references(env: Mapping[str, str], diagnostics: Diagnostics) -> None:
    """Warn of `${NAME}` if the job unsets NAME and `env` has not set it before."""
    known: set[str] = set()
    for name, value in env.items():
        for other in variable_names(expanding(value)):
            if is_unset(other) and other not in known:
                kept = ":".join(one for one in value.split(":") if f"${{{other}}}" not in one)
                diagnostics.problem(
                    ("env", name),
                    f"${{{other}}} is empty here: the job unsets the {other} of the calling shell",
                    f"write {name}: {show(kept)}" if kept else "write the value itself",
                    warning=True,
                )
        known.add(name)


def _check_device_rdma(path: Path, placement: Placement, diagnostics: Diagnostics) -> None:
    what, hint = "needless since libfabric 1.18", "remove it (libfabric's fi_efa manual)"
    aborts = placement.node_type.gpudirect_rdma is False
    if aborts:
        what = f"{placement.node_type.name} has no RDMA: libfabric 1.18 and later aborts"
    diagnostics.problem(path, what, hint, warning=not aborts)

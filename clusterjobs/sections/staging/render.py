"""The section `staging` of the plan as text: the inputs to check, and the data to copy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clusterjobs.script import shell
from clusterjobs.script.shell import ShellText
from clusterjobs.sections.plan import DataSet, Input
from clusterjobs.sections.rendering import Rendering
from clusterjobs.text import is_rooted, joined, variable

_REQUIRE_ZSTD = ShellText(
    "[[ -n $(type -P zstd) ]] || fail 'no program zstd on this node, to unpack a .zst: install it, "
    "or pack the archive with gzip: zstd -dc X.tar.zst | gzip > X.tar.gz'"
)
_VERIFY: Mapping[str, str] = {"source": " --refresh", "contents": " --reread"}


def render(rendering: Rendering) -> dict[str, Any]:
    """What the block `staging` prints."""
    staging = rendering.plan.staging
    return {
        "inputs": [
            *(_require(one) for one in staging.inputs if not one.made_late),
            *(_REQUIRE_ZSTD for one in staging.data[:1] if staging.needs_zstd),
            *(_require_bucket(one) for one in staging.data if one.source.startswith("s3://")),
        ],
        "late_inputs": [_require(one) for one in staging.inputs if one.made_late],
        "data": [_stage(one) for one in staging.data],
        "has_per_node": any(one.per_node for one in staging.data),
    }


def _require(one: Input) -> ShellText:
    path, is_absolute = shell.quote(one.path), is_rooted(one.path)
    need = "-x" if one.is_run else "-r"
    there = f"{need} {path}" if one.staged is None else f"-e {path} || -e {shell.quote(one.staged)}"
    place = "here" if is_absolute else joined("in ", variable("PWD"))
    keys = one.key if is_absolute else f"{one.key} or workdir"
    what = f"executable {one.what}" if one.is_run else one.what
    hint = f": correct the spec's {keys}, or put it there"
    complaint = joined("no ", what, " ", one.path, " ", place, hint)
    if one.staged is not None:
        node, hint = (
            variable("SLURMD_NODENAME"),
            f": correct the spec's {keys}, or put the data there",
        )
        complaint = joined("the data source ", one.path, " does not exist on node ", node, hint)
    return ShellText(f"[[ {there} ]] || fail {shell.quote(complaint)}")


def _require_bucket(data: DataSet) -> ShellText:
    """A bucket that cannot be read is found before other data is copied for hours."""
    if not data.linked:
        return _run_stage(data, " --check", "")
    # The slash: in a lab, the folder is a link.
    first = f"find {shell.quote(joined(data.target, '/'))} -mindepth 1 -print -quit 2> /dev/null"
    hint = " (cluster.yaml; pcluster update-cluster), and has FSx listed it?"
    complaint = shell.quote(
        joined("nothing in ", data.target, ": is it associated with ", data.source, hint)
    )
    return ShellText(f"[[ -n $({first}) ]] || fail {complaint}")


def _stage(data: DataSet) -> ShellText:
    """The command that copies a data set, or makes the file system load it."""
    target = shell.quote(data.target)
    if data.linked:
        return ShellText(f'stage python3 -B "$job_dir/preload.py" {target}')
    starter = '"${on_every_node[@]}" ' if data.per_node else ""
    options = _VERIFY.get(data.verify, "") + (" --overwrite" if data.overwrite else "")
    return _run_stage(data, options, starter)


def _run_stage(data: DataSet, option: str, starter: str) -> ShellText:
    options = (" --unpack" if data.unpack else "") + option
    paths = f"{shell.quote(data.source)} {shell.quote(data.target)}"
    return ShellText(f'stage {starter}python3 -B "$job_dir/stage.py"{options} {paths}')

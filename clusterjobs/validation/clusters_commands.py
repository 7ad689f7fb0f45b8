"""clusterjobs clusters diff and clusters upgrade: compare configs, and bring them up to date."""

import copy
import dataclasses
import difflib
import json
import pathlib
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import click

from clusterjobs.clusters.facts import ClusterFacts
from clusterjobs.clusters.parallelcluster.config import CURRENT
from clusterjobs.clusters.source import is_description
from clusterjobs.console import json_option, print_json, show_problems, site_file_option, styled
from clusterjobs.errors import Location, Problem, counted, one_problem
from clusterjobs.extras import how_to_install
from clusterjobs.runs.clusters import (
    AnyCluster,
    Config,
    Described,
    find_config_file,
    read_cluster_file,
)
from clusterjobs.runs.write import write_text
from clusterjobs.sites.folders import read_text
from clusterjobs.validation import optional_deps
from clusterjobs.validation.command import checked_release
from clusterjobs.validation.finding import Data
from clusterjobs.validation.upgrade import upgrade as upgraded

# ------------------------------------------------------------------ differences of two clusters
# With the extra, ParallelCluster's own comparison and update policies are used; without it, only
# the differences are known.


When = Literal["running", "replaced", "stopped", "queue", "cluster", ""]

# The defaults of ParallelCluster 3.16.
_DEFAULTS: dict[str, Any] = {
    "CapacityType": "ONDEMAND",
    "JobExclusiveAllocation": False,
    "MaxCount": 10,
    "MinCount": 0,
    "ScaledownIdletime": 10,
    "ScalingStrategy": "all-or-nothing",
}


# Update policies that are satisfied by replacing nodes: QueueUpdateStrategy DRAIN or TERMINATE.
_REPLACING = ("QUEUE_UPDATE_STRATEGY", "MANAGED_PLACEMENT_GROUP", "SHARED_STORAGE_UPDATE_POLICY")


@dataclass(frozen=True)
class Difference:
    """One change from `old` to `new`; None means that the key is absent.

    `when` it can be applied: "running" while the cluster runs, "replaced" likewise, by replacing
    nodes, "stopped" after its nodes were stopped, "queue" only to a queue with another name,
    "cluster" only to a new cluster, "" unknown.
    `policy` is ParallelCluster's name for the rule, `needs` its description of what to do.
    """

    path: str
    old: Any
    new: Any
    when: When = ""
    policy: str = ""
    needs: str = ""


def _compare_configs(old: Data, new: Data) -> list[Difference]:
    """Every difference; with the extra, in the order of ParallelCluster's schema."""
    before, after = _without_defaults(old), _without_defaults(new)
    if not optional_deps.is_installed():
        return list(plain_differences(before, after))
    with optional_deps.quiet(), optional_deps.environment({"AWS_DEFAULT_REGION": "us-east-1"}):
        return _with_policies(before, after)


def _without_defaults(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_defaults(item)
            for key, item in value.items()
            if not (key in _DEFAULTS and item == _DEFAULTS[key])
        }
    return [_without_defaults(item) for item in value] if isinstance(value, list) else value


# ------------------------------------------------------------------ with ParallelCluster


def _with_policies(old: Data, new: Data) -> list[Difference]:
    """Check every change twice: for a cluster with running nodes, and for one without."""
    from pcluster.config.config_patch import ConfigPatch

    patches = [ConfigPatch(_cluster(running), old, new) for running in (True, False)]
    return [
        _difference(change, *(change.update_policy.check(change, patch) for patch in patches))
        for change in patches[0].changes
    ]


def _cluster(running: bool) -> Any:
    return types.SimpleNamespace(
        name="clusterjobs",
        stack_name="clusterjobs",
        has_running_capacity=lambda *_, **__: running,
        has_running_login_nodes=lambda *_, **__: running,
        head_node_instance=types.SimpleNamespace(state="running"),
    )


def _difference(change: Any, running: Any, stopped: Any) -> Difference:
    path = ".".join([*change.path, change.key])
    if change.is_list:
        name = (change.new_value or change.old_value).get("Name")
        path = f"{path}[{name}]" if name else path
    when: When = "running" if _succeeds(running) else "stopped" if _succeeds(stopped) else "cluster"
    if when == "running" and change.update_policy.name in _REPLACING:
        when = "replaced"
    if when == "cluster" and any(step.startswith("SlurmQueues[") for step in change.path):
        when = "queue"
    needs = "" if when in ("running", "replaced") else str(running[2] or running[1] or "")
    return Difference(
        path,
        _plain(change.old_value),
        _plain(change.new_value),
        when,
        change.update_policy.name,
        needs,
    )


def _succeeds(check: Any) -> bool:
    return str(check[0].value) == "SUCCEEDED"


def _plain(value: Any) -> Any:
    """The value without the `visited` marks of ParallelCluster's comparison; "-" is None."""
    if isinstance(value, dict):
        return {key: item for key, item in copy.copy(value).items() if key != "visited"}
    return None if value == "-" else value


# ------------------------------------------------------------------ without ParallelCluster


def plain_differences(old: Any, new: Any, path: str = "") -> Iterator[Difference]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            inner = f"{path}.{key}" if path else key
            yield from plain_differences(old.get(key), new.get(key), inner)
    elif _is_named(old) and _is_named(new):
        befores, afters = ({item["Name"]: item for item in side} for side in (old, new))
        for name in [*befores, *(name for name in afters if name not in befores)]:
            yield from plain_differences(befores.get(name), afters.get(name), f"{path}[{name}]")
    elif old != new:
        yield Difference(path, old, new)


def _is_named(value: Any) -> bool:
    """Whether it is a list of entries with names, whose order does not matter."""
    return isinstance(value, list) and all(
        isinstance(item, dict) and "Name" in item for item in value
    )


def differences(old: AnyCluster, new: AnyCluster) -> list[Difference]:
    """What has to change in `old` to get `new`."""
    if isinstance(old, Config) and isinstance(new, Config):
        return _compare_configs(old.data, new.data)
    if isinstance(old, Described) and isinstance(new, Described):
        # Without defaults, the name among them: a file's name is no difference.
        first, second = (
            one.description.model_dump(mode="json", exclude_defaults=True) for one in (old, new)
        )
        return list(plain_differences(first, second))
    return list(plain_differences(_facts(old.facts), _facts(new.facts)))


def _facts(facts: ClusterFacts) -> dict[str, Any]:
    """The facts that are known, by the names of partitions, node groups and folders."""
    partitions = {
        one.name: {
            **_known(one, "name", "node_groups", "bucket_access", "placeholder"),
            "node_groups": {
                group.name: {
                    **_known(group, "name", "node_type", "type_names", "limit"),
                    "node_type": _known(group.node_type, "name", "placeholder"),
                }
                for group in one.node_groups
            },
        }
        for one in facts.partitions
    }
    own = _known(facts, "name", "partitions", "mounts", "terms", "shared_folders")
    mounts = {one.path: one.kind for one in facts.mounts}
    return {**own, "partitions": partitions, "mounts": mounts}


def _known(record: Any, *left_out: str) -> dict[str, Any]:
    values = record._asdict().items()
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in values
        if key not in left_out and value is not None
    }


@click.command(short_help="Compare two configs.")
@click.argument("old")
@click.argument("new")
@site_file_option
@json_option
def diff(old: str, new: str, site: pathlib.Path | None, as_json: bool) -> None:
    """Show how config NEW differs from OLD, and what a running cluster needs to get there.

    Order, comments and spelled-out defaults make no difference. A ParallelCluster config and a
    description of a Slurm cluster are compared by what a plan knows of them.

    \b
    Examples:
      clusterjobs clusters diff running.yaml wanted.yaml
      clusterjobs clusters diff p5-h100 p5-h100-capacity-block --json
    """
    first, second = (read_cluster_file(find_config_file(name), site) for name in (old, new))
    found = differences(first, second)
    if as_json:
        print_json([dataclasses.asdict(difference) for difference in found])
        return
    if not found:
        click.echo("no difference")
    for difference in found:
        click.echo(
            f"{difference.path}: {_value_text(difference.old)} -> {_value_text(difference.new)}"
        )
        if difference.when:
            click.echo(f"    {_WHEN[difference.when]}")
        if difference.needs and difference.needs != "-":
            click.echo(f"    ParallelCluster: {difference.needs}")
    is_described = isinstance(first, Described) or isinstance(second, Described)
    if found and not is_described and not optional_deps.is_installed():
        what = "skipped: what a running cluster takes, by ParallelCluster's update policies"
        click.echo(f"{what}; {how_to_install('aws')} adds them", err=True)


_LONG = 60


def _value_text(value: Any) -> str:
    """A value of a config on one line, shortened."""
    written = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return written if len(written) <= _LONG else written[: _LONG - 4] + " ..."


_WHEN = {
    "running": "can be applied while the cluster runs",
    "replaced": "can be applied while the cluster runs: QueueUpdateStrategy replaces the nodes",
    "stopped": "needs its nodes stopped or replaced",
    "queue": "needs another queue in place of this one",
    "cluster": "needs a new cluster",
}


@click.command(short_help="Bring an older config up to ParallelCluster 3.16.")
@click.argument("file", type=click.Path(path_type=pathlib.Path, dir_okay=False))
@click.option(
    "--to", "release", callback=checked_release, help=f"The release, if it is not {CURRENT}."
)
@click.option("--write", is_flag=True, help="Write the changes; without it they are only shown.")
@json_option
def upgrade(file: pathlib.Path, release: str | None, write: bool, as_json: bool) -> int:
    """Bring an older config FILE up to ParallelCluster 3.16, as far as that is safe.

    Shows a diff; --write makes the changes. Comments and order are kept. Changes that need your
    decision are listed with their lines.

    \b
    Examples:
      clusterjobs clusters upgrade my-cluster.yaml
      clusterjobs clusters upgrade my-cluster.yaml --write
      clusterjobs clusters upgrade my-cluster.yaml --to 3.15.1
    """
    before = read_text(file)
    if is_description(before):
        raise one_problem(
            "a description of a Slurm cluster, which belongs to no release of ParallelCluster",
            Location(str(file), 1, 1),
            hint="clusterjobs clusters import --from-slurm describes the cluster as it is now",
        )
    result = upgraded(before, str(file), release or CURRENT)
    if write and result.text != before:
        write_text(file, result.text)
    if as_json:
        print_json(
            {
                "changed": _rows(result.changed),
                "left": _rows(result.left),
                "notes": _rows(result.notes),
                "written": write,
            }
        )
        return 1 if result.left else 0
    lines = before.splitlines(), result.text.splitlines()
    for line in difflib.unified_diff(*lines, str(file), f"{file} (upgraded)", lineterm=""):
        click.echo(styled(line, fg={"+": "green", "-": "red", "@": "cyan"}.get(line[:1])))
    if not result.changed:
        click.echo(f"{file}: nothing to change")
    elif not write:
        safe = len(result.changed) - result.for_a_new_cluster
        parts = [counted(safe, "safe change")] if safe else []
        if result.for_a_new_cluster:
            parts.append(f"{counted(result.for_a_new_cluster, 'change')} for a new cluster")
        click.echo(f"{' and '.join(parts)}; --write makes them", err=True)
    show_problems([*result.left, *result.notes])
    return 1 if result.left else 0


def _rows(found: Sequence[Problem]) -> list[dict[str, Any]]:
    return [
        {"line": problem.where and problem.where.line, "what": problem.what, "change": problem.hint}
        for problem in found
    ]

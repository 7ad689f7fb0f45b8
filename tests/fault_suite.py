"""The fault suite: its tests, their groups, and the table that `make faults` prints.

It knows tests by their files, and what they count through the fixture `fault_counts`; it does not
know what any of them does.
"""

from __future__ import annotations

import collections
import fnmatch
import pathlib
from collections.abc import Iterable, Mapping

import pytest

# The first pattern that fits a test's file gives its group.
GROUPS = {
    "tests/jobs/test_faults.py": "ranks, nodes, disks, time limits",
    "tests/jobs/test_same_losses.py": "ranks, nodes, disks, time limits",
    "tests/jobs/test_*restarts*.py": "restarts",
    "tests/jobs/test_told_to_end.py": "restarts",
    "tests/jobs/test_records_of_phases.py": "restarts",
    "tests/commands/test_submit_once.py": "submissions",
    "tests/jobs/test_submit_at_every_point.py": "submissions",
    "tests/jobs/test_two_submits.py": "submissions",
    "tests/jobs/test_frozen_controller.py": "submissions",
    "tests/node/test_attempt.py": "restarts",
    "tests/render/test_how_a_job_ends.py": "restarts",
    "tests/render/test_log_writer.py": "restarts",
    "tests/render/test_unusual_ends.py": "restarts",
    "tests/*/test_*watchdog*.py": "hangs and the watchdog",
    "tests/*/test_*stall*.py": "hangs and the watchdog",
    "tests/jobs/test_bad_nodes.py": "bad nodes and mounts",
    "tests/jobs/test_dead_mounts.py": "bad nodes and mounts",
    "tests/*/test_preflight*.py": "bad nodes and mounts",
    "tests/node/test_*archive*.py": "damaged and hostile archives",
    "tests/node/test_*damage*.py": "damaged and hostile archives",
    "tests/node/test_*s3*.py": "buckets that misbehave",
    "tests/node/test_stage_real_aws.py": "buckets that misbehave",
    "tests/*/test_stag*.py": "staging and export",
    "tests/node/test_export.py": "staging and export",
    "tests/*/test_signals*.py": "signals",
    "tests/*/test_calling_shell*.py": "environments of sbatch",
    "tests/node/test_tools_that_misbehave.py": "hangs and the watchdog",
    "tests/*/test_*attack*.py": "attacks by other users",
    "tests/*/test_*other_user*.py": "attacks by other users",
    "tests/commands/test_planted_files.py": "attacks by other users",
    "tests/jobs/test_secrets_in_a_job.py": "attacks by other users",
    "tests/jobs/test_shared_logs.py": "attacks by other users",
    "tests/spec/test_limits.py": "specs and configs that take long",
}
# The groups of files of which only the long forms belong, which have the marker `faults`; without
# a row, a group has the name of the file.
LONG_FORMS = {
    "tests/jobs/test_huggingface_trains.py": "restarts",
    "tests/jobs/test_roles_in_a_job.py": "restarts",
    "tests/jobs/test_time_limit_of_a_sweep.py": "restarts",
    "tests/jobs/test_sweeps_in_a_lab.py": "submissions",
    "tests/lab/test_import_in_the_lab.py": "clusters that are imported",
    "tests/slurm/*": "rules and values, asked of Slurm",
    "tests/validation/test_validated_releases.py": "releases of ParallelCluster",
    "tests/foresight/test_speed_accuracy.py": "predictions",
}
COLUMNS = {
    "tried": "tried",
    "as_documented": "ended as documented",
    "lost_steps": "lost steps",
    "wrong_data": "wrong data",
    "wrong_records": "wrong records",
    "skipped": "skipped",
}
_COUNTED = ("lost_steps", "wrong_data", "wrong_records")


def group_of(node_id: str, groups: Mapping[str, str] = GROUPS) -> str | None:
    file = node_id.partition("::")[0]
    return next((group for name, group in groups.items() if fnmatch.fnmatch(file, name)), None)


def belongs(item: pytest.Item) -> bool:
    return group_of(item.nodeid) is not None or item.get_closest_marker("faults") is not None


class Groups:
    """The sums of each group, from the reports of its tests."""

    def __init__(self) -> None:
        self.sums: dict[str, collections.Counter[str]] = {}

    def add(self, reports: Iterable[pytest.TestReport]) -> Groups:
        """Add the reports of all phases of some tests."""
        tests: dict[str, list[pytest.TestReport]] = {}
        for report in reports:
            tests.setdefault(report.nodeid, []).append(report)
        for node_id, phases in tests.items():
            group = group_of(node_id, {**GROUPS, **LONG_FORMS})
            group = group or pathlib.PurePath(node_id.partition("::")[0]).stem
            self.sums.setdefault(group, collections.Counter()).update(_counts(phases))
        return self

    def lines(self) -> list[str]:
        """A table in Markdown, so that docs/faults.md can have it as it is."""
        rows = [["group", *COLUMNS.values()], ["---"] * (len(COLUMNS) + 1)]
        rows += [[group, *_cells(counts)] for group, counts in sorted(self.sums.items())]
        together: collections.Counter[str] = collections.Counter()
        for counts in self.sums.values():
            together.update(counts)  # + would drop zeros
        rows.append(["together", *_cells(together)])
        return [f"| {' | '.join(row)} |" for row in rows]


def _counts(phases: list[pytest.TestReport]) -> collections.Counter[str]:
    """What a test counted; one that counts nothing is one try."""
    counts: collections.Counter[str] = collections.Counter()
    if any(one.skipped for one in phases):
        counts["skipped"] = 1
        return counts
    counted = [dict(one.user_properties).get("fault_counts", {}) for one in phases]
    counts.update(max(counted, key=len))  # the report of the teardown has it
    counts["tried"] = counts["tried"] or 1
    if all(one.passed for one in phases):
        counts["as_documented"] = counts["tried"]
    return counts


def _cells(counts: collections.Counter[str]) -> list[str]:
    """A column that no test of the group counts is empty: nothing is known."""
    return [
        "" if name in _COUNTED and name not in counts else str(counts[name]) for name in COLUMNS
    ]

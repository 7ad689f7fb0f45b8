"""Points in the queue that the spec no longer has: `submit` names them, and leaves them alone.

It knows the queue and what was submitted earlier; it must not know how points are chosen.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

from clusterjobs.commands.show import printable
from clusterjobs.commands.submit.checks import Seen
from clusterjobs.counted import counted
from clusterjobs.jobs.point_folders import former_points
from clusterjobs.jobs.sweeps import PointState, sweep_states

_MOST = 8  # points in a message


def former_in_queue(
    folder: pathlib.Path, states: Mapping[str, PointState], seen: Seen
) -> dict[str, str]:
    """Their names, each with its job as scancel takes it.

    `states`: of the spec's points. A packed job that also runs one of them is left out.
    """
    names = dict.fromkeys(former_points(seen.submissions, states), "")
    queued = seen.queued or {}
    if not names or not queued:
        return {}
    found = sweep_states(folder, names, seen.submissions, queued)
    shared = {one.job_id for one in states.values() if one.in_queue}
    return {
        name: queued[one.job_id].shown_id
        for name, one in found.items()
        if one.in_queue and one.job_id not in shared
    }


def former_note(former: Mapping[str, str]) -> str:
    """What they are, and how to cancel them."""
    jobs = list(dict.fromkeys(former.values()))
    names = map(printable, list(former)[:_MOST])  # from a file that others may write
    are = "is" if len(former) == 1 else "are"
    more = f" and {len(former) - _MOST:,} more" if len(former) > _MOST else ""
    what = f"{counted(len(former), 'point')} in the queue {are} no longer in the spec"
    listed = " ".join(jobs) if len(jobs) <= _MOST else f"{jobs[0]} ..."
    return f"{what}: {', '.join(names)}{more}\n   to cancel: clusterjobs cancel {listed}"

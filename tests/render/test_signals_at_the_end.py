"""Signals that come as the ranks or the script end: no hang, no lost exit code, no wrong record."""

from __future__ import annotations

import collections
import pathlib
import re
import subprocess
from collections.abc import Iterable, Iterator

import pytest
from script_runs import run_script, script

TIMES = 300  # a second `wait` for a lost exit code hangs within the first few

# `other` lives as long as the log's writer. The child sends its signal and ends at once.
HARNESS = """
set -euo pipefail
{function}
exit() {{ [[ -n $reason ]] || builtin exit 9; }}
ask_slurm_for_reason() {{ :; }}
trap : PIPE
trap 'reason=cancelled' TERM
reason='' child_status=0 job_dir=$(mktemp -d)
: > "$job_dir/job.log"
run_carried() {{ echo "${{*: -1}}"; }} # first_exit_code.sh
sleep 150 & other=$!
for ((i = 0; i < {times}; i++)); do
  {name} env kill -{signal} $$
  (( child_status == 0 ))
done
kill "$other"
"""


@pytest.mark.parametrize(
    ("name", "signal"), [("run_ranks", "TERM"), ("run_ranks", "PIPE"), ("run_child", "PIPE")]
)
def test_a_signal_at_the_end_of_a_process_does_not_hang_the_script(name: str, signal: str) -> None:
    found = re.search(rf"(?ms)^{name}\(\) {{.*?^}}$", script(preflight=True))
    assert found
    text = HARNESS.format(function=found[0], name=name, signal=signal, times=TIMES)
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


# Functions from the end of the ranks to the script's own end, and what is no command of theirs.
ENDS = ("run_ranks", "finish", "record_and_decide", "record", "decide")
NO_COMMAND = re.compile(
    r"\s*(?:fi|done|\*\)|local status=\$\?|trap '' INT TERM|python=|exec \"|\"\$|\) )"
)
RANKS = {"killed": "echo 'srun: error: n: task 3: Killed' >&2; exit 137", "well": "exit 0"}
CODES = {"completed": 0, "cancelled": 143, "time_limit": 124}


def with_signal(text: str, signal: str, functions: Iterable[str]) -> Iterator[tuple[str, str]]:
    """For each command of these functions, the script that sends itself a signal before it."""
    for name in functions:
        found = re.search(rf"(?ms)^{name}\(\) {{[^\n]*\n(.*?)^}}$", text)
        assert found
        at = found.start(1)
        for line in found[1].splitlines(keepends=True):
            if not NO_COMMAND.match(line) and text[at - 2] != "\\":
                yield f"{name}: {line.strip()}", f"{text[:at]}kill -{signal} $$\n{text[at:]}"
            at += len(line)


def check_records(
    folder: pathlib.Path, signal: str, ranks: str, functions: Iterable[str]
) -> dict[str, int]:
    """How many were tried, and how many were wrong."""
    keys = {"command": ["true"], "checkpoints": {"path": str(folder / "none"), "marker": "latest"}}
    keys |= {"time_limit": "1:00:00", "restarts": {"failure": 2, "time_limit": 2}}
    text = script(nodes=1, logs="logs", **keys)
    wrong, number = [], 0
    for number, (where, changed) in enumerate(with_signal(text, signal, functions), 1):
        place = folder / str(number)
        place.mkdir()
        end = run_script(place, changed, stand_ins={"srun": RANKS[ranks]})
        (reason,) = end.reasons
        codes = {CODES[reason]} if reason in CODES else {137, 129}  # 129: by SIGHUP
        agrees = end.code in codes and end.recorded == [end.code]
        if not agrees or (ranks == "killed" and reason == "completed"):
            wrong.append((where, reason, end.code, end.recorded))
    assert not wrong
    return {"tried": number, "wrong_records": len(wrong)}


@pytest.mark.parametrize("ranks", RANKS)
def test_the_record_has_the_exit_code_of_its_reason_wherever_the_job_is_told_to_end(
    tmp_path: pathlib.Path, ranks: str
) -> None:
    check_records(tmp_path, "TERM", ranks, ["finish", "record_and_decide"])


@pytest.mark.faults
@pytest.mark.parametrize("signal", ["TERM", "USR1", "HUP", "CONT", "PIPE"])
@pytest.mark.parametrize("ranks", RANKS)
def test_the_record_has_the_exit_code_of_its_reason_wherever_a_signal_arrives(
    tmp_path: pathlib.Path, ranks: str, signal: str, fault_counts: collections.Counter[str]
) -> None:
    fault_counts.update(check_records(tmp_path, signal, ranks, ENDS))

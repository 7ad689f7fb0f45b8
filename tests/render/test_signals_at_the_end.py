"""Signals that come as a process ends: the script never hangs, and loses no exit code it needs."""

from __future__ import annotations

import re
import subprocess

import pytest
from script_runs import script

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

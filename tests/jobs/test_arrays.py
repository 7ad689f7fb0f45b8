"""Arrays of jobs on a real Slurm: each task has its own index, folder and end."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.lab

# Index 1 fails; the others write down what they were given.
TASK = """
[[ $2 != 1 ]] || exit 7
mkdir -p /fsx/array && printf '%s' "$*" > "/fsx/array/$2.new" && mv "/fsx/array/$2"{.new,}
"""


def test_each_task_has_its_own_index_folder_and_end(jobs) -> None:
    spec = jobs.spec(
        "array",
        nodes=1,
        ranks_per_node=1,
        framework="command",
        command=["bash", "-c", TASK, "task", "{{ job.id }}", "{{ job.array_index }}"],
        sbatch={"array": "0-2%2"},
        logs="/fsx/logs/array",
    )
    array = jobs.submit(jobs.render(spec))
    codes = {index: jobs.lab.wait(f"{array}_{index}", 120).exit_code for index in range(3)}
    assert codes == {0: 0, 1: 7, 2: 0}
    shared = jobs.lab.folder.shared("/fsx")
    ids = {(shared / f"array/{index}").read_text().split()[0] for index in (0, 2)}
    assert len(ids) == 2
    assert {one.name for one in (shared / "logs/array").iterdir()} >= ids

"""Arrays of jobs on a real Slurm: each task has its own index, folder and end."""

from __future__ import annotations

import json

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


# ------------------------------------------------------------------ {{ job.node_rank }}

# Each rank writes down the node's rank as Slurm has it, its words, and its variables.
WORDS = """
import json, os, pathlib, sys
told = [os.environ["SLURM_NODEID"], os.environ["NODE"], os.environ["CLUSTERJOBS_NODE_RANK"]]
file = pathlib.Path(sys.argv[1], os.environ["RANK"])
file.with_suffix(".new").write_text(json.dumps([*told, *sys.argv[2:]]))
file.with_suffix(".new").rename(file)
"""


@pytest.mark.parametrize("launcher", ["srun", "torchrun"])
def test_each_node_has_its_own_rank_in_the_words_of_its_ranks(jobs, launcher: str) -> None:
    name = f"node-rank-{launcher}"
    hostile = "$(touch owned) 'a' \"b\" `touch owned`\n*"
    words = ["a-{{ job.node_rank }}/{{ world_size }}", hostile, "{{ job.node_rank }}", ""]
    folder = jobs.lab.folder.shared("/fsx") / name
    folder.mkdir()
    spec = jobs.spec(
        name,
        framework="command",
        launcher=launcher,
        command=["python3", "-c", WORDS, f"/fsx/{name}", *words],
        env={"NODE": "of {{ job.node_rank }}"},
    )
    end = jobs.run(spec)
    assert end.exit_code == 0, end.log
    for rank in range(4):
        node = str(rank // 2)
        expected = [node, f"of {node}", node, f"a-{node}/4", hostile, node, ""]
        assert json.loads((folder / str(rank)).read_text()) == expected

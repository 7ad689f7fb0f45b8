"""The script of the launcher composer in bash, beside a stand-in that does what its source says.

Source: Composer 0.32.1, composer/cli/launcher.py. Its own launcher was run with the same command.
"""

from __future__ import annotations

import json
import pathlib
import sys

import pytest
from script_runs import Run, run_script, script

# One task per node, as srun would start them. A failing task ends the step.
SRUN = """
while [[ $1 == --* ]]; do shift; done
status=0
for node in 0 1; do SLURM_NODEID=$node SLURM_NTASKS=2 "$@" || status=$?; done
exit $status
"""
COMPOSER = f"""
exec {sys.executable} - "$@" <<'END'
import argparse, os, subprocess, sys
parser = argparse.ArgumentParser()
for name in ("nproc", "world_size", "base_rank", "node_rank", "master_port"):
    parser.add_argument(f"--{{name}}", type=int)
for name in ("stdout", "stderr", "master_addr"):
    parser.add_argument(f"--{{name}}")
for name in ("verbose", "command_mode", "module_mode"):
    parser.add_argument(f"--{{name}}", action="store_true")
parser.add_argument("program")
parser.add_argument("arguments", nargs="...")
options = parser.parse_args()
python = [] if options.command_mode else [sys.executable]
ranks = []
for local in range(options.nproc):
    rank = options.node_rank * options.nproc + local
    own = dict(RANK=rank, LOCAL_RANK=local, WORLD_SIZE=options.world_size,
               LOCAL_WORLD_SIZE=options.nproc, NODE_RANK=options.node_rank,
               MASTER_ADDR=options.master_addr, MASTER_PORT=options.master_port)
    os.environ.update({{name: str(value) for name, value in own.items()}})
    words = [os.path.expandvars(os.path.expanduser(word)) for word in options.arguments]
    path = (options.stdout or os.devnull).format(rank=rank) if local else None
    out = open(path, "a") if path else None
    ranks.append(subprocess.Popen([*python, options.program, *words], stdout=out))
sys.exit(max(rank.wait() for rank in ranks))
END
"""
PROGRAM = """
import json, os, pathlib, sys
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR",
         "COMPOSER_RUN_NAME")
seen = {name: os.environ.get(name) for name in names} | {"arguments": sys.argv[1:]}
pathlib.Path(f"rank.{seen['RANK']}").write_text(json.dumps(seen))
print("rank", seen["RANK"])
sys.exit(int(seen["RANK"] == os.environ.get("FAILS")) * 7)
"""
SCONTROL = "[[ $1 != show ]] || printf 'node-1\\nnode-2\\n'"
STAND_INS = {"srun": SRUN, "composer": COMPOSER, "scontrol": SCONTROL}


def run(folder: pathlib.Path, environment: dict[str, str] | None = None, **keys: object) -> Run:
    (folder / "train.py").write_text(PROGRAM)
    common = {"framework": "composer", "nodes": 2, "ranks_per_node": 2, "script": "train.py"}
    text = script(**{**common, **keys})
    return run_script(folder, text, stand_ins=STAND_INS, environment=environment or {})


def seen_by(folder: pathlib.Path) -> list[dict[str, object]]:
    return [json.loads((folder / f"rank.{rank}").read_text()) for rank in range(4)]


def test_four_ranks_on_two_nodes_are_one_world(tmp_path: pathlib.Path) -> None:
    end = run(tmp_path, args={"lr": "1e-4", "name": "a b'c"})
    assert (end.code, end.reasons) == (0, ["completed"]), end.log
    ranks = seen_by(tmp_path)
    assert [one["RANK"] for one in ranks] == ["0", "1", "2", "3"]
    assert [one["LOCAL_RANK"] for one in ranks] == ["0", "1", "0", "1"]
    assert [one["NODE_RANK"] for one in ranks] == ["0", "0", "1", "1"]
    assert {one["WORLD_SIZE"] for one in ranks} == {"4"}
    assert {one["MASTER_ADDR"] for one in ranks} == {"node-1"}
    assert {one["COMPOSER_RUN_NAME"] for one in ranks} == {"a"}
    assert all(one["arguments"] == ["--lr", "1e-4", "--name", "a b'c"] for one in ranks)


def test_the_output_of_other_ranks_goes_into_files_of_their_own(tmp_path: pathlib.Path) -> None:
    end = run(tmp_path, composer={"stdout": f"{tmp_path}/{{rank}}.out", "verbose": True})
    assert end.code == 0, end.log
    assert [(tmp_path / f"{rank}.out").read_text() for rank in (1, 3)] == ["rank 1\n", "rank 3\n"]
    assert "rank 2" in end.log


def test_a_prefix_is_run_as_a_command(tmp_path: pathlib.Path) -> None:
    end = run(tmp_path, prefix=["env", "FAILS=none"])
    assert end.code == 0, end.log
    assert len(seen_by(tmp_path)) == 4


def test_the_job_has_the_exit_code_of_a_rank_that_fails(tmp_path: pathlib.Path) -> None:
    end = run(tmp_path, {"FAILS": "3"})
    assert (end.code, end.reasons) == (7, ["failure"]), end.log


@pytest.mark.parametrize("launcher", ["torchrun", "srun"])
def test_other_launchers_set_the_rank_of_the_node_too(
    launcher: str, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    text = script(framework="composer", launcher=launcher, script="train.py", ranks_per_node=1)
    torchrun = 'while [[ $1 == --* ]]; do shift; done; RANK=0 exec python3 "$@"'
    srun = 'while [[ $1 == --* ]]; do shift; done; SLURM_NODEID=0 SLURM_PROCID=0 exec "$@"'
    stand_ins = {"srun": srun, "torchrun": torchrun}
    end = run_script(tmp_path, text, stand_ins=stand_ins, environment={"SLURM_NTASKS": "1"})
    assert end.code == 0, end.log
    assert json.loads((tmp_path / "rank.0").read_text())["NODE_RANK"] == "0"

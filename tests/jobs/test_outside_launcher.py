"""The launcher of an outside package starts ranks in a real Slurm, with the real accelerate."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import venv

import pytest

pytestmark = [pytest.mark.lab, pytest.mark.slow]


@pytest.fixture(scope="module")
def accelerate(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """An environment with accelerate and the project's own torch; a skip where pip has no index."""
    pytest.importorskip("torch", reason="needs the extra 'train'")
    folder = tmp_path_factory.mktemp("accelerate") / "venv"
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    projects = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "projects.pth").write_text("".join(f"{path}\n" for path in projects))
    pip = [folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install"]
    done = subprocess.run(
        [*pip, "--quiet", "accelerate==1.15.0"], capture_output=True, text=True, timeout=300
    )
    if done.returncode:
        pytest.skip(f"accelerate cannot be installed: {done.stderr.strip().splitlines()[-1]}")
    return folder


@pytest.mark.parametrize("framework", ["my-trainer", "torchrun"])
def test_accelerate_starts_the_ranks_of_two_nodes(
    jobs, accelerate: pathlib.Path, outside_package, framework: str
) -> None:
    spec = jobs.spec(
        f"accelerate-{framework}",
        framework=framework,
        launcher="my-accelerate",
        software={"venv": str(accelerate)},
    )
    ended = jobs.run(spec)
    assert ended.exit_code == 0, ended.log
    first, second = jobs.lab.facts.nodes
    assert sorted(ended.ranks) == [0, 1, 2, 3]
    for rank, record in ended.ranks.items():
        assert record["WORLD_SIZE"] == "4"
        assert record["LOCAL_RANK"] == str(rank % 2)
        assert record["host"] == (first if rank < 2 else second)
        assert record["MASTER_ADDR"] == first
        assert record["environment"]["ACCELERATE_MIXED_PRECISION"] == "no"  # accelerate's own
    if framework == "my-trainer":
        assert ended.ranks[0]["arguments"] == ["--steps", "1000", "--precision", "fp32"]

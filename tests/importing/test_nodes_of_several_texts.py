"""clusters import: a further text of a cluster makes nothing unknown that was known."""

from __future__ import annotations

import itertools
import pathlib

import pytest
import yaml

from clusterjobs.cli.main import run

PARTITION = (
    "PartitionName=gpu Default=YES MaxTime=2-00:00:00 Nodes=g[1-2] State=UP TotalCPUs=128"
    " TotalNodes=2 TRES=cpu=128,mem=1000G,node=2,gres/gpu=8,gres/gpu:a100=8\n"
    "PartitionName=all Default=NO MaxTime=1-00:00:00 Nodes=g[1-2],c[1-2] State=UP TotalCPUs=256"
    " TotalNodes=4 TRES=cpu=256,mem=2000G,node=4,gres/gpu=8,gres/gpu:a100=8\n"
)
ONLY_GPU = PARTITION.splitlines()[0] + "\n"
LONG = """\
NODELIST NODES PARTITION STATE CPUS S:C:T MEMORY TMP_DISK WEIGHT AVAIL_FE REASON
g1 1 gpu* idle 64 2:32:1 512000 0 1 (null) none
g2 1 gpu* idle {cpus} 2:32:1 256000 0 1 (null) none
"""
PLAIN = "PARTITION AVAIL TIMELIMIT NODES STATE NODELIST\ngpu* up 2-00:00:00 2 idle g[1-2]\n"
COUNTED = "PARTITION AVAIL TIMELIMIT NODES STATE\ngpu* up 2-00:00:00 2 idle\n"


def _described(
    texts: tuple[str, ...], folder: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> str:
    files = [folder / f"{number}.txt" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    assert run(["clusters", "import", "--from-files", *map(str, files)]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("sinfo", [LONG.format(cpus=64), PLAIN, COUNTED])
def test_the_totals_of_a_partition_complete_the_nodes_of_sinfo_in_any_order(
    sinfo: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for texts in itertools.permutations((sinfo, ONLY_GPU)):
        found = yaml.safe_load(_described(texts, tmp_path, capsys))
        for one in found["node_types"].values():
            assert (one["cpus"], one["gpus"], one["gpu_type"]) == (64, 4, "a100")
        assert sum(found["partitions"]["gpu"]["nodes"].values()) == 2


def test_nodes_with_other_cpus_than_their_part_are_said_to_be_unknown(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = _described((LONG.format(cpus=32), ONLY_GPU), tmp_path, capsys)
    types = yaml.safe_load(text)["node_types"].values()
    assert [(one["cpus"], one.get("gpus")) for one in types] == [(64, 4), (32, None)]
    assert "# the GPUs of g2 are unknown: it has 32 CPUs" in text


def test_a_node_has_its_part_of_its_smallest_partition_alone(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for texts in ((PARTITION,), (LONG.format(cpus=64), PARTITION)):
        text = _described(texts, tmp_path, capsys)
        of_gpu = yaml.safe_load(text)["partitions"]["gpu"]["nodes"]
        types = yaml.safe_load(text)["node_types"]
        assert {types[name]["gpus"] for name in of_gpu} == {4}
        (other,) = types.keys() - of_gpu.keys()
        assert "gpus" not in types[other]  # an equal part would be 2

from __future__ import annotations

import json
import pathlib
import re

import pytest
from single_changes import base_text

from clusterjobs.cli.main import run
from clusterjobs.clusters.source import cluster_names

Capture = pytest.CaptureFixture[str]

OLD = """\
Image: {Os: alinux2}   # ours
Scheduling: {Scheduler: slurm, SlurmQueues: []}
"""


@pytest.fixture
def at_us_east_1(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site.yaml").write_text("region: us-east-1\n")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("at_us_east_1")
def test_list_has_a_row_for_every_ready_config_and_dates_its_prices(capsys: Capture) -> None:
    assert run(["clusters", "list"]) == 0
    out = capsys.readouterr().out
    for name in cluster_names():
        assert f"\n{name} " in out
    assert re.search(
        r"16 x p4d.24xlarge +8 x A100 40 GB +4 x efa +/fsx +351.32 +clusterjobs\n", out
    )
    assert (
        "price of p4d.24xlarge in us-east-1, on demand: AWS's public price list, Linux, 2026-11\n"
        in out
    )


def test_without_a_region_there_is_no_price(
    capsys: Capture, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["clusters", "list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["region"] for row in rows} == {None}
    assert not [node for row in rows for node in row["nodes"] if node["price"]]


@pytest.mark.parametrize(
    ("old", "new", "has_price"),
    [
        ("", "", True),
        ("Region: us-east-1", "Region: eu-west-1", False),
        ("CapacityType: ONDEMAND", "CapacityType: SPOT", False),
        ("CapacityType: ONDEMAND", "CapacityType: CAPACITY_BLOCK", False),
        (
            "InstanceType: p4d.24xlarge",
            "Instances: [{InstanceType: p4d.24xlarge}, {InstanceType: p4de.24xlarge}]",
            False,
        ),
    ],
)
def test_a_price_is_of_its_own_region_purchase_and_type(
    capsys: Capture, tmp_path: pathlib.Path, old: str, new: str, has_price: bool
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(base_text("p4d-a100").replace(old, new) if old else base_text("p4d-a100"))
    assert run(["clusters", "show", str(file)]) == 0
    out = capsys.readouterr().out
    assert ("21.96" in out) == has_price
    assert ("prices of some types in us-east-1 on demand" in out) != has_price


@pytest.mark.usefixtures("at_us_east_1")
def test_list_as_json(capsys: Capture) -> None:
    assert run(["clusters", "list", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    (nodes,) = rows["p4d-a100"]["nodes"]
    assert (nodes["max_nodes"], nodes["gpus"], nodes["efa_interfaces"]) == (16, 8, 4)
    assert nodes["price"]["date"] == "2026-11"
    assert nodes["usd_per_hour_all"] == pytest.approx(16 * 21.957642)
    assert rows["small"]["storage"][0]["directory"] == "/fsx"


def test_show_tells_nodes_storage_and_slurm(capsys: Capture) -> None:
    assert run(["clusters", "show", "p4d-a100"]) == 0
    out = capsys.readouterr().out
    assert "train-dy-p4d-[1-16]" in out
    assert "/fsx  FsxLustre PERSISTENT_2  9600 GiB  2343 MB/s" in out
    assert "8 x A100 40 GB" in out


def test_show_reads_a_config_of_the_users(capsys: Capture, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(base_text("wide"))
    assert run(["clusters", "show", str(file), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in data["nodes"]] == ["p4d", "some"]
    assert data["region"] == "us-east-1"


def test_show_of_what_is_unknown_leaves_blanks(capsys: Capture, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("Scheduling: {SlurmQueues: [{Name: q, ComputeResources: [{MaxCount: <n>}]}]}")
    assert run(["clusters", "show", str(file)]) == 0
    assert "no price (-)" in capsys.readouterr().out


def test_numbers_of_a_type_that_is_not_known_are_unknown_and_not_zero(
    capsys: Capture, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(base_text("p4d-a100").replace("p4d.24xlarge", "p99.24xlarge"))
    assert run(["clusters", "show", str(file)]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if "p99.24xlarge" in line)
    assert re.search(r"ONDEMAND +\? +\? +\? +\? +\? +\? +-$", row)
    assert run(["clusters", "show", str(file), "--json"]) == 0
    (nodes,) = json.loads(capsys.readouterr().out)["nodes"]
    assert (nodes["gpus"], nodes["vcpus"], nodes["efa_interfaces"]) == (None, None, None)


@pytest.mark.parametrize("types", [("c5a.large", "t2.micro"), ("t2.micro", "c5a.large")])
def test_of_several_types_the_smallest_numbers_are_shown(
    capsys: Capture, tmp_path: pathlib.Path, types: tuple[str, str]
) -> None:
    instances = ", ".join(f"{{InstanceType: {name}}}" for name in types)
    text = base_text("p4d-a100").replace("InstanceType: p4d.24xlarge", f"Instances: [{instances}]")
    file = tmp_path / "c.yaml"
    file.write_text(text)
    assert run(["clusters", "show", str(file), "--json"]) == 0
    (nodes,) = json.loads(capsys.readouterr().out)["nodes"]
    assert (nodes["vcpus"], nodes["memory_gib"], nodes["gpus"]) == (1, 1, 0)


def test_accelerators_are_shown(capsys: Capture, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(base_text("p4d-a100").replace("p4d.24xlarge", "trn1.32xlarge"))
    assert run(["clusters", "show", str(file)]) == 0
    assert "16 x Trainium" in capsys.readouterr().out


# ------------------------------------------------------------------ diff


def diff(capsys: Capture, folder: pathlib.Path, old: str, new: str) -> dict[str, dict[str, str]]:
    for name, text in (("old", old), ("new", new)):
        (folder / f"{name}.yaml").write_text(text)
    names = [str(folder / "old.yaml"), str(folder / "new.yaml")]
    assert run(["clusters", "diff", *names, "--json"]) == 0
    return {row["path"]: row for row in json.loads(capsys.readouterr().out)}


def test_diff_is_of_meaning_and_not_of_text(capsys: Capture, tmp_path: pathlib.Path) -> None:
    old = base_text("small")
    new = "# other\n" + old.replace("Os: ubuntu2204", 'Os: "ubuntu2204"').replace(
        "          MinCount: 0\n", ""
    )
    assert new != old
    assert diff(capsys, tmp_path, old, new) == {}


QUEUE = "Scheduling.SlurmQueues[train]"
TYPE = f"{QUEUE}.ComputeResources[small].InstanceType"


@pytest.mark.aws
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("old", "new", "path", "when"),
    [
        ("MaxCount: 2", "MaxCount: 4", f"{QUEUE}.ComputeResources[small].MaxCount", "running"),
        ("MaxCount: 2", "MaxCount: 1", f"{QUEUE}.ComputeResources[small].MaxCount", "stopped"),
        ("c6i.xlarge", "c6i.large", TYPE, "stopped"),
        ("InstanceType: t3.medium", "InstanceType: t3.large", "HeadNode.InstanceType", "cluster"),
        ("Os: ubuntu2204", "Os: rhel9", "Image.Os", "cluster"),
        (
            "JobExclusiveAllocation: true",
            "JobExclusiveAllocation: false",
            f"{QUEUE}.JobExclusiveAllocation",
            "running",
        ),
        ("- Name: train", "- Name: other", "Scheduling.SlurmQueues[other]", "running"),
        ("- Name: train", "- Name: other", "Scheduling.SlurmQueues[train]", "stopped"),
    ],
)
def test_diff_says_what_a_running_cluster_takes(
    capsys: Capture, tmp_path: pathlib.Path, old: str, new: str, path: str, when: str
) -> None:
    pytest.importorskip("pcluster")
    good = base_text("small")
    assert good.count(old) == 1
    found = diff(capsys, tmp_path, good, good.replace(old, new))
    assert found[path]["when"] == when
    assert bool(found[path]["needs"]) == (when not in ("running", "replaced"))


@pytest.mark.aws
@pytest.mark.filterwarnings("ignore")
def test_diff_knows_that_a_queue_update_strategy_replaces_nodes(
    capsys: Capture, tmp_path: pathlib.Path
) -> None:
    pytest.importorskip("pcluster")
    good = base_text("p4d-a100")
    found = diff(capsys, tmp_path, good, good.replace("ONDEMAND", "SPOT"))
    assert found[f"{QUEUE}.CapacityType"]["when"] == "replaced"


def test_diff_without_parallelcluster_finds_the_same_paths(
    capsys: Capture, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clusterjobs.validation import optional_deps

    monkeypatch.setattr(optional_deps, "is_installed", lambda: False)
    good = base_text("small")
    found = diff(capsys, tmp_path, good, good.replace("c6i.xlarge", "c6i.large"))
    assert list(found) == [TYPE]
    assert found[TYPE]["when"] == ""


# ------------------------------------------------------------------ upgrade


def test_upgrade_shows_a_diff_and_writes_only_when_told(
    capsys: Capture, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "old.yaml"
    file.write_text(OLD)
    assert run(["clusters", "upgrade", str(file)]) == 0
    shown = capsys.readouterr()
    assert "-Image: {Os: alinux2}   # ours\n+Image: {Os: alinux2023}   # ours" in shown.out
    assert "1 change for a new cluster; --write makes them" in shown.err
    assert file.read_text() == OLD
    assert run(["clusters", "upgrade", str(file), "--write"]) == 0
    assert file.read_text() == OLD.replace("alinux2}", "alinux2023}")
    capsys.readouterr()
    assert run(["clusters", "upgrade", str(file)]) == 0
    assert "nothing to change" in capsys.readouterr().out


def test_upgrade_exits_1_where_something_is_left(capsys: Capture, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "old.yaml"
    file.write_text(OLD.replace("alinux2", "centos7"))
    assert run(["clusters", "upgrade", str(file), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["changed"] == []
    assert report["left"][0]["line"] == 1


@pytest.mark.parametrize("command", ["list", "show", "diff", "upgrade"])
def test_help_has_examples(capsys: Capture, command: str) -> None:
    assert run(["clusters", command, "--help"]) == 0
    assert f"clusterjobs clusters {command}" in capsys.readouterr().out

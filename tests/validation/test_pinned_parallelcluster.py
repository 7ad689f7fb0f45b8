"""The pin of ParallelCluster: an update of it says what changes for the code that relies on it."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest
from parallelcluster_facts import RECORDED, changes

from clusterjobs.clusters.parallelcluster import source as read
from clusterjobs.validation import default_account, offline, upgrade
from clusterjobs.validation import own_checks as capacity
from clusterjobs.validation.account import region_names
from clusterjobs.validation.source_map import CLUSTER_VALIDATORS, DUPLICATED_KEYS, KEYS

ROOT = pathlib.Path(__file__).parents[2]
FACTS = RECORDED.read_text(encoding="utf-8").splitlines()


def recorded(kind: str) -> list[str]:
    return [line.partition(" ")[2] for line in FACTS if line.startswith(f"{kind} ")]


def constant(name: str) -> str:
    return next(line.partition(" = ")[2] for line in recorded("constant") if line.startswith(name))


@pytest.mark.aws
@pytest.mark.filterwarnings("ignore")
def test_the_installed_parallelcluster_is_the_one_that_the_code_was_written_for() -> None:
    pytest.importorskip("pcluster")
    # in a process of its own: a validator that a test before has run is there a second time
    program = pathlib.Path(__file__).with_name("parallelcluster_facts.py")
    installed = subprocess.run(
        [sys.executable, program], check=True, capture_output=True, text=True
    )
    found = changes(FACTS, installed.stdout.splitlines())
    assert not found, (
        "ParallelCluster changed. Check each line against the code, then run this file's sibling "
        "parallelcluster_facts.py to record it:\n" + "\n".join(found)
    )


def test_an_update_of_the_pin_says_what_changes() -> None:
    newer = [line.replace("version 3.16.1", "version 3.16.9") for line in FACTS]
    newer.remove("validator KeyPairValidator")
    newer.append("validator LunarPhaseValidator")
    assert changes(FACTS, newer) == [
        "- version 3.16.1",
        "+ version 3.16.9",
        "- validator KeyPairValidator",
        "+ validator LunarPhaseValidator",
    ]
    assert changes(FACTS, list(FACTS)) == []


def test_every_pin_is_the_recorded_version() -> None:
    (version,) = recorded("version")
    for file in ("pyproject.toml", "constraints.txt"):
        text = (ROOT / file).read_text(encoding="utf-8")
        assert re.findall(r"aws-parallelcluster==([\d.]+)", text) == [version], file


def test_our_tables_are_those_of_parallelcluster() -> None:
    assert recorded("region") == sorted(region_names())
    assert constant("DEFAULT_MAX_COUNT") == str(read.DEFAULT_MAX_COUNT)
    assert constant("DEFAULT_MIN_COUNT") == str(read.DEFAULT_MIN_COUNT)
    assert constant("DEFAULT_EPHEMERAL_DIR") == repr(read.DEFAULT_SCRATCH_DIR)
    assert constant("EBS_VOLUME_SIZE_DEFAULT") == str(default_account._DEFAULT_EBS_SIZE)
    systems = {new for _, new in upgrade._SUCCESSORS.values() if new}
    assert all(repr(new) in constant("SUPPORTED_OSES") for new in systems)
    assert not any(repr(old) in constant("SUPPORTED_OSES") for old in upgrade._SUCCESSORS)


def test_validators_that_are_located_exist() -> None:
    named = {*KEYS, *CLUSTER_VALIDATORS, *DUPLICATED_KEYS}
    assert named <= {*recorded("validator"), "AsyncTimedUrlValidator"}


def test_types_that_need_the_closed_driver_are_parallelclusters() -> None:
    families = re.findall(r"'(\w+)'", constant("NVIDIA_OPENRM_UNSUPPORTED_INSTANCE_TYPES"))
    names = [name for name in capacity.instance_type_names() if name.partition(".")[0] in families]
    assert {"p3dn.24xlarge", "p3.16xlarge", "p2.xlarge", "g3s.xlarge"} <= set(names)
    for name in capacity.instance_type_names():
        refused = bool(list(capacity._check_driver((), name)))
        assert refused == (name in names), name


FAKES = {
    "fsx": offline.Fsx,
    "iam": offline.Iam,
    "kms": offline.Kms,
    "resource_groups": offline.ResourceGroups,
    "route53": offline.HostedZones,
    "secretsmanager": offline.Secrets,
    "ssm": offline.Parameters,
}
BY_MOTO = ("ec2.", "efs.", "s3.")
# Of a virtual machine only the template of CloudFormation has the address; no validator reads it.
OF_TEMPLATES = {"fsx.describe_storage_virtual_machines"}
OTHERS = [one for one in recorded("call") if not one.startswith(BY_MOTO)]


@pytest.mark.parametrize("call", [one for one in OTHERS if one not in OF_TEMPLATES])
def test_every_call_that_moto_does_not_answer_is_answered_by_a_fake_client(call: str) -> None:
    client, _, method = call.partition(".")
    assert hasattr(FAKES[client], method)

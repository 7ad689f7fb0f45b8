from __future__ import annotations

import asyncio
import json
import logging
import os
import pathlib
import re
import socket
from collections.abc import Callable
from typing import Any

import pytest
from single_changes import base_text

from clusterjobs import resources
from clusterjobs.cli.main import run
from clusterjobs.validation import schema as check
from clusterjobs.validation.finding import Finding

EXAMPLES = resources.cluster_configs_dir().parent / "examples"
SITE = str(EXAMPLES / "site.yaml")

Validate = Callable[..., tuple[int, str, str]]


@pytest.fixture
def validate(capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> Validate:
    """Writes the texts to files and validates them; returns exit code, stdout and stderr."""

    def call(*texts: str, options: tuple[str, ...] = ()) -> tuple[int, str, str]:
        names = []
        for number, text in enumerate(texts):
            file = tmp_path / f"c{number}.yaml"
            file.write_text(text, encoding="utf-8")
            names.append(str(file))
        code = run(["validate", *names, *options])
        captured = capsys.readouterr()
        return (
            code,
            captured.out.replace(f"{tmp_path}/", ""),
            captured.err.replace(f"{tmp_path}/", ""),
        )

    return call


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("", "c0.yaml:1:1 the file is empty", "Scheduling: with SlurmQueues:"),
        ("# nothing\n", "the file is empty", "Scheduling: with SlurmQueues:"),
        (
            "[global]\ncluster_template = default\n[cluster default]\nbase_os = alinux2\n",
            "c0.yaml:1:1 a ParallelCluster 2 config",
            "pcluster3-config-converter",
        ),
        ("services: {web: {image: nginx}}\n", "not a ParallelCluster 3 config", "SlurmQueues"),
        ("just text\n", "not a ParallelCluster 3 config", "SlurmQueues"),
        ("- 1\n- 2\n", "not a ParallelCluster 3 config", "SlurmQueues"),
        ("Region: [\n", "not YAML", "bracket"),
        ("\x00\x01", "", ""),
        ("Scheduling: {Scheduler: awsbatch, AwsBatchQueues: []}\n", "AWS Batch", "SlurmQueues"),
    ],
)
def test_a_file_that_is_not_a_config_is_refused_with_location_and_hint(
    validate: Validate, text: str, what: str, hint: str
) -> None:
    code, _, err = validate(text)
    assert code == 1
    assert what in err
    assert hint in err


def test_the_config_of_many_specs_is_checked_once_and_its_notices_are_printed_once(
    validate: Validate, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = []
    (tmp_path / "site.yaml").symlink_to(SITE)

    def check_config(data: object, *_: object) -> check.Report:
        checked.append(data)
        notice = Finding("a notice of the config", ("Region",), "info")
        return check.Report((notice,), validators_ran=True)

    monkeypatch.setattr(check, "check_config", check_config)
    spec = "name: a{}\ncluster: small\nframework: command\ncommand: [/bin/true]\n"
    specs = [spec.format(number) for number in range(5)]
    code, out, err = validate(*specs)
    assert (code, len(checked)) == (0, 1), err
    assert err.count("a notice of the config") == 1
    assert out.count("  ok, warnings and notes: 1") == 5
    rows = json.loads(validate(*specs, options=("--json",))[1])["files"]
    assert [len(row["problems"]) for row in rows] == [1] * 5


def test_problems_of_all_files_are_reported_together(validate: Validate) -> None:
    code, out, err = validate("", base_text("small"), "[global]\n")
    assert code == 1
    assert "c0.yaml:1:1 the file is empty" in err
    assert "c2.yaml:1:1 a ParallelCluster 2 config" in err
    assert "c1.yaml  ok" in out


def test_a_missing_file_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", "cluster-configs/p4d-a10.yaml"]) == 1
    assert "there is no file cluster-configs/p4d-a10.yaml" in capsys.readouterr().err


def test_missing_site_values_are_named(validate: Validate) -> None:
    config = (resources.cluster_configs_dir() / "small.yaml").read_text()
    code, _, err = validate(config)
    assert code == 1
    assert "site.key_name" in err


# ------------------------------------------------------------------ with ParallelCluster

needs_aws = pytest.mark.aws
pytest.importorskip("pcluster")
pytest.importorskip("moto")


@needs_aws
@pytest.mark.filterwarnings("ignore")
def test_ready_configs_and_examples_are_fine(capsys: pytest.CaptureFixture[str]) -> None:
    names = [path.stem for path in resources.cluster_configs_dir().glob("*.yaml")]
    assert run(["validate", *names, "--site", SITE]) == 0
    assert capsys.readouterr().out.count("  ok") == len(names)


@needs_aws
@pytest.mark.filterwarnings("ignore")
def test_experiment_goes_through_with_its_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    spec = str(EXAMPLES / "tiny-gpt.yaml")
    assert run(["validate", spec, "--no-parser", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["parallelcluster_asked"]
    (file,) = report["files"]
    assert [row["validator"] for row in file["problems"]] == ["DeletionPolicyValidator"]
    assert file["problems"][0]["file"].endswith("small.yaml")


@needs_aws
@pytest.mark.filterwarnings("ignore")
def test_json_has_every_field(validate: Validate) -> None:
    config = base_text("p4d-a100").replace("StorageCapacity: 9600", "StorageCapacity: 5000")
    code, out, _ = validate(config, options=("--json",))
    (file,) = json.loads(out)["files"]
    assert code == 1
    assert not file["ok"]
    row = next(row for row in file["problems"] if row["level"] == "error")
    assert row["validator"] == "FsxStorageCapacityValidator"
    assert row["path"] == "SharedStorage[0].FsxLustreSettings.StorageCapacity"
    assert config.splitlines()[row["line"] - 1][row["column"] - 1 :] == "5000"
    assert {"file", "hint", "what"} <= row.keys()


@needs_aws
@pytest.mark.filterwarnings("ignore")
def test_the_account_file_overrides_the_simulated_account(
    validate: Validate, tmp_path: pathlib.Path
) -> None:
    account = tmp_path / "account.yaml"
    account.write_text("keys: {lab-key: {type: rsa}}\n")
    code, _, err = validate(base_text("small"), options=("--account", str(account)))
    assert code == 1
    assert "[KeyPairValidator]" in err


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("subnet: {}", "account.yaml:1:1 subnet: unknown key subnet", "did you mean subnets?"),
        ("keys: {k: {tpye: rsa}}", "unknown key tpye", "did you mean type?"),
        ("reservations: {r: {count: many}}", "expected an integer", "for example 12"),
        ("keys: {k: {missing: 1}}", "expected true or false", ""),
        ("- keys", "expected a mapping", "write `key: value` lines below it"),
        ("keys: {k: rsa}", "keys.k: expected a mapping", "write k: {type: ..., missing: ...}"),
    ],
)
def test_account_file_is_checked(
    validate: Validate, tmp_path: pathlib.Path, text: str, what: str, hint: str
) -> None:
    account = tmp_path / "account.yaml"
    account.write_text(text)
    code, _, err = validate(base_text("small"), options=("--account", str(account)))
    assert code == 1
    assert what in err
    assert hint in err


@needs_aws
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "facts",
    [
        "subnets: {subnet-0a1b2c3d4e5f60002: {missing: true}}",
        "subnets: {subnet-0a1b2c3d4e5f60002: {zone: mars-1a}}",
        "images: {ami-0a1b2c3d4e5f60001: {missing: true}}",
        "reservations: {cr-0a1b2c3d4e5f60001: {missing: true}}",
        "file_systems: {fs-0a1b2c3d4e5f60001: {missing: true}}",
        "file_systems: {fs-0a1b2c3d4e5f60002: {missing: true}}",
        "security_groups: {sg-0a1b2c3d4e5f60002: {missing: true}}",
        "placement_groups: {lab-group: {missing: true}}",
        "buckets: {lab-data: {missing: true}}",
        'others: {"arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore": {missing: true}}',
        "file_systems: {fs-0a1b2c3d4e5f60001: {zone: us-east-1z}}",
    ],
)
def test_a_missing_resource_is_a_finding_not_a_crash(
    validate: Validate, tmp_path: pathlib.Path, facts: str
) -> None:
    account = tmp_path / "account.yaml"
    account.write_text(facts)
    code, _, err = validate(base_text("wide"), options=("--account", str(account)))
    assert code == 1, err
    name = re.search(r"\b(?:arn:[^\"]+|[\w-]+-0a1b\w+|lab-\w+)", facts)
    assert name
    assert name[0] in err


@needs_aws
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("InstanceType: c6i.xlarge", "InstanceType: x99.huge"),
        ("InstanceType: t3.medium", "InstanceType:"),
        ("InstanceType: c6i.xlarge", "InstanceType: [c6i.xlarge]"),
        ("MaxCount: 2", "MaxCount: 99999999999999999999"),
        ("    - Name: train", "    - 5\n    - Name: train"),
        ("StorageType: Efs", "StorageType: Ftp"),
        ("Os: ubuntu2204", "Os: {a: b}"),
        ("HeadNode:\n", "HeadNode: none\nHeadNodes:\n"),
        ("Scheduler: slurm", "Scheduler: pbs"),
    ],
)
def test_invalid_values_are_findings_not_crashes(validate: Validate, old: str, new: str) -> None:
    config = base_text("small")
    assert old in config
    code, _, _ = validate(config.replace(old, new, 1))
    assert code == 1  # an internal error would be 3


# ------------------------------------------------------------------ side effects


@needs_aws
@pytest.mark.filterwarnings("ignore")
def test_the_process_is_unchanged_afterwards(
    validate: Validate, monkeypatch: pytest.MonkeyPatch
) -> None:
    import boto3

    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_PROFILE", "mine")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    session = object()
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", session)
    before = (dict(os.environ), list(logging.getLogger().handlers), logging.root.manager.disable)
    validate(base_text("wide"))
    after = (dict(os.environ), list(logging.getLogger().handlers), logging.root.manager.disable)
    assert after == before
    assert boto3.DEFAULT_SESSION is session


@needs_aws
@pytest.mark.filterwarnings("ignore")
def test_no_connection_is_made(validate: Validate, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    config = base_text("wide").replace(
        "s3://lab-data/bootstrap/head.sh", "https://x.example/head.sh"
    )
    code, _, err = validate(config)
    assert code == 0, err


@needs_aws
@pytest.mark.filterwarnings("ignore")
def test_only_the_results_are_printed(validate: Validate) -> None:
    code, out, err = validate(base_text("small"))
    assert (code, out) == (0, "c0.yaml: ok, warnings and notes: 1\n")
    assert err.startswith("c0.yaml:") or "/c0.yaml:" in err.splitlines()[0]
    assert len(err.splitlines()) == 4


@needs_aws
@pytest.mark.filterwarnings("ignore")
def test_it_works_in_a_thread_of_another_program(validate: Validate) -> None:
    """ParallelCluster uses asyncio's current loop, which threads do not have."""

    async def main() -> int:
        code, _, _ = await asyncio.to_thread(validate, base_text("wide"))
        return code

    assert asyncio.run(main()) == 0


@needs_aws
@pytest.mark.filterwarnings("ignore")
def test_a_problem_that_an_upgrade_fixes_hides_no_other_problem(validate: Validate) -> None:
    config = base_text("p4d-a100").replace("Os: ubuntu2204", "Os: alinux2")
    code, _, err = validate(config.replace("StorageCapacity: 9600", "StorageCapacity: 5000"))
    assert code == 1
    assert "[ConfigSchemaValidator]" in err
    assert "[FsxStorageCapacityValidator]" in err

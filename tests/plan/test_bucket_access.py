"""Buckets that the nodes may not read or write, by the config of their queue."""

from __future__ import annotations

import pytest
from plans import config_of, plan_of, queue

READS = {"data": [{"source": "s3://corpus/books", "target": "/shared/books"}]}
WRITES = {"checkpoints": {"path": "/shared/saved", "export": "s3://corpus/saved"}}
LOGS = {"logs": {"export": "s3://corpus/logs"}}
STORAGE = {"MountDir": "/shared", "Name": "s", "StorageType": "Efs"}
LUSTRE = {
    "MountDir": "/shared",
    "Name": "s",
    "StorageType": "FsxLustre",
    "FsxLustreSettings": {"StorageCapacity": 1200, "DeploymentType": "SCRATCH_2"},
}


def said(*rules: object, storage: object = STORAGE, **keys: object) -> list[tuple[str, str]]:
    """(key, what is warned of) where the queue's S3Access has these entries."""
    iam = {"Iam": {"S3Access": list(rules)}} if rules else {}
    nodes = queue("train", ("a", "c5.xlarge", 4), **iam)
    plan = plan_of(config_of(nodes, SharedStorage=[storage]), **keys)
    found = [one for one in plan.warnings if "s3://" in one.what]
    assert all(one.where for one in found)
    return [(one.path, one.what.partition("queue train ")[2]) for one in found]


def test_a_bucket_that_is_not_named_is_told_for_reading_and_for_writing() -> None:
    rule = {"BucketName": "other", "EnableWriteAccess": True}
    lacks = "its Iam.S3Access does not name it"
    assert said(rule, **READS) == [("data[0].source", f"may not read s3://corpus: {lacks}")]
    written = f"may not write to s3://corpus: {lacks}"
    assert said(rule, **WRITES) == [("checkpoints.export", written)]
    assert said(rule, **LOGS) == [("logs.export", written)]


def test_nodes_without_any_access_are_told() -> None:
    assert said(**READS) == [("data[0].source", "may not read s3://corpus: it has no Iam.S3Access")]


@pytest.mark.parametrize("name", ["corpus", "corp*", "*"])
def test_a_bucket_that_is_named_may_be_read_and_written_only_where_that_is_said(name: str) -> None:
    reads = {"BucketName": name}
    assert said(reads, **READS) == []
    lacks = "may not write to s3://corpus: its Iam.S3Access lacks EnableWriteAccess"
    assert said(reads, **WRITES) == [("checkpoints.export", lacks)]
    assert said({**reads, "EnableWriteAccess": True}, **READS, **WRITES, **LOGS) == []


def test_with_a_key_name_nothing_can_be_listed() -> None:
    rule = {"BucketName": "corpus", "KeyName": "books/*"}
    lacks = "may not read s3://corpus: its Iam.S3Access has a KeyName, with which nothing can be"
    assert said(rule, **READS) == [("data[0].source", f"{lacks} listed")]
    assert said(rule, {"BucketName": "corpus"}, **READS) == []


def test_of_several_entries_one_that_allows_it_is_enough() -> None:
    writes = {"BucketName": "corpus", "EnableWriteAccess": True}
    for rules in (({"BucketName": "corp*"}, writes), (writes, {"BucketName": "corp*"})):
        assert said(*rules, **READS, **WRITES) == []
    elsewhere = {"BucketName": "other", "EnableWriteAccess": True}
    assert len(said({"BucketName": "corpus"}, elsewhere, **WRITES)) == 1


def test_what_fsx_reads_and_writes_needs_nothing_of_the_nodes() -> None:
    assert said(storage=LUSTRE, **READS, **WRITES) == []
    copied = {"data": [{**READS["data"][0], "via": "copy"}]}
    assert len(said(storage=LUSTRE, **copied)) == 1


def test_folders_are_no_buckets() -> None:
    data = [{"source": "/home/me/books", "target": "/shared/books"}]
    assert said(data=data, checkpoints={"path": "/shared/c", "export": "/home/me/c"}) == []


def test_a_policy_or_a_role_may_give_what_the_config_does_not_say() -> None:
    for iam in (
        {"AdditionalIamPolicies": [{"Policy": "arn:aws:iam::aws:policy/AmazonS3FullAccess"}]},
        {"InstanceRole": "arn:aws:iam::123456789012:role/nodes"},
    ):
        nodes = queue("train", ("a", "c5.xlarge", 4), Iam=iam)
        plan = plan_of(config_of(nodes, SharedStorage=[STORAGE]), **READS)
        assert not [one for one in plan.warnings if "s3://" in one.what]


def test_the_hint_is_the_entry_that_is_missing() -> None:
    nodes = queue("train", ("a", "c5.xlarge", 4))
    plan = plan_of(config_of(nodes, SharedStorage=[STORAGE]), **READS, **LOGS)
    hints = [one.hint for one in plan.warnings if "s3://" in one.what]
    assert hints == [
        "Iam.S3Access of the queue needs {BucketName: corpus}, and the cluster an update",
        "Iam.S3Access of the queue needs {BucketName: corpus, EnableWriteAccess: true}, "
        "and the cluster an update",
    ]

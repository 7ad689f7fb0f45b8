"""Data that are copied before the training, checkpoints, and how often a job resumes from them."""

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainValidator

from clusterjobs.spec.field_types import (
    MAX_ITEMS,
    PATH_PATTERN,
    Budget,
    Count,
    Flag,
    Path,
    Seconds,
    path,
    scalar_text,
    size_in,
)
from clusterjobs.spec.model import ExpandedByNode, Key, Only, SpecModel, text_like
from clusterjobs.text import Text, Value, parts_of, show, without_points

# No `from __future__ import annotations`: pydantic would have to parse each annotation at start.

_BUCKET = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?:/[A-Za-z0-9!_.*'()/-]*)?")


def bucket(value: Any) -> str:
    """`s3://bucket/prefix`, with only the characters that S3 calls safe in keys."""
    text = scalar_text(value)
    if isinstance(text, Text) or not _BUCKET.fullmatch(text):
        raise ValueError(_about_bucket(text))
    return text


def _about_bucket(text: Value) -> str:
    start = parts_of(text)[0]
    is_named = isinstance(text, str) or (isinstance(start, str) and "/" in start[len("s3://") :])
    if not text.startswith("s3://") or not is_named:
        return f"{show(text)!r} is not a bucket: write s3://my-bucket/folder"
    name, _, key = show(text).removeprefix("s3://").partition("/")
    if not 3 <= len(name) <= 63:
        return f"{name!r} is not the name of a bucket: it has 3 to 63 characters, s3://my-bucket"
    if not _BUCKET.fullmatch(f"s3://{name}"):
        return (
            f"{name!r} is not the name of a bucket: only lowercase letters, digits, '.' and '-', "
            "at the ends letters or digits"
        )
    return f"{key!r} is not a prefix in S3: only letters, digits and !_.*'()-/"


def repository(value: Any) -> Value:
    """A source or target of data: `s3://bucket/prefix`, or a path on the cluster."""
    text = scalar_text(value)
    if "://" in show(text) or text.startswith(("s3:", "S3:")):
        return bucket(text)
    return path(text)


def export_target(value: Any) -> Value:
    """A target of exports: as a repository, whose prefix may have the name of a sweep's point."""
    text = scalar_text(value)
    if not text.startswith("s3://"):
        return repository(text)
    start = parts_of(text)[0]
    is_named = isinstance(start, str) and "/" in start.removeprefix("s3://")
    bucket(without_points(text, "point") if is_named else text)
    return text


_REPOSITORY = Only(text_like(rf"{_BUCKET.pattern}|(?!.*://|[sS]3:){PATH_PATTERN}"))
Repository = Annotated[Value, PlainValidator(repository), ExpandedByNode(), _REPOSITORY]
ExportTarget = Annotated[Value, PlainValidator(export_target), ExpandedByNode(), _REPOSITORY]


class Data(SpecModel):
    """A data set: its source, and the folder it is copied to, once or on every node."""

    source: Annotated[
        Repository,
        Key(
            "a folder, a file, or `s3://bucket/prefix`",
            "s3://my-bucket/pile",
            also_called=("from", "src", "url", "uri"),
        ),
    ]
    target: Annotated[
        Path,
        Key(
            "the folder where the job needs the data; nothing else may use it",
            "/fsx/data/pile",
            also_called=("to", "dest", "destination", "dst", "path"),
        ),
    ]
    scope: Annotated[
        Literal["shared", "node"],
        Key("`shared`: once. `node`: on every node, on its own disk", "node"),
    ] = "shared"
    via: Annotated[
        Literal["association", "copy"] | None,
        Key(
            "`association` or `copy`",
            "copy",
            default_is="an association if the source is a bucket and the target on FSx for Lustre, "
            "otherwise a copy",
        ),
    ] = None
    unpack: Annotated[
        Flag,
        Key("the source is an archive: tar (plain, gzip, bzip2, xz or zstd) or zip", "true"),
    ] = False
    verify: Annotated[
        Literal["record", "source", "contents"],
        Key(
            "what a later job compares before it uses an existing copy: the `record` of sizes and "
            "times, the `source` as well, or the `contents`, every byte",
            "source",
            renamed_from="data.check",
        ),
    ] = "record"
    overwrite: Annotated[
        Flag,
        Key(
            "also overwrite files in the target that were not staged",
            "true",
            see="staging.md#a-target-belongs-to-one-source",
        ),
    ] = False
    size_gib: Annotated[
        Annotated[Count, BeforeValidator(size_in("GiB"))] | None,
        Key(
            "the space that it needs: compared with an FSx for Lustre that the config creates, or "
            "with a node's local disks",
            "800",
        ),
    ] = None


class StagingKeys:
    """What is copied before the ranks start."""

    data: Annotated[
        tuple[Data, ...],
        Field(max_length=MAX_ITEMS),
        Key(
            "data sets that are staged before the ranks start",
            "[{source: s3://my-bucket/pile, target: /fsx/data/pile}]",
            schedules=False,
            adds_to="items",
            belongs_with=("storage",),
            see="staging.md",
        ),
    ] = ()


# ------------------------------------------------------------------ checkpoints
# The folder of the checkpoints, and where they are copied to.


# No `from __future__ import annotations`: pydantic would have to parse each annotation at start.


class Checkpoints(SpecModel):
    """The folder of the checkpoints, made before the training starts."""

    path: Annotated[
        Path,
        Key(
            "the folder, created before the training starts",
            "/fsx/checkpoints/gpt-1b",
            also_called=(
                "dir",
                "folder",
                "directory",
                "checkpoint_dir",
                "checkpoints_dir",
                "checkpoint_path",
                "ckpt_dir",
                "ckpt_path",
            ),
        ),
    ]
    export: Annotated[
        ExportTarget | None,
        Key(
            "a path or `s3://bucket/prefix` to which they are copied during the training",
            "s3://my-bucket/checkpoints",
            see="staging.md#exporting-checkpoints-and-logs",
        ),
    ] = None
    via: Annotated[
        Literal["association", "copy"] | None,
        Key(
            "how they are exported: `association` or `copy`",
            "copy",
            default_is="an association if the target is a bucket and the path on FSx for Lustre, "
            "otherwise a copy",
        ),
    ] = None
    overwrite: Annotated[Flag, Key("replace files in `export` that were not exported", "true")] = (
        False
    )
    marker: Annotated[
        Path | None,
        Key(
            "a file in the folder that the training rewrites after each complete checkpoint; it "
            "shows the job that there is a newer one",
            "latest",
            default_is="that of the framework",
            see="restarts.md",
        ),
    ] = None
    from_: Annotated[
        Literal["own", "any"],
        Key(
            "whose checkpoints the job may resume: `own`, saved with the same settings, or `any`",
            "any",
            see="restarts.md#checkpoints-of-another-training",
        ),
    ] = Field("own", alias="from")


class CheckpointsKeys:
    """What the training saves."""

    checkpoints: Annotated[
        Checkpoints | None,
        Key(
            "where the training saves its state, and what it resumes from",
            "{path: /fsx/checkpoints/gpt-1b}",
            schedules=False,
            belongs_with=("time", "storage"),
            references="plan",
            is_section=True,
        ),
    ] = None


# ------------------------------------------------------------------ restarts
# How often a job resumes from its checkpoints.


# No `from __future__ import annotations`: pydantic would have to parse each annotation at start.


class Restarts(SpecModel):
    """How often the job may resume from its checkpoints, for each reason that an attempt ends."""

    time_limit: Annotated[Budget, Key("maximum number of restarts after the time limit", "5")] = 0
    failure: Annotated[
        Budget,
        Key(
            "... after a crash",
            "1",
            also_called=(
                "max",
                "count",
                "retry",
                "retries",
                "max_retries",
                "max_restarts",
                "attempts",
            ),
        ),
    ] = 0
    node_failure: Annotated[
        Budget,
        Key("... after Slurm lost a node, or all ranks were gone while their launcher waited", "5"),
    ] = 3
    stalled: Annotated[
        Budget, Key("... after the ranks made no progress for `stall_seconds`", "1")
    ] = 3
    stall_seconds: Annotated[
        Seconds | None,
        Key("stop ranks that make no progress for so long", "1800", default_is="none"),
    ] = None
    grace_seconds: Annotated[
        Seconds, Key("how long the ranks have to save and end before the limit", "300")
    ] = 180
    signal: Annotated[
        Literal["USR1", "USR2", "TERM"] | None,
        Key(
            "`USR1`, `USR2` or `TERM`, also sent to the ranks (`launcher: srun`)",
            "USR1",
            default_is="none",
        ),
    ] = None


class RestartsKeys:
    """What happens after an attempt has ended."""

    restarts: Annotated[
        Restarts | None,
        Key(
            "how often the job may restart from its `checkpoints`",
            "{time_limit: 5}",
            schedules=True,
            default_is="with `checkpoints`, Slurm requeues the job after a lost node",
            belongs_with=("time",),
            is_section=True,
            beside={"signal": "restarts: {signal: USR1}"},
            see="restarts.md",
            also_called=("resume", "restart"),
        ),
    ] = None

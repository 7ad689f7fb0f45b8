"""The folder of the checkpoints, and where they are copied to."""

from typing import Annotated, Literal

from clusterjobs.spec.field_types import Flag, Path
from clusterjobs.spec.keys.staging import ExportTarget
from clusterjobs.spec.model import Key, SpecModel

# No `from __future__ import annotations`: pydantic would have to parse each annotation at start.


class Checkpoints(SpecModel):
    """The folder of the checkpoints, made before the training starts."""

    path: Annotated[
        Path, Key("the folder, created before the training starts", "/fsx/checkpoints/gpt-1b")
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

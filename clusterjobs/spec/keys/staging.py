"""The types of places where data come from and go to: buckets, and paths on the cluster.

Functions as in field_types.py. It must not know which key the value is for.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator

from clusterjobs.spec.field_types import path, scalar_text
from clusterjobs.spec.references import has_variable, show, without_points

_BUCKET = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?:/[A-Za-z0-9!_.*'()/-]*)?")


def bucket(value: Any) -> str:
    """`s3://bucket/prefix`, with only the characters that S3 calls safe in keys."""
    text = scalar_text(value)
    if not _BUCKET.fullmatch(text):
        raise ValueError(_about_bucket(text))
    return text


def _about_bucket(text: str) -> str:
    name, _, key = text.removeprefix("s3://").partition("/")
    if not text.startswith("s3://") or has_variable(name):
        return f"{show(text)!r} is not a bucket: write s3://my-bucket/folder"
    if not 3 <= len(name) <= 63:
        return f"{name!r} is not the name of a bucket: it has 3 to 63 characters, s3://my-bucket"
    if not _BUCKET.fullmatch(f"s3://{name}"):
        return (
            f"{name!r} is not the name of a bucket: only lowercase letters, digits, '.' and '-', "
            "at the ends letters or digits"
        )
    return f"{show(key)!r} is not a prefix in S3: only letters, digits and !_.*'()-/"


def repository(value: Any) -> str:
    """A source or target of data: `s3://bucket/prefix`, or a path on the cluster."""
    text = scalar_text(value)
    if "://" in text or text.lower().startswith("s3:"):
        return bucket(text)
    return path(text)


def export_target(value: Any) -> str:
    """A target of exports: as a repository, whose prefix may have the name of a sweep's point."""
    text = scalar_text(value)
    name, slash, prefix = text.removeprefix("s3://").partition("/")
    if not text.startswith("s3://"):
        return repository(text)
    bucket(f"s3://{name}{slash}{without_points(prefix, 'point')}")
    return text


Repository = Annotated[str, BeforeValidator(repository)]
ExportTarget = Annotated[str, BeforeValidator(export_target)]

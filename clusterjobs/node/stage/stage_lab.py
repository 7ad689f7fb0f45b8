"""Buckets in a lab of clusterjobs, which has no network: a folder of the lab stands for each."""

from __future__ import annotations

import os
from typing import Optional

from stage_log import SourceError

LAB = "/.lab"


def is_lab() -> bool:
    """Whether this node is one of a lab."""
    return os.path.exists(os.path.join(LAB, "lab.json"))


def folder_for(url: str) -> Optional[str]:
    """The folder that stands for `s3://bucket/prefix` here, or None. It may not exist yet."""
    bucket, _, prefix = url[len("s3://") :].partition("/")
    folder = os.path.join(LAB, "buckets", bucket)
    if not (url.startswith("s3://") and is_lab() and os.path.isdir(folder)):
        return None
    return os.path.join(folder, prefix).rstrip("/")


def source_for(url: str) -> str:
    """What to read instead of a source: the folder that stands for it, or the source itself."""
    folder = folder_for(url)
    if folder is None:
        return url
    if not os.path.lexists(folder):
        raise SourceError("%s: no objects found: in the lab, %s stands for it" % (url, folder))
    return folder

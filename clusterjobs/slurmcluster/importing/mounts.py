"""Finds the shared file systems in /proc/mounts, in the output of mount, and in /etc/exports."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from clusterjobs.slurmcluster.importing.records import Text

# The types of Linux (or of FUSE) for file systems that several nodes share. VAST and Isilon are
# mounted as NFS, IBM Storage Scale as gpfs.
_SHARED = {
    "nfs": "nfs",
    "nfs4": "nfs",
    "lustre": "lustre",
    "gpfs": "gpfs",
    "beegfs": "beegfs",
    "fuse.beegfs": "beegfs",
    "fhgfs": "beegfs",
    "wekafs": "weka",
    "weka": "weka",
    "ceph": "ceph",
    "fuse.ceph": "ceph",
    "fuse.ceph-fuse": "ceph",
    "panfs": "panfs",
    "glusterfs": "glusterfs",
    "fuse.glusterfs": "glusterfs",
    "pvfs2": "orangefs",
    "fuse.quobyte": "quobyte",
    "fuse.gcsfuse": "gcsfuse",
    "fuse.mount-s3": "s3",
    "fuse.s3fs": "s3",
    "dvs": "dvs",
    "cifs": "cifs",
}
_PROC = re.compile(r"(\S+) (/\S*) (\S+) (\S+) \d+ \d+\s*")
_MOUNT = re.compile(r"(\S+) on (/.*?) type (\S+) \((.*)\)\s*")
# amazon-efs-utils mounts through a tunnel of its own: 127.0.0.1
_EFS = re.compile(r"\.efs\.[a-z0-9-]+\.amazonaws\.com:|^127\.0\.0\.1:/")
_TOO_MANY = 4  # mounts of one folder, as the homes of users that autofs has mounted


def is_mounts(text: str) -> bool:
    """Whether most lines are those of /proc/mounts or mount."""
    lines = [line for line in text.splitlines() if line.strip()]
    fit = [line for line in lines if _PROC.fullmatch(line) or _MOUNT.fullmatch(line)]
    return bool(fit) and len(fit) * 2 > len(lines)


def shared_folders(text: Text) -> dict[str, str]:
    """The folders that are mounted from elsewhere, each with the kind of its file system."""
    found: dict[str, str] = {}
    automatic: set[str] = set()
    for line in text.lines:
        match = _PROC.fullmatch(line.text) or _MOUNT.fullmatch(line.text)
        if not match:
            continue
        source, folder, kind = _unescaped(match[1]), _unescaped(match[2]), match[3]
        if kind == "autofs":
            automatic.add(folder)
        elif kind == "fuse" and source == "mountpoint-s3":
            found[folder] = "s3"
        elif name := _SHARED.get(kind):
            is_efs = name == "nfs" and _EFS.search(source)
            found[folder] = "efs" if is_efs else name
    return _without_single_homes(found, automatic)


def _without_single_homes(found: dict[str, str], automatic: set[str]) -> dict[str, str]:
    """`/home` in place of `/home/ann`, `/home/bob`, ..."""
    by_parent: dict[str, list[str]] = {}
    for folder in found:
        by_parent.setdefault(str(PurePosixPath(folder).parent), []).append(folder)
    result = dict(found)
    for parent, folders in by_parent.items():
        kinds = {found[folder] for folder in folders}
        if parent != "/" and len(kinds) == 1 and (parent in automatic or len(folders) > _TOO_MANY):
            for folder in folders:
                del result[folder]
            result[parent] = kinds.pop()
    return dict(sorted(result.items()))


def exported_folders(text: Text) -> dict[str, str]:
    """The folders that this node itself gives to others by NFS: /etc/exports."""
    rows = [line.text.split("#")[0].split() for line in text.lines]
    return {row[0]: "nfs" for row in rows if len(row) > 1 and row[0].startswith("/")}


def _unescaped(text: str) -> str:
    """`\\040` is a blank: /proc/mounts writes blanks so."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)

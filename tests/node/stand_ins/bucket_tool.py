"""Stands in for aws and s5cmd, by the name it is called by: buckets are folders below $BUCKETS.

It answers as the tools do, as far as staging calls them. Sources: aws-cli's `s3api
list-objects-v2`, `s3api head-object`, `s3 sync` and `s3 cp`; s5cmd's README, "ls", "cp", "sync"
and "JSON output". What goes wrong is told by $FAULTS, a JSON file that counts down.
"""

from __future__ import annotations

import fcntl
import fnmatch
import hashlib
import itertools
import json
import os
import pathlib
import shlex
import shutil
import sys
from collections.abc import Iterator

BUCKETS = pathlib.Path(os.environ["BUCKETS"])
FAULTS = pathlib.Path(os.environ.get("FAULTS", "/nonexistent"))


def due(kind: str, name: str = "") -> bool:
    """Whether this fault is to happen now."""
    if not FAULTS.exists():
        return False
    with FAULTS.with_name("faults.lock").open("w") as lock:  # several aws run at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        return counted_down(kind, name)


def counted_down(kind: str, name: str) -> bool:
    faults = json.loads(FAULTS.read_text())
    left = faults.get(kind, 0)
    if isinstance(left, dict):
        left = left.get(name, 0)
        if left:
            faults[kind][name] = left - 1
    elif left:
        faults[kind] = left - 1
    FAULTS.write_text(json.dumps(faults))
    return bool(left)


def stop(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.exit(1)


def listed(bucket: str, prefix: str) -> Iterator[tuple[str, int, str]]:
    """The objects as a server may list them: too short, or without end."""
    rows = objects(bucket, prefix)
    endless = due("endless")
    for number in itertools.count():
        for key, size, etag in rows:
            lie = json.loads(FAULTS.read_text()).get("shorter", {}) if FAULTS.exists() else {}
            if key in lie:  # the ETag is that of the listed bytes
                size -= lie[key]
                etag = f'"{hashlib.md5((BUCKETS / bucket / key).read_bytes()[:size]).hexdigest()}"'
            yield (f"{key}-{number}" if endless and due("new keys") else key), size, etag
        if not endless:
            return


def objects(bucket: str, prefix: str) -> list[tuple[str, int, str]]:
    root, found = BUCKETS / bucket, []
    if not root.is_dir():
        stop("An error occurred (NoSuchBucket): The specified bucket does not exist")
    for path in root.rglob("*"):
        key = str(path.relative_to(root))
        if path.is_file() and key.startswith(prefix):
            data = path.read_bytes()
            found.append((key, len(data), f'"{etag(key, data)}"'))
    return sorted(found)


def part_sizes() -> dict[str, list[int]]:
    """By key, of objects that came in parts: each part's size, the last for all that follow."""
    path = BUCKETS / ".parts"
    return json.loads(path.read_text()) if path.exists() else {}


def etag(key: str, data: bytes) -> str:
    sizes, sums, at = part_sizes().get(key), [], 0
    if not sizes:
        return hashlib.md5(data).hexdigest()
    while at < len(data):
        size = sizes[min(len(sums), len(sizes) - 1)]
        sums.append(hashlib.md5(data[at : at + size]).digest())
        at += size
    return f"{hashlib.md5(b''.join(sums)).hexdigest()}-{len(sums)}"


def option(words: list[str], name: str) -> str:
    return words[words.index(name) + 1]


def deliver(key: str, source: pathlib.Path, target: pathlib.Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if due("forbid"):
        stop("An error occurred (AccessDenied) when calling the GetObject operation: Denied")
    if due("lose", key):
        return
    shutil.copyfile(source, target)
    if due("corrupt", key):
        data = bytearray(target.read_bytes())
        data[len(data) // 2] ^= 1
        target.write_bytes(data)


def bucket_path(url: str) -> tuple[str, str]:
    bucket, _, key = url[len("s3://") :].partition("/")
    return bucket, key


def wanted(name: str, filters: list[tuple[str, str]]) -> bool:
    last = "--include"
    for kind, pattern in filters:
        if fnmatch.fnmatchcase(name, pattern):
            last = kind
    return last == "--include"


def sync(
    source: str,
    target: str,
    filters: list[tuple[str, str]],
    no_links: bool,
    whole_paths: bool = False,
) -> None:
    """`whole_paths`: s5cmd's sync makes a `cp` of each file, whose filters see all of its path.

    All but the first slash, as s5cmd 2.3.0 did when it was tried.
    """
    if source.startswith("s3://"):
        bucket, prefix = bucket_path(source.rstrip("*").rstrip("/"))
        prefix = prefix + "/" if prefix else ""
        for key, size, _ in objects(bucket, prefix):
            name = key[len(prefix) :]
            path = pathlib.Path(target) / name
            is_there = path.exists() and path.stat().st_size == size
            if wanted(name, filters) and not is_there:
                deliver(key, BUCKETS / bucket / key, path)
        return
    bucket, prefix = bucket_path(target)
    for path in sorted(pathlib.Path(source).rglob("*")):
        name = str(path.relative_to(source))
        if path.is_symlink() and no_links:
            continue
        if path.is_file() and wanted(str(path).lstrip("/") if whole_paths else name, filters):
            place = BUCKETS / bucket / prefix / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)
    if due("train"):  # a checkpoint is written after the tool has looked what there is
        for name in ("step-2", "latest"):
            (pathlib.Path(source) / name).write_text("step-2")


def copy(source: str, target: str) -> None:
    if target.startswith("s3://"):
        bucket, key = bucket_path(target)
        (BUCKETS / bucket / key).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, BUCKETS / bucket / key)
        return
    bucket, key = bucket_path(source)
    deliver(key, BUCKETS / bucket / key, pathlib.Path(target))


def filters_and_places(words: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    filters, places, rest = [], [], iter(words)
    for word in rest:
        if word in ("--include", "--exclude"):
            filters.append((word, next(rest)))
        elif not word.startswith("--"):
            places.append(word)
    return filters, places


def aws(words: list[str]) -> None:
    if words[:2] == ["s3api", "list-objects-v2"]:
        rows = listed(option(words, "--bucket"), option(words, "--prefix"))
        most = int(option(words, "--max-items"))
        start = int(option(words, "--starting-token")) if "--starting-token" in words else 0
        page = list(itertools.islice(rows, start, start + most + 1))
        token = str(start + most) if len(page) > most else None
        sys.stdout.write(json.dumps({"rows": page[:most] or None, "next": token}))
    elif words[:2] == ["s3api", "head-object"]:
        kind = "aws:kms" if due("kms") else "AES256"
        head: dict[str, object] = {"ServerSideEncryption": kind}
        if "--part-number" in words:
            head["ContentLength"] = part_sizes()[option(words, "--key")][0]
        sys.stdout.write(json.dumps(head))
    elif words[:2] == ["s3", "sync"]:
        filters, places = filters_and_places(words[2:])
        sync(*places, filters, "--no-follow-symlinks" in words)
    else:
        assert words[:3] == ["s3", "cp", "--only-show-errors"], words
        copy(*words[3:])


def copy_by_s5cmd(words: list[str]) -> None:
    assert words[:2] == ["cp", "--raw"], words
    copy(*words[2:])
    if pathlib.Path(words[3]).exists():
        done = {"operation": "cp", "success": True, "source": words[2], "destination": words[3]}
        sys.stdout.write(json.dumps(done) + "\n")


def s5cmd(words: list[str]) -> None:
    if words[0] == "--retry-count":
        words = words[2:]
    if words[:2] == ["--json", "ls"]:
        bucket, prefix = bucket_path(words[2].rstrip("*"))
        if not objects(bucket, prefix):
            stop(f'ERROR "ls {words[2]}": no object found')
        for key, size, etag in listed(bucket, prefix):
            row = {"key": f"s3://{bucket}/{key}", "etag": etag.strip('"'), "type": "file"}
            sys.stdout.write(json.dumps({**row, "size": size} if size else row) + "\n")
    elif words[:3] == ["--log", "error", "sync"]:
        filters, places = filters_and_places(words[3:])
        sync(*places, filters, "--no-follow-symlinks" in words, whole_paths=True)
    elif words[:4] == ["--log", "error", "cp", "--raw"]:
        copy(*words[4:])
    elif words[:2] == ["--json", "run"]:
        for line in pathlib.Path(words[2]).read_text().splitlines():
            copy_by_s5cmd(shlex.split(line))
    else:
        assert words[0] == "--json", words
        copy_by_s5cmd(words[1:])


def main() -> None:
    tool = pathlib.Path(sys.argv[0]).name
    with (BUCKETS / ".calls").open("a") as calls:
        calls.write(json.dumps([tool, *sys.argv[1:]]) + "\n")
    if due("fail"):
        stop("An error occurred (InternalError) when calling: We encountered an internal error")
    if due("deny"):
        stop("An error occurred (AccessDenied) when calling the ListObjectsV2 operation: Denied")
    {"aws": aws, "s5cmd": s5cmd}[tool](sys.argv[1:])


main()

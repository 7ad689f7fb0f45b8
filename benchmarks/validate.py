"""Compare the time of `clusterjobs validate` with a real `pcluster create-cluster --dryrun`.

    python benchmarks/validate.py [--repeat 5]

Everything is measured in the same run, on the same config, against a simulated account. The real
command needs Node.js. Exit code 1 if a ratio is above its limit.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "validation"))

import click  # noqa: E402
from moto_server import SUCCEEDED, dry_run_at, served  # noqa: E402
from single_changes import base_text  # noqa: E402

from clusterjobs.validation.schema import check_config, check_schema  # noqa: E402
from clusterjobs.yaml.document import load  # noqa: E402

NAME = "p4d-a100"
FIRST, FURTHER, SCHEMA_SECONDS = 1.5, 0.2, 0.1


def timed(action: Callable[[], object]) -> float:
    """The seconds that an action takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def real_seconds(folder: pathlib.Path) -> float:
    """The time of the command alone, without starting the server."""
    text = base_text(NAME)
    with served(text) as address:
        return timed(lambda: real(address, text, folder))


def real(address: str, text: str, folder: pathlib.Path) -> None:
    """Run ParallelCluster's command."""
    answer = dry_run_at(address, text, folder)
    assert answer["message"] == SUCCEEDED, answer


def first(file: pathlib.Path) -> None:
    """Run the command in a new process, with all imports."""
    command = str(pathlib.Path(sys.executable).with_name("clusterjobs"))
    subprocess.run([command, "validate", str(file)], check=True, capture_output=True)


def main() -> int:
    """Measure, print a table, compare with the limits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5)
    repeat = parser.parse_args().repeat
    text = base_text(NAME)
    data = load(text, "c.yaml", rules="1.1").value
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        file = folder / "validated.yaml"
        file.write_text(text)
        check_config(data)  # warm-up: imports and reads data files
        rounds = [_round(folder, file, data) for _ in range(repeat)]
    return _report(*(statistics.median(column) for column in zip(*rounds, strict=True)))


def _round(folder: pathlib.Path, file: pathlib.Path, data: dict[str, Any]) -> list[float]:
    """Measure all four in one round, so that other load on the machine slows them equally."""
    return [
        real_seconds(folder),
        timed(lambda: first(file)),
        timed(lambda: check_config(data)),
        timed(lambda: check_schema(data, "us-east-1")),
    ]


def _report(real_: float, first_: float, further: float, schema: float) -> int:
    rows = [
        ("pcluster create-cluster --dryrun", real_, "", ""),
        ("first config, new process", first_, f"{first_ / real_:.2f} x", f"<= {FIRST} x"),
        ("each further config", further, f"{further / real_:.2f} x", f"<= {FURTHER} x"),
        ("schema only, after imports", schema, "", f"<= {SCHEMA_SECONDS} s"),
    ]
    for label, seconds, ratio, limit in rows:
        click.echo(f"{label:34} {seconds:7.3f} s  {ratio:>8}  {limit}")
    within = first_ <= FIRST * real_ and further <= FURTHER * real_ and schema <= SCHEMA_SECONDS
    click.echo("within the limits" if within else "ABOVE A LIMIT")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())

"""The schema and the validators of another release of ParallelCluster, in a process of its own.

A release is installed once, into a folder of the cache: the package alone, beside an older
setuptools, whose pkg_resources it imports. All else comes from the extra `aws`.
"""

import contextlib
import functools
import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import tempfile
import time

import click

from clusterjobs.clusters.parallelcluster.config import CURRENT
from clusterjobs.errors import one_problem
from clusterjobs.validation.account import Account
from clusterjobs.validation.finding import CRASH, Data, Finding

_WITH_SETUPTOOLS = "setuptools<81"
_CHILD = """
import sys
sys.path[0] = sys.argv[1]  # in place of the working folder
from clusterjobs.validation.releases import answer
answer(sys.argv[2] == "aws")
"""


def validate_release(release: str, with_aws: bool, data: Data, account: Account) -> list[Finding]:
    """What `validate_offline`, or `validate_with_aws`, finds with this release.

    Raises InputError if it is not in the cache, and cannot be installed.
    """
    from clusterjobs.validation.schema import newer_keys

    folder = release_folder(release)
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(folder), "aws" if with_aws else ""],
        input=pickle.dumps((data, account)),
        capture_output=True,
        check=False,
    )
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        return [Finding(f"{CRASH}: {last}", (), validator=f"ParallelCluster {release}")]
    found: list[Finding] = pickle.loads(done.stdout)  # written by `answer`
    return newer_keys(found, release)


def answer(with_aws: bool) -> None:
    """Read data and account and write the findings, in the process of the release."""
    from clusterjobs.validation.schema import validate_offline, validate_with_aws

    data, account = pickle.loads(sys.stdin.buffer.read())  # written by `validate_release`
    output, sys.stdout = sys.stdout.buffer, sys.stderr
    found = (validate_with_aws if with_aws else validate_offline)(data, account)
    output.write(pickle.dumps(found))


@functools.cache
def release_folder(release: str) -> pathlib.Path:
    """The folder with the release, installed now if it is not there. Raises InputError."""
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    folder = pathlib.Path(base) / "clusterjobs" / "parallelcluster" / release
    if folder.is_dir():
        return folder
    click.echo(f"installing ParallelCluster {release}, once, into {folder} ...", err=True)
    start = time.monotonic()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = tempfile.mkdtemp(prefix=f"{release}-", dir=folder.parent)
    except OSError as error:
        what = f"cannot write {error.filename}: {error.strerror}"
        raise one_problem(what, hint="name another cache: XDG_CACHE_HOME=FOLDER") from None
    try:
        _install(release, unfinished)
        with contextlib.suppress(OSError):  # another process was faster
            pathlib.Path(unfinished).rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    click.echo(f"installed in {time.monotonic() - start:.0f} s", err=True)
    return folder


def _install(release: str, target: str) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    packages = [f"aws-parallelcluster=={release}", _WITH_SETUPTOOLS]
    command = [*pip, "--no-deps", "--no-input", "--target", target, *packages]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "ERROR" in line] or [done.stderr]
        folder = pathlib.Path(target).parent / release
        raise one_problem(
            f"ParallelCluster {release} cannot be installed: {lines[-1].strip()}",
            hint="it needs the package index once: run this command on a machine that reaches it, "
            f"and copy {folder} from there. --release {CURRENT} needs nothing",
        )

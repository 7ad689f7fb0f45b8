"""A Mac can render: the commands that need no Slurm use nothing that only Linux has."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
# Hides what Python has on Linux alone ("Availability: Linux" in its documentation), and /proc.
# The only program on PATH is a bash 3.2 that fails, as a Mac's does with newer syntax.
WITHOUT_LINUX = """
import builtins, os, select, signal, sys, sysconfig, time
sysconfig.get_config_vars()  # of this Python; afterwards it would look for those of a Mac's

sys.platform = "darwin"
os.uname = lambda: os.uname_result(("Darwin", "mac", "23.0.0", "Darwin", "arm64"))
for module, names in {
    os: "epoll sched_getaffinity sched_setaffinity pidfd_open memfd_create eventfd O_TMPFILE "
        "O_PATH O_DIRECT posix_fallocate posix_fadvise copy_file_range splice getrandom unshare "
        "setns getxattr setxattr listxattr fdatasync sync_file_range pipe2",
    select: "epoll",
    signal: "pidfd_send_signal SIGRTMIN SIGRTMAX SIGPWR SIGSTKFLT sigtimedwait sigwaitinfo",
    time: "CLOCK_BOOTTIME",
}.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
import fcntl
for name in [one for one in vars(fcntl) if one.startswith(("F_OFD", "F_SETPIPE", "F_GETPIPE"))]:
    delattr(fcntl, name)

def refused(function):
    def call(path, *arguments, **options):
        if isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith(("/proc", "/sys/")):
            raise FileNotFoundError(2, "not on a Mac", os.fspath(path))
        return function(path, *arguments, **options)
    return call

builtins.open = refused(open)
for name in ("open", "stat", "lstat", "listdir", "scandir", "readlink"):
    setattr(os, name, refused(getattr(os, name)))

sys.modules.update(dict.fromkeys(("pcluster", "moto", "boto3")))  # the extra aws is not ours
from clusterjobs.cli.main import run
code = run(sys.argv[1:])
assert not os.path.exists("/proc/self/status")
sys.exit(code)
"""


@pytest.fixture
def mac(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with a spec, a config of a cluster, and the programs of a Mac."""
    bash = tmp_path / "bin" / "bash"
    bash.parent.mkdir()
    bash.write_text("#!/bin/sh\necho syntax error >&2\nexit 2\n")
    bash.chmod(0o755)
    (tmp_path / "site.yaml").write_bytes((ROOT / "tests/cases/site.yaml").read_bytes())
    (tmp_path / "own.yaml").write_bytes((ROOT / "cluster-configs/p4d-a100.yaml").read_bytes())
    (tmp_path / "exp.yaml").write_text(
        "name: a\nsetup: ['[[ -v HOME ]]']\ncluster: ./own.yaml\nnodes: 2\n"
        "framework: torchrun\nscript: train.py\n"
        "data: [{source: s3://bucket/books, target: /fsx/books}]\npreflight: true\n"
        "checkpoints: {path: /fsx/a}\nrestarts: {failure: 2}\n"
        "sweep: {grid: {args.lr: [1, 2]}}\n"
    )
    return tmp_path


def on_a_mac(folder: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_LINUX, *arguments],
        cwd=folder,
        env={"HOME": str(folder), "PATH": str(folder / "bin"), "LANG": os.environ.get("LANG", "C")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_the_commands_without_slurm_run_without_linux(mac: pathlib.Path) -> None:
    for arguments in (
        ("init", "--yes", "--cluster", "p4d-a100", "-o", "first.yaml"),
        ("plan", "exp.yaml"),
        ("render", "exp.yaml"),
        ("render", "exp.yaml", "--check"),
        ("diff", "exp.yaml"),
        ("show", "exp.yaml"),
        ("validate", "exp.yaml", "own.yaml"),
        ("advise", "examples/gpt2-345m.yaml"),
        ("explain", "batch"),
        ("examples", "--all", "-o", "again"),
        ("clusters", "list"),
    ):
        if arguments[0] == "advise":
            assert on_a_mac(mac, "examples", "gpt2-345m").returncode == 0
        done = on_a_mac(mac, *arguments)
        assert done.returncode == 0, (arguments, done.stderr)
    assert (mac / "generated" / "job.sh").read_text().startswith("#!/bin/bash -p\n")


def test_a_program_that_needs_proc_is_noticed(mac: pathlib.Path) -> None:
    """The commands above would fail if they read /proc: it is hidden."""
    program = WITHOUT_LINUX.partition("from clusterjobs")[0]
    done = subprocess.run(
        [sys.executable, "-c", program + "open('/proc/self/status')"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "not on a Mac" in done.stderr

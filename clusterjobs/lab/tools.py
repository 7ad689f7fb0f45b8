"""The programs that a lab and its jobs call, and the Debian packages that have them.

`python3 -m clusterjobs.lab.tools` checks this machine before anything is installed, so this module
imports nothing but the standard library and `errors`. Slurm and `ip` are not listed: `packages.py`
downloads them.
"""

import os
import shutil
import sys
from collections.abc import Iterator

from clusterjobs.errors import InputError, Problem

# An ordinary user's PATH on Debian has no sbin folders.
SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
# fmt: off
_PROGRAMS = {
    "util-linux": ("unshare", "nsenter", "setpriv", "setsid", "pivot_root"),
    "mount": ("mount", "umount"),
    "hostname": ("hostname",),
    "libc-bin": ("ldconfig", "getent"),
    "bash": ("bash",),
    "coreutils": (
        "basename", "cat", "cp", "date", "dirname", "env", "id", "ln", "mkdir", "mktemp", "mv",
        "rm", "rmdir", "sleep", "tail", "tee", "timeout", "tr", "true",
    ),
    "grep": ("grep",),
    "sed": ("sed",),
    "mawk": ("awk",),
    "findutils": ("find",),
}
# fmt: on


def check_tools() -> None:
    """Raise InputError with every program that is missing, and the packages to install."""
    if problems := list(_missing()):
        raise InputError(problems)


def _missing() -> Iterator[Problem]:
    path = f"{os.environ.get('PATH', os.defpath)}:{SBIN}"
    for package, programs in _PROGRAMS.items():
        if missing := [name for name in programs if not shutil.which(name, path=path)]:
            yield Problem(
                f"this machine lacks {', '.join(missing)}", hint=f"apt-get install {package}"
            )


def main() -> int:
    """0, or 1 with a message for each package that is missing."""
    problems = list(_missing())
    for problem in problems:
        sys.stderr.write(f"{problem.what}: {problem.hint}\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

"""How to install the packages of an optional extra."""

import importlib.metadata
import shlex


def how_to_install(extra: str) -> str:
    """The command that installs the packages of `extra` beside clusterjobs.

    It names the packages, not `clusterjobs[extra]`: clusterjobs may come from a checkout or a wheel
    that pip cannot find by its name.
    """
    mark = f"extra == '{extra}'"
    packages = [
        requirement.partition(";")[0].strip()
        for requirement in importlib.metadata.requires("clusterjobs") or ()
        if mark in requirement.replace('"', "'")
    ]
    return shlex.join(["pip", "install", *packages])

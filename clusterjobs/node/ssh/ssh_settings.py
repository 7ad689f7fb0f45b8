"""Makes what the nodes of a job need to reach each other by ssh: names, a port, a key, configs.

    ssh_settings.py              for one launch: a new key, and a free port
    ssh_settings.py PORT [KEY]   for an sshd that already runs on the nodes

It prints them as a line of JSON, the input of ssh_serve.py on every node. The key exists only in
unnamed files in memory, here and on the nodes. It is also sshd's host key, so it identifies a node.
"""

from __future__ import annotations

import json
import os
import pathlib
import secrets
import socket
import subprocess
import sys
import tempfile
from typing import Any

MEMORY = "/dev/shm"


def socket_name() -> str:
    """The name of ssh_serve.py's sockets: of this attempt, and unknown to other users."""
    attempt = os.environ.get("SLURM_RESTART_COUNT", "0")
    return f"clusterjobs-{os.environ['SLURM_JOB_ID']}-{attempt}-{secrets.token_hex(8)}"


def find_port() -> int:
    """A port derived from the job id, so that jobs on one node differ; below MASTER_PORT."""
    number = int(os.environ["SLURM_JOB_ID"])
    while True:
        port = 10000 + number % 2000
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)):
                return port  # the port is free
        number += 919


def make_key() -> dict[str, str]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        file = pathlib.Path(folder, "key")
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(file)]
        subprocess.run(command, check=True)
        return {"private": file.read_text(), "public": file.with_suffix(".pub").read_text()}


def unnamed_file(text: str) -> str:
    """The path of an unnamed file in memory; it disappears when this process ends."""
    file = os.open(MEMORY, os.O_TMPFILE | os.O_RDWR, 0o600)
    os.write(file, text.encode())
    return path_of(file)


def path_of(file: int) -> str:
    """A path to a file that this process has open, without spaces or quotes, for the same user."""
    return f"/proc/{os.getpid()}/fd/{file}"


def client_config(settings: dict[str, Any]) -> str:
    """Write a config for ssh, and return its path."""
    key, known, checking = "", "", "accept-new"  # ParallelCluster gives the same names to new nodes
    if "private" in settings:
        key, known, checking = unnamed_file(settings["private"]), f"* {settings['public']}", "yes"
    elif settings["file"]:
        key = path_of(os.open(settings["file"], os.O_RDONLY))
    lines = (
        *("Host *", f"Port {settings['port']}", "BatchMode yes", "LogLevel ERROR"),
        *(f"UserKnownHostsFile {unnamed_file(known)}", f"StrictHostKeyChecking {checking}"),
        *("GlobalKnownHostsFile /dev/null", "ServerAliveInterval 15"),
        *((f"IdentityFile {key}", "IdentitiesOnly yes") if key else ()),
    )
    return unnamed_file("\n".join((*lines, "")))


def server_config(settings: dict[str, Any], forced: str) -> str:
    """Write a config for sshd, return its path. `forced`: each login's command, unless ""."""
    lines = (
        *(f"Port {settings['port']}", f"HostKey {unnamed_file(settings['private'])}"),
        *(f"AuthorizedKeysFile {unnamed_file(settings['public'])}", "StrictModes no"),
        *("AuthenticationMethods publickey", "PermitRootLogin prohibit-password", "UsePAM no"),
        *("DisableForwarding yes", "ClientAliveInterval 15", "PidFile none", "LogLevel ERROR"),
        *("MaxStartups 1000", "MaxSessions 1000"),
        *((f"ForceCommand {forced}",) if forced else ()),
    )
    return unnamed_file("\n".join((*lines, "")))


if __name__ == "__main__":
    given = sys.argv[1:]
    own = {"port": int(given[0]), "file": "".join(given[1:])} if given else make_key()
    sys.stdout.write(json.dumps({"name": socket_name(), "port": find_port(), **own}) + "\n")

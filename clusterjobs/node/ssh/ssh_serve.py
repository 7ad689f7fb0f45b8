"""Runs on every node of a launch over ssh, inside the container if there is one. It starts an sshd
for this job only, the ranks that are requested through it, and on the first node the launcher.

    ssh_serve.py FOLDER NODE... -- LAUNCHER...

If FOLDER/command exists, it is the ranks' command, and the launcher starts FOLDER/rank for each
rank. The launcher gets no other text of the job, because it would pass it to a remote shell.
Without FOLDER/command, each command that the launcher starts by ssh is a rank; it runs in the job's
environment and folder.

The input is a line from ssh_settings.py; when the input ends, everything here ends.
"""

from __future__ import annotations

import json
import os
import pathlib
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from typing import Any

from ssh_node import Node, exit_code
from ssh_run import ENDING, block_signals
from ssh_settings import client_config, path_of, server_config

FOR_ANY_PROGRAM = ("HOME", "LD_LIBRARY_PATH", "PATH")


def main(place: str, *words: str) -> int:
    folder, end = pathlib.Path(place), words.index("--")
    settings = json.loads(os.fdopen(0, "rb", buffering=0, closefd=False).readline().decode())
    name = settings["name"]
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(f"\0{name}")
    listening.listen(1000)
    program = [sys.executable, str(pathlib.Path(__file__).with_name("ssh_run.py")), name]
    ssh_run = " ".join(map(shlex.quote, program))
    node, is_first = Node(), os.environ["SLURM_NODEID"] == "0"
    block_signals()  # for sshd, the launcher and their children
    if "private" in settings:
        node.start(node.watch, start_sshd(settings, folder, ssh_run), "sshd")
    if is_first:
        node.start(launch, node, settings, folder, ssh_run, words[:end], words[end + 1 :])
    for number in ENDING:
        signal.signal(number, node.end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    code: int = node.serve(listening)
    if is_first:
        shutil.rmtree(place, ignore_errors=True)
    return code


def start_sshd(settings: Any, folder: pathlib.Path, ssh_run: str) -> subprocess.Popen[bytes]:
    path = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin"
    sshd = shutil.which("sshd", path=path)
    if sshd is None:
        sys.exit("clusterjobs: no sshd here: install openssh-server on the nodes, or in the image")
    if os.getuid() == 0:  # as root, sshd needs an empty folder for privilege separation
        pathlib.Path("/run/sshd").mkdir(parents=True, exist_ok=True)
    forced = "" if (folder / "command").exists() else f"{ssh_run} shell"
    command = [sshd, "-D", "-e", "-f", server_config(settings, forced)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL)


def launch(
    node: Node, settings: Any, folder: pathlib.Path, ssh_run: str, nodes: Any, launcher: Any
) -> None:
    """Hold a connection to every node, and run the launcher."""
    ssh = shlex.quote(str(shutil.which("ssh")))
    write_program(folder / "ssh", f'{ssh} -F {client_config(settings)} "$@"')
    write_program(folder / "rank", f"{ssh_run} {shlex.quote(str(folder / 'command'))}")
    # One attempt per second. A node may first have to fetch the image.
    attempts = f"ConnectionAttempts={1800 if 'private' in settings else 60}"
    command = [str(folder / "ssh"), "-T", "-o", "ConnectTimeout=5", "-o", attempts]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    held: list[Any]
    held = [subprocess.Popen([*command, one, f"{ssh_run} hold"], **pipes) for one in nodes]
    for one, connection in zip(nodes, held):
        node.start(node.watch, connection, f"ssh to {one}")
    for connection in held:
        # A user's login shell may print something, too.
        if b"held\n" not in iter(connection.stdout.readline, b""):
            return
    process = start_launcher(node, folder, launcher)
    code = exit_code(process)
    node.end()
    node.code = code or node.code


def write_program(file: pathlib.Path, line: str) -> None:
    file.write_text(f"#!/bin/sh\nexec {line}\n")
    file.chmod(0o700)


def start_launcher(node: Node, folder: pathlib.Path, words: Any) -> subprocess.Popen[bytes]:
    environment, cwd = node.environment, None
    if (folder / "command").exists():
        environment = {k: v for k, v in environment.items() if k in FOR_ANY_PROGRAM}
        environment["PYTHONUNBUFFERED"], cwd = "1", "/"
    first = path_of(os.open(folder, os.O_RDONLY))  # `ssh`, with a path that needs no quotes
    environment = {**environment, "PATH": f"{first}:{environment['PATH']}"}
    return subprocess.Popen(words, env=environment, cwd=cwd, stdin=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

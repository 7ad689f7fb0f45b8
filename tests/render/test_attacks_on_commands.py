"""What another user, or a member of the same group, plants beside jobs: no command of their owner
writes into a file of his, prints an escape sequence, waits or reads without end."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from stand_in_slurm import StandInSlurm
from sweep_on_disk import SweepOnDisk
from two_users import OTHER, OWNER, TEAM, Place, needs_two_users, place_of_two_users

pytestmark = needs_two_users
MARK = "planted-by-another-user"
ESCAPE = r"\x1b]0;title\x07\x1b[7m"
OUR_STYLE = re.compile(r"\x1b\[(0|1|2|3\d|9\d)m")
SECONDS = 30  # for all commands together

VALUE = f"x\n{MARK}\x1b[7m\r"
POINT = {"name": VALUE, "values": {VALUE: VALUE}}
RECORD = json.dumps(
    {
        **dict.fromkeys(
            ("reason", "name", "nodes", "what", "said", "loss", "framework", VALUE), VALUE
        ),
        "attempt": 1,
        "exit_code": 1,
        "needs": [VALUE],
        "point": POINT,
        "sweep": VALUE,
    }
)
SUBMISSION = json.dumps(
    {
        **dict.fromkeys(("token", "user", "spec"), VALUE),
        "job_id": 7,
        "time": 1,
        "array": True,
        "points": {"0": f"../../{VALUE}"},
    }
)
# Lines of bash as the other user. $sweep: the sweep's folder, $point: that of a point, $job: that
# of a job, $own: a file of the owner's.
ATTACKS = {
    "a hard link as the record of submissions": "ln -f $own $sweep/submissions.jsonl",
    "a hard link as the lock": "ln -f $own $sweep/submit.lock",
    "a socket as the record of submissions": "socket $sweep/submissions.jsonl",
    "a socket as a log": "socket $job/job.log",
    "a pipe as a result": "rm -f $job/result.json; mkfifo $job/result.json",
    "a pipe as the lock": "mkfifo $sweep/submit.lock",
    "a link to a folder of another as a point": "mkdir away; mv $point old; ln -s $PWD/away $point",
    "a sweep's folder that leads away": "mkdir away; mv $sweep old; ln -s $PWD/away $sweep",
    "records of a tebibyte": "for one in attempts data plan.json result.json; do"
    " rm -f $job/$one*; truncate -s 1T $job/$one.jsonl $job/$one; done",
    "a record of submissions of a tebibyte": "truncate -s 1T $sweep/submissions.jsonl",
    "names of folders with line breaks and escape sequences": "cd $sweep && mkdir -p"
    rf" $'{MARK}\n{MARK}{ESCAPE}-12345678/7' $'{ESCAPE}/7' && cp -r $job $'{MARK}\n{MARK}{ESCAPE}'",
    "values of records with line breaks and escape sequences": "for one in attempts.jsonl plan.json"
    f" result.json data.jsonl; do rm -f $job/$one; printf %s {shlex.quote(RECORD)} > $job/$one;"
    " done",
    "a log with escape sequences": rf"rm -f $job/job.log; printf '{ESCAPE}\r\nstep 1 loss {ESCAPE}'"
    " > $job/job.log",
    "submissions of others with escape sequences": "rm -f $sweep/submissions.jsonl;"
    f" printf %s {shlex.quote(SUBMISSION)} > $sweep/submissions.jsonl",
    "a folder that changes its place without end": "cp -r $job twin; ln -s $own twin/planted;"
    " (while [[ -e $job || -e held ]]; do mv $job held; mv twin $job; mv $job twin; mv held $job;"
    " done) & sleep 0.2",
}
FUNCTIONS = """
set -u
socket() {
  rm -f "$1"
  /usr/bin/python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$1"
}
"""


class Victim:
    """A sweep with two jobs, in a folder where the other user may write."""

    def __init__(self, place: Place, run: Callable[..., Any]) -> None:
        self.place, self.run = place, run
        self.slurm = StandInSlurm(place.make(place.folder / "bin", 0o755))
        (self.slurm.folder / "scancel").write_text("#!/bin/bash\n")
        (self.slurm.folder / "scancel").chmod(0o755)
        self.sweep = SweepOnDisk(place.shared, 3)
        self.sweep.submitted("40", range(2))
        self.job = self.sweep.job(0, "41", "completed", "step 1 loss 2\n")
        (self.job / "result.json").write_text('{"loss": 2}')
        self.sweep.job(1, "43", "failure", "step 1 loss 3\n")
        self.own = place.home / "own"
        self.own.write_text("own\n")
        os.chown(self.own, OWNER, OWNER)
        self.own.chmod(0o644)

    def open_to(self, group: int | None) -> None:
        """All files may be written by that group, or, without one, by everyone."""
        for path in [self.place.shared, *self.place.shared.rglob("*")]:
            os.chown(path, OWNER, group or OWNER, follow_symlinks=False)
            mode = 0o2775 if group else 0o777
            path.chmod(mode if path.is_dir() else mode & 0o666)

    def plant(self, line: str, *groups: int) -> subprocess.Popen[bytes]:
        words = {"sweep": self.sweep.folder, "point": self.job.parent, "job": self.job}
        names = "\n".join(f"{name}={path}" for name, path in {**words, "own": self.own}.items())
        who: Any = {"user": OTHER, "group": OTHER, "extra_groups": list(groups)}
        if line.startswith("ln "):  # as where the kernel does not protect hard links
            who = {}
        process = subprocess.Popen(
            ["bash", "-c", f"{names}\n{FUNCTIONS}\n{line}"],
            cwd=self.place.shared,
            start_new_session=True,
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            **who,
        )
        process.wait(20)
        return process

    def commands(self) -> Iterator[tuple[Any, ...]]:
        spec, folder = self.sweep.spec, self.sweep.folder
        yield from (("status", spec), ("status", spec, "--points"), ("status", folder, "--points"))
        yield from (("logs", spec, "41"), ("results", spec), ("results", folder))
        yield from (("report", spec), ("report", self.job))
        yield from (("submit", spec, "-o", self.place.home / "out"), ("cancel", spec))


@pytest.fixture
def victim(
    clusterjobs: Callable[..., Any], site_home: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Victim]:
    for is_real in (False, True):  # the owner may not be able to read Python's own folder
        with place_of_two_users() as place:
            made = Victim(place, clusterjobs)
            monkeypatch.setenv("PATH", made.slurm.path)
            config = shutil.copytree(site_home, place.folder / "config")
            for path in [config, *config.rglob("*")]:
                pathlib.Path(path).chmod(0o755)
            monkeypatch.setenv("XDG_CONFIG_HOME", str(config))
            if is_real:
                yield made
            else:
                done = [(words, clusterjobs(*words)) for words in made.commands()]
                assert not [one for one in done if one[1].code]


@contextlib.contextmanager
def as_owner(group: int | None) -> Iterator[None]:
    groups = os.getgroups()
    os.setgroups([group] if group else [])
    os.setegid(OWNER)
    os.seteuid(OWNER)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


@pytest.mark.parametrize("group", [None, TEAM], ids=["everyone", "team"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_what_another_user_plants_changes_no_command(
    victim: Victim, monkeypatch: pytest.MonkeyPatch, attack: str, group: int | None
) -> None:
    monkeypatch.setattr("click.utils.should_strip_ansi", lambda *_: False)  # as on a terminal
    victim.open_to(group)
    process = victim.plant(ATTACKS[attack], *([group] if group else []))
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(SECONDS)
    try:
        with as_owner(group):
            outcomes = [(words, victim.run(*words)) for words in victim.commands()]
    finally:
        signal.alarm(0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0
    assert victim.own.read_text() == "own\n"
    for words, outcome in outcomes:
        # A lock that somebody else holds keeps `submit` waiting, and it says so.
        is_waiting = attack.endswith("as the lock") and "waiting: another process" in str(outcome)
        assert outcome.code in (0, 1) or is_waiting, (words, outcome)
        for text in (OUR_STYLE.sub("", one) for one in (outcome.out, outcome.err)):
            assert all(one.isprintable() or one in "\n\t\r" for one in text), (words, text)
            assert not any(line.startswith(MARK) for line in text.splitlines()), (words, text)

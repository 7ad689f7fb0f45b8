"""What another user of the cluster plants reaches no job: its folder is its own, or it ends."""

from __future__ import annotations

import os
import pathlib
import shlex
import stat
from collections.abc import Iterator

import pytest
from script_runs import JOB_ID, script
from two_users import (
    ACCESS_LIST,
    OTHER,
    OWNER,
    TEAM,
    Place,
    identity,
    needs_two_users,
    place_of_two_users,
    planted_module,
)

pytestmark = needs_two_users
REFUSED = " of your own\n"


@pytest.fixture
def place() -> Iterator[Place]:
    with place_of_two_users() as made:
        yield made


def text_of(place: Place, ranks: str = "true", **keys: object) -> str:
    """A job with a program in its folder: attempt.py."""
    keys = {"logs": str(place.shared / "logs"), **keys}
    checkpoints = {"path": str(place.home / "checkpoints")}
    keys = {"checkpoints": checkpoints, "restarts": {"failure": 2}, **keys}
    return script(nodes=1, command=["bash", "-c", ranks], time_limit="1-00:00:00", **keys)


def plant_folder(place: Place, folder: str) -> None:
    module = planted_module(place.proof)
    assert place.plant(f'mkdir {folder}; echo "{module}" > {folder}/json.py') == 0


@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_a_job_folder_that_another_user_has_made_is_not_used(place: Place, mode: int) -> None:
    place.logs(mode)
    plant_folder(place, f"shared/logs/{JOB_ID}")
    run = place.run(text_of(place, f"touch {place.proof}/rank"))
    assert place.proofs() == []
    assert (run.code, run.requeues) == (1, 0)
    assert REFUSED in run.log


def test_a_planted_job_log_is_not_written_to(place: Place) -> None:
    place.logs(0o1777)
    own = place.home / ".bashrc"
    own.write_text("own\n")
    os.chown(own, OWNER, OWNER)
    folder = f"shared/logs/{JOB_ID}"
    assert place.plant(f"mkdir {folder}; ln -s {own} {folder}/job.log") == 0
    run = place.run(text_of(place))
    assert own.read_text() == "own\n"
    assert REFUSED in run.log


def test_a_link_in_place_of_the_job_folder_is_not_followed(place: Place) -> None:
    place.logs(0o1777)
    own = place.make(place.home / ".config", 0o700, OWNER)
    assert place.plant(f"ln -s {own} shared/logs/{JOB_ID}") == 0
    run = place.run(text_of(place))
    assert list(own.iterdir()) == []
    assert REFUSED in run.log


def test_a_job_folder_is_not_exchanged_between_two_attempts(place: Place) -> None:
    logs = place.logs(0o777)
    place.run(text_of(place, "exit 9"))
    place.plant(f"mv {logs}/{JOB_ID} {logs}/old")
    plant_folder(place, f"shared/logs/{JOB_ID}")
    run = place.run(text_of(place), environment={"SLURM_RESTART_COUNT": "1"})
    assert place.proofs() == []
    assert REFUSED in run.log


@pytest.mark.parametrize(
    "plant",
    [
        "mkdir -m 1777 shared/logs",
        "mkdir -m 1777 open; ln -s $PWD/open shared/logs",
        f"mkdir shared/logs && /usr/bin/python3 -c {shlex.quote(ACCESS_LIST)} shared/logs",
    ],
    ids=["folder", "link", "access list"],
)
def test_a_logs_folder_that_another_user_has_made_is_not_used(place: Place, plant: str) -> None:
    place.shared.chmod(0o1777)
    place.folder.chmod(0o1777)
    if place.plant(plant):
        pytest.skip("the file system of /tmp has no access lists")
    place.run(text_of(place, "exit 9"))
    place.plant(f"mv shared/logs/{JOB_ID} shared/logs/old")
    place.plant(f"mkdir shared/logs/{JOB_ID}")
    place.plant(f'echo "{planted_module(place.proof)}" > shared/logs/{JOB_ID}/json.py')
    run = place.run(text_of(place), environment={"SLURM_RESTART_COUNT": "1"})
    assert place.proofs() == []
    assert REFUSED in run.log


def test_nobody_else_writes_into_the_folder_of_a_job_without_umask(place: Place) -> None:
    place.logs(0o755, OWNER)
    run = place.run(text_of(place, ": > rank; exit 9", workdir=str(place.home)), umask=0)
    assert run.requeues == 1
    folder = place.shared / "logs" / JOB_ID
    written = [folder, *folder.iterdir(), place.home / "rank", place.home / "checkpoints"]
    assert [path for path in written if path.stat().st_mode & stat.S_IWOTH] == []
    for name in (".", "attempt.py", "attempts.jsonl", "job.log"):
        assert place.plant(f"[[ -w {folder}/{name} ]]") == 1


def test_secrets_that_a_job_prints_are_for_its_user_alone(place: Place) -> None:
    place.logs(0o755, OWNER)
    copy = place.home / "slurm.out"
    text = text_of(place, 'echo "$A_KEY"', secrets=["A_KEY"])
    with copy.open("wb") as out:
        os.chown(copy, OWNER, OWNER)
        run = place.run(text, environment={"A_KEY": "do-not-show"}, stdout=out)
    assert run.code == 0, run.log
    log = place.shared / "logs" / JOB_ID / "job.log"
    for file in (copy, log):
        assert "do-not-show" in file.read_text()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert place.plant(f"cat {file} > /dev/null") == 1
    assert stat.S_IMODE(log.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("mode", "user", "group"),
    [
        (0o755, OWNER, 0),
        (0o700, OWNER, 0),
        (0o1777, 0, 0),
        (0o1775, 0, TEAM),
        (0o775, OWNER, OWNER),
    ],
)
def test_the_usual_folders_for_logs_are_used(
    place: Place, mode: int, user: int, group: int
) -> None:
    """Also by a second attempt; others may read, as the umask of the user allows."""
    place.shared.chmod(0o1777)
    place.logs(mode, user, group)
    mine = identity(OWNER, TEAM)
    for count, umask in (("0", 0o022), ("1", 0o002)):
        environment = {"SLURM_RESTART_COUNT": count}
        run = place.run(text_of(place, "exit 9"), environment=environment, umask=umask, **mine)
        assert (run.code, run.requeues) == (9, int(count) + 1), run.log
    folder = place.shared / "logs" / JOB_ID
    assert stat.S_IMODE(folder.stat().st_mode) & 0o777 == 0o755
    assert len((folder / "attempts.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("mode", "user", "trust"),
    [(0o2775, 0, TEAM), (0o2775, OTHER, TEAM), (0o755, OTHER, OTHER)],
)
def test_the_folder_of_a_team_is_used_if_the_spec_trusts_it(
    place: Place, mode: int, user: int, trust: int
) -> None:
    place.logs(mode, user, TEAM)
    place.make(place.shared / "logs" / "mine", 0o755, OWNER)
    logs, mine = str(place.shared / "logs" / "mine"), identity(OWNER, TEAM)
    refused = place.run(text_of(place, logs=logs), **mine)
    assert (refused.code, refused.requeues) == (1, 0)
    assert f" may exchange {'it' if user else 'what is in it'}" in refused.log
    run = place.run(text_of(place, logs=logs, trust=[str(trust)]), **mine)
    assert run.code == 0, run.log


@pytest.mark.parametrize("maker", ["root", "the job", "the other member"])
def test_a_member_of_ones_group_cannot_exchange_a_job_folder(place: Place, maker: str) -> None:
    """The next attempt would run programs of the other folder."""
    place.shared.chmod(0o1777)
    if maker == "root":
        place.logs(0o2775, 0, TEAM)
    elif maker == "the other member":
        assert place.plant(f"mkdir shared/logs; chgrp {TEAM} shared/logs", TEAM) == 0
    mine = {**identity(OWNER), "group": TEAM}
    place.run(text_of(place, "exit 9"), umask=0o002, **mine)
    planted = planted_module(place.proof)
    place.plant(f"mv shared/logs/{JOB_ID} shared/logs/old", TEAM)
    place.plant(
        f"mkdir shared/logs/{JOB_ID}; echo '{planted}' > shared/logs/{JOB_ID}/json.py", TEAM
    )
    run = place.run(text_of(place), environment={"SLURM_RESTART_COUNT": "1"}, umask=0o002, **mine)
    assert place.proofs() == []
    assert maker == "the job" or REFUSED in run.log
    assert maker != "the job" or run.code == 0


def test_a_member_of_ones_group_cannot_write_into_a_job_folder(place: Place) -> None:
    place.shared.chmod(0o1777)
    text = text_of(place, ": > rank; exit 9", workdir=str(place.home))
    run = place.run(text, umask=0o002, **{**identity(OWNER), "group": TEAM})
    assert run.code == 9, run.log
    folder = place.shared / "logs" / JOB_ID
    written = [folder, *folder.iterdir()]
    assert [path.name for path in written if path.stat().st_mode & stat.S_IWGRP] == []


def test_the_team_may_be_kept_out_by_the_umask(place: Place) -> None:
    place.logs(0o755, OWNER)
    place.run(text_of(place), umask=0o077)
    folder = place.shared / "logs" / JOB_ID
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "job.log").stat().st_mode) == 0o600


def test_a_logs_folder_that_is_not_there_is_made(place: Place) -> None:
    place.shared.chmod(0o1777)
    run = place.run(text_of(place, logs=str(place.shared / "a" / "b c")))
    assert run.code == 0, run.log
    made: pathlib.Path = place.shared / "a" / "b c" / JOB_ID
    assert (made / "job.log").exists()


def test_extensions_are_not_loaded_from_a_folder_of_another_user(place: Place) -> None:
    """torch builds them there, or finds them built."""
    text = script(
        nodes=1,
        framework="deepspeed",
        launcher="srun",
        script="train.py",
        precision="bf16",
        batch={"micro": 1},
        logs=str(place.home / "logs"),
        workdir=str(place.home),
    )
    (place.home / "train.py").touch()
    number = str(900_000_000 + os.getpid())  # in /tmp itself, where other tests may run
    planted = f"/tmp/torch-extensions-{number}-1"
    assert place.plant(f"mkdir {planted} && echo planted > {planted}/cpu_adam.so") == 0
    try:
        python = 'mkdir "$TORCH_EXTENSIONS_DIR" && rmdir "$TORCH_EXTENSIONS_DIR"'
        environment = {"SLURM_JOB_ID": number}
        run = place.run(text, stand_ins={"python3": python}, environment=environment)
    finally:
        place.plant(f"rm -r {planted}")
    assert run.code == 0, run.log  # the folder is new


def test_no_checkpoint_of_another_user_is_loaded(place: Place) -> None:
    """A pickle may run any code."""
    place.logs(0o1777)
    checkpoints = place.make(place.shared / "open", 0o777) / "checkpoints"
    code = f"touch {place.proof}/loaded"
    assert place.plant(f"mkdir {checkpoints}; echo {code} > {checkpoints}/1") == 0
    text = text_of(place, f"bash {checkpoints}/1", checkpoints={"path": str(checkpoints)})
    run = place.run(text)
    assert place.proofs() == []
    assert (run.code, run.requeues) == (1, 0)
    assert f"{checkpoints} is not safe from other users" in run.log


def test_no_checkpoint_can_be_added_by_another_user(place: Place) -> None:
    """The sticky bit keeps a file from being replaced, not a new one from being made."""
    place.logs(0o1777)
    checkpoints = place.make(place.shared / "checkpoints", 0o1777)
    run = place.run(text_of(place, "touch ran", checkpoints={"path": str(checkpoints)}))
    assert (run.code, run.requeues) == (1, 0)
    assert "everyone may add files to it: drwxrwxrwt 2 root root " in run.log


@pytest.mark.parametrize(
    "plant", ["mkdir -m 777 shared/top", "ln -s $PWD/home/own shared/top"], ids=["folder", "link"]
)
def test_no_folder_above_logs_can_be_exchanged(place: Place, plant: str) -> None:
    place.shared.chmod(0o1777)
    place.folder.chmod(0o1777)
    place.make(place.home / "own", 0o755, OWNER)
    assert place.plant(plant) == 0
    run = place.run(text_of(place, "touch ran", logs=str(place.shared / "top" / "logs")))
    assert (run.code, run.records) == (1, [])
    assert REFUSED in run.log


def test_the_folder_of_a_trusted_group_is_used_for_checkpoints(place: Place) -> None:
    place.logs(0o1777)
    checkpoints = place.make(place.shared / "checkpoints", 0o2775, 0, TEAM)
    keys: dict[str, object] = {"checkpoints": {"path": str(checkpoints)}}
    refused = place.run(text_of(place, "touch ran", **keys), **identity(OWNER, TEAM))
    assert (refused.code, refused.requeues) == (1, 0)
    assert f"group {TEAM} may exchange what is in it" in refused.log
    text = text_of(place, f"touch {checkpoints}/1", trust=[str(TEAM)], **keys)
    run = place.run(text, **identity(OWNER, TEAM))
    assert run.code == 0, run.log
    assert (checkpoints / "1").exists()


@pytest.mark.parametrize("link", [False, True])
def test_a_group_proves_nothing_in_a_folder_of_everyone(place: Place, link: bool) -> None:
    """A folder of mode 3777 gives its group to what a stranger makes, who may move it elsewhere."""
    giving = place.make(place.folder / "giving", 0o3777, 0, TEAM)
    place.shared.chmod(0o1777)
    logs = place.shared / "logs"
    assert place.plant(f"umask 002; mkdir -p {giving}/logs/mine; mv {giving}/logs {logs}") == 0
    assert (logs.stat().st_gid, stat.S_IMODE(logs.stat().st_mode)) == (TEAM, 0o2775)
    os.chown(logs / "mine", OWNER, OWNER)
    if link:  # of the user's own, beside the stranger's folder
        (place.shared / "link").symlink_to("logs")
        os.lchown(place.shared / "link", OWNER, OWNER)
        logs = place.shared / "link"
    text = text_of(place, "touch ran", logs=str(logs / "mine"), trust=[str(TEAM)])
    run = place.run(text, **identity(OWNER, TEAM))
    assert (run.code, run.records) == (1, [])
    assert f"user {OTHER} may exchange it: drwxrwsr-x " in run.log


def test_the_group_of_root_is_no_stranger(place: Place) -> None:
    place.make(place.shared / "apps", 0o775)
    place.make(place.shared / "apps" / "logs", 0o755, OWNER)
    run = place.run(text_of(place, logs=str(place.shared / "apps" / "logs")))
    assert run.code == 0, run.log


@pytest.mark.parametrize("trust", ["CORP\\ml team", str(TEAM)])
def test_a_group_with_a_name_is_trusted_by_its_name_or_number(place: Place, trust: str) -> None:
    place.logs(0o2775, 0, TEAM)
    find = f"/usr/bin/find \"$@\" | sed 's/{TEAM}$/CORP\\\\ml team/'"  # as if a directory had it
    for words, code in (([trust], 0), (["CORP\\ml"], 1), (["team"], 1)):
        stand_ins = {"find": find}
        run = place.run(text_of(place, trust=words), stand_ins=stand_ins, **identity(OWNER, TEAM))
        assert run.code == code, run.log
    assert "group CORP\\ml team may exchange what is in it" in run.log


@pytest.mark.parametrize("tool", ["ls", "find"])
def test_a_folder_that_cannot_be_examined_is_not_used(place: Place, tool: str) -> None:
    """Such as with a TIME_STYLE that this ls does not know."""
    place.logs(0o777)
    run = place.run(text_of(place, "touch ran"), stand_ins={tool: "exit 2"})
    assert (run.code, run.records) == (1, [])
    assert REFUSED in run.log

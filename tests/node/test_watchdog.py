"""watchdog.py on a clock of the test's own: when it stops ranks, and when it must not."""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import types
from collections.abc import Callable, Iterator

import pytest

STALL = 1800
HOUR = 3600
JOB, ATTEMPT = "4711", "2"


class World:
    """A job of two nodes, Slurm's answers, and a clock that only `sleep` moves."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.now = 0.0
        self.end = 6 * HOUR
        self.ranks = subprocess.Popen(["sleep", "1000"])
        self.answers: Callable[[], str] = lambda: "1\n1\n"
        self.act: Callable[[], None] = lambda: None
        self.act_during_stacks: Callable[[], object] = lambda: None
        self.asked: list[float] = []
        self.asked_with: list[str] = []  # the last question
        self.daemons, self.steps = "1\n1\n", f"{JOB}.batch batch\n{JOB}.0 bash\n"
        self.requests: list[str] = []
        self.stopped_at: float | None = None

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.act()
        if self.now >= self.end:
            self.finish()

    def output(self, words: list[str], timeout: float) -> str:
        if words[0] == "srun" and "count" in words:
            self.asked.append(self.now)
            self.asked_with = words
            return self.answers()
        if "steps" in words or "--steps" in words:
            return self.daemons if "steps" in words else self.steps
        self.stopped_at = self.stopped_at or self.now
        self.requests.append(words[0])
        if "stacks" in words:
            self.act_during_stacks()
        return ""

    def finish(self) -> None:
        self.ranks.kill()
        self.ranks.wait()

    def write(self, name: str, text: str = "x") -> None:
        """Add to a file; its time is the clock's, since the real one may stand still."""
        with (self.folder / name).open("a") as file:
            file.write(text)
        os.utime(self.folder / name, (self.now, self.now))

    def reason(self) -> str:
        file = self.folder / f"watchdog.{ATTEMPT}"
        return file.read_text().strip() if file.exists() else ""


@pytest.fixture
def world(tmp_path: pathlib.Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.finish()


@pytest.fixture
def watch(world: World, programs, monkeypatch: pytest.MonkeyPatch) -> Callable[..., World]:
    """Runs the program until it, or the world, has ended."""
    program = programs("watchdog")
    clock = types.SimpleNamespace(sleep=world.sleep, monotonic=lambda: world.now)
    monkeypatch.setattr(program, "time", clock)
    monkeypatch.setattr(program, "_output", world.output)
    monkeypatch.setenv("SLURM_JOB_ID", JOB)
    (world.folder / "checkpoints").mkdir()

    def run(*options: str) -> World:
        checkpoints = world.folder / "checkpoints"
        with contextlib.suppress(SystemExit):
            program.main(
                [
                    *(f"--ranks={world.ranks.pid}", f"--folder={world.folder}", f"--job={JOB}"),
                    *(f"--attempt={ATTEMPT}", "--nodes=2", f"--checkpoints={checkpoints}"),
                    *(f"--marker={checkpoints}/latest", *options),
                ]
            )
        return world

    return run


def every(world: World, seconds: float, act: Callable[[], None]) -> Callable[[], None]:
    done: list[float] = [0.0]

    def sometimes() -> None:
        if world.now - done[0] >= seconds:
            done[0] = world.now
            act()

    return sometimes


PROGRESS = {
    "a line in the log": "job.log",
    "a heartbeat": "heartbeat",
    "a marker rewritten": "checkpoints/latest",
    "a checkpoint in the folder": "checkpoints/step-{}",
}


@pytest.mark.parametrize("how", PROGRESS)
def test_any_progress_within_stall_seconds_is_no_stall(watch, world: World, how: str) -> None:
    write = lambda: world.write(PROGRESS[how].format(int(world.now)))  # noqa: E731
    world.act = every(world, STALL - 120, write)
    assert watch(f"--stall-seconds={STALL}").reason() == ""
    assert world.requests == []


def test_ranks_whose_slurmstepd_is_killed_before_the_first_count_are_lost(
    watch, world: World
) -> None:
    world.answers = lambda: "0\n0\n"
    world.daemons = "0\n0\n"
    assert watch().reason() == "node_failure"
    assert (world.stopped_at or 999) < 120


@pytest.mark.parametrize(
    ("daemons", "steps"),
    [
        ("1\n1\n", f"{JOB}.0 bash\n"),  # an image is pulled
        ("0\n1\n", f"{JOB}.0 bash\n"),
        ("", f"{JOB}.0 bash\n"),  # a node that hides processes
        ("0\n0\n", f"{JOB}.batch batch\n{JOB}.3 watchdog\n"),  # srun waits for its step
        ("0\n0\n", ""),  # Slurm does not answer
    ],
)
def test_ranks_that_have_not_started_are_not_lost(watch, world: World, daemons, steps) -> None:
    world.answers = lambda: "0\n0\n"
    world.daemons, world.steps = daemons, steps
    assert watch().reason() == ""


def test_nodes_of_roles_are_not_asked(watch, world: World) -> None:
    assert not any(word.startswith("--nodelist") for word in watch().asked_with)
    world.now, world.ranks = 0.0, subprocess.Popen(["sleep", "1000"])
    assert "--nodelist=node-1,node-2" in watch("--nodelist=node-1,node-2").asked_with


def test_a_compilation_of_20_minutes_with_a_heartbeat_is_no_stall(watch, world: World) -> None:
    world.act = every(world, 60, lambda: world.write("heartbeat"))
    world.end = 20 * 60
    assert watch("--stall-seconds=300").reason() == ""


def test_a_heartbeat_with_the_same_content_counts(watch, world: World) -> None:
    world.write("heartbeat")
    touch = lambda: os.utime(world.folder / "heartbeat", (world.now, world.now))  # noqa: E731
    world.act = every(world, 60, touch)
    assert watch("--stall-seconds=300").reason() == ""


def test_without_progress_the_ranks_are_stopped(watch, world: World) -> None:
    world.act = lambda: world.write("job.log") if world.now < HOUR else None
    assert watch(f"--stall-seconds={STALL}").reason() == "stalled"
    assert world.stopped_at is not None
    assert HOUR + STALL - 60 < world.stopped_at < HOUR + STALL + 60
    assert world.requests == ["srun", "scancel"]  # for the stacks, and to end the ranks
    assert world.ranks.wait() == -9


def test_ranks_that_end_while_their_stacks_are_taken_have_not_stalled(watch, world: World) -> None:
    world.act_during_stacks = world.finish
    assert watch(f"--stall-seconds={STALL}").reason() == ""
    assert world.requests == ["srun"]


@pytest.mark.parametrize("how", PROGRESS)
def test_ranks_that_go_on_while_their_stacks_are_taken_are_not_stopped(
    watch, world: World, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    world.end = 2 * STALL
    world.act_during_stacks = lambda: world.write(PROGRESS[how].format(int(world.now)))
    assert watch(f"--stall-seconds={STALL}").reason() == ""
    assert world.requests == ["srun"]
    assert "the ranks go on" in capsys.readouterr().err


def test_what_the_flight_recorders_print_is_no_progress(
    watch, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "/tmp/pipe-")
    world.act_during_stacks = lambda: world.write("job.log", "preparing to dump debug info")
    assert watch(f"--stall-seconds={STALL}").reason() == "stalled"


def test_no_reason_is_written_before_the_stacks_are_taken(watch, world: World) -> None:
    """The script would read it if the ranks ended in that time."""
    reasons: list[str] = []
    world.act_during_stacks = lambda: reasons.append(world.reason())
    assert watch(f"--stall-seconds={STALL}").reason() == "stalled"
    assert reasons == [""]


def test_a_launcher_that_ends_during_the_last_question_is_not_lost(watch, world: World) -> None:
    def answer() -> str:
        if len(world.asked) == 4:
            world.finish()
        return "0\n0\n" if len(world.asked) > 1 else "1\n1\n"

    world.answers = answer
    assert watch().reason() == ""
    assert world.requests == []


def test_without_stall_seconds_silence_is_no_stall(watch, world: World) -> None:
    assert watch().reason() == ""


@pytest.mark.parametrize("seconds", [20, 100, 400, 1000, 100 * HOUR])
def test_the_nodes_are_asked_about_100_times_a_day_at_most(
    watch, world: World, seconds: float
) -> None:
    """Whatever the training's rhythm, each question is a step on every node."""
    world.end = 24 * HOUR
    world.act = every(world, seconds, lambda: world.write("job.log"))
    assert watch().reason() == ""
    assert 24 <= len(world.asked) <= 105


@pytest.mark.parametrize("lost", [2 * HOUR, 2.3 * HOUR, 2.6 * HOUR])
@pytest.mark.parametrize("seconds", [20, 100, 400])
def test_lost_ranks_are_found_within_17_minutes(
    watch, world: World, seconds: float, lost: float
) -> None:
    write = every(world, seconds, lambda: world.write("job.log"))
    world.act = lambda: write() if world.now < lost else None
    world.answers = lambda: "1\n1\n" if world.now < lost else "0\n0\n"
    assert watch().reason() == "node_failure"
    assert world.stopped_at is not None
    assert world.stopped_at < lost + 17 * 60


def test_a_launcher_whose_ranks_are_gone_is_ended(watch, world: World) -> None:
    world.act = lambda: world.write("job.log") if world.now < HOUR else None
    world.answers = lambda: "1\n1\n" if world.now < HOUR else "0\n0\n"
    assert watch().reason() == "node_failure"
    assert world.stopped_at is not None
    assert world.stopped_at < HOUR + 5 * 60


def test_a_sidecar_that_fills_the_log_hides_no_lost_ranks(watch, world: World) -> None:
    world.act = every(world, 30, lambda: world.write("job.log"))
    from_the_second_hour(world, lambda: "0\n0\n")
    assert watch().reason() == "node_failure"
    assert world.stopped_at is not None
    assert world.stopped_at < 2 * HOUR + 5 * 60


def from_the_second_hour(world: World, answer: Callable[[], str]) -> None:
    world.answers = lambda: "1\n1\n" if world.now < HOUR else answer()


@pytest.mark.parametrize(
    "answer", ["", "0\n", "0\n0\n0\n", "srun: error\n"], ids=["none", "one", "more", "error"]
)
def test_a_missing_answer_proves_nothing(watch, world: World, answer: str) -> None:
    from_the_second_hour(world, lambda: answer)
    assert watch().reason() == ""


def test_ranks_that_live_on_one_node_are_not_gone(watch, world: World) -> None:
    from_the_second_hour(world, lambda: "0\n1\n")
    assert watch().reason() == ""


def test_a_single_answer_proves_nothing(watch, world: World) -> None:
    from_the_second_hour(world, lambda: "0\n0\n" if len(world.asked) % 3 else "1\n1\n")
    assert watch().reason() == ""


def test_ranks_that_have_not_started_yet_are_not_gone(watch, world: World) -> None:
    """An image may be pulled for long before the first process starts."""
    world.answers = lambda: "0\n0\n"
    assert watch().reason() == ""


def test_a_job_that_was_suspended_has_not_stalled(watch, world: World) -> None:
    """The clock went on, but the watchdog itself was stopped, too."""

    def suspend() -> None:
        world.write("job.log")
        world.now += 2 * HOUR

    world.act = every(world, STALL - 120, suspend)
    assert watch(f"--stall-seconds={STALL}").reason() == ""

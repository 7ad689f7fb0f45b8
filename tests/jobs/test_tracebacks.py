"""The traceback of the rank that failed first, out of the lines of many ranks."""

from __future__ import annotations

import pytest

from clusterjobs.launchers import LAUNCHERS
from clusterjobs.runs.status.log_end import LINES, first_traceback

TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "train.py", line 9, in <module>',
    "    main()",
    "ValueError: loss is nan",
]
LABELS = {
    "": "",
    "3: ": "3",
    " 12: ": "12",
    "[rank5]: ": "5",
    "0: [rank5]: ": "5",
    "[default7]:": "local rank 7",
    "[1,3]<stderr>:": "3",
    "[3]<stdout>:": "3",
}


def labelled(label: str, lines: list[str] = TRACEBACK) -> list[str]:
    return [f"{label}{line}" for line in lines]


@pytest.mark.parametrize("label", LABELS)
def test_a_traceback_is_found_with_its_rank(label: str) -> None:
    text = "\n".join(["step 1", *labelled(label), f"{label}and more", "end"])
    found = first_traceback(text)
    assert found
    assert (found.rank, list(found.lines)) == (LABELS[label], TRACEBACK)


@pytest.mark.parametrize(
    ("launcher", "label", "rank"),
    [
        ("torchrun", "0: ", "node 0"),
        ("torchrun", "1: [rank3]: ", "3"),
        ("torchrun", "1: [default1]:", "local rank 1"),
        ("srun", "3: ", "3"),
        ("deepspeed-pdsh", "0: ", ""),
    ],
)
def test_the_number_of_a_node_is_not_taken_for_a_rank(launcher: str, label: str, rank: str) -> None:
    found = first_traceback("\n".join(labelled(label)), LAUNCHERS[launcher])
    assert found
    assert (found.rank, list(found.lines)) == (rank, TRACEBACK)


def test_lines_of_other_ranks_in_between_are_left_out() -> None:
    other = labelled("1: ", [*TRACEBACK[:-1], "KeyError: 1"])
    mixed = [line for pair in zip(labelled("0: "), other, strict=True) for line in pair]
    found = first_traceback("\n".join(mixed))
    assert found
    assert (found.rank, list(found.lines)) == ("0", TRACEBACK)


def test_the_task_that_srun_names_first_is_the_one() -> None:
    later = labelled("2: ", [*TRACEBACK[:-1], "RuntimeError: the peer is gone"])
    text = [*later, *labelled("3: "), "srun: error: n1: task 3: Exited with exit code 1"]
    found = first_traceback("\n".join(text))
    assert found
    assert (found.rank, found.lines[-1]) == ("3", "ValueError: loss is nan")


@pytest.mark.parametrize(("launcher", "rank"), [("srun", "1"), ("torchrun", "node 1")])
@pytest.mark.parametrize("how", ["Killed", "Out Of Memory", "Segmentation fault (core dumped)"])
def test_a_task_that_a_signal_has_ended_comes_before_the_traceback_of_its_peer(
    launcher: str, rank: str, how: str
) -> None:
    peer = labelled("0: ", [*TRACEBACK[:-1], "RuntimeError: Connection reset by peer"])
    text = [f"srun: error: n2: task 1: {how}", *peer, "srun: error: n1: task 0: Terminated"]
    found = first_traceback("\n".join(text), LAUNCHERS[launcher])
    assert found == (rank, (how,), "the failure")


def test_an_exception_that_followed_from_another_is_shown_with_it() -> None:
    between = ["", "During handling of the above exception, another exception occurred:", ""]
    second = [TRACEBACK[0], '  File "train.py", line 12', "OSError: disk"]
    found = first_traceback("\n".join(labelled("0: ", [*TRACEBACK, *between, *second])))
    assert found
    assert list(found.lines) == [*TRACEBACK, *between[:2], *second]


def test_only_the_last_lines_are_kept() -> None:
    frames = [f"  line {number}" for number in range(1000)]
    found = first_traceback("\n".join([TRACEBACK[0], *frames, "E: " + "x" * 100_000]))
    assert found
    assert len(found.lines) == LINES
    assert found.lines[-2] == "  line 999"
    assert len(found.lines[-1]) < 1000


def test_colours_and_carriage_returns_are_removed() -> None:
    text = "\x1b[31mbar 5%\r\x1b[0mTraceback (most recent call last):\r\n  at\r\nE: \x1b[1mbad\n"
    found = first_traceback(text)
    assert found
    assert list(found.lines) == ["Traceback (most recent call last):", "  at", "E: bad"]


def test_the_last_attempt_counts() -> None:
    ended = "clusterjobs: job 7 ended with exit code 1 after 3 s: failure"
    first = [*labelled("", [*TRACEBACK[:-1], "OldError: 1"]), ended]
    for rest in ([], [ended, "clusterjobs: something at the end"]):
        found = first_traceback("\n".join([*first, *TRACEBACK, *rest]))
        assert found
        assert found.lines[-1] == "ValueError: loss is nan"
    assert first_traceback("\n".join([*first, "trains", ended, "trains", ended])) is None


def test_a_log_without_one_has_none() -> None:
    assert first_traceback("step 1\n") is None
    assert first_traceback("x" * 1000 + "Traceback (most recent call last):\nE: 1") is None


# What torchrun of PyTorch 2.14 prints, without its frames.
SUMMARY = """\
E1128 09:07:47.869000 16862 torch/distributed/elastic/multiprocessing/api.py:1002] failed
Traceback (most recent call last):
  File "/env/bin/torchrun", line 8, in <module>
    sys.exit(main())
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
=======================================================
Failures:
[1]:
  time      : 2026-11-28_09:07:47
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 16929)  (SIGTERM)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 16929
-------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-28_09:07:47
  host      : localhost
  rank      : 1 (local_rank: 1)
  exitcode  : {code} (pid: 16930)  {signal}
  error_file: <N/A>
  traceback : {cause}
======================================================="""


def test_the_signal_that_has_killed_a_rank_comes_before_the_tracebacks_of_others() -> None:
    cause = "Signal 9 (SIGKILL) received by PID 16930"
    summary = SUMMARY.format(code=-9, signal="(SIGKILL)", cause=cause)
    lines = [*labelled("0: "), *labelled("0: ", summary.splitlines())]
    found = first_traceback("\n".join(lines), LAUNCHERS["torchrun"])
    assert found == ("1", (cause,), "the failure")


def test_without_a_traceback_of_a_rank_its_last_lines_are_shown() -> None:
    said = ["usage: train.py [-h] [--steps STEPS]", "train.py: error: unrecognized arguments: --a"]
    summary = SUMMARY.format(
        code=2, signal="", cause="To enable traceback see: https://example.org"
    )
    noise = "W1128 09:07:39.625000 16656 torch/distributed/run.py:874] *****"
    text = "\n".join(labelled("0: ", [noise, *said, *summary.splitlines()]))
    found = first_traceback(text, LAUNCHERS["torchrun"])
    assert found == ("1", tuple(said), "the last lines")


def test_an_exception_of_a_rank_is_shown_as_before_with_torchruns_summary() -> None:
    summary = SUMMARY.format(
        code=1, signal="", cause="To enable traceback see: https://example.org"
    )
    text = "\n".join(labelled("0: ", [*TRACEBACK, *summary.splitlines()]))
    found = first_traceback(text, LAUNCHERS["torchrun"])
    assert found
    assert found.lines == tuple(TRACEBACK)

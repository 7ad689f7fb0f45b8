"""Lines that would take minutes to search, or that hide others, cost nothing and say nothing."""

from __future__ import annotations

import time

import pytest

from clusterjobs.report.logs.formats import Format, all_formats
from clusterjobs.report.logs.formats.deepspeed import Checkpoints
from clusterjobs.report.logs.formats.job_script import JobScript
from clusterjobs.report.logs.lines import clean_lines
from clusterjobs.report.logs.log import read_log
from clusterjobs.report.logs.records import Window

_CPU_SECONDS = 20.0  # usual: far below 1; a pattern that goes back from each place takes minutes
_LENGTH = 1 << 16


@pytest.mark.parametrize(
    "form", [*all_formats(), JobScript(), Checkpoints()], ids=lambda form: form.name
)
def test_no_format_takes_long_for_a_long_line(form: Format) -> None:
    before = time.process_time()
    for hint in form.hints:
        for filler in (hint, f"{hint} ", f"{hint}1", "1", ".", " "):
            text = (hint + filler * (_LENGTH // max(1, len(filler))))[:_LENGTH]
            try:
                list(form.read(text, None))
            except ValueError:
                continue  # a damaged line
    assert time.process_time() - before < _CPU_SECONDS


def test_a_text_that_is_too_long_is_left_out_and_the_next_one_read() -> None:
    log = b"step 1 loss 3.5 " + b"x" * 100_000 + b"\nstep 2 loss 3.25\n"
    assert [one.step for one in read_log([log]).records if isinstance(one, Window)] == [2]


def test_very_many_labels_are_taken_off_at_once() -> None:
    before = time.process_time()
    lines = list(clean_lines(b"[rank3]: " * 700_000 + b"step 2 loss 3.25"))
    assert [(line.text, line.rank) for line in lines] == [("step 2 loss 3.25", 3)]
    assert time.process_time() - before < _CPU_SECONDS


def test_a_hole_of_nul_bytes_hides_no_step() -> None:
    log = b"step 1 loss 3.5\n" + b"\0" * 500_000 + b"step 2 loss 3.25\n"
    assert [one.step for one in read_log([log]).records if isinstance(one, Window)] == [1, 2]

"""What single values may be: each kind of text, by what it takes and what it refuses."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from clusterjobs.spec import code, names, words
from clusterjobs.spec.references import variable

P = variable("LR")


@pytest.mark.parametrize(
    ("read", "value", "result"),
    [
        (words.word, "a b", "a b"),
        (words.word, "", ""),
        (words.word, 7, "7"),
        (
            code.command_words,
            "./run --name 'a b' \"c\" d\\ e",
            ("./run", "--name", "a b", "c", "d e"),
        ),
        (code.command_words, ["prog", "a;b", "$(id)", 3], ("prog", "a;b", "$(id)", "3")),
        (code.command_words, "echo '$(id) | x' \"a;b\"", ("echo", "$(id) | x", "a;b")),
        (code.command_words, "echo $HOME", ("echo", "$HOME")),
        (code.lines_of_code, "a\nb\n", ("a", "b")),
        (code.lines_of_code, ["a | b", "c"], ("a | b", "c")),
        (words.path, "/fsx/a b", "/fsx/a b"),
        (words.path, "${HOME}/x", "${HOME}/x"),
        (words.path, f"/fsx/{P}", f"/fsx/{P}"),
        (words.job_name, "übung 1", "übung 1"),
        (words.time_limit, 90, "90"),
        (words.time_limit, "12:00:00", "12:00:00"),
        (words.time_limit, "2-00", "2-00"),
        (words.time_limit, "2-00:00:00", "2-00:00:00"),
        (words.time_limit, "UNLIMITED", "UNLIMITED"),
        (words.option_value, True, True),
        (words.option_value, 4, "4"),
        (words.argument, [1, "a"], ("1", "a")),
        (words.argument, False, False),
        (names.environment_name, "_A1", "_A1"),
        (names.parameter_name, "LR_2", "LR_2"),
        (words.directive_name, "mail-type", "mail-type"),
    ],
)
def test_takes(read: Callable[[Any], Any], value: object, result: object) -> None:
    assert read(value) == result


@pytest.mark.parametrize(
    ("read", "value", "says"),
    [
        (words.word, True, "quote it"),
        (words.word, None, '""'),
        (words.word, [], "single value"),
        (words.word, "x" * 131_072, "longer than Linux"),
        (words.word, "ü" * 65_536, "longer than Linux"),
        (code.command_words, "a | b", "'|'"),
        (code.command_words, "a && b", "'&'"),
        (code.command_words, "a > f", "'>'"),
        (code.command_words, "a `id`", "'`'"),
        (code.command_words, "a $(id)", "'$('"),
        (code.command_words, "a 'b", "quote"),
        (code.command_words, "", "empty"),
        (code.command_words, [], "empty"),
        (code.command_words, ["", "a"], "empty"),
        (code.lines_of_code, 5, "line of bash"),
        (code.lines_of_code, f"echo {P}", "$NAME"),
        (code.lines_of_code, "a\r\nb", "carriage return"),
        (words.path, "", "empty"),
        (words.path, "~/x", "${HOME}"),
        (words.path, "a\nb", "line break"),
        (words.path, "a\u2028b", "U+2028"),
        (words.job_name, "a/b", "/"),
        (words.job_name, "-a", "-"),
        (words.job_name, " a", "space"),
        (words.job_name, "..", "empty"),
        (words.job_name, "a\x1bb", "U+001B"),
        (words.job_name, "é" * 101, "200 bytes"),
        (words.job_name, f"a{P}", "parameter"),
        (words.time_limit, "1h", "12:00:00"),
        (words.time_limit, "1-", "Slurm time"),
        (words.time_limit, "1:2:3:4", "Slurm time"),
        (words.time_limit, "12:00:00\n", "Slurm time"),
        (words.time_limit, 1.5, "Slurm time"),
        (words.option_value, "a\n#SBATCH --x", "line break"),
        (words.option_value, P, "parameter"),
        (words.argument, None, "true for a bare flag"),
        (words.argument, {"a": 1}, "single value"),
        (names.environment_name, "A B", "letters, digits"),
        (names.environment_name, "A\n", "letters, digits"),
        (names.environment_name, "ÄB", "letters, digits"),
        (names.environment_name, "", "letters, digits"),
        (names.environment_name, "RANK", "launcher"),
        (names.environment_name, "LD_PRELOAD", "reserved"),
        (names.environment_name, "SLURM_X", "reserved"),
        (names.environment_name, "BASH_FUNC_x", "reserved"),
        (names.environment_name, "command", "a variable of the script"),
        (names.environment_name, "VIRTUAL_ENV", "software.venv"),
        (names.parameter_name, "lr", "capitals"),
        (names.parameter_name, "MASTER_PORT", "reserved"),
        (words.directive_name, "--nodes", "dashes"),
        (words.directive_name, "a b", "long name"),
        (words.directive_name, "a\n", "long name"),
        (words.plain, "", "fixed text"),
        (words.plain, P, "fixed text"),
        (words.argument_name, "", "needs a name"),
    ],
)
def test_refuses_and_says_what_to_write(
    read: Callable[[Any], Any], value: object, says: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        read(value)

"""The quoting itself, against bash: each function by its own contract."""

from __future__ import annotations

import contextlib
import subprocess

import pytest
from hostile import ATTACKS, texts
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterjobs.script import shell
from clusterjobs.script.shell import ShellText, UnquotedError
from clusterjobs.text import expanding, joined, variable


def in_bash(script: str) -> list[str]:
    """What printf '%s\\0' printed, without a PATH to run anything from."""
    done = subprocess.run(
        ["/bin/bash", "--norc"],
        input=script.encode(),
        env={"PATH": "/nonexistent", "V": 'it\'s $(x) `y` "z" \\ *\n', "LANG": "C.UTF-8"},
        capture_output=True,
        check=True,
    )
    assert done.stderr == b""
    return [word.decode() for word in done.stdout.split(b"\0")[:-1]]


@settings(settings.get_profile("adversarial"), max_examples=150)
@given(st.lists(texts, min_size=1, max_size=40))
def test_quoted_words_come_out_of_bash_as_they_were(words: list[str]) -> None:
    line = " ".join(map(shell.quote, words))
    assert in_bash(f"printf '%s\\0' {line}\n") == words
    assert in_bash(f"a=({line})\nprintf '%s\\0' \"${{a[@]}}\"\n") == words


@settings(settings.get_profile("adversarial"), max_examples=150)
@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=30))
def test_a_variable_inside_hostile_text_is_all_that_expands(around: list[tuple[str, str]]) -> None:
    value = 'it\'s $(x) `y` "z" \\ *\n'
    line = " ".join(shell.quote(joined(pair[0], variable("V"), pair[1])) for pair in around)
    assert in_bash(f"printf '%s\\0' {line}\n") == [value.join(pair) for pair in around]


def test_every_attack_around_a_variable() -> None:
    for text in ATTACKS:
        line = shell.quote(joined(text, variable("V"), text))
        assert in_bash(f"V=v\nprintf '%s\\0' {line}\n") == [f"{text}v{text}"], text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${V}", "v"),
        ("a${V}b${V}", "avbv"),
        ("$${V}", "${V}"),
        ("$$${V}", "$${V}"),
        ("$V", "$V"),
        ("${V", "${V"),
        ("${}", "${}"),
        ("${1}", "${1}"),
        ("${V:-x}", "v"),
        ("${W:-x}", "x"),
        ("a${W:-}b", "ab"),
        ("${W:-/a b:~-%^@+=,.}", "/a b:~-%^@+=,."),
        ("${W:-${V}}", "v"),
        ("${W:-~/x}", "/home/v/x"),
        ("~/x", "/home/v/x"),
        ("~", "/home/v"),
        ("a~/x", "a~/x"),
        ("~x/y", "~x/y"),
        ("$$V1 $$(x) $$1 $${V:-x}", "$V1 $(x) $$1 ${V:-x}"),
        ("${W:-$(touch owned)}", "${W:-$(touch owned)}"),
        ("${W:-`touch owned`}", "${W:-`touch owned`}"),
        ('${W:-"}', '${W:-"}'),
        ("$(x)${V}`x`", "$(x)v`x`"),
        ("${V}é", "vé"),
        ("${V}[0]", "v[0]"),
        ("${V}_x", "v_x"),
        ("\\${V}", "\\v"),
    ],
)
def test_only_names_with_plain_defaults_and_the_home_folder_expand(
    text: str, expected: str
) -> None:
    word = shell.quote(expanding(text))
    assert in_bash(f"V=v HOME=/home/v\nprintf '%s\\0' {word}\n") == [expected]


@pytest.mark.parametrize("body", ["END", "END\nEND_", "x\nEND\ny\nEND_\nEND__", "", "\\", "$(x)"])
def test_no_line_of_a_file_ends_its_here_document(body: str) -> None:
    word = shell.heredoc_word(body)
    text = f"mapfile -d '' a <<'{word}'\n{shell.verbatim(body)}\n{word}\nprintf '%s\\0' \"$a\"\n"
    assert in_bash(text) == [body + "\n"]


@settings(settings.get_profile("adversarial"), max_examples=100)
@given(st.lists(texts, min_size=1, max_size=20))
def test_a_default_is_refused_or_arrives(defaults: list[str]) -> None:
    words = {}
    for text in (*defaults, "/a b:~-%^@+=,."):
        with contextlib.suppress(UnquotedError):
            words[text] = shell.quote(variable("W", default=text))
    assert in_bash(f"printf '%s\\0' {' '.join(words.values())}\n") == list(words)


def test_what_nobody_quoted_is_not_printed() -> None:
    for value in ("text", True, None, 1.5, ["a"], b"a"):
        with pytest.raises(UnquotedError):
            shell.finalize(value)
    assert shell.finalize(ShellText("x")) == "x"
    assert shell.finalize(3) == "3"


def test_a_directive_holds_no_line_break_whoever_asks() -> None:
    for text in ("a\nb", "a\r", "a\x85", "a\u2028", "\0"):
        with pytest.raises(UnquotedError):
            shell.directive("comment", text)

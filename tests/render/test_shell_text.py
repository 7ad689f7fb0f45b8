"""Every text arrives in the program byte for byte, and nothing of it is executed."""

from __future__ import annotations

import contextlib
import re
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterjobs.script import shell
from clusterjobs.script.shell import ShellText, UnquotedError
from clusterjobs.spec.references import BadReferenceError, expand
from clusterjobs.text import Text, expanding, joined, variable

# Everything UTF-8 can say but NUL, with what shells care about far more often than by chance.
SIGNS = [*"'\"\\$`!*?[]{}()<>|&;~#%=,:+-^@ \t\n\r\x07\x1b\x7f\x85\u2028\u2029", "${", "$("]
TEXTS = st.lists(
    st.sampled_from(SIGNS)
    | st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=4),
    max_size=12,
).map("".join)
BATCHES = st.lists(TEXTS, min_size=1, max_size=60)


def bash(script: str) -> list[bytes]:
    """What the words after `show` are for a program that bash starts."""
    done = subprocess.run(
        ["bash", "--norc", "-c", "set -euo pipefail; show() { printf '%s\\0' \"$@\"; }\n" + script],
        capture_output=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
    )
    assert done.stderr == b""
    return done.stdout.split(b"\0")[:-1]


def encoded(texts: list[str]) -> list[bytes]:
    return [text.encode() for text in texts]


@settings(max_examples=300, deadline=None)
@given(BATCHES)
def test_quote_gives_bash_the_text_byte_for_byte(texts: list[str]) -> None:
    assert bash("show " + " ".join(map(shell.quote, texts))) == encoded(texts)


@settings(max_examples=40, deadline=None)
@given(BATCHES)
def test_quote_survives_an_array_and_an_export(texts: list[str]) -> None:
    lines = "\n".join(f"  {shell.quote(text)}" for text in texts)
    assert bash(f'words=(\n{lines}\n)\nshow "${{words[@]}}"') == encoded(texts)
    exported = f'export NAME={shell.quote(texts[0])}; show "$NAME"'
    assert bash(exported) == encoded(texts[:1])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=30))
def test_quote_puts_the_scripts_own_variables_between_literal_texts(
    pairs: list[tuple[str, str]],
) -> None:
    words = [shell.quote(joined(before, variable("job_dir"), after)) for before, after in pairs]
    value = "/a b/$HOME*"
    assert bash(f"job_dir='{value}'\nshow " + " ".join(words)) == encoded(
        [f"{before}{value}{after}" for before, after in pairs]
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=30))
def test_names_in_braces_expand_and_nothing_else(
    pairs: list[tuple[str, str]],
) -> None:
    pairs = [(tame(before), tame(after)) for before, after in pairs]
    words = [shell.quote(expanding(f"{before}${{NAME}}{after}")) for before, after in pairs]
    value = "a  b*$X"
    assert bash(f"NAME='{value}'\nshow " + " ".join(words)) == encoded(
        [f"{before}{value}{after}" for before, after in pairs]
    )


def tame(text: str) -> str:
    """No `${` of its own, and no dollar that the one that follows would escape."""
    return re.sub(r"\$+(?=[$({])|\$+$", "", text)


@pytest.mark.parametrize(
    ("written", "arrives"),
    [
        ("$${NAME}", "${NAME}"),
        ("a$${b}${NAME}", "a${b}value"),
        ("$NAME", "$NAME"),
        ("$(id)", "$(id)"),
        ("${NAME:+x}", "${NAME:+x}"),
        ("${NAME", "${NAME"),
        ("${1}", "${1}"),
        ("${NAME}_x", "value_x"),
        ("${NAME}[0]", "value[0]"),
        ("${NAME}\n'\"", "value\n'\""),
        ("`id` ${NAME} \\", "`id` value \\"),
    ],
)
def test_all_other_dollars_stay_literal(written: str, arrives: str) -> None:
    assert bash(f"NAME=value\nshow {shell.quote(expanding(written))}") == [arrives.encode()]


def test_an_unset_variable_stops_the_script_unless_it_may_be_empty() -> None:
    assert bash(f"show x{shell.quote(variable('NOT_SET'), unset='-')}") == [b"x"]
    with pytest.raises(subprocess.CalledProcessError):
        bash(f"show {shell.quote(variable('NOT_SET'))}")


@pytest.mark.parametrize("text", ["abc", "a-b_c", "/fsx/a.b", "1.5e-4", "s3://bucket/x", "a=b:c"])
def test_plain_words_stay_as_they_are(text: str) -> None:
    assert shell.quote(text) == text


@pytest.mark.parametrize("text", ["", "~", "-n x", "a,b", "#x", "{a}", "=(x)", "!x", "a\u2028b"])
def test_what_bash_or_a_linter_would_stumble_over_is_quoted(text: str) -> None:
    assert shell.quote(text) != text


@given(TEXTS)
def test_comment_stays_on_its_line(text: str) -> None:
    made = shell.comment(text)
    assert isinstance(made, ShellText)
    assert len(f"x{made}x".splitlines()) == 1


@settings(max_examples=50, deadline=None)
@given(TEXTS)
def test_comment_executes_nothing(text: str) -> None:
    assert bash(f"# {shell.comment(text)}\nshow end") == [b"end"]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(["END", "END_", "END__", " END", "", "$(id)", "`x`", "${y}"])))
def test_heredoc_word_is_no_line_of_the_text(lines: list[str]) -> None:
    text = "\n".join([*lines, "last"])
    word = shell.heredoc_word(text)
    assert bash(f"show \"$(cat <<'{word}'\n{text}\n{word}\n)\"") == [text.encode()]


@pytest.mark.parametrize("value", ["rm -rf /", "", 1.5, True, None, ["a"], b"x"])
def test_finalize_refuses_what_nobody_quoted(value: object) -> None:
    with pytest.raises(UnquotedError):
        shell.finalize(value)


def test_finalize_prints_shell_text_and_whole_numbers() -> None:
    assert shell.finalize(ShellText("'a b'")) == "'a b'"
    assert shell.finalize(8) == "8"


def test_shell_text_that_is_changed_is_no_shell_text_any_more() -> None:
    for changed in (ShellText("a") + "b", ShellText("a").upper(), f"{ShellText('a')}"):
        with pytest.raises(UnquotedError):
            shell.finalize(changed)


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("exclusive", True, "#SBATCH --exclusive"),
        ("nodes", 4, "#SBATCH --nodes=4"),
        ("mail-type", "BEGIN,END", "#SBATCH --mail-type=BEGIN,END"),
        ("comment", "a # b", "#SBATCH --comment='a # b'"),
        ("comment", "it's", "#SBATCH --comment='it\\'s'"),
        ("comment", "", "#SBATCH --comment=''"),
    ],
)
def test_directive_is_quoted_as_sbatch_reads_it(name: str, value: str, line: str) -> None:
    assert shell.directive(name, value) == line


@given(TEXTS.map(lambda text: "".join(sign for sign in text if shell.comment(sign) == sign)))
def test_directive_reads_back_under_the_rules_of_sbatch(text: str) -> None:
    line = shell.directive("comment", text)
    assert sbatch_words(line.removeprefix("#SBATCH ")) == [f"--comment={text}"]


def sbatch_words(line: str) -> list[str]:
    """Slurm's _get_argument (src/sbatch/opt.c) in Python: a backslash escapes in quotes too."""
    words, word, quote, escaped, begun = [], "", "", False, False
    for sign in line:
        if escaped:
            word, escaped = word + sign, False
        elif sign == "\\":
            escaped = begun = True
        elif quote:
            word, quote = (word, "") if sign == quote else (word + sign, quote)
        elif sign in "'\"":
            quote, begun = sign, True
        elif sign == " ":
            words, word, begun = ([*words, word] if begun else words), "", False
        elif sign == "#":
            break
        else:
            word, begun = word + sign, True
    return [*words, word] if begun else words


PLAIN = st.text(st.sampled_from("aZ0é語_ @%+=:,./^-"), max_size=12)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(PLAIN, TEXTS), min_size=1, max_size=30))
def test_quote_gives_an_unset_variable_its_default(pairs: list[tuple[str, str]]) -> None:
    words = [
        shell.quote(joined(expand(f"{{{{ env.X | default('{default}') }}}}", node), text))
        for default, text in pairs
    ]
    assert bash("show " + " ".join(words)) == encoded([one + text for one, text in pairs])


@given(TEXTS)
def test_a_default_is_plain_or_refused(text: str) -> None:
    with contextlib.suppress(BadReferenceError):
        word = shell.quote(expand(f'{{{{ env.X | default("{text}") }}}}', node))
        assert re.fullmatch(r'"\$\{NOT_SET:-[^$`\\"\'{}()<>]*\}"', word)


def node(_name: str) -> Text:
    return variable("NOT_SET", required=True)


def test_quote_prefers_a_value_to_its_default() -> None:
    word = shell.quote(variable("SET", default="other"))
    assert bash(f"SET='$(echo no)'; show {word}") == [b"$(echo no)"]
    assert bash(f"SET=''; show {word}") == [b"other"]


@pytest.mark.parametrize(
    ("code", "calls"),
    [
        ("module load cuda", True),
        ("true && ml cuda", True),
        ("if [[ -d /sw ]]; then module use /sw; fi", True),
        ("  module purge\nmodule load a", True),
        ("echo module load", False),
        ("# module load", False),
        ("modules=3", False),
        ("python -m module load", False),
    ],
)
def test_calls_of_module_are_found(code: str, calls: bool) -> None:
    assert shell.calls_module(code) == calls

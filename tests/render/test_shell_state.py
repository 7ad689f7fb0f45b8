"""What lines of bash change in the shell that runs them, however they are written."""

from __future__ import annotations

import pathlib
import re

import pytest

from clusterjobs.errors import InputError
from clusterjobs.script.site import shell_state
from clusterjobs.script.site.shell_state import commands_of, state_changes

CHANGES = {
    "exit-code": "finish() { exit 0; }",
    "early-end": r"""
        exit 0
        \exit 0
        $'ex\x69t' 0
        e"xi"t 3
        command exit 0
        builtin -- exit
        { exit 0; }
        {exit,0}
        if true; then exit 1; fi
        [[ -d /x ]] || exit 1
        case $X in a) exit 1;; esac
        time exit 3
        ! exit 3
        eval "exit 0"
        x="exit 0"; $x
        x='exit 0'; eval "$x"
        return 0
        """,
    "strict-mode": r"""
        set +e
        eval 'se''t +e'
        set +euo pipefail
        shopt -uo pipefail
        x=+e; set $x
        true && set +e
        if true; then set +e; else set -e; fi
        while false; do set +u; done
        f() { set +e; }
        set -f
        set -o posix
        shopt -s nullglob
        """,
    "exit-trap": r"""
        trap - EXIT
        trap : 0
        trap "$x" SIGINT EXIT
        eval "trap - EXIT"
        exec python3 x.py
        kill -9 $$
        """,
    "signal-traps": r"""
        trap '' TERM
        trap - SIGUSR1
        trap 'echo x' ERR
        """,
    "functions": r"""
        srun() { echo "$@"; }
        function srun { echo; }
        alias srun=echo
        unset -f run_ranks
        enable -n wait
        """,
    "shell-state": r"""
        exec >/dev/null
        exec 2>&1
        exec <&-
        IFS=,
        export IFS=,
        read -r IFS <<< ,
        printf -v IFS ,
        for IFS in a b; do :; done
        : "${IFS:=,}"
        (( IFS = 2 ))
        cd /tmp
        cd "$x"
        pushd /tmp
        . /dev/stdin <<< "set +e"
        """,
    "no-trace": r"""
        set -x
        ( set -x; ls )
        ls | bash -ex
        eval "set -v"
        """,
    "rendezvous": "unset MASTER_ADDR",
}
NO_CHANGES = r"""
    ( set +e; cmd; exit 1 )
    set +e; foo; set -e
    set +u; . /etc/profile; set -u
    x=$(set +e; cd /tmp; pwd)
    foo | while read -r a; do exit 1; done
    exec {fd}<> /tmp/x
    { echo a; } > /dev/null
    IFS=, read -r a b <<< "1,2"
    old=$IFS; IFS=,; read -r a b <<< "x,y"; IFS=$old
    IFS=, ; set -- $LIST; unset IFS
    shopt -s nullglob; for f in *; do :; done; shopt -u nullglob
    eval "$(conda shell.bash hook)"
    source /etc/profile.d/modules.sh
    ulimit -l unlimited
    [[ -d /data ]] || fail "no /data"
    trap -p
    ( trap 'rm -f x' EXIT; work )
    cd /opt/x; . ./env.sh; cd -
    before=$PWD; cd /opt/x; . ./env.sh; cd "$before"
    pushd /opt >/dev/null; ls; popd >/dev/null
    echo "exit 0" "set +e" 'trap - EXIT'
    timeout 5 bash -c 'set +e; exit 3'
    sleep 100 & kill $!
    coproc { exit 0; }
    declare -A map=([a]=1)
    old=$(shopt -po nounset); set +u; . x; eval "$old"
    old=$(set +o); set +u; . x; eval "$old"
    old=$(shopt -po nounset); set +u; . x; $old
    case $x in esac
    """


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


@pytest.mark.parametrize(
    ("kind", "code"), [(kind, code) for kind, text in CHANGES.items() for code in lines(text)]
)
def test_a_change_is_found_however_it_is_written(kind: str, code: str) -> None:
    assert kind in {one.kind for one in state_changes(f"date\n{code}\n")}
    assert {one.line for one in state_changes(f"date\n{code}\n")} == {2}


@pytest.mark.parametrize("code", lines(NO_CHANGES))
def test_what_is_undone_or_stays_in_a_subshell_is_no_change(code: str) -> None:
    assert state_changes(f"{code}\n") == ()


@pytest.mark.parametrize(
    "code", ['eval "$(program)"', 'cd /tmp; eval "$old"', "$program", "x=1; $x"]
)
def test_code_that_only_the_job_knows_restores_options_of_a_variable_alone(code: str) -> None:
    assert state_changes(f"set +e; {code}\n") != ()


@pytest.mark.parametrize(
    "code",
    [
        "[[ -d /x ]] || exit 1",
        "if a; then b; elif c; then exit $x; fi",
        "case $x in a) return 3;; esac",
        "while a; do exit 1; done",
        "for i in $x; do { exit 1; }; done",
        "a && eval 'exit 2'",
    ],
)
def test_an_end_with_another_code_than_0_may_be_meant_for_some_jobs(code: str) -> None:
    (found,) = state_changes(f"{code}\n")
    assert (found.warning, "ends the job" in found.what) == (True, True)
    (zero,) = state_changes(re.sub(r"(exit|return) [^ ;']+", "exit 0", code) + "\n")
    assert not zero.warning


@pytest.mark.parametrize(
    "code",
    ["exit 1", "exit $x", "{ return 3; }", "exit 1 || a", "eval 'exit 2'", "main() { exit 1; }"],
)
def test_an_end_of_every_job_is_not_meant(code: str) -> None:
    code = f"a || b; if c; then d; fi\n{code}\n"
    (found,) = [one for one in state_changes(code) if one.kind == "early-end"]
    assert (found.warning, "ends every job" in found.what) == (False, True)


def test_a_shfmt_with_numbers_for_operators_is_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "shfmt"
    old.write_text("""#!/bin/sh\necho '{"Stmts": [{"Cmd": {"Op": 13}}]}'\n""")
    old.chmod(0o755)
    usable = pathlib.Path(shell_state._shfmt())
    monkeypatch.setattr("sys.executable", str(tmp_path / "python3"))
    monkeypatch.setenv("PATH", str(usable.parent))
    assert shell_state._shfmt() == str(usable)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"^shfmt 3\.14 or newer is needed"):
        state_changes("date\n")


def test_commands_are_those_of_all_shells() -> None:
    assert commands_of("a | b && (c); x=$(d); f() { e; }\n") >= {"a", "b", "c", "d", "e"}

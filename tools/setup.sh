#!/usr/bin/env bash
# Makes .venv: clusterjobs in editable mode, with the extras asked for.
#
#   tools/setup.sh train                        what `make demo` needs
#   tools/setup.sh dev train aws frameworks     what `make test` needs
#
# Needs only Python 3.10 or newer (to choose one: PYTHON=/path/to/python3) and a package index. If
# .venv is up to date, it does nothing. If the dependencies have changed, or if an earlier run was
# interrupted, it starts again from nothing. It changes nothing outside this folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly venv=.venv
readonly state=$venv/.setup     # fingerprint, unfinished, one empty file per installed extra
work=                           # temporary folder, created if needed

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

main() {
    (($#)) || die "name the extras to install: dev, train, aws, frameworks"
    take_turn
    trap clean_up EXIT
    trap 'say "interrupted; the next run starts from nothing"; exit 130' INT TERM
    local python wanted missing=() extra
    python=$(find_python)
    wanted=$(fingerprint "$python")
    is_sound "$wanted" || discard_venv
    for extra; do [[ -e $state/$extra ]] || missing+=("$extra"); done
    if ((${#missing[@]})); then
        [[ -d $venv ]] || make_venv "$python" "$wanted"
        install_extras "${missing[@]}"
    fi
}

# Two runs of `make` must not write into one environment. The lock is released with this process.
take_turn() {
    command -v flock >/dev/null || return 0
    exec 9>.venv.lock
    flock --nonblock 9 && return
    say "waiting for another set-up in this folder"
    flock 9
}

clean_up() {
    [[ -z $work ]] || rm -rf "$work"
    [[ -z ${ticker:-} ]] || kill "$ticker" 2>/dev/null || true
}

find_python() {
    local candidate
    for candidate in ${PYTHON:+"$PYTHON"} python3 python3.14 python3.13 python3.12 python3.11 python3.10; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            # The base interpreter behind an activated .venv or a shim: .venv must not be its own base.
            "$candidate" -c 'import sys; print(sys._base_executable)'
            return
        fi
    done
    die "no Python 3.10 or newer found: install one, or give its path: make PYTHON=/path/to/python3"
}

# Identifies the inputs of an environment. It covers only the part of pyproject.toml that decides what
# is installed, so that a changed lint rule does not cause a new installation.
fingerprint() {
    {
        pwd
        "$1" -c 'import sys; print(sys.version, sys.base_prefix)'
        sed '/^\[tool\./,$d' pyproject.toml
        cat constraints.txt
    } | sha256sum
}

is_sound() {
    [[ -e $state/fingerprint && ! -e $state/unfinished && $(<"$state/fingerprint") == "$1" ]]
}

# Renamed before it is removed, so that there is never a partial environment.
discard_venv() {
    [[ -d $venv ]] && mv "$venv" ".venv.old.$$"
    rm -rf .venv.old.*
}

make_venv() {
    local python=$1 wanted=$2
    say "making $venv with $("$python" --version)"
    if "$python" -c 'import ensurepip' 2>/dev/null; then
        "$python" -m venv "$venv"
    else
        make_venv_without_ensurepip "$python"
    fi
    mkdir "$state"
    printf '%s\n' "$wanted" >"$state/fingerprint"
}

# On Debian and Ubuntu, ensurepip is in a separate package, python3-venv. Only pip's wheel is missing:
# fetch and unpack it here, which needs no root and does not change the system.
make_venv_without_ensurepip() {
    local python=$1 wheel
    local hint="install python3-venv (apt-get install python3-venv) and run this again"
    command -v apt-get >/dev/null || die "Python's module ensurepip is missing: $hint"
    say "Python's module ensurepip is missing: fetching pip's wheel from the package python3-pip-whl"
    work=$(mktemp -d)
    fetch_pip_wheel >"$work/log" 2>&1 || { cat "$work/log" >&2; die "fetching it failed: $hint"; }
    wheel=$(find "$work/usr/share/python-wheels" -name 'pip-*.whl' | sort | tail -n 1)
    [[ -n $wheel ]] || die "python3-pip-whl has no pip wheel: $hint"
    "$python" -m venv --without-pip "$venv"
    PYTHONPATH=$wheel "$venv/bin/python" -m pip install --quiet pip
}

# With its own package lists and cache: those of the machine may be missing, old, or readable only by
# root.
fetch_pip_wheel() {
    local apt=(-o "Dir::State=$work/state" -o "Dir::State::status=/var/lib/dpkg/status"
        -o "Dir::Cache=$work/cache" -o "APT::Sandbox::User=$(id -un)")
    mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial"
    apt-get "${apt[@]}" update
    (cd "$work" && apt-get "${apt[@]}" download python3-pip-whl)
    dpkg -x "$work"/python3-pip-whl_*.deb "$work"
}

install_extras() {
    local extras log=$state/pip.log
    extras=$(IFS=,; echo "$*")
    say "installing clusterjobs with $extras; the first time this takes some minutes"
    touch "$state/unfinished"
    show_progress &
    ticker=$!
    "$venv/bin/python" -m pip install --disable-pip-version-check --no-input --progress-bar off \
        --constraint constraints.txt --editable ".[$extras]" >"$log" 2>&1 9>&- || {
        grep -v '^WARNING: Location' "$log" | tail -n 20 >&2
        die "pip failed; its output is in $log"
    }
    (cd "$state" && touch "$@")
    rm "$state/unfinished"
    say "done in $SECONDS s"
}

show_progress() {
    exec 9>&-
    while sleep 15 >/dev/null 2>&1; do      # `sleep` outlives this loop, and must not keep a pipe open
        say "$SECONDS s, $(du -sm "$venv" 2>/dev/null | cut -f1) MB so far"
    done
}

main "$@"

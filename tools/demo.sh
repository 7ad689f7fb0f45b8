#!/usr/bin/env bash
# Run by `make demo`: renders a spec, submits it to a real two-node Slurm on this machine, and follows
# the job to its end. Needs .venv/bin first on PATH, which `make demo` sets.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly spec=examples/tiny-gpt.yaml
readonly lab=demo

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[[ -t 1 ]] || say() { printf '\n%s\n' "$*"; }

take_down() {
    local status=$?
    trap - EXIT
    say "Taking the lab down"
    clusterjobs lab down --name "$lab"
    exit "$status"
}

say "1. Rendering $spec"
clusterjobs render "$spec" -o generated

say "2. Starting a Slurm of two nodes on this machine"
trap take_down EXIT
clusterjobs lab down --name "$lab" --delete # else the job would resume an earlier demo's checkpoint
clusterjobs lab up small --name "$lab"

say "3. Submitting generated/job.sh and following it"
mkdir -p .demo
log=$(mktemp .demo/job-XXXXXX.log)
clusterjobs lab run --name "$lab" generated/job.sh --output="$log"

say "4. Results"
sed -n 's/^\([0-9]*: \)\{0,1\}\(step [0-9/]* loss [0-9.]*\).*/\2/p' "$log" | sed -n '1p;$p'
shared=$(clusterjobs lab status --name "$lab" --json \
    | python3 -c 'import json, sys; print(json.load(sys.stdin)["shared"]["/fsx"])')
printf 'the script      %s\nlogs            %s\ncheckpoints     %s\n' \
    generated/job.sh "$shared/logs/tiny-gpt" "$shared/checkpoints/tiny-gpt"

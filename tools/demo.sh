#!/usr/bin/env bash
# Run by `make demo`: renders a spec, submits it to a real two-node Slurm on this machine, and follows
# the job to its end. Needs .venv/bin first on PATH, which `make demo` sets. All files go into .demo,
# which `make clean` removes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly spec=examples/tiny-gpt.yaml
readonly lab=demo
readonly own_cache=${XDG_CACHE_HOME:-$HOME/.cache}
export XDG_STATE_HOME=$PWD/.demo/state XDG_CACHE_HOME=$PWD/.demo/cache

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[[ -t 1 ]] || say() { printf '\n%s\n' "$*"; }

take_down() {
    local status=$?
    trap - EXIT
    say "Taking the lab down"
    clusterjobs lab down --name "$lab"
    ((status)) || next_steps
    exit "$status"
}

next_steps() {
    say "Next"
    cat <<'END'
Use the command in this shell:          export PATH="$PWD/.venv/bin:$PATH"
See each derived number, and why:       clusterjobs plan examples/tiny-gpt.yaml
Change the example and run it again:    clusterjobs lab up small
                                        clusterjobs lab run examples/tiny-gpt.yaml --set name=slower --set args.lr=1e-3
                                        clusterjobs lab down
Write your own spec:                    README.md, "Quick start"
Remove all that this demo has made:     make clean
END
}

# Slurm's packages, if a lab has unpacked them before
mkdir -p .demo/cache/clusterjobs
find "$own_cache/clusterjobs" -maxdepth 1 -name 'slurm-*' \
    -exec ln -sfn -t .demo/cache/clusterjobs {} + 2>/dev/null || true

say "1. Rendering $spec"
clusterjobs render "$spec" -o .demo/generated

say "2. Starting a Slurm of two nodes on this machine"
trap take_down EXIT
if [[ -e $XDG_STATE_HOME/clusterjobs/labs/$lab ]]; then
    clusterjobs lab down --name "$lab" --delete # else the job would resume an earlier demo's checkpoint
fi
clusterjobs lab up small --name "$lab" --slurm own # what this machine has: a smaller download

say "3. Submitting .demo/generated/job.sh and following it"
log=$(mktemp .demo/job-XXXXXX.log)
clusterjobs lab run --name "$lab" .demo/generated/job.sh --output="$log"

say "4. Results"
sed -n 's/^\([0-9]*: \)\{0,1\}\(step [0-9/]* loss [0-9.]*\).*/\2/p' "$log" | sed -n '1p;$p'
shared=$(clusterjobs lab status --name "$lab" --json \
    | python3 -c 'import json, sys; print(json.load(sys.stdin)["shared"]["/fsx"])')
printf 'the script      %s\nlogs            %s\ncheckpoints     %s\n' \
    .demo/generated/job.sh "$shared/logs/tiny-gpt" "$shared/checkpoints/tiny-gpt"

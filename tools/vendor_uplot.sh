#!/usr/bin/env bash
# Puts uPlot, the plots of `clusterjobs report --html`, into the package: its code, its styles and its
# licence, from its npm package at the version below.
#
#   tools/vendor_uplot.sh
#
# Needs npm and openssl. For another version, change both lines; `npm view uplot@VERSION dist.integrity`
# prints the checksum. tests/report/page/test_uplot.py has the checksums of the files.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly version=1.6.32
readonly sha512=KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==
readonly target=clusterjobs/report/page/uplot

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
archive=$work/$(npm pack --silent --pack-destination "$work" "uplot@$version")
found=$(openssl dgst -sha512 -binary "$archive" | base64 -w 0)
if [[ $found != "$sha512" ]]; then
    echo "vendor_uplot: the checksum of uplot@$version is $found, not $sha512: nothing was changed" >&2
    exit 1
fi
tar -xzf "$archive" -C "$work"
mkdir -p "$target"
cp "$work"/package/{LICENSE,dist/uPlot.iife.min.js,dist/uPlot.min.css} "$target"
chmod 644 "$target"/*

#!/bin/bash
# slurmd.sh NAME [SLURMD OPTION]: the Slurm daemon of the node where this runs.
# shellcheck disable=SC1091,SC2154 # daemons.sh is written by folder.py
. /.lab/daemons.sh
echo $$ > "/.lab/nodes/$1/slurmd.pid"
exec "${slurmd[@]}" "${@:2}"

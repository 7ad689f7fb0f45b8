#!/bin/bash
# slurmd.sh NAME [SLURMD OPTION]: the Slurm daemon of the node that this runs in.
. /.lab/daemons.sh
echo $$ > "/.lab/nodes/$1/slurmd.pid"
exec "${slurmd[@]}" "${@:2}"

#!/bin/bash
# enter COMMAND [ARGUMENT...]: run a command inside the lab, in the folder this is called from.
# shellcheck disable=SC1091,SC2154 # entrance.sh is written by folder.py
lab=${BASH_SOURCE[0]%/*}
unset "${!SLURM@}" # another cluster's job, if this runs in one, means nothing to the lab
. "$lab/entrance.sh" # entrance=(nsenter options for this lab)

running() { # init's pid may have been used again: its start time says
  { read -r pid started < "$lab/init" && read -r stat < "/proc/$pid/stat"; } 2> /dev/null &&
    read -ra fields <<< "${stat##*) }" && [[ ${fields[19]} == "$started" ]]
}
running || { echo "the lab in $lab is not up" >&2; exit 1; }
# pdeathsig: whoever ends nsenter means the command.
exec nsenter --target "$pid" "${entrance[@]}" -- \
  setpriv --pdeathsig TERM -- env --chdir="$PWD" SLURM_CONF=/.lab/slurm.conf "$@"

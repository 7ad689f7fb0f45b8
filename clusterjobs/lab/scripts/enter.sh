#!/bin/bash
# enter COMMAND [ARGUMENT...]: run a command in the lab, in the current folder.
# shellcheck disable=SC1091,SC2154 # entrance.sh is written by folder.py
lab=${BASH_SOURCE[0]%/*}
unset "${!SLURM@}" # they may belong to a job of another cluster
. "$lab/entrance.sh" # entrance=(nsenter options for this lab)

running() { # the start time detects a reused pid of init
  { read -r pid started < "$lab/init" && read -r stat < "/proc/$pid/stat"; } 2> /dev/null &&
    read -ra fields <<< "${stat##*) }" && [[ ${fields[19]} == "$started" ]]
}
running || { echo "the lab in $lab is not running" >&2; exit 1; }
# pdeathsig: when nsenter is killed, the command must end too.
exec nsenter --target "$pid" "${entrance[@]}" -- \
  setpriv --pdeathsig TERM -- env --chdir="$PWD" SLURM_CONF=/.lab/slurm.conf "$@"

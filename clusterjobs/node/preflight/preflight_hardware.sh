# shellcheck shell=bash
# What preflight_node.sh asks of a node's GPUs and its EFA devices. See there.
# shellcheck disable=SC2154 # `lacking` and `said` are its own

# NVIDIA's nvidia-smi manual: --query-gpu, and what it counts as uncorrected ECC errors.
check_gpus() { # COUNT
  local wanted="$1, no uncorrected ECC errors" fields=name,ecc.errors.uncorrected.volatile.total
  local said line name errors names='' broken='' count=0 IFS=$'\n'
  type -P nvidia-smi > /dev/null || { say gpus "$lacking" 'no nvidia-smi' "$wanted"; return; }
  run nvidia-smi "--query-gpu=$fields" --format=csv,noheader \
    || { say gpus bad "$said" "$wanted"; return; }
  for line in $said; do
    name=${line%, *} errors=${line##*, }
    [[ $line == *', '* && $errors == [0-9[N]* ]] || continue # a warning is none
    [[ $names == *"$name"* ]] || names+="${names:+ and }$name"
    [[ $errors != *[!]\[0NA/\ ]* ]] || broken+="${broken:+, }GPU $count has $errors"
    (( ++count ))
  done
  said="$count${names:+ $names}${broken:+, ECC errors: $broken}"
  say_whether "$(( count >= $1 && ! ${#broken} ))" gpus "$said" "$wanted"
}

check_processes() {
  local wanted='none on the GPUs' said line found='' IFS=$'\n'
  type -P nvidia-smi > /dev/null || { say processes "$lacking" 'no nvidia-smi' "$wanted"; return; }
  run nvidia-smi --query-compute-apps=pid,process_name --format=csv,noheader \
    || { say processes bad "$said" "$wanted"; return; }
  for line in $said; do
    [[ $line != [0-9]* ]] || found+="${found:+; }$line"
  done
  say_whether "$(( ! ${#found} ))" processes "${found:-none}" "$wanted"
}

# libfabric's fi_info(1): a domain is listed once for each kind of endpoint (-rdm, -dgrm).
check_efa() { # COUNT
  local said line IFS=$'\n'
  local -A domains=()
  type -P fi_info > /dev/null || { say efa "$lacking" 'no fi_info' "$1 domains"; return; }
  run fi_info -p efa || said=
  for line in $said; do
    line=${line#"${line%%[! ]*}"}
    [[ $line != 'domain: '* ]] || line=${line#domain: } domains[${line%-*}]=
  done
  say_whether "$(( ${#domains[@]} >= $1 ))" efa "${#domains[@]} domains" "$1 domains"
}

# EFA pins memory; Slurm hands on the limit of the shell that called sbatch.
check_memlock() {
  local limit total
  limit=$(ulimit -l)
  if [[ $limit == unlimited ]]; then
    say memlock ok unlimited unlimited
  elif [[ $lacking == absent ]] && ! type -P fi_info > /dev/null; then
    say memlock absent "$limit KiB, no EFA to pin memory for" unlimited
  else
    read -r _ total _ < /proc/meminfo
    say_whether "$(( limit >= total ))" memlock "$limit KiB" unlimited
  fi
}

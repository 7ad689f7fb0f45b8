# shellcheck shell=bash
# The checks of GPUs and of the fabric's devices, prepended to preflight_node.sh; see there.
# shellcheck disable=SC2154 # `if_missing` is defined there

# NVIDIA's nvidia-smi manual: --query-gpu, and what it counts as uncorrected ECC errors.
check_gpus() { # COUNT
  local wanted="$1, no uncorrected ECC errors" fields=name,ecc.errors.uncorrected.volatile.total
  local output line name errors names='' broken='' count=0 IFS=$'\n'
  type -P nvidia-smi > /dev/null || { report gpus "$if_missing" 'no nvidia-smi' "$wanted"; return; }
  run nvidia-smi "--query-gpu=$fields" --format=csv,noheader \
    || { report gpus bad "$output" "$wanted"; return; }
  for line in $output; do
    name=${line%, *} errors=${line##*, }
    [[ $line == *', '* && $errors == [0-9[N]* ]] || continue # a warning, not a GPU
    [[ $names == *"$name"* ]] || names+="${names:+ and }$name"
    [[ $errors != *[!]\[0NA/\ ]* ]] || broken+="${broken:+, }GPU $count has $errors"
    (( ++count ))
  done
  output="$count${names:+ $names}${broken:+, ECC errors: $broken}"
  report_test "$(( count >= $1 && ! ${#broken} ))" gpus "$output" "$wanted"
}

check_processes() {
  local wanted='none on the GPUs' output line found='' IFS=$'\n'
  type -P nvidia-smi > /dev/null \
    || { report processes "$if_missing" 'no nvidia-smi' "$wanted"; return; }
  run nvidia-smi --query-compute-apps=pid,process_name --format=csv,noheader \
    || { report processes bad "$output" "$wanted"; return; }
  for line in $output; do
    [[ $line != [0-9]* ]] || found+="${found:+; }$line"
  done
  report_test "$(( ! ${#found} ))" processes "${found:-none}" "$wanted"
}

# libfabric's fi_info(1): a domain is listed once for each kind of endpoint (-rdm, -dgrm). The kernel
# module ib_uverbs makes the class infiniband_verbs (drivers/infiniband/core/uverbs_main.c).
check_efa() { # COUNT
  local output line hint='' IFS=$'\n'
  local -A domains=()
  type -P fi_info > /dev/null || { report efa "$if_missing" 'no fi_info' "$1 domains"; return; }
  run fi_info -p efa || output=
  for line in $output; do
    line=${line#"${line%%[! ]*}"}
    [[ $line != 'domain: '* ]] || line=${line#domain: } domains[${line%-*}]=
  done
  if (( ! ${#domains[@]} )) && [[ ! -e /sys/class/infiniband_verbs ]]; then
    hint='; ib_uverbs is not loaded: sudo modprobe ib_uverbs'
  fi
  report_test "$(( ${#domains[@]} >= $1 ))" efa "${#domains[@]} domains$hint" "$1 domains"
}

# Linux, Documentation/ABI/stable/sysfs-class-infiniband: the state is `4: ACTIVE`. RoCE ports have
# the link layer Ethernet.
check_infiniband() { # COUNT
  local port state layer count=0
  set +f
  for port in /sys/class/infiniband/*/ports/*; do
    [[ -r $port/state ]] || continue
    read -r state < "$port/state"
    read -r layer < "$port/link_layer" || layer=InfiniBand # old drivers have no other
    [[ $state != *ACTIVE || $layer != InfiniBand ]] || (( ++count ))
  done
  report_devices "$count" "$1" infiniband 'active ports'
}

check_cxi() { # COUNT
  local card count=0
  set +f
  for card in /sys/class/cxi/cxi*; do
    [[ ! -e $card ]] || (( ++count ))
  done
  report_devices "$count" "$1" cxi cards
}

report_devices() { # COUNT WANTED CHECK NOUN
  if (( $1 == 0 )); then
    report "$3" "$if_missing" "no $4" "$2 $4"
  else
    report_test "$(( $1 >= $2 ))" "$3" "$1 $4" "$2 $4"
  fi
}

# google/nccl-fastsocket installs its plugin in /usr/lib; the driver of gVNIC is gve.
check_gvnic() {
  local driver found='' plugin='no Fast Socket (libnccl-net.so)' wanted='gVNIC and Fast Socket'
  set +f
  for driver in /sys/class/net/*/device/driver; do
    [[ $(readlink -- "$driver") != */gve ]] || found=gVNIC
  done
  [[ -z $found ]] && { report gvnic "$if_missing" 'no interface with the driver gve' "$wanted"; return; }
  for driver in /usr/lib/libnccl-net.so /usr/lib/*/libnccl-net.so; do
    [[ ! -e $driver ]] || plugin='Fast Socket'
  done
  if [[ $plugin == no* ]]; then
    report gvnic warn "$found, $plugin" "$wanted" # NCCL's own sockets are slower
  else
    report gvnic ok "$found, $plugin" "$wanted"
  fi
}

check_plugin() { # FOLDER
  local file
  set +f
  for file in "$1"/libnccl-net*; do
    [[ -e $file ]] && { report plugin ok "${file##*/}" "libnccl-net.so in $1"; return; }
  done
  report plugin "$if_missing" 'not there' "libnccl-net.so in $1"
}

# Such fabrics pin memory; Slurm passes on the limit of the shell that called sbatch.
check_memlock() {
  local limit total
  limit=$(ulimit -l)
  if [[ $limit == unlimited ]]; then
    report memlock ok unlimited unlimited
  elif [[ $if_missing == absent ]] && ! type -P fi_info > /dev/null; then
    report memlock absent "$limit KiB, no fabric to pin memory for" unlimited
  else
    read -r _ total _ < /proc/meminfo
    report_test "$(( limit >= total ))" memlock "$limit KiB" unlimited
  fi
}

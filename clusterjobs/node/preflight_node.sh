# shellcheck shell=bash
# Asked once on every node before the training: is this node what the job needs?
#
#     /bin/bash -c "$(< preflight_node.sh)" preflight TOKEN SECONDS CHECK=WANTED...
#
# An answer is a line for preflight.py: `preflight`, node, check, verdict (ok, bad, absent), what
# was seen, what is wanted, with tabs between. TOKEN is the name of a file that the batch host has
# put into the folders, and removes with what is written here. After SECONDS nobody listens.
#
# What may take long or hang (a program, a disk, a server) is asked in a process of its own, so that
# preflight.py can name what does not answer. This is bash, because Python takes longer to start
# than all of it; 4.2, as Amazon Linux 2 has it. The exit code is 0: preflight.py judges.

node=${SLURMD_NODENAME:-$HOSTNAME}
token=$1
patience=$(( $2 / 3 + 1 ))
shift 2
# Of the job's PATH only Python is wanted, and a folder of it may be on a dead mount.
job_path=$PATH
PATH=/usr/bin:/bin:/opt/amazon/efa/bin:$PATH
lacking=bad # what only a lab of clusterjobs lacks is told, and no fault
[[ ! -e /.lab/lab.json ]] || lacking=absent

ask_all() { # CHECK=WANTED...
  local one now=${EPOCHREALTIME:-} storage=() master=()
  [[ -n $now ]] || printf -v now '%(%s)T' -1
  say clock at "$now" ''
  for one; do
    case $one in
      mount=* | lustre=* | space=* | shm=*) storage+=("$one") ;;
      names | port) master+=("$one") ;;
      memlock | network) "check_$one" ;; # asks nobody
      *) "check_${one%%=*}" "${one#*=}" & ;;
    esac
  done
  if (( ${#storage[@]} )); then check_storage "${storage[@]}" & fi
  if (( ${#master[@]} )); then check_master "${master[@]}"; fi
  wait
  say '' end '' ''
}

say() { # CHECK VERDICT SEEN WANTED; in one write, so that lines do not mix
  local line="preflight	$node" field
  for field; do line+="	${field//[[:space:]]/ }"; done
  printf '%s\n' "$line"
}

say_whether() { # 1 or 0, for good or bad, CHECK SEEN WANTED
  local verdicts=(bad ok)
  say "$2" "${verdicts[$1]}" "$3" "$4"
}

run() { # COMMAND...: `said` is all that it prints, and false with its last words where it fails
  local status
  said=$("$@" < /dev/null 2>&1) && return
  status=$?
  said="${1##*/} exits $status: ${said##*$'\n'}"
  return 1
}

# ---- hardware

# NVIDIA's nvidia-smi manual: --query-gpu, and what it counts as uncorrected ECC errors.
check_gpus() { # COUNT
  local wanted="$1, no uncorrected ECC errors" fields=name,ecc.errors.uncorrected.volatile.total
  local said line name errors names='' broken='' count=0
  type -P nvidia-smi > /dev/null || { say gpus "$lacking" 'no nvidia-smi' "$wanted"; return; }
  run nvidia-smi "--query-gpu=$fields" --format=csv,noheader \
    || { say gpus bad "$said" "$wanted"; return; }
  while IFS= read -r line; do
    name=${line%, *} errors=${line##*, }
    [[ $line == *', '* && $errors == [0-9[N]* ]] || continue # a warning is none
    [[ $names == *"$name"* ]] || names+="${names:+ and }$name"
    [[ $errors != *[!]\[0NA/\ ]* ]] || broken+="${broken:+, }GPU $count has $errors"
    (( ++count ))
  done <<< "$said"
  said="$count${names:+ $names}${broken:+, ECC errors: $broken}"
  say_whether "$(( count >= $1 && ! ${#broken} ))" gpus "$said" "$wanted"
}

check_processes() {
  local wanted='none on the GPUs' said line found=
  type -P nvidia-smi > /dev/null || { say processes "$lacking" 'no nvidia-smi' "$wanted"; return; }
  run nvidia-smi --query-compute-apps=pid,process_name --format=csv,noheader \
    || { say processes bad "$said" "$wanted"; return; }
  while IFS= read -r line; do
    [[ $line != [0-9]* ]] || found+="${found:+; }$line"
  done <<< "$said"
  say_whether "$(( ! ${#found} ))" processes "${found:-none}" "$wanted"
}

# libfabric's fi_info(1): a domain is listed once for each kind of endpoint (-rdm, -dgrm).
check_efa() { # COUNT
  local said line
  local -A domains=()
  type -P fi_info > /dev/null || { say efa "$lacking" 'no fi_info' "$1 domains"; return; }
  run fi_info -p efa || said=
  while IFS= read -r line; do
    line=${line#"${line%%[! ]*}"}
    [[ $line != 'domain: '* ]] || line=${line#domain: } domains[${line%-*}]=
  done <<< "$said"
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

# ---- storage

check_storage() { # CHECK=WANTED...
  local one number asked=() paths=() text lines
  for one; do
    case $one in
      mount=* | lustre=*) asked+=("$one") paths+=("${one#*=}") ;;
      space=*) asked+=("$one") paths+=("${one#*:}") ;;
      shm=*) asked+=("$one") paths+=(/dev/shm) ;;
    esac
  done
  IFS= read -r -d '' -t "$patience" text < <(file_systems "${paths[@]}")
  mapfile -t lines <<< "${text%$'\n'}"
  if (( ${#lines[@]} == ${#asked[@]} + 1 )); then # one is the header
    for number in "${!asked[@]}"; do
      check_file_system "${asked[number]}" "${lines[number + 1]}"
    done
    return
  fi
  for number in "${!asked[@]}"; do # one hangs, or is not there
    IFS= read -r -d '' -t 3 text < <(file_systems "${paths[number]}")
    if (( $? > 128 )); then
      say "$(label "${asked[number]}")" bad 'no answer in 3 s: it hangs' 'an answer'
    else
      check_file_system "${asked[number]}" "$(tail -n +2 <<< "$text")"
    fi
  done
}

label() { # CHECK=WANTED: the check's name in the table, with the folder that it is about
  case $1 in
    shm=*) echo shm ;;
    space=*) echo "space ${1#*:}" ;;
    *) echo "${1%%=*} ${1#*=}" ;;
  esac
}

file_systems() { # PATH...
  exec df --block-size=1M --output=fstype,avail,itotal,iavail,target -- "$@" 2> /dev/null
}

check_file_system() { # CHECK=WANTED LINE, which is empty where nothing is there
  local check=${1%%=*} wanted=${1#*=} kind free files free_files at
  read -r kind free files free_files at <<< "$2"
  case $check in
    mount) check_mount "$wanted" ;;
    lustre) check_mount "$wanted" lustre ;;
    shm) check_space shm "$wanted" ;;
    space) check_space "space ${wanted#*:}" "${wanted%%:*}" ;;
  esac
}

check_mount() { # PATH [KIND]; $kind and $at are what is there
  local wanted="a mount${2:+ of $2}"
  if [[ -z $kind ]]; then
    say "$check $1" bad 'not there' "$wanted"
  elif [[ $at != "$1" ]]; then
    say "$check $1" bad "a folder of the node's own" "$wanted"
  elif [[ -n ${2:-} && $kind != "$2" ]]; then
    say "$check $1" "$lacking" "$kind, no $2" "$wanted"
  else
    say "$check $1" ok "$kind" "$wanted"
  fi
}

# Free space, and files that can still be made (0 of 0 where a file system does not count them).
check_space() { # CHECK GIB; $free MiB and $free_files are what is there
  local wanted="$2 GiB free" seen
  if [[ -z $free ]]; then
    say "$1" bad 'not there' "$wanted"
    return
  fi
  free=${free//[!0-9]/} # `-` where it is not known
  printf -v seen '%d.%02d GiB' "$(( free / 1024 ))" "$(( free % 1024 * 100 / 1024 ))"
  (( free < 10240 )) || seen="$(( (free + 512) / 1024 )) GiB"
  if [[ $files == [1-9]* && $free_files == 0 ]]; then
    say "$1" bad "$seen, and no file can be made (inodes)" "$wanted"
  else
    say_whether "$(( free >= $2 * 1024 ))" "$1" "$seen" "$wanted"
  fi
}

# The file that the batch host put there is seen, and one of our own can be written.
check_folder() { # PATH
  local wanted="the batch host's, writable" own=$1/$token.$node said
  if [[ ! -f $1/$token ]]; then
    said='another folder'
    [[ -d $1 ]] || said='not there'
    say "folder $1" bad "$said" "$wanted"
  elif { printf '%065536d' 0 > "$own"; } 2> /dev/null; then # a full disk takes the name at most
    say "folder $1" ok 'the same, writable' "$wanted"
  else
    said=$({ printf '%065536d' 0 > "$own"; } 2>&1)
    say "folder $1" bad "${said##*: }" "$wanted"
  fi
}

# ---- network

# NCCL's manual, NCCL_SOCKET_IFNAME: prefixes, `^` leaves out, `=` asks for the whole name. What has
# an address has a route, but for `lo`.
check_network() {
  local rule=${NCCL_SOCKET_IFNAME:-^lo} routes prefixes prefix name is_named is_wanted=1 taken=
  [[ $rule != ^* ]] || is_wanted=0
  IFS=, read -r -a prefixes <<< "${rule##*[\^=]}"
  mapfile -t -s 1 routes < /proc/net/route
  for name in lo "${routes[@]%%	*}"; do
    is_named=0
    for prefix in "${prefixes[@]}"; do
      [[ ! $name == "$prefix"* || $rule == *=* && $name != "$prefix" ]] || is_named=1
    done
    if (( is_named == is_wanted )) && [[ ", $taken, " != *", $name, "* ]]; then
      taken+="${taken:+, }$name"
    fi
  done
  say_whether "$(( ${#taken} > 0 ))" network "${taken:-no such interface}" \
    "one that NCCL_SOCKET_IFNAME=$rule takes"
}

# preflight.py listens at MASTER_PORT. Who can call it there knows the name, too.
check_master() { # names, port
  local place=/dev/tcp/$MASTER_ADDR/$MASTER_PORT wanted="port $MASTER_PORT of $MASTER_ADDR answers"
  local said='' both=" $* "
  if [[ $both == *' port '* ]]; then
    if IFS= read -r -t "$patience" said < <({ : <> "$place"; } 2>&1 && echo answers) \
      || (( $? < 128 )); then
      said=${said##*: }
    else
      said="no answer in $patience s"
    fi
    if [[ $said == answers ]]; then
      say port ok answers "$wanted"
      [[ $both != *' names '* ]] || say names ok 'its port answers' 'an address for MASTER_ADDR'
      return
    fi
    say port bad "$said" "$wanted"
  fi
  [[ $both != *' names '* ]] || check_names
}

check_names() {
  local wanted='an address for MASTER_ADDR' found address
  if found=$(getent ahostsv4 "$MASTER_ADDR"); then
    address=${found%% *}
    [[ $address == 127.* && $node != "$MASTER_ADDR" ]]
    say_whether "$?" names "$address" "$wanted"
  else
    say names bad "$MASTER_ADDR: no such name" "$wanted"
  fi
}

# ---- software

# The job's own Python is asked. Nothing is imported: torch alone would take seconds.
probe() { # PACKAGE...; lines of a name and its version in `said`
  PATH=$job_path run python3 -c '
import importlib.util, os, re, sys, sysconfig
try:
    from importlib.metadata import version
except ImportError:
    from pkg_resources import get_distribution
    version = lambda name: get_distribution(name).version
for name in sys.argv[1:]:
    try:
        found = version(name)
    except Exception:
        found = "?" if importlib.util.find_spec(name) else "-"
    print(name, found)
torch = importlib.util.find_spec("torch") if "torch" in sys.argv else None
for folder in torch.submodule_search_locations if torch else ():
    with open(os.path.join(folder, "version.py")) as file:
        cuda = re.search(r"(?m)^cuda\b.*?=\s*.([0-9.]+)", file.read())
    print("cuda", cuda.group(1) if cuda else "-")
headers = os.path.join(sysconfig.get_paths()["include"], "Python.h")
print("headers", "there" if os.path.exists(headers) else "-")
' "$@"
}

version_of() { # NAME in $said, at the start of a line: sets `version`
  local text=$'\n'$said$'\n'
  version=-
  if [[ $text == *$'\n'"$1 "* ]]; then
    version=${text#*$'\n'"$1 "} version=${version%%$'\n'*}
  fi
}

# `torch==2.6,deepspeed`: there, and of that version or one below it (2.6.1).
check_packages() { # NAME[==VERSION],...
  local pairs pair name pin version said seen='' wanted='' is_good=1
  IFS=, read -r -a pairs <<< "$1"
  probe "${pairs[@]%%==*}" || { say packages bad "$said" "$1"; return; }
  for pair in "${pairs[@]}"; do
    name=${pair%%==*} pin=
    [[ $pair != *==* ]] || pin=${pair#*==}
    wanted+="${wanted:+, }$name${pin:+ $pin}"
    version_of "$name"
    if [[ $version == - ]]; then
      seen+="${seen:+, }no $name" is_good=0
    else
      seen+="${seen:+, }$name $version"
      [[ -z $pin || "${version%%+*}." == "$pin".* ]] || is_good=0
    fi
  done
  say_whether "$is_good" packages "$seen" "$wanted"
}

# What torch needs to compile an extension: it refuses a CUDA of another major version.
check_build() {
  local wanted="nvcc of torch's CUDA, ninja, Python.h"
  local said version release=- cuda headers ninja seen
  if [[ $lacking == absent ]] && ! type -P nvidia-smi > /dev/null; then
    say build absent 'no GPU to compile for' "$wanted"
    return
  fi
  if PATH=${CUDA_HOME:-/usr/local/cuda}/bin:$job_path run nvcc --version; then
    release=${said#*release } release=${release%%,*}
  fi
  probe torch ninja || { say build bad "$said" "$wanted"; return; }
  version_of cuda && cuda=$version
  version_of headers && headers=$version
  version_of ninja && ninja=$version
  [[ $ninja != - ]] || ninja=$(PATH=$job_path type -P ninja) || ninja=-
  seen="nvcc $release, torch's CUDA $cuda"
  [[ $ninja != - ]] || seen+=', no ninja'
  [[ $headers == there ]] || seen+=', no Python.h'
  [[ ${release%%.*} != "${cuda%%.*}" || $cuda == - || $ninja == - || $headers != there ]]
  say_whether "$?" build "$seen" "$wanted"
}

# pyxis adds its options to srun's own help.
check_containers() {
  local said
  PATH=$job_path run srun --help
  if [[ $said == *--container-image* ]]; then
    say containers ok pyxis pyxis
  else
    say containers bad 'no pyxis' pyxis
  fi
}

ask_all "$@"

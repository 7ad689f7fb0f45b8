# shellcheck shell=bash
# Asked once on every node before the training: is this node what the job needs?
#
#     /bin/bash -p -c "$(cat preflight_hardware.sh preflight_software.sh preflight_node.sh)" \
#       preflight TOKEN SECONDS CHECK=WANTED...
#
# The two others hold more checks, where they are asked for.
#
# An answer is a line for preflight.py: `preflight`, node, check, verdict (ok, bad, absent), what
# was seen, what is wanted, with tabs between. TOKEN is the name of a file that the batch host has
# put into the folders, and removes with what is written here. After SECONDS nobody listens.
#
# What may take long or hang (a program, a disk, a server) is asked in a process of its own, so that
# preflight.py can name what does not answer; nothing else is, for starting processes is what takes
# the time. This is bash, because Python takes longer to start than all of it; 4.2, as Amazon Linux 2
# has it. The exit code is 0: preflight.py judges.
#
# Before bash 5.1 a here-string is a file in /tmp, which may be full: lists are split as words.
# shellcheck disable=SC2206
set -f

node=${SLURMD_NODENAME:-$HOSTNAME}
token=$1
patience=$(( $2 / 3 + 1 ))
SECONDS=0 # whatever the job's environment says
shift 2
# Of the job's PATH only Python is wanted, and a folder of it may be on a dead mount.
# shellcheck disable=SC2034 # preflight_software.sh reads it
job_path=$PATH
PATH=/usr/bin:/bin:/opt/amazon/efa/bin:$PATH
lacking=bad # what only a lab of clusterjobs lacks is told, and no fault
[[ ! -e /.lab/lab.json ]] || lacking=absent

ask_all() { # CHECK=WANTED...
  local one now=${EPOCHREALTIME:-} storage=() folders=() own_processes=() disks call names said=
  [[ -n $now ]] || printf -v now '%(%s)T' -1
  say clock at "$now" ''
  for one; do
    case $one in
      mount=* | lustre=* | space=* | shm=*) storage+=("$one") ;;
      folder=*) folders+=("${one#*=}") ;;
      port) exec {call}< <(call_master) ;;
      names) names=asked ;;
      memlock | network) "check_$one" ;; # asks nobody
      *) "check_${one%%=*}" "${one#*=}" & own_processes+=("$!") ;;
    esac
  done
  for one in "${folders[@]:1}"; do
    check_folder "$one" & own_processes+=("$!")
  done
  if (( ${#storage[@]} )); then
    exec {disks}< <(file_systems "${storage[@]}")
    check_storage "$disks" "${storage[@]}"
  fi
  [[ -z ${call:-} ]] || check_port "$call"
  if [[ -n ${names:-} && $said == answers ]]; then
    say names ok 'its port answers' 'an address for MASTER_ADDR'
  elif [[ -n ${names:-} ]]; then
    check_names & own_processes+=("$!")
  fi
  # The first folder in this process: where it hangs, it holds nothing up.
  for one in "${folders[@]::1}"; do check_folder "$one"; done
  (( ! ${#own_processes[@]} )) || wait "${own_processes[@]}"
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

# ---- storage

check_storage() { # FD, where df answers, and CHECK=WANTED...
  local disks=$1 one lines number=0 each=() limit=3
  shift
  if read -r -t "$patience" -u "$disks" _ && mapfile -t -u "$disks" lines \
    && (( ${#lines[@]} == $# )); then # df prints all of it at its end
    for one; do
      check_file_system "$one" "${lines[number++]}"
    done
    return
  fi
  for one; do # one hangs, or is not there: each is asked by itself
    exec {disks}< <(file_systems "$one")
    each+=("$disks")
  done
  for one; do
    read -r -t "$limit" -u "${each[number++]}" _
    if (( $? > 128 )); then
      say "$(label "$one")" bad 'no answer in 3 s: it hangs' 'an answer'
      limit=0.1 # the others had the same 3 s
    else
      mapfile -t -u "${each[number - 1]}" lines
      check_file_system "$one" "${lines[0]:-}"
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

file_systems() { # CHECK=WANTED...: a header, and a line for each
  local one paths=()
  for one; do
    case $one in
      shm=*) paths+=(/dev/shm) ;;
      space=*) paths+=("${one#*:}") ;;
      *) paths+=("${one#*=}") ;;
    esac
  done
  exec df --block-size=1M --output=fstype,avail,itotal,iavail,target -- "${paths[@]}" 2> /dev/null
}

check_file_system() { # CHECK=WANTED LINE, which is empty where nothing is there
  local check=${1%%=*} wanted=${1#*=} fields=($2) at=/${2#*/}
  local kind=${fields[0]:-} free=${fields[1]:-} files=${fields[2]:-} free_files=${fields[3]:-}
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
  local IFS=, rule=${NCCL_SOCKET_IFNAME:-^lo} routes prefixes prefix name is_named is_wanted=1 taken=
  [[ $rule != ^* ]] || is_wanted=0
  prefixes=(${rule##*[\^=]})
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

# preflight.py listens at MASTER_PORT. Who can call it there knows the name, too. Nothing of this
# process waits for the end of a call that nobody takes: it holds no output but its own.
call_master() {
  exec 2>&1
  : <> "/dev/tcp/$MASTER_ADDR/$MASTER_PORT" && echo answers
}

check_port() { # FD, where call_master answers; `said` is its answer
  local wanted="port $MASTER_PORT of $MASTER_ADDR answers" left=$(( patience - SECONDS ))
  if read -r -t "$(( left > 1 ? left : 1 ))" -u "$1" said || (( $? < 128 )); then
    said=${said##*: }
  else
    said="no answer in $patience s"
  fi
  [[ $said != answers ]]
  say_whether "$?" port "$said" "$wanted"
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

ask_all "$@"

# shellcheck shell=bash
# Run once on every node before the training: does this node have what the job needs?
#
#     /bin/bash -p -c "$(cat preflight_hardware.sh preflight_software.sh preflight_node.sh)" \
#       preflight TOKEN SECONDS CHECK=WANTED...
#
# Each result is a line for preflight.py: `preflight`, node, check, verdict (ok, bad, warn, absent),
# what was seen, what is wanted, with tabs between. TOKEN is the name of a file that the batch host has
# created in the folders and deletes together with what is written here. Results that come later
# than SECONDS are discarded.
#
# Whatever may be slow or hang (a program, a disk, a server) runs in a background process, so that
# preflight.py can name the check that hangs. Nothing else does: starting processes takes most of
# the time. This is bash because Python alone would take longer to start; bash 4.2, as Amazon
# Linux 2 has it. The exit code is 0: preflight.py decides.
#
# Before bash 5.1 a here-string is a file in /tmp, which may be full: lists are split as words.
# shellcheck disable=SC2206
set -fC # -C: a file or link that another user has planted is not written to

node=${SLURMD_NODENAME:-$HOSTNAME}
token=$1
timeout=$(( $2 / 3 + 1 )) # of a single check
SECONDS=0 # the job's environment may set it
shift 2
# The job's PATH may contain a folder on a dead mount: only the checks of its software use it.
# shellcheck disable=SC2034 # used in preflight_software.sh
job_path=$PATH
PATH=/usr/bin:/bin:/opt/amazon/efa/bin:$PATH
if_missing=bad # the verdict on missing hardware; in a lab of clusterjobs it is no fault
[[ ! -e /.lab/lab.json ]] || if_missing=absent

run_checks() { # CHECK=WANTED...
  local one now=${EPOCHREALTIME:-} storage=() folders=() background=() disks call names output=
  [[ -n $now ]] || printf -v now '%(%s)T' -1
  report clock at "$now" ''
  for one; do
    case $one in
      mount=* | lustre=* | space=* | shm=*) storage+=("$one") ;;
      folder=*) folders+=("${one#*=}") ;;
      port) exec {call}< <(call_master) ;;
      names) names=wanted ;;
      memlock | network) "check_$one" ;; # cannot hang
      *) "check_${one%%=*}" "${one#*=}" & background+=("$!") ;;
    esac
  done
  for one in "${folders[@]:1}"; do
    check_folder "$one" & background+=("$!")
  done
  if (( ${#storage[@]} )); then
    exec {disks}< <(file_systems "${storage[@]}")
    check_storage "$disks" "${storage[@]}"
  fi
  [[ -z ${call:-} ]] || check_port "$call"
  if [[ -n ${names:-} && $output == answers ]]; then
    report names ok 'its port answers' 'an address for MASTER_ADDR'
  elif [[ -n ${names:-} ]]; then
    check_names & background+=("$!")
  fi
  # The first folder in this process and last: if it hangs, it delays nothing else.
  for one in "${folders[@]::1}"; do check_folder "$one"; done
  (( ! ${#background[@]} )) || wait "${background[@]}"
  report '' end '' ''
}

report() { # CHECK VERDICT SEEN WANTED; a single write, so that lines do not mix
  local line="preflight	$node" field
  for field; do line+="	${field//[[:space:]]/ }"; done
  printf '%s\n' "$line"
}

report_test() { # 1 (ok) or 0 (bad), CHECK SEEN WANTED
  local verdicts=(bad ok)
  report "$2" "${verdicts[$1]}" "$3" "$4"
}

run() { # COMMAND...: sets `output`; on failure to its exit code and last line, and returns 1
  local status
  output=$("$@" < /dev/null 2>&1) && return
  status=$?
  output="${1##*/} exits $status: ${output##*$'\n'}"
  return 1
}

# ---- storage

check_storage() { # FD of df's output, CHECK=WANTED...
  local disks=$1 one lines number=0 each=() limit=3
  shift
  if read -r -t "$timeout" -u "$disks" _ && mapfile -t -u "$disks" lines \
    && (( ${#lines[@]} == $# )); then # df prints everything at its end
    for one; do
      check_file_system "$one" "${lines[number++]}"
    done
    return
  fi
  for one; do # one of them hangs or is missing: run df for each
    exec {disks}< <(file_systems "$one")
    each+=("$disks")
  done
  for one; do
    read -r -t "$limit" -u "${each[number++]}" _
    if (( $? > 128 )); then
      report "$(label "$one")" bad 'no answer in 3 s: it hangs' 'an answer'
      limit=0.1 # the others have had the same 3 s
    else
      mapfile -t -u "${each[number - 1]}" lines
      check_file_system "$one" "${lines[0]:-}"
    fi
  done
}

label() { # CHECK=WANTED: the name of the check in the table, with its folder
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

check_file_system() { # CHECK=WANTED, and the line of df, or nothing if the folder is missing
  local check=${1%%=*} wanted=${1#*=} fields=($2) at=/${2#*/}
  local kind=${fields[0]:-} free=${fields[1]:-} files=${fields[2]:-} free_files=${fields[3]:-}
  case $check in
    mount) check_mount "$wanted" ;;
    lustre) check_mount "$wanted" lustre ;;
    shm) check_space shm "$wanted" ;;
    space) check_space "space ${wanted#*:}" "${wanted%%:*}" ;;
  esac
}

check_mount() { # PATH [KIND]; df has found $kind, mounted at $at
  local wanted="a mount${2:+ of $2}"
  if [[ -z $kind ]]; then
    report "$check $1" bad 'not there' "$wanted"
  elif [[ $at != "$1" ]]; then
    report "$check $1" bad "a folder of the node's own" "$wanted"
  elif [[ -n ${2:-} && $kind != "$2" ]]; then
    report "$check $1" "$if_missing" "$kind, no $2" "$wanted"
  else
    report "$check $1" ok "$kind" "$wanted"
  fi
}

# Free space and free inodes (0 of 0 on file systems that do not count them).
check_space() { # CHECK GIB; df has found $free MiB and $free_files of $files inodes
  local wanted="$2 GiB free" seen
  if [[ -z $free ]]; then
    report "$1" bad 'not there' "$wanted"
    return
  fi
  free=${free//[!0-9]/} # `-` if unknown
  printf -v seen '%d.%02d GiB' "$(( free / 1024 ))" "$(( free % 1024 * 100 / 1024 ))"
  (( free < 10240 )) || seen="$(( (free + 512) / 1024 )) GiB"
  if [[ $files == [1-9]* && $free_files == 0 ]]; then
    report "$1" bad "$seen, and no file can be made (inodes)" "$wanted"
  else
    report_test "$(( free >= $2 * 1024 ))" "$1" "$seen" "$wanted"
  fi
}

# Is the batch host's token visible, and can this node write?
check_folder() { # PATH
  local wanted="the batch host's, writable" own=$1/$token.$node output
  if [[ ! -f $1/$token ]]; then
    output='another folder'
    [[ -d $1 ]] || output='not there'
    report "folder $1" bad "$output" "$wanted"
  elif { printf '%065536d' 0 > "$own"; } 2> /dev/null; then # a full disk takes only an empty file
    report "folder $1" ok 'the same, writable' "$wanted"
  else
    output=$({ rm -f -- "$own"; printf '%065536d' 0 > "$own"; } 2>&1)
    report "folder $1" bad "${output##*: }" "$wanted"
  fi
}

# ---- network

# NCCL's manual, NCCL_SOCKET_IFNAME: prefixes; `^` excludes, `=` wants the whole name. Every
# interface with an address has a route, except `lo`.
check_network() {
  local IFS=, rule=${NCCL_SOCKET_IFNAME:-^lo} routes prefixes prefix name is_named is_wanted=1
  local found=
  [[ $rule != ^* ]] || is_wanted=0
  prefixes=(${rule##*[\^=]})
  mapfile -t -s 1 routes < /proc/net/route
  for name in lo "${routes[@]%%	*}"; do
    is_named=0
    for prefix in "${prefixes[@]}"; do
      [[ ! $name == "$prefix"* || $rule == *=* && $name != "$prefix" ]] || is_named=1
    done
    if (( is_named == is_wanted )) && [[ ", $found, " != *", $name, "* ]]; then
      found+="${found:+, }$name"
    fi
  done
  report_test "$(( ${#found} > 0 ))" network "${found:-no such interface}" \
    "one that NCCL_SOCKET_IFNAME=$rule takes"
}

# preflight.py listens on MASTER_PORT. A node that can connect can also resolve MASTER_ADDR. The
# output goes to a pipe of its own: if the connection hangs, nothing waits for it.
call_master() {
  exec 2>&1
  : <> "/dev/tcp/$MASTER_ADDR/$MASTER_PORT" && echo answers
}

check_port() { # FD of call_master's output; sets `output`
  local wanted="port $MASTER_PORT of $MASTER_ADDR answers" left=$(( timeout - SECONDS ))
  if read -r -t "$(( left > 1 ? left : 1 ))" -u "$1" output || (( $? < 128 )); then
    output=${output##*: }
  else
    output="no answer in $timeout s"
  fi
  [[ $output != answers ]]
  report_test "$?" port "$output" "$wanted"
}

check_names() {
  local wanted='an address for MASTER_ADDR' found address
  if found=$(getent ahostsv4 "$MASTER_ADDR"); then
    address=${found%% *}
    [[ $address == 127.* && $node != "$MASTER_ADDR" ]]
    report_test "$?" names "$address" "$wanted"
  else
    report names bad "$MASTER_ADDR: no such name" "$wanted"
  fi
}

run_checks "$@"

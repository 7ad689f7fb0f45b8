#!/bin/bash
# init.sh LABDIR: pid 1 of a lab. Creates the lab's root folder and network, starts the Slurm
# controller and the nodes, then serves requests. When it ends, the kernel kills everything else.
# shellcheck disable=SC2154 # daemons.sh is written by folder.py
set -euo pipefail
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin # an ordinary user's PATH on Debian has no sbin folders
lab=$1
read -r pid _ < /proc/self/stat # /proc is still the machine's, so this is the outer pid
read -r stat < /proc/self/stat
read -ra fields <<< "${stat##*) }"
started=${fields[19]} # a pid can be reused; together with its start time it is unique

# --- the root folder ---------------------------------------------------------------------------
root=$lab/root
mount -t tmpfs -o mode=755 lab "$root"
mount --make-unbindable "$root" # the lab's folder is bound below; that must not include this mount
while IFS=$'\t' read -r kind source target; do
  case $kind in
    folder) mkdir -p "$root$target" ;;
    link) ln -s "$source" "$root$target" ;;
    bind)
      if [[ -d $source ]]; then mkdir -p "$root$target"; else : > "$root$target"; fi
      mount --rbind "$source" "$root$target" ;;
  esac
done < "$lab/view"
mkdir "$root/proc"
mount -t proc proc "$root/proc"
mount --make-private "$root"
mkdir "$root/.old"
cd "$root"
pivot_root . .old
umount -l /.old
rmdir /.old

lab=/.lab
cd /
# shellcheck disable=SC1091
. $lab/daemons.sh # PATH, slurmctld=(...), slurmd=(...)
mount --bind $lab/hosts /etc/hosts
[[ ! -e $lab/passwd ]] || mount --bind $lab/passwd /etc/passwd
if [[ -e $lab/ld.so.conf ]]; then
  ldconfig -X -C $lab/ld.so.cache -f $lab/ld.so.conf
  mount --bind $lab/ld.so.cache /etc/ld.so.cache
fi
mount --bind $lab/commands "$1/bin" # so that the machine's PATH finds the real commands in the lab

# --- the network: the head node, and a bridge that connects the nodes ----------------------------
hostname "$head_node"
ip link set lo up
# A fixed address: otherwise the bridge uses the lowest of its links' and changes it with them.
ip link add nodes address 02:00:00:01:00:00 type bridge
ip addr add "$head_address" dev nodes
ip link set nodes up

# --- daemons -----------------------------------------------------------------------------------
power_on() { # NODE [SLURMD OPTION]
  local number name address scratch
  read -r number name address scratch < "$lab/nodes/$1/wiring"
  setsid unshare --mount --propagation unchanged --uts --ipc --net --pid --fork --kill-child \
    bash $lab/node.sh "$number" "$name" "$address" "$scratch" "${@:2}" \
    < /dev/null >> "$lab/log/$name.log" 2>&1 &
}
inside() { # NODE COMMAND...
  local node=$1; shift
  nsenter --target "$(< "$lab/nodes/$node/pid")" --mount --uts --ipc --net --pid "$@"
}
cable() { read -r number _ < "$lab/nodes/$1/wiring"; echo "node$number"; }

serve() { # VERB NODE
  case $1 in
    power-on) power_on "$2" -b ;; # -b: the node has rebooted, so its jobs are gone
    power-off) kill -KILL "$(< "$lab/nodes/$2/pid")"; rm "$lab/nodes/$2/pid" ;;
    plug) ip link set "$(cable "$2")" up ;;
    unplug) ip link set "$(cable "$2")" down ;;
    mount) for folder in "${shared[@]}"; do inside "$2" mount --bind "$lab/shared$folder" "$folder"; done ;;
    unmount) for folder in "${shared[@]}"; do inside "$2" umount -l "$folder"; done ;;
    start-slurmd)
      inside "$2" setsid bash $lab/slurmd.sh "$2" < /dev/null >> "$lab/log/$2.log" 2>&1 & ;;
    kill-slurmd) # bash's own kill: a small system may have no /bin/kill
      inside "$2" bash -c "kill -KILL $(< "$lab/nodes/$2/slurmd.pid")" ;;
    restart-slurmctld)
      # SIGTERM, as systemd sends it: then it saves its state, which is otherwise up to 5 s old.
      local controller
      controller=$(< $lab/state/slurmctld.pid)
      kill -TERM "$controller"
      while [[ -e /proc/$controller ]]; do sleep 0.1; done
      start_controller ;;
  esac
}

controller() { # the file shows that it has ended
  "${slurmctld[@]}" || true
  : > $lab/state/exited
}
start_controller() { controller >> $lab/log/slurmctld.out 2>&1 < /dev/null & }
start_controller
for node in "$lab"/nodes/*/wiring; do
  [[ ! -e $node ]] || power_on "$(basename "$(dirname "$node")")"
done

echo "$pid $started" > $lab/init.new
mv $lab/init.new $lab/init
set +e # from here on, a failing request gets a reply and does not end this script
while read -r id verb node; do
  if (serve "$verb" "$node"); then echo "$id done"; else echo "$id failed"; fi >> $lab/replies
done <> $lab/requests

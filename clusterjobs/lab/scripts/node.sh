#!/bin/bash
# node.sh NUMBER NAME ADDRESS SCRATCH [SLURMD OPTION]: pid 1 of one node, in namespaces of its own.
# Killing it simulates a power cut: all processes of the node are gone at once.
set -euo pipefail
number=$1 name=$2 address=$3 scratch=$4
lab=/.lab
read -r pid _ < /proc/self/stat # /proc is still the lab's
# shellcheck disable=SC1091
. $lab/daemons.sh

exec 9< /proc/1/ns/net # the network namespace of the lab's init, with the other end of the link
mount -t proc proc /proc
switch() { nsenter --net=/proc/self/fd/9 ip link "$@"; }
switch del "node$number" 2> /dev/null || true # the link of a dead node disappears late
# netns 1 is this node, whether ip gets process 1 from the kernel (iproute2 6.1) or /proc (6.15).
switch add "node$number" type veth peer name eth0 netns 1
switch set "node$number" master nodes up
exec 9<&-
ip link set lo up
# The same after each power cut: the other nodes cache the hardware address for up to a minute.
printf -v hardware '02:00:00:00:%02x:%02x' "$((number >> 8))" "$((number & 255))"
ip link set eth0 address "$hardware"
ip addr add "$address" dev eth0
ip link set eth0 up

hostname "$name"
mount --bind "$lab/nodes/$name/scratch" "$scratch"
mount --bind "$lab/nodes/$name/spool" $lab/spool
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t sysfs sysfs /sys 2> /dev/null || true # else /sys/class/net would show the machine's links

echo "$pid" > "$lab/nodes/$name/pid.new"
mv "$lab/nodes/$name/pid.new" "$lab/nodes/$name/pid"
bash $lab/slurmd.sh "$name" "${@:5}" &
# Without capabilities: jobs may then read its environment, and the watchdog see that it is no rank.
# bash reaps orphaned processes; slurmd does not.
# shellcheck disable=SC2154 # daemons.sh is written by folder.py
exec "${drop[@]}" bash -c 'while :; do sleep infinity & wait; done'

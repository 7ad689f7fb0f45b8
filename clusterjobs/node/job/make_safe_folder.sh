# Makes a folder that other users cannot misuse, or says who could, and ends with 1.
#
#   make_safe_folder.sh FOLDER shared|closed|job NAME...
#
# Only root, this user, and the users and groups NAME may exchange the folder, or a folder or link
# on the way to it. closed: nobody else may add files to it, since checkpoints may run code when
# they are loaded. job: the folder is this user's alone, since programs run from it.

refuse() { echo "clusterjobs: $1"; exit 1; }

misused() { # WHO WHAT
  echo "$1 may $2: $line"
  refuse_way
}

refuse_way() {
  refuse "$folder is not safe from other users: name those that you \`trust\` in the spec, or choose a folder of your own"
}

is_in() { [[ $1 == */"$2"/* || $1 == */"$3"/* ]]; } # LIST ID NAME

check_part() { # `writers` may write to the folder: "everyone", "group NAME", or nobody else
  local above=$writers uid user gid group trusted=$groups
  line=$(ls -ldq -- "$part") || refuse_way
  IFS=$'\t' read -r uid user gid group < <(find "$part" -maxdepth 0 -printf '%U\t%u\t%G\t%g\n') || refuse_way
  [[ $line != d?????????+* ]] || trusted=$trust # an access list (+) may be for more than the group
  case $line in
    d???????w*) writers=everyone ;;
    d????w*) is_in "$trusted" "$gid" "$group" && writers='' || writers="group $group" ;;
    d*) writers='' ;;
  esac
  if ! is_in "$users" "$uid" "$user"; then
    [[ -z $above && ($line != d* || $line == d????w* && -z $writers) ]] || misused "user $user" 'exchange it'
  fi
  [[ $line != d* || -z $writers || $line == d????????[tT]* ]] || misused "$writers" 'exchange what is in it (chmod +t)'
}

trust=/
for name in "${@:3}"; do trust+=$name/; done
users=/$(id -u)/$(stat -c %u /usr)$trust
me=$(id -un 2> /dev/null) own=$(id -gn 2> /dev/null) # a group of this name is safe if it has nobody else
others=$(timeout 9 getent passwd | awk -F: -v group="$(id -g)" '$4 == group { print $1 }' | grep -vxF -- "$me")
members=$(getent group "$own" | cut -d : -f 4)
[[ $own == "$me" && ${members:-$me} == "$me" && -z $others ]] || own=''
groups=/$own/$(stat -c %g /usr)$trust

folder=$1
[[ $2 != job ]] || folder=${1%/*}
mkdir -p -- "$folder" || refuse "cannot make $folder"
here='' rest=$folder/ writers=''
while [[ -n $rest ]]; do # each folder and link on the way
  part=${here%/}/${rest%%/*} rest=${rest#*/}
  check_part
  if ! link=$(readlink -- "$part"); then here=$part; continue; fi
  rest=$link/$rest
  [[ $link != /* ]] || here=''
done
[[ $2 != closed || -z $writers ]] || misused "$writers" 'add files to it'
[[ $2 == job ]] || exit 0

[[ -e $1 ]] || { mkdir -- "$1" && chmod go-w -- "$1"; } || refuse "cannot make $1"
[[ -O $1 && $(stat -c %A -- "$1") == d????-??-? ]] || refuse "others may change $1: set \`logs\` to a folder of your own"

# shellcheck shell=bash
# What preflight_node.sh asks of a node's software: packages, compilers, containers. See there.
# shellcheck disable=SC2154,SC2206 # `job_path` is its own, and there it says how lists are split

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
  local IFS=, pair name pin version said seen='' wanted='' is_good=1
  local pairs=($1)
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

# shellcheck shell=bash
# The checks of packages, compilers and containers, prepended to preflight_node.sh; see there.
# shellcheck disable=SC2154,SC2206 # `job_path` is defined there; lists are split as there

# With the job's own Python. It imports no package: torch alone would take seconds.
probe() { # PACKAGE...; sets `output` to lines of a name and its version
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

version_of() { # NAME; sets `version` from its line in $output
  local text=$'\n'$output$'\n'
  version=-
  if [[ $text == *$'\n'"$1 "* ]]; then
    version=${text#*$'\n'"$1 "} version=${version%%$'\n'*}
  fi
}

# `torch==2.6,deepspeed`: installed, and 2.6 or a release of it such as 2.6.1.
check_packages() { # NAME[==VERSION],...
  local IFS=, pair name pin version output seen='' wanted='' is_good=1
  local pairs=($1)
  probe "${pairs[@]%%==*}" || { report packages bad "$output" "$1"; return; }
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
  report_test "$is_good" packages "$seen" "$wanted"
}

# What torch needs to compile extensions; it refuses a CUDA of another major version.
check_build() {
  local wanted="nvcc of torch's CUDA, ninja, Python.h"
  local output version release=- cuda headers ninja seen
  if [[ $if_missing == absent ]] && ! type -P nvidia-smi > /dev/null; then
    report build absent 'no GPU to compile for' "$wanted"
    return
  fi
  if PATH=${CUDA_HOME:-/usr/local/cuda}/bin:$job_path run nvcc --version; then
    release=${output#*release } release=${release%%,*}
  fi
  probe torch ninja || { report build bad "$output" "$wanted"; return; }
  version_of cuda && cuda=$version
  version_of headers && headers=$version
  version_of ninja && ninja=$version
  [[ $ninja != - ]] || ninja=$(PATH=$job_path type -P ninja) || ninja=-
  seen="nvcc $release, torch's CUDA $cuda"
  [[ $ninja != - ]] || seen+=', no ninja'
  [[ $headers == there ]] || seen+=', no Python.h'
  [[ ${release%%.*} != "${cuda%%.*}" || $cuda == - || $ninja == - || $headers != there ]]
  report_test "$?" build "$seen" "$wanted"
}

# pyxis adds its options to srun's own help.
check_containers() {
  local output
  PATH=$job_path run srun --help
  if [[ $output == *--container-image* ]]; then
    report containers ok pyxis pyxis
  else
    report containers bad 'no pyxis' pyxis
  fi
}

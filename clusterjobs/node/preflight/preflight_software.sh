# shellcheck shell=bash
# The checks of packages, compilers and containers, prepended to preflight_node.sh; see there.
# shellcheck disable=SC2154,SC2206 # `job_path` is defined there; lists are split as there

# With the job's own Python. It imports no package: torch alone would take seconds.
probe() { # PACKAGE...; sets `output` to lines of a name and its version
  PATH=$job_path run python3 -c '
import ast, importlib.util, os, re, sys, sysconfig
try:
    from importlib.metadata import version
except ImportError:
    from pkg_resources import get_distribution
    version = lambda name: get_distribution(name).version
def text_of(name, *path):
    spec = importlib.util.find_spec(name) if name in sys.argv else None
    for folder in spec.submodule_search_locations or () if spec else ():
        file = os.path.join(folder, *path)
        if os.path.exists(file):
            return open(file).read()
    return ""
for name in sys.argv[1:]:
    try:
        found = version(name)
    except Exception:
        found = "?" if importlib.util.find_spec(name) else "-"
    print(name, found)
cuda = re.search(r"(?m)^cuda\b.*?=\s*.([0-9.]+)", text_of("torch", "version.py"))
print("cuda", cuda.group(1) if cuda else "-")
builder = text_of("deepspeed", "ops", "op_builder", "builder.py")
alike = re.search(r"(?ms)^cuda_minor_mismatch_ok = (\{.*?^\})", builder)
print("alike", *sum(ast.literal_eval(alike.group(1)).values(), []) if alike else "-")
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

lacks_gpus() { # in a lab: what GPUs alone need may be missing
  [[ $if_missing == absent ]] && ! type -P nvidia-smi > /dev/null
}

# Imported, because a compiled module may be there and not fit this torch. A file system that is
# slow to read them for the first time is no fault.
check_imports() { # MODULE,...
  local IFS=, output
  local modules=($1)
  if lacks_gpus; then
    report imports absent 'no GPU' "$1"
  elif PATH=$job_path run timeout "$timeout" python3 -c '
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
' "${modules[@]}"; then
    report imports ok 'can be imported' "$1"
  elif [[ $output == 'timeout exits 124:'* ]]; then
    report imports warn "not imported in $timeout s" "$1"
  else
    report imports bad "${output#*: }" "$1"
  fi
}

# What torch needs to compile extensions. It refuses a CUDA of another major version, and only warns
# of another minor one. DeepSpeed refuses that, too, except for the versions of its own list.
check_build() {
  local wanted="nvcc of torch's CUDA, ninja, Python.h"
  local output version release=- cuda headers ninja alike seen verdict=bad
  if lacks_gpus; then
    report build absent 'no GPU to compile for' "$wanted"
    return
  fi
  if PATH=${CUDA_HOME:-/usr/local/cuda}/bin:$job_path run nvcc --version; then
    release=${output#*release } release=${release%%,*}
  fi
  probe torch ninja deepspeed || { report build bad "$output" "$wanted"; return; }
  version_of cuda && cuda=$version
  version_of headers && headers=$version
  version_of ninja && ninja=$version
  version_of alike && alike=$version
  [[ $ninja != - ]] || ninja=$(PATH=$job_path type -P ninja) || ninja=-
  seen="nvcc $release, torch's CUDA $cuda"
  [[ $ninja != - ]] || seen+=', no ninja'
  [[ $headers == there ]] || seen+=', no Python.h'
  if [[ $cuda == - || $ninja == - || $headers != there || ${release%%.*} != "${cuda%%.*}" ]]; then
    verdict=bad
  elif [[ $cuda. == "$release".* ]]; then
    verdict=ok
  elif [[ $alike == - || ${DS_SKIP_CUDA_CHECK:-0} == 1 \
    || " $alike " == *" $release "* && " $alike " == *" $(minor_of "$cuda") "* ]]; then
    verdict=warn
  else
    seen+=', which DeepSpeed refuses'
  fi
  report build "$verdict" "$seen" "$wanted"
}

minor_of() { # 12.4.1 -> 12.4
  local rest=${1#*.}
  echo "${1%%.*}.${rest%%.*}"
}

# Megatron's index builder: one process of each node calls make.
check_helpers() { # FOLDER
  local wanted='compiled, or all that make needs' output program missing=()
  if [[ ! -e $1/helpers.cpp ]]; then
    report helpers ok 'no helpers.cpp to compile' "$wanted"
    return
  fi
  PATH=$job_path run python3 -c '
import sysconfig
print(sysconfig.get_config_var("EXT_SUFFIX"))' || { report helpers bad "$output" "$wanted"; return; }
  if [[ $1/helpers$output -nt $1/helpers.cpp ]]; then
    report helpers ok compiled "$wanted"
    return
  fi
  for program in make g++ python3-config; do
    PATH=$job_path type -P "$program" > /dev/null || missing+=("no $program")
  done
  PATH=$job_path run python3 -m pybind11 --includes || missing+=('no pybind11')
  [[ -w $1 ]] || missing+=("$1 cannot be written")
  (( ${#missing[@]} == 0 ))
  report_test "$(( ! $? ))" helpers "$(join_words "${missing[@]:-can be compiled}")" "$wanted"
}

join_words() { # WORD...: with commas
  local text=$1
  shift
  for one; do text+=", $one"; done
  echo "$text"
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

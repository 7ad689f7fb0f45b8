# shellcheck shell=bash
# Prints what this node has; on the first node also versions of software: `header: true` of a spec.
# It ends no job: what is missing or does not answer in time is left out.
#
#   bash describe_node.sh [PACKAGE...]

ask() ( # at most 64 KiB of its output
  set -o pipefail
  timeout 20 "$@" 2> /dev/null | { head -c 65536; cat > /dev/null; }
)

count_gpus() { # reads one name a line, prints `8 x NVIDIA A100`
  local -A counts=()
  local name found=''
  while read -r name; do counts[$name]=$(( ${counts[$name]:-0} + 1 )); done
  for name in "${!counts[@]}"; do found+="${found:+, }${counts[$name]} x $name"; done
  printf '%s' "$found"
}

describe_node() {
  local gpus driver memory system='' key value
  gpus=$(count_gpus < <(ask nvidia-smi --query-gpu=name --format=csv,noheader))
  driver=$(ask nvidia-smi --query-gpu=driver_version --format=csv,noheader --id=0)
  read -r _ memory _ < /proc/meminfo
  while IFS='=' read -r key value; do
    [[ $key != PRETTY_NAME ]] || system="${value//\"/}, "
  done < /etc/os-release 2> /dev/null
  printf 'clusterjobs: %s: %s%s CPUs, %s GiB, %sLinux %s\n' "${SLURMD_NODENAME-}" \
    "${gpus:+$gpus${driver:+, driver $driver}; }" "$(nproc)" "$(( memory / 1048576 ))" \
    "$system" "$(uname -r)"
}

describe_software() { # PACKAGE...
  local commit changed
  ask python3 - "$@" << 'END'
import platform, sys
from importlib import metadata
found = ["Python {} ({})".format(platform.python_version(), sys.executable)]
names = {(one.metadata["Name"] or "").lower().replace("_", "-"): one.version for one in metadata.distributions()}
wanted = [*sys.argv[1:], *sorted(name for name in names if name.startswith(("nvidia-nccl", "nvidia-cuda-runtime", "nvidia-cudnn")))]
found += ["{} {}".format(name, names.get(name.lower().replace("_", "-"), "is missing")) for name in wanted]
print("clusterjobs: " + ", ".join(found))
END
  commit=$(ask git rev-parse --short HEAD) || commit=
  changed=$(ask git status --porcelain --untracked-files=no) || changed=
  [[ -z $commit ]] || echo "clusterjobs: code: commit $commit${changed:+ with changes that are not committed}, in $PWD"
  [[ -z ${LOADEDMODULES-} ]] || echo "clusterjobs: modules: ${LOADEDMODULES//:/ }"
}

describe_node
(( ${SLURM_NODEID:-0} )) || describe_software "$@"
exit 0

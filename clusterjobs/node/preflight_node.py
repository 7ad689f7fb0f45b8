"""Asked once on every node before the training: is this node what the job needs?

Its arguments are `check=wanted` words; each answer is one line of `preflight.py`, printed as soon
as it is known. It comes to the node as srun's standard input, for the shared folder may be what
is broken there. Every check has a thread of its own, so that one that hangs (a dead mount, a
driver) is named and not waited for. The exit code is 0 whatever was seen: preflight.py judges.
"""

from __future__ import annotations

import _thread
import os
import sys
import time

# What few checks need is imported by them, for the launch waits for this program on every node.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterable

    Answer = tuple[str, str, str]  # verdict (ok, bad, absent), what was seen, what is wanted

MARK = "preflight"

# What only a lab of clusterjobs has: hardware that is missing there is told, and no fault.
IS_LAB = os.path.exists("/.lab/lab.json")
TOKEN = ""  # the name of a file that the batch host has put into the folders


def main(words: list[str]) -> None:
    global TOKEN
    node = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
    say(node, "clock", "at", repr(time.time()), "")
    seconds, asked = 40.0, []
    for name, _, wanted in (word.partition("=") for word in words):
        if name == "seconds":
            seconds = float(wanted)
        elif name == "token":
            TOKEN = wanted
        else:
            asked.append((name, wanted))
    for name, wanted in together(node, asked, seconds):
        say(node, label(name, wanted), "bad", f"no answer in {seconds:g} s: it hangs", "an answer")
    say(node, "", "end", "", "")
    os._exit(0)  # threads that hang are left behind


def together(node: str, asked: list[tuple[str, str]], seconds: float) -> Iterable[tuple[str, str]]:
    """Answer everything at the same time; those that have not come to an end in time."""
    left = dict(enumerate(asked))
    guard, all_done = _thread.allocate_lock(), _thread.allocate_lock()
    all_done.acquire()

    def one(number: int, name: str, wanted: str) -> None:
        answer(node, name, wanted)
        with guard:
            del left[number]
            if not left:
                all_done.release()

    for number, (name, wanted) in enumerate(asked):
        _thread.start_new_thread(one, (number, name, wanted))
    if asked:
        all_done.acquire(timeout=seconds)
    with guard:
        return list(left.values())


def label(name: str, wanted: str) -> str:
    """The check's name in the table, with the folder that it is about."""
    if name in ("mount", "lustre", "folder"):
        return f"{name} {wanted}"
    return f"{name} {wanted.partition(':')[2]}" if name == "space" else name


def answer(node: str, name: str, wanted: str) -> None:
    try:
        verdict, seen, said = CHECKS[name](wanted)
    except Exception as error:  # whatever a check stumbles over is what was seen
        text = getattr(error, "strerror", None) or str(error) or type(error).__name__
        verdict, seen, said = "bad", text, "no error"
    say(node, label(name, wanted), verdict, seen, said)


def say(*fields: str) -> None:
    """One write, so that the lines of threads do not mix."""
    line = "\t".join(" ".join(field.split()) for field in (MARK, *fields))
    try:
        os.write(1, f"{line}\n".encode("utf-8", "replace"))
    except OSError:  # nobody listens any more
        os._exit(1)


def missing(what: str, wanted: str) -> Answer:
    """Something is not there: a fault, and in a lab nothing else was to be expected."""
    return ("absent" if IS_LAB else "bad", what, wanted)


def judged(is_good: bool, seen: str, wanted: str) -> Answer:
    return ("ok" if is_good else "bad", seen, wanted)


def find(program: str, *folders: str) -> str | None:
    """The program's path: the usual folders first, for one of PATH may be a dead mount."""
    for folder in (*folders, *os.environ.get("PATH", "").split(":")):
        path = os.path.join(folder, program)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def output(*command: str) -> str:
    """stdout of a program; its last words as an error where it fails."""
    import subprocess

    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
    text = done.stdout.decode("utf-8", "replace")
    if done.returncode != 0:
        said = (done.stderr.decode("utf-8", "replace") or text).strip().splitlines()
        name = os.path.basename(command[0])
        raise RuntimeError(f"{name} exits {done.returncode}: {said[-1] if said else 'no word'}")
    return text


# ------------------------------------------------------------------ hardware


def gpus(wanted: str) -> Answer:
    """NVIDIA's nvidia-smi manual: --query-gpu, and what it counts as uncorrected ECC errors."""
    said = f"{wanted}, no uncorrected ECC errors"
    smi = find("nvidia-smi", "/usr/bin")
    if smi is None:
        return missing("no nvidia-smi", said)
    fields = "name,ecc.errors.uncorrected.volatile.total"
    rows = [
        line.rpartition(", ")[::2]
        for line in output(smi, f"--query-gpu={fields}", "--format=csv,noheader").splitlines()
        if ", " in line
    ]
    names = sorted({name for name, _ in rows})
    bad = [f"GPU {i} has {errors}" for i, (_, errors) in enumerate(rows) if errors.strip("0N/A[] ")]
    seen = f"{len(rows)} {' and '.join(names)}".strip()
    if bad:
        seen += f", ECC errors: {', '.join(bad)}"
    return judged(len(rows) >= int(wanted) and not bad, seen, said)


def processes(_: str) -> Answer:
    smi = find("nvidia-smi", "/usr/bin")
    if smi is None:
        return missing("no nvidia-smi", "none on the GPUs")
    fields = "--query-compute-apps=pid,process_name"
    lines = [line for line in output(smi, fields, "--format=csv,noheader").splitlines() if line]
    return judged(not lines, "; ".join(lines) or "none", "none on the GPUs")


def efa(wanted: str) -> Answer:
    """libfabric's fi_info(1): a domain is listed once for each kind of endpoint (-rdm, -dgrm)."""
    said = f"{wanted} domains"
    info = find("fi_info", "/opt/amazon/efa/bin")
    if info is None:
        return missing("no fi_info", said)
    lines = [line.strip() for line in output(info, "-p", "efa").splitlines()]
    names = {line.partition("domain: ")[2] for line in lines if line.startswith("domain: ")}
    domains = {name.rpartition("-")[0] or name for name in names}
    return judged(len(domains) >= int(wanted), f"{len(domains)} domains", said)


def memlock(_: str) -> Answer:
    """EFA pins memory; Slurm hands on the limit of the shell that called sbatch."""
    import resource

    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    if limit == resource.RLIM_INFINITY:
        return "ok", "unlimited", "unlimited"
    seen = f"{limit // 1024} KiB"
    if find("fi_info", "/opt/amazon/efa/bin") is None and IS_LAB:
        return "absent", f"{seen}, no EFA to pin memory for", "unlimited"
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return judged(limit >= memory, seen, "unlimited")


# ------------------------------------------------------------------ storage


def free(path: str, wanted: float) -> Answer:
    """Free space in GiB, and files that can still be made."""
    disk = os.statvfs(path)
    gib = disk.f_bavail * disk.f_frsize / 2**30
    seen = f"{gib:.0f} GiB" if gib >= 10 else f"{gib:.2g} GiB"
    if disk.f_files and not disk.f_favail:
        return "bad", f"{seen}, and no file can be made (inodes)", f"{wanted:g} GiB free"
    return judged(gib >= wanted, seen, f"{wanted:g} GiB free")


def shm(wanted: str) -> Answer:
    return free("/dev/shm", float(wanted))


def space(wanted: str) -> Answer:
    gib, _, path = wanted.partition(":")
    return free(path, float(gib))


def mount(path: str, kind: str = "") -> Answer:
    said = f"a mount of {kind}" if kind else "a mount"
    try:
        os.statvfs(path)  # a dead one hangs here; an automatic one is mounted now
    except FileNotFoundError:
        return "bad", "not there", said
    with open("/proc/self/mounts", encoding="utf-8", errors="replace") as lines:
        fields = [line.split() for line in lines]
    escaped = path.replace("\\", "\\134").replace(" ", "\\040").replace("\t", "\\011")
    kinds = [field[2] for field in fields if field[1] == escaped]
    if not kinds:
        return "bad", "a folder of the node's own", said
    if kind and kinds[-1] != kind:
        return missing(f"{kinds[-1]}, no {kind}", said)
    return "ok", kinds[-1], said


def lustre(path: str) -> Answer:
    return mount(path, "lustre")


def folder(path: str) -> Answer:
    """The file that the batch host put there is seen, and one of our own can be written."""
    said = "the batch host's, writable"
    if not os.path.isfile(os.path.join(path, TOKEN)):
        seen = "another folder" if os.path.isdir(path) else "not there"
        return "bad", seen, said
    own = os.path.join(path, f"{TOKEN}.{os.uname().nodename}")
    try:
        with open(own, "wb") as file:
            file.write(b"\0" * 65536)  # a full disk says so now, or when the file is closed
    finally:
        if os.path.exists(own):
            os.remove(own)
    return "ok", "the same, writable", said


# ------------------------------------------------------------------ network
# By _socket, the half of socket that is written in C and there at once; names as bytes, for text
# would be made into an international domain name first.


def network(_: str) -> Answer:
    """NCCL's manual, NCCL_SOCKET_IFNAME: prefixes, `^` leaves out, `=` asks for the whole name."""
    import _socket
    import fcntl

    rule = os.environ.get("NCCL_SOCKET_IFNAME") or "^lo"
    prefixes = [prefix for prefix in rule.lstrip("^=").split(",") if prefix]
    taken = []
    probe = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    for _number, name in _socket.if_nameindex():
        try:  # SIOCGIFADDR: an interface without an address is an error
            fcntl.ioctl(probe.fileno(), 0x8915, name.encode()[:15].ljust(40, b"\0"))
        except OSError:
            continue
        is_named = name in prefixes if "=" in rule[:2] else name.startswith(tuple(prefixes))
        if is_named != rule.startswith("^"):
            taken.append(name)
    probe.close()
    said = f"one that NCCL_SOCKET_IFNAME={rule} takes"
    return judged(bool(taken), ", ".join(sorted(taken)) or "no such interface", said)


def names(_: str) -> Answer:
    import _socket

    master, said = os.environ["MASTER_ADDR"], "an address for MASTER_ADDR"
    try:
        address = str(_socket.getaddrinfo(master.encode(), None, _socket.AF_INET)[0][4][0])
    except OSError as error:
        return "bad", f"{master}: {error.strerror}", said
    is_here = os.environ.get("SLURMD_NODENAME") == master
    return judged(is_here or not address.startswith("127."), address, said)


def port(_: str) -> Answer:
    """preflight.py listens there; that the port was free is what it could see itself."""
    import _socket

    master, number = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    said = f"port {number} of {master} answers"
    caller = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    caller.settimeout(15)
    try:
        address = _socket.getaddrinfo(master.encode(), number, _socket.AF_INET)[0][4]
        caller.connect(address)
    except OSError as error:
        return "bad", str(error.strerror or error), said
    finally:
        caller.close()
    return "ok", "answers", said


# ------------------------------------------------------------------ software

# Run by the job's own python3. Nothing is imported: torch alone would take seconds.
_PROBE = """
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
        cuda = re.search(r"(?m)^cuda\\b.*?=\\s*'([0-9.]+)'", file.read())
    print("cuda", cuda.group(1) if cuda else "-")
headers = os.path.join(sysconfig.get_paths()["include"], "Python.h")
print("headers", "there" if os.path.exists(headers) else "-")
"""


def probed(packages: list[str]) -> dict[str, str]:
    lines = output("python3", "-c", _PROBE, *packages).splitlines()
    return {name: found for name, _, found in (line.partition(" ") for line in lines)}


def packages(wanted: str) -> Answer:
    """`torch==2.6,deepspeed`: there, and of that version or one below it (2.6.1)."""
    pairs = [one.partition("==")[::2] for one in wanted.split(",")]
    found = probed([name for name, _ in pairs])
    good = all(matches(found[name], pin) for name, pin in pairs)
    seen = ", ".join(f"{n} {found[n]}" if found[n] != "-" else f"no {n}" for n, _ in pairs)
    return judged(good, seen, ", ".join(f"{name} {pin}".strip() for name, pin in pairs))


def matches(found: str, pin: str) -> bool:
    return found != "-" and (not pin or f"{found.partition('+')[0]}.".startswith(f"{pin}."))


def build(_: str) -> Answer:
    """What torch needs to compile an extension: it refuses a CUDA of another major version."""
    said = "nvcc of torch's CUDA, ninja, Python.h"
    home = os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin")
    nvcc = find("nvcc", home)
    if IS_LAB and find("nvidia-smi", "/usr/bin") is None:
        return "absent", "no GPU to compile for", said
    found = probed(["torch", "ninja"])
    cuda = output(nvcc, "--version").partition("release ")[2].partition(",")[0] if nvcc else "-"
    ninja = found["ninja"] != "-" or find("ninja") is not None
    is_same = cuda.partition(".")[0] == found.get("cuda", "-").partition(".")[0] != "-"
    seen = f"nvcc {cuda}, torch's CUDA {found.get('cuda', '-')}"
    seen += "" if ninja else ", no ninja"
    seen += "" if found["headers"] == "there" else ", no Python.h"
    return judged(is_same and ninja and found["headers"] == "there", seen, said)


def containers(_: str) -> Answer:
    """pyxis adds its options to srun's own help."""
    has_pyxis = "--container-image" in output("srun", "--help")
    return judged(has_pyxis, "pyxis" if has_pyxis else "no pyxis", "pyxis")


CHECKS: dict[str, Callable[[str], Answer]] = {
    check.__name__: check
    for check in (
        *(gpus, processes, efa, memlock, shm, mount, lustre, folder, space),
        *(network, names, port, packages, build, containers),
    )
}

if __name__ == "__main__":
    main(sys.argv[1:])

"""Builds fairseq and Horovod once for this machine, into the user's cache, and says where.

    python tests/prepare_frameworks.py     # three to four minutes on two cores, the first time

Neither has a wheel for a current Python. Only what the tests need is built: of fairseq's
extensions the two that prepare batches, of Horovod PyTorch's with gloo and MPI. torch itself comes
from the environment that runs this. The nodes' own programs (sshd, pdsh, Open MPI) are Debian's
packages, unpacked. Exit code 75: this machine cannot, and the last line says why.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile

from clusterjobs.errors import InputError
from clusterjobs.lab.slurm import cache_dir, unpacked_packages

FAIRSEQ, HOROVOD = "fairseq-fixed==0.12.3.1", "horovod==0.28.1"
# What the two need beside the project's own packages; fairseq's other needs are never imported.
PACKAGES = (
    *("antlr4-python3-runtime==4.9.3", "bitarray==3.12.3", "cloudpickle==3.1.2"),
    *("colorama==0.4.6", "cython==3.3.1", "hydra-core==1.3.2", "joblib==1.6.0", "lxml==6.1.3"),
    *("narwhals==2.28.0", "omegaconf==2.3.0", "portalocker==4.4.2", "regex==2026.11.15"),
    *("sacrebleu==2.6.0", "scikit-learn==1.9.1", "scipy==1.17.1", "tabulate==0.10.0"),
    *("threadpoolctl==3.8.0", "wheel==0.48.0"),
)
NODE_PACKAGES = ("openmpi-bin", "openssh-server", "openssh-client", "pdsh")
IMPOSSIBLE = 75  # EX_TEMPFAIL
RECIPE = 3  # to be counted up where this file builds something else from the same versions

HERE = pathlib.Path(__file__).resolve()


class CannotError(Exception):
    """This machine lacks what a build needs; not a fault of the build."""


def programs() -> pathlib.Path:
    """The folder of the nodes' programs, unpacked packages."""
    try:
        return unpacked_packages(
            cache_dir(), "nodes-programs-2", NODE_PACKAGES, alone=("libopenmpi-dev",), say=say
        )
    except InputError as error:
        raise CannotError(str(error)) from None


def libraries(root: pathlib.Path) -> pathlib.Path:
    """Where the unpacked packages have their shared libraries."""
    return root / "usr/lib" / f"{os.uname().machine}-linux-gnu"


def prepared() -> tuple[pathlib.Path, pathlib.Path]:
    """The folders of Python packages and of programs, built if they are not there yet."""
    root = programs()
    target = cache_dir() / f"frameworks-{_key(root)}"
    with (cache_dir() / "frameworks.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two runs of the tests build it once
        if not target.is_dir():
            _check_tools()
            _build(target, root)
    return target, root


def _key(root: pathlib.Path) -> str:
    torch = importlib.metadata.version("torch")
    told = (sys.version, sysconfig.get_platform(), torch, root, FAIRSEQ, HOROVOD, PACKAGES)
    return hashlib.sha256(repr((RECIPE, *told)).encode()).hexdigest()[:16]


def _check_tools() -> None:
    if sys.version_info >= (3, 13):
        raise CannotError("fairseq-fixed knows Python up to 3.12")
    missing = [tool for tool in ("g++", "make", "cmake") if not shutil.which(tool)]
    if missing:
        raise CannotError(f"no {', '.join(missing)} here: apt-get install g++ make cmake")
    header = pathlib.Path(sysconfig.get_paths()["include"]) / "Python.h"
    if not header.exists():
        raise CannotError(f"no {header}: apt-get install python3-dev")


def _build(target: pathlib.Path, root: pathlib.Path) -> None:
    """Made whole under another name, then renamed."""
    for cut_off in cache_dir().glob("building-*"):  # nobody else builds: the lock is ours
        shutil.rmtree(cut_off)
    with tempfile.TemporaryDirectory(dir=cache_dir(), prefix="building-") as temporary:
        work = pathlib.Path(temporary)
        site = work / "site"
        say(f"downloading {FAIRSEQ}, {HOROVOD} and what they need")
        _fetch(work, site)
        say("building Horovod")
        horovod = subprocess.Popen(  # beside fairseq's, which runs on one core
            [sys.executable, str(HERE), "--horovod", str(work), str(root)]
        )
        say("building fairseq")
        _build_fairseq(work, site)
        if horovod.wait() != 0:
            raise SystemExit("Horovod cannot be built; what the compiler said is above")
        _pip("install", "--no-deps", "--target", str(site), *map(str, work.glob("horovod*.whl")))
        _check_imports(site, root)
        site.rename(target)
    say(f"done: {target}")


def _check_imports(site: pathlib.Path, root: pathlib.Path) -> None:
    """What was built is kept only if it can be loaded."""
    modules = (
        "horovod.torch, fairseq.data.data_utils_fast, fairseq.data.token_block_utils_fast, "
        "fairseq_cli.train, fairseq_cli.hydra_train, fairseq_cli.preprocess"
    )
    folders = f"{libraries(root)}:{root}/lib/{libraries(root).name}"
    environment = {**_environment(site), "LD_LIBRARY_PATH": folders}
    _run([sys.executable, "-c", f"import {modules}; horovod.torch.init"], env=environment)


def _fetch(work: pathlib.Path, site: pathlib.Path) -> None:
    plain = ("--no-deps", "--no-build-isolation")
    try:
        _pip("install", *plain, "--target", str(site), *PACKAGES)
        _pip("download", *plain, "--no-binary", ":all:", "--dest", str(work), FAIRSEQ, HOROVOD)
    except subprocess.CalledProcessError as error:
        said = error.stdout.strip().splitlines()
        if "No matching distribution" in error.stdout or "Connection" in error.stdout:
            raise CannotError(f"the package index lacks what is needed: {said[-1]}") from None
        raise SystemExit("\n".join(said[-20:])) from None
    for archive in work.glob("*.tar.gz"):
        with tarfile.open(archive) as opened:
            # Python 3.11.2, which is Debian 12's, has no filters yet.
            safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            opened.extractall(work, **safely)


def _build_fairseq(work: pathlib.Path, site: pathlib.Path) -> None:
    """Its Python alone, and the two extensions that its data sets import."""
    source = next(work.glob("fairseq_fixed-*/"))
    without_extensions = {**_environment(site), "READTHEDOCS": "1"}  # so its setup.py reads
    _pip(
        *("install", "--no-deps", "--no-build-isolation", "--target", str(site)),
        str(source),
        env=without_extensions,
    )
    (source / "two_extensions.py").write_text(_TWO_EXTENSIONS)
    command = [sys.executable, "two_extensions.py", "-q", "build_ext", "--build-lib", str(site)]
    _run(command, cwd=source, env=_environment(site))


_TWO_EXTENSIONS = """
import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup

modules = ("data_utils_fast", "token_block_utils_fast")
options = {"language": "c++", "include_dirs": [numpy.get_include()]}
setup(
    name="two-extensions",
    ext_modules=cythonize(
        [Extension(f"fairseq.data.{m}", [f"fairseq/data/{m}.pyx"], **options) for m in modules]
    ),
)
"""


def build_horovod(work: pathlib.Path, root: pathlib.Path) -> None:
    """A wheel with PyTorch's extension, gloo and MPI; torch's headers want C++17."""
    source = next(work.glob("horovod-*/"))
    for name in ("CMakeLists.txt", "horovod/torch/CMakeLists.txt"):
        _replace(source / name, "CMAKE_CXX_STANDARD 14", "CMAKE_CXX_STANDARD 17")
    # gloo asks for MPI's C compiler, and uses only its C++: without it, a symbol is missing.
    gloo = source / "third_party/gloo/cmake/Dependencies.cmake"
    _replace(gloo, "if(MPI_C_FOUND)", "if(MPI_CXX_FOUND)")
    # With CUDA's torch and an nvcc on PATH, it would build for GPUs, and ask for CUDA's libraries.
    _replace(source / "cmake/Modules/FindPytorch.cmake", "(CUDA_HOME is not None)", "False")
    compiler = work / "bin" / "mpicxx"
    flags = "-O1 -DNDEBUG -DOMPI_SKIP_MPICXX"  # half the time; Open MPI's C++ part is not linked
    # The environment has an MPI of its own (mpich), which CMake would find by its mpiexec.
    settings = f"'-DCMAKE_CXX_FLAGS_RELWITHDEBINFO={flags}', '-DMPI_CXX_COMPILER={compiler}', "
    _replace(source / "setup.py", "cmake_args = [", f"cmake_args = [{settings}")
    compiler.parent.mkdir()
    compiler.write_text(_MPICXX.format(lib=libraries(root)))
    compiler.chmod(0o755)
    wanted = {"PYTORCH": "1", "GLOO": "1", "MPI": "1"}
    environment = {
        **_environment(work / "site"),
        **{f"HOROVOD_WITH_{name}": value for name, value in wanted.items()},
        "HOROVOD_WITHOUT_TENSORFLOW": "1",
        "HOROVOD_WITHOUT_MXNET": "1",
        "MAKEFLAGS": f"-j{os.cpu_count()}",
    }
    environment["PATH"] = f"{compiler.parent}:{environment['PATH']}"
    _pip(
        *("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(work), str(source)),
        env=environment,
    )


# Debian's own mpicxx knows only where it would be installed.
_MPICXX = """#!/bin/sh
compile='-DOMPI_SKIP_MPICXX -I{lib}/openmpi/include'
link='-Wl,--disable-new-dtags -Wl,-rpath,{lib} -L{lib}/openmpi/lib -lmpi'
case $1 in
  -showme:compile) echo "$compile"; exit ;;
  -showme:link) echo "$link"; exit ;;
  -show*) echo "g++ $compile $link"; exit ;;
esac
exec g++ $compile "$@" -Wl,-rpath-link,{lib} $link
"""


def _environment(site: pathlib.Path) -> dict[str, str]:
    folders = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PYTHONPATH": str(site), "PATH": folders}


def _replace(file: pathlib.Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text, f"{file} has no {old!r}"
    file.write_text(text.replace(old, new))


def _pip(*words: str, env: dict[str, str] | None = None) -> None:
    quiet = ("--disable-pip-version-check", "--no-input", "--progress-bar=off")
    quiet = quiet if words[0] != "wheel" else quiet[:2]
    _run([sys.executable, "-m", "pip", words[0], *quiet, *words[1:]], env=env)


def _run(
    command: list[str], cwd: pathlib.Path | None = None, env: dict[str, str] | None = None
) -> None:
    done = subprocess.run(
        command, cwd=cwd, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode != 0:
        lines = done.stdout.splitlines()
        errors = [number for number, line in enumerate(lines[:-30]) if "error" in line.lower()]
        first = errors[0] if errors else len(lines)  # what follows is often one long traceback
        say("\n".join([*lines[first : first + 20], "...", *lines[-30:]]))
    done.check_returncode()


def say(text: str) -> None:
    print(f"frameworks: {text}", file=sys.stderr, flush=True)


def main() -> None:
    if sys.argv[1:2] == ["--horovod"]:
        build_horovod(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))
        return
    try:
        site, root = prepared()
    except CannotError as error:
        say(str(error))
        sys.exit(IMPOSSIBLE)
    print(site)
    print(root)


if __name__ == "__main__":
    main()

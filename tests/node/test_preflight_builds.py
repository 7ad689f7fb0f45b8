"""The preflight's checks of what a job compiles and imports: CUDA, compiled modules, helpers."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig

import pytest
from preflight_nodes import FAILED


def write_cuda(preflight, tmp_path, cuda: str, release: str) -> None:
    """torch/version.py as torch 2.6 has it; nvcc's words are those of CUDA 12."""
    torch = tmp_path / "site" / "torch"
    torch.mkdir(parents=True)
    (torch / "__init__.py").write_text("raise ImportError('nobody shall import it')")
    (torch / "version.py").write_text(
        f"from typing import Optional\n__version__ = '2.6.0'\ncuda: Optional[str] = '{cuda}'\n"
    )
    preflight.environment["PYTHONPATH"] = str(tmp_path / "site")
    preflight.environment["CUDA_HOME"] = str(tmp_path / "cuda")
    (tmp_path / "cuda/bin").mkdir(parents=True)
    nvcc = f"#!/bin/bash\necho 'Cuda compilation tools, release {release}, V{release}.77'\n"
    (tmp_path / "cuda/bin/nvcc").write_text(nvcc)
    (tmp_path / "cuda/bin/nvcc").chmod(0o755)
    preflight.program("ninja", "#!/bin/bash\n")


def write_deepspeed(tmp_path) -> None:
    """The list of deepspeed/ops/op_builder/builder.py 0.14, shortened."""
    folder = tmp_path / "site" / "deepspeed" / "ops" / "op_builder"
    folder.mkdir(parents=True)
    (tmp_path / "site" / "deepspeed" / "__init__.py").write_text("raise ImportError\n")
    (folder / "builder.py").write_text(
        'cuda_minor_mismatch_ok = {\n    10: ["10.0", "10.1"],\n    11: ["11.6", "11.7"],\n}\n'
    )


WARNS = "clusterjobs: preflight warns of nodes"


@pytest.mark.parametrize(
    ("cuda", "release", "verdict"),
    [
        ("12.4", "12.4", "ok"),
        ("12.4.1", "12.4", "ok"),
        ("11.7", "11.6", "warn"),
        ("12.4", "12.6", "warn"),
        ("12.1", "12.12", "warn"),
        ("12.4", "11.8", "BAD"),
        ("12.4", "1.2", "BAD"),
    ],
)
def test_nvcc_must_be_of_torchs_cuda(preflight, tmp_path, cuda, release, verdict) -> None:
    write_cuda(preflight, tmp_path, cuda, release)
    (tmp_path / "site" / "deepspeed").mkdir()  # without a list of versions
    (tmp_path / "site" / "deepspeed" / "__init__.py").touch()
    code, said = preflight.run("build")
    assert f"nvcc {release}, torch's CUDA {cuda}" in said
    if "no Python.h" not in said:  # which not every machine has
        assert f"  {verdict}" in said
        assert code == (FAILED if verdict == "BAD" else 0), said
        assert (WARNS in said) is (verdict == "warn")


@pytest.mark.parametrize(
    ("cuda", "release", "skips", "verdict"),
    [
        ("11.7", "11.6", "0", "warn"),
        ("11.7", "11.5", "0", "BAD"),
        ("12.4", "12.6", "0", "BAD"),
        ("12.4", "12.6", "1", "warn"),
        ("12.4", "12.4", "0", "ok"),
    ],
)
def test_deepspeed_refuses_another_minor_version_that_it_does_not_list(
    preflight, tmp_path, cuda, release, skips, verdict
) -> None:
    write_cuda(preflight, tmp_path, cuda, release)
    write_deepspeed(tmp_path)
    preflight.environment["DS_SKIP_CUDA_CHECK"] = skips
    code, said = preflight.run("build")
    if "no Python.h" not in said:
        assert f"  {verdict}" in said
        assert code == (FAILED if verdict == "BAD" else 0), said
        assert ("which DeepSpeed refuses" in said) is (verdict == "BAD")


def test_modules_are_imported_and_what_one_says_is_shown(preflight, tmp_path) -> None:
    site = tmp_path / "site"
    (site / "apex").mkdir(parents=True)
    (site / "apex" / "__init__.py").touch()
    preflight.environment["PYTHONPATH"] = str(site)
    code, said = preflight.run("imports=apex,amp_C")
    assert code == FAILED
    assert "imports: ModuleNotFoundError: No module named 'amp_C'; wanted: apex,amp_C" in said
    (site / "amp_C.py").write_text("raise ImportError('undefined symbol: _ZN3c10')\n")
    code, said = preflight.run("imports=apex,amp_C")
    assert (code, "ImportError: undefined symbol: _ZN3c10" in said) == (FAILED, True), said
    (site / "amp_C.py").write_text("")
    code, said = preflight.run("imports=apex,amp_C")
    assert (code, "can be imported" in said) == (0, True), said


def test_a_slow_import_is_no_fault(preflight, tmp_path) -> None:
    (tmp_path / "slow_module.py").write_text("import time\ntime.sleep(300)\n")
    preflight.environment["PYTHONPATH"] = str(tmp_path)
    code, said = preflight.run("seconds=9", "imports=slow_module")
    assert (code, f"{WARNS} [node-1,node-2]: imports: not imported in 4 s" in said) == (0, True)


def compiler(preflight, *names: str) -> None:
    """Only these programs and Python, which has pybind11."""
    folder = preflight.folder / "tools"
    (folder / "pybind11").mkdir(parents=True, exist_ok=True)
    (folder / "pybind11" / "__main__.py").touch()
    for name in ("srun", "scontrol"):
        (folder / name).write_text((preflight.folder / "bin" / name).read_text())
        (folder / name).chmod(0o755)
    for name in names:
        (folder / name).write_text("#!/bin/bash\n")
        (folder / name).chmod(0o755)
    (folder / "setsid").symlink_to(shutil.which("setsid"))
    (folder / "python3").write_text(f'#!/bin/bash\nexec {sys.executable} "$@"\n')
    (folder / "python3").chmod(0o755)
    preflight.environment |= {"PATH": str(folder), "PYTHONPATH": str(folder)}


def test_megatrons_helpers_are_compiled_or_can_be(preflight, tmp_path) -> None:
    folder = tmp_path / "megatron" / "data"
    folder.mkdir(parents=True)
    assert "no helpers.cpp to compile" in preflight.run(f"helpers={folder}")[1]
    (folder / "helpers.cpp").touch()
    compiler(preflight, "make", "python3-config")
    code, said = preflight.run(f"helpers={folder}")
    assert (code, "helpers: no g++; wanted: compiled, or all" in said) == (FAILED, True), said
    (tmp_path / "tools" / "g++").write_text("#!/bin/bash\n")
    (tmp_path / "tools" / "g++").chmod(0o755)
    code, said = preflight.run(f"helpers={folder}")
    assert (code, "can be compiled" in said) == (0, True), said
    (tmp_path / "tools" / "pybind11" / "__main__.py").unlink()
    assert "helpers: no pybind11" in preflight.run(f"helpers={folder}")[1]
    library = folder / f"helpers{sysconfig.get_config_var('EXT_SUFFIX')}"
    library.touch()
    os.utime(folder / "helpers.cpp", (1, 1))
    code, said = preflight.run(f"helpers={folder}")
    assert (code, "ok  helpers  compiled" in " ".join(said.split("   "))) == (0, True), said
    os.utime(library, (0, 0))  # older than its source
    assert preflight.run(f"helpers={folder}")[0] == FAILED

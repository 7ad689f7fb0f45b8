"""The ranks' environment: what is set and why, and what a spec may not set."""

from __future__ import annotations

import pytest
from plans import plan_of, problems_of

from clusterjobs.errors import Problem


def variables(**keys: object) -> dict[str, str]:
    return {one.name: one.value for one in plan_of(**keys).environment.variables}


def test_efa_is_set_only_where_the_cluster_has_it() -> None:
    assert variables()["FI_PROVIDER"] == "efa"
    small = variables(cluster="small")
    assert not [name for name in small if name.startswith(("FI_", "NCCL_"))]


@pytest.mark.parametrize("cluster", ["p3dn-v100", "p4d-a100", "p4de-a100", "p5-h100"])
def test_no_ready_cluster_gets_variables_that_harm(cluster: str) -> None:
    names = set(variables(cluster=cluster))
    harmful = {"FI_EFA_USE_DEVICE_RDMA", "NCCL_PROTO", "NCCL_ALGO", "NCCL_IB_DISABLE"}
    assert not names & harmful


def test_every_variable_has_a_reason() -> None:
    assert all(one.reason for one in plan_of(env={"A": 1}).environment.variables)


def test_the_spec_has_the_last_word() -> None:
    found = variables(env={"NCCL_DEBUG": "INFO", "OMP_NUM_THREADS": 3})
    assert (found["NCCL_DEBUG"], found["OMP_NUM_THREADS"]) == ("INFO", "3")


def test_a_variable_that_the_job_unsets_is_empty_in_another() -> None:
    def warnings(**env: str) -> tuple[Problem, ...]:
        return plan_of(env=env).warnings

    (problem,) = warnings(PYTHONPATH="/x:${PYTHONPATH}:/y", P="${PYTHONPATH}")
    assert (problem.path, problem.warning) == ("env.PYTHONPATH", True)
    assert "the job unsets the PYTHONPATH of the calling shell" in problem.what
    assert problem.hint == "write PYTHONPATH: /x:/y"
    (problem,) = warnings(WHERE="${PYTHONHOME}")
    assert problem.hint == "write the value itself"
    assert not warnings(PATH="/x:${PATH}", A="$${PYTHONPATH}")
    (problem,) = plan_of(
        env={"PYTHONPATH": "/x:${PYTHONPATH:-}"}, software={"modules": ["torch"]}
    ).warnings
    assert problem.hint == (
        "write PYTHONPATH: /x; to extend what modules set, "
        "setup: ['export PYTHONPATH=/x:${PYTHONPATH:-}']"
    )


def test_a_variable_is_set_once_unless_it_is_a_search_path() -> None:
    names = [one.name for one in plan_of(env={"NCCL_DEBUG": "INFO"}).environment.variables]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RDMAV_FORK_SAFE", 1),
        ("RDMAV_HUGEPAGES_SAFE", 1),
        ("NCCL_BUFFERSIZE", 1),
        ("FI_EFA_USE_HUGE_PAGE", 1),
    ],
)
def test_what_breaks_a_job_is_refused(name: str, value: int) -> None:
    (problem,) = problems_of(env={name: value})
    assert (problem.path, problem.warning) == (f"env.{name}", False)
    assert problem.hint


@pytest.mark.parametrize(
    ("name", "why", "hint"),
    [
        ("NCCL_ALGO", "overrides the plugin's tuner", "remove it (aws-ofi-nccl 1.16)"),
        ("NCCL_PROTO", "overrides the plugin's tuner", "remove it (aws-ofi-nccl 1.16)"),
        ("NCCL_IB_DISABLE", "has no effect with EFA", "remove it"),
        ("NCCL_TREE_THRESHOLD", "has no effect in NCCL 2.5 and later", "remove it"),
        ("FI_EFA_TX_MIN_CREDITS", "is an old workaround", "remove it"),
        ("NCCL_ASYNC_ERROR_HANDLING", "is the old name", "it is on by default in torch 2.2"),
    ],
)
def test_what_is_needless_is_a_warning(name: str, why: str, hint: str) -> None:
    (warning,) = plan_of(env={name: "1"}).warnings
    assert (warning.path, warning.warning) == (f"env.{name}", True)
    assert (warning.what, warning.hint) == (f"{name} {why}", hint)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("NCCL_DEBUGG", "NCCL_DEBUG"),
        ("NCCL_SOCKET_IF_NAME", "NCCL_SOCKET_IFNAME"),
        ("TORCH_NCCL_BLOCKING_WAITS", "TORCH_NCCL_BLOCKING_WAIT"),
        ("PYTORCH_CUDA_ALOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"),
        ("CUDA_DEVICE_MAX_CONNECTION", "CUDA_DEVICE_MAX_CONNECTIONS"),
        ("OMP_NUM_THREAD", "OMP_NUM_THREADS"),
        ("FI_PROVIDERS", "FI_PROVIDER"),
    ],
)
def test_a_misspelt_variable_of_a_library_is_a_warning(name: str, meant: str) -> None:
    (warning,) = plan_of(env={name: "x"}).warnings
    assert (warning.path, warning.warning) == (f"env.{name}", True)
    assert warning.hint == f"did you mean {meant}?"


def test_variables_of_libraries_and_of_ones_own_are_no_mistakes() -> None:
    names = (
        "NCCL_DEBUG NCCL_FASTRAK_IFNAME NCCL_MINE OMP_PLACES TORCH_LOGS CUDA_HOME MY_NCCL_DEBUGG"
    )
    assert not plan_of(env=dict.fromkeys(names.split(), "x")).warnings


def test_conda_and_venv_exclude_each_other() -> None:
    (problem,) = problems_of(software={"conda": "/fsx/conda/env", "venv": "/fsx/venv"})
    assert (problem.path, problem.warning) == ("software.venv", False)
    assert "exclude each other" in problem.what


def test_device_rdma_is_refused_where_it_aborts_and_needless_elsewhere() -> None:
    keys = {"env": {"FI_EFA_USE_DEVICE_RDMA": 1}}
    (problem,) = problems_of(cluster="p3dn-v100", **keys)
    assert "p3dn.24xlarge has no RDMA" in problem.what
    (warning,) = plan_of(cluster="p4d-a100", **keys).warnings
    assert warning.warning
    assert not plan_of(cluster="p3dn-v100", env={"FI_EFA_USE_DEVICE_RDMA": 0}).warnings


NEW = {"TORCH_FR_BUFFER_SIZE", "TORCH_FR_DUMP_TEMP_FILE"}
OLD = {"TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"}


@pytest.mark.parametrize(
    ("torch", "names"),
    [
        (None, NEW),
        ("2", NEW),
        ("2.7.1", OLD),
        ("2.8", NEW | OLD),
        ("2.9", NEW),
        ("2.13.0", NEW),
        ("3.0", NEW),
        ("1.13", OLD),
    ],
)
def test_the_flight_recorders_variables_are_those_of_the_specs_torch(
    torch: str | None, names: set[str]
) -> None:
    plan = plan_of(software={"requires": {"torch": torch}} if torch else None)
    found = {one.name for one in plan.environment.variables}
    assert found & (NEW | OLD) == names

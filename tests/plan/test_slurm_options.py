from __future__ import annotations

import pytest
from plans import plan_of, problems_of

from clusterjobs.slurm.options import OLDEST, known_options


@pytest.mark.parametrize(
    ("program", "options", "what", "hint"),
    [
        ("sbatch", {"acount": "ml"}, "sbatch has no option --acount", "did you mean account?"),
        ("srun", {"mpii": "pmix"}, "srun has no option --mpii", "did you mean mpi?"),
        ("sbatch", {"mpi": "pmix"}, "sbatch of Slurm 22.05 to 26.05 has no option --mpi", ""),
        ("sbatch", {"A": "ml"}, "-A is the short form of --account", "write account"),
        ("sbatch", {"p": "long"}, "--partition follows from queue", "remove it here"),
        ("sbatch", {"t": 60}, "--time follows from time_limit", "remove it here"),
        ("sbatch", {"partitio": "long"}, "--partition follows from queue", "remove it here"),
        ("sbatch", {"mail-u": "a@b"}, "--mail-u is only the beginning of an option", "mail-user"),
        ("sbatch", {"account": True}, "--account needs a value", "write account: VALUE"),
        ("sbatch", {"contiguous": "yes"}, "--contiguous takes no value", "contiguous: true"),
    ],
)
def test_an_option_that_slurm_would_refuse_is_named(
    program: str, options: dict[str, object], what: str, hint: str
) -> None:
    (problem,) = problems_of(**{program: options}) or plan_of(**{program: options}).warnings
    assert problem.what == what
    assert hint in problem.hint


def test_an_option_that_is_like_no_other_may_be_of_a_plugin() -> None:
    (problem,) = plan_of(sbatch={"auks": "yes"}).warnings
    assert problem.warning
    assert "SPANK plugin" in problem.hint


@pytest.mark.parametrize(
    "options",
    [
        {"account": "ml", "qos": "high", "requeue": True, "nice": 100, "contiguous": False},
        {"container-image": "a/b:1", "segment": 8, "spread-segments": True},
    ],
)
def test_options_of_any_version_and_of_pyxis_pass(options: dict[str, object]) -> None:
    assert plan_of(sbatch=options).warnings == ()


def test_a_name_that_is_also_the_beginning_of_another_is_itself() -> None:
    software = {"container": {"runtime": "pyxis", "image": "a/b:1"}}
    keys = {"software": software, "launcher": "srun", "workdir": "/fsx/a"}
    assert problems_of(**keys, srun={"container": "/a"}) == ()


def test_every_short_name_has_a_long_one() -> None:
    for program in ("sbatch", "srun"):
        options = known_options(program)
        assert set(options.short.values()) <= set(options.takes_value)


@pytest.mark.parametrize(
    ("release", "options", "lacking"),
    [
        ("3.16.1", {"power": "level"}, "power"),
        ("3.5.0", {"power": "level"}, ""),
        ("3.9.0", {"power": "level"}, ""),  # 23.11: only 22.05 and 24.11 were tried
        ("3.5.0", {"segment": 8}, "segment"),
        ("3.16.1", {"segment": 8}, ""),
        ("3.13.1", {"spread-segments": True}, "spread-segments"),
        ("3.3.0", {"segment": 8, "account": "ml"}, "segment"),
        ("3.1.1", {"segment": 8, "account": "ml"}, "segment"),
        ("9.9.9", {"power": "level"}, ""),
    ],
)
def test_an_option_that_the_clusters_slurm_lacks_is_named(
    release: str, options: dict[str, object], lacking: str
) -> None:
    plan = plan_of(site={"parallelcluster": release}, sbatch=options)
    warnings = [one for one in plan.warnings if "has no option" in one.what]
    assert [one.what.rpartition("--")[2] for one in warnings] == [lacking] * bool(lacking)


@pytest.mark.parametrize(("release", "is_old"), [("3.1.1", True), ("3.3.0", False), ("9", False)])
def test_a_slurm_older_than_all_that_were_tried_causes_a_warning(
    release: str, is_old: bool
) -> None:
    warnings = plan_of(site={"parallelcluster": release}).warnings
    assert ["is older than 22.05" in one.what for one in warnings] == [True] * is_old


@pytest.mark.parametrize(("release", "is_newer"), [("3.99.0", True), ("3.16.1", False)])
def test_a_release_after_the_last_known_one_causes_a_warning(release: str, is_newer: bool) -> None:
    warnings = plan_of(site={"parallelcluster": release}).warnings
    said = f"ParallelCluster {release} is too new for clusterjobs"
    assert [said in one.what for one in warnings] == [True] * is_newer


def test_the_oldest_slurm_is_that_of_the_options() -> None:
    assert known_options("sbatch").oldest == OLDEST


def test_the_message_says_which_slurm_has_the_option() -> None:
    (problem,) = plan_of(srun={"uid": "me"}).warnings
    assert problem.what == "srun of the cluster's Slurm, 25.11.8, has no option --uid"
    assert problem.hint.startswith("remove it: Slurm 22.05 has it.")
    assert "parallelcluster: 3.13.1" in problem.hint


@pytest.mark.parametrize(
    ("signal", "keys", "code"),
    [
        ("B:USR1@120", {}, 138),
        ("RB:SIGHUP", {}, 129),
        ("B:12@60", {}, 140),
        ("B:USR1@120", {"setup": ["trap 'touch stop' USR2"]}, 138),
        ("B:USR1@120", {"setup": ["trap 'touch stop' SIGUSR1"]}, 0),
        ("B:USR1@120", {"software": {"setup": ["trap 'touch stop' TERM 10"]}}, 0),
        ("USR1@120", {}, 0),
        ("B:CONT@120", {}, 0),
    ],
)
def test_a_signal_that_ends_the_jobs_own_script_is_a_warning(
    signal: str, keys: dict[str, object], code: int
) -> None:
    warnings = plan_of(sbatch={"signal": signal}, **keys).warnings
    found = [one for one in warnings if one.path == "sbatch.signal"]
    assert [f"exit code {code}" in one.what for one in found] == [True] * bool(code)

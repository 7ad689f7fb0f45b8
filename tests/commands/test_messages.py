"""Messages about common mistakes: each says what to write instead."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable

import pytest

from clusterjobs import resources
from clusterjobs.console import format_problem
from clusterjobs.errors import Problem
from clusterjobs.sections.job import checks as directive_checks

SPEC = "name: a\ncluster: p4d-a100\nframework: deepspeed\nscript: t.py\nbatch: {micro: 8}\n"
CONFIG = resources.cluster_configs_dir() / "p4d-a100.yaml"


@pytest.mark.parametrize(
    ("line", "what", "hint"),
    [
        ("partition: long", "partition is an option of sbatch", "write queue: long"),
        ("time: 90", "time is an option of sbatch", "write time_limit: 90"),
        ("cpus-per-task: 9", "cpus-per-task is an option of", "write cpus_per_task: 9"),
        ("N: 2", "N is an option of sbatch", "write nodes: 2"),
        ("array: 1-8", "array is an option of", "write sbatch: {array: 1-8}"),
        ("t: 90", "t is an option of sbatch", "write time_limit: 90"),
        ("restarts: {stall_seconds: 30m}", "'30m' is not a number of seconds", "write 1800"),
        ("restarts: {stall_seconds: 2 hours}", "is not a number of seconds", "write 7200"),
        ("restarts: {grace_seconds: '00:05:00'}", "is not a number of seconds", "write 300"),
        ("restarts: {stall_seconds: 30ms}", "expected an integer", "for example 1800"),
        ("account: ml", "account is an option of sbatch", "write sbatch: {account: ml}"),
        ("mail_type: END", "mail_type is an option of", "write sbatch: {mail-type: END}"),
        ("gpus: 16", "gpus is an option of", "write gpus_per_node, the GPUs of each node"),
        ("sbatch: {mail_type: END}", "not an option's name", "write mail-type"),
        ("modules: [purge, a/1]", "unknown key modules", "write software: {modules: [purge, a/1]}"),
        ("modules:\n- a/1", "unknown key modules", "write software: {modules: ...}"),
        ("container: {image: x}", "unknown key container", "write software: {container: {imag"),
        ("before: [module load a/1]", "module is a function of a shell", "software: {modules: ["),
        ("setup: []\nafter: [conda activate a]", "conda is a function", "software: {conda: NAME}"),
        ("conda: /fsx/c", "unknown key conda", "write software: {conda: /fsx/c}"),
        ("micro: 8", "unknown key micro", "in batch, write micro: 8"),
        ("zero: 3", "expected a mapping", "write zero: {stage: 3}"),
        ("checkpoints: /fsx/c", "expected a mapping", "write checkpoints: {path: /fsx/c}"),
        ("parallel: 8", "expected a mapping", "write parallel: {tensor: 8}"),
        ("env: A", "expected a mapping", "write env: {NCCL_DEBUG: INFO}"),
        ("launcher: mpirun", "is not started by mpirun", "srun, torchrun, deepspeed, deepspeed-p"),
        ("launcher: srunn", "no launcher 'srunn'", "did you mean srun? known: srun, torchrun"),
        ("data: [{source: 's3://b/x', target: /a}]", "'b' is not the name", "3 to 63 characters"),
        ("data: [{source: 's3://B_b', target: /a}]", "'B_b' is not the name", "only lowercase"),
        ("data: [{source: 's3://bbb/a b', target: /a}]", "'a b' is not a prefix", "only letters"),
        ("data: [{source: 's3:/bbb', target: /a}]", "'s3:/bbb' is not a bucket", "write s3://"),
    ],
)
def test_the_hint_is_what_to_write(
    clusterjobs: Callable[..., object], folder: pathlib.Path, line: str, what: str, hint: str
) -> None:
    (folder / "exp.yaml").write_text(f"{SPEC}{line}\n")
    outcome = clusterjobs("render", "exp.yaml")
    assert outcome.code == 1
    assert what in outcome.err
    assert hint in outcome.err.partition("hint: ")[2]
    assert "problems" not in outcome.err


@pytest.mark.parametrize("option", sorted(directive_checks._owned()))
def test_no_hint_names_an_option_that_sbatch_may_not_set(
    clusterjobs: Callable[..., object], folder: pathlib.Path, option: str
) -> None:
    (folder / "exp.yaml").write_text(f"{SPEC}{option}: 2\n")
    assert "write sbatch:" not in clusterjobs("render", "exp.yaml").err


def test_a_cluster_config_in_place_of_a_spec_is_one_problem(
    clusterjobs: Callable[..., object],
) -> None:
    for command in ("render", "plan", "status"):
        outcome = clusterjobs(command, CONFIG)
        assert outcome.code == 1
        assert "p4d-a100.yaml:9:1 a ParallelCluster config, not a spec" in outcome.err
        assert "name it in a spec, `cluster: p4d-a100`" in outcome.err
        assert outcome.err.count("hint:") == 1


@pytest.mark.parametrize(
    ("setting", "caret"),
    [("nodez=4", "^^^^^"), ("nodes=four", "      ^^^^"), ("batch.micr=4", "^^^^^^^^^^")],
)
def test_the_caret_of_a_setting_is_below_the_mistake(
    clusterjobs: Callable[..., object], folder: pathlib.Path, setting: str, caret: str
) -> None:
    (folder / "exp.yaml").write_text(SPEC)
    err = clusterjobs("render", "exp.yaml", "--set", setting).err
    assert f"    1 | {setting}\n      | {caret}\n" in err


@pytest.mark.parametrize("command", ["show", "site", "upgrade"])
def test_a_name_that_is_no_config_lists_the_names(
    clusterjobs: Callable[..., object], folder: pathlib.Path, command: str
) -> None:
    outcome = clusterjobs("clusters", command, "p4.yaml")
    assert outcome.code == 1
    assert "there is no file p4.yaml" in outcome.err
    if command != "upgrade":  # which changes a file
        outcome = clusterjobs("clusters", command, "p4")
        assert outcome.code == 1
        assert "there is no cluster config 'p4'" in outcome.err
        assert "p4d-a100, p4de-a100, p5-h100" in outcome.err


@pytest.mark.parametrize("command", [[], ["render"], ["clusters", "show"], ["lab", "up"]])
def test_every_command_has_a_short_option_for_help(
    clusterjobs: Callable[..., object], command: list[str]
) -> None:
    short, long = clusterjobs(*command, "-h"), clusterjobs(*command, "--help")
    assert (short.code, short.out) == (0, long.out)
    assert short.out.startswith("Usage: clusterjobs")


def test_a_user_can_do_without_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem("wrong", hint="right", warning=True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" in format_problem(problem)
    monkeypatch.setenv("NO_COLOR", "1")
    assert format_problem(problem) == "warning: wrong\n   hint: right"


@pytest.mark.parametrize(
    "script", ["python train.py", "/usr/bin/python3 train.py --lr 1", "train.py --lr 1"]
)
def test_a_script_that_is_a_command_line_is_refused(
    clusterjobs: Callable[..., object], folder: pathlib.Path, script: str
) -> None:
    (folder / "exp.yaml").write_text(SPEC.replace("script: t.py", f"script: {script}"))
    outcome = clusterjobs("render", "exp.yaml")
    assert "script: script is a file, and not a command line" in outcome.err
    (folder / "exp.yaml").write_text(SPEC.replace("script: t.py", "script: my python/train.py"))
    assert clusterjobs("render", "exp.yaml").code == 0


def test_a_key_without_its_group_is_that_of_the_optimization(
    clusterjobs: Callable[..., object], folder: pathlib.Path
) -> None:
    fairseq = "{cli: fairseq-hydra-train, arch: a, data: /fsx/d, task: t}"
    text = SPEC.replace("deepspeed\nscript: t.py", f"fairseq\nfairseq: {fairseq}")
    (folder / "exp.yaml").write_text(f"{text}args: {{lr: 1e-4, max-update: 9}}\n")
    said = clusterjobs("render", "exp.yaml").err
    assert "did you mean optimization.lr?" in said
    assert "did you mean optimization.max_update?" in said


@pytest.mark.parametrize("item", ["true", "3", '"{{ nodes }}"'])
def test_a_secret_that_is_no_name_is_refused(
    clusterjobs: Callable[..., object], folder: pathlib.Path, item: str
) -> None:
    (folder / "exp.yaml").write_text(f"{SPEC}nodes: 2\nsecrets: [{item}]\n")
    outcome = clusterjobs("render", "exp.yaml")
    assert outcome.code == 1
    assert "secrets" in outcome.err


@pytest.mark.parametrize("block", ["args:\n  note: see: this", "before:\n  - a\n  - b: c: d"])
def test_a_value_with_a_colon_is_to_be_quoted_also_in_the_first_line_of_a_block(
    clusterjobs: Callable[..., object], folder: pathlib.Path, block: str
) -> None:
    (folder / "exp.yaml").write_text(f"{SPEC}{block}\n")
    assert "quote a value that contains ': '" in clusterjobs("render", "exp.yaml").err


def test_gpus_that_idle_are_reported_where_they_were_given(
    clusterjobs: Callable[..., object], folder: pathlib.Path
) -> None:
    (folder / "exp.yaml").write_text(f"{SPEC}gpus_per_node: 7\n")
    said = clusterjobs("plan", "exp.yaml").err
    assert "gpus_per_node: idle GPUs on every node, which you pay for: 1 of 8" in said


def test_a_job_on_cpus_is_not_told_of_idle_gpus(
    clusterjobs: Callable[..., object], folder: pathlib.Path
) -> None:
    (folder / "exp.yaml").write_text(f"{SPEC}gpus_per_node: 0\nranks_per_node: 8\n")
    done = clusterjobs("plan", "exp.yaml")
    assert (done.code, done.err) == (0, "")
    assert "1 node x 8 ranks (p4d.24xlarge)" in done.out


def test_a_job_on_cpus_goes_to_the_queue_without_gpus(
    clusterjobs: Callable[..., object], folder: pathlib.Path
) -> None:
    queue = "    - {{Name: {0}, ComputeResources: [{{Name: n, InstanceType: {1}, MaxCount: 2}}]}}\n"
    queues = queue.format("train", "p4d.24xlarge") + queue.format("cpu", "c6i.xlarge")
    config = f"Region: us-east-1\nScheduling:\n  Scheduler: slurm\n  SlurmQueues:\n{queues}"
    (folder / "mixed.yaml").write_text(config)
    spec = SPEC.replace("p4d-a100", "./mixed.yaml")
    for key, name in (("gpus_per_node: 0", "cpu"), ("gpus_per_node: 8", "train"), ("", "train")):
        (folder / "exp.yaml").write_text(f"{spec}{key}\n")
        done = clusterjobs("plan", "exp.yaml", "--json")
        assert json.loads(done.out)["partition"] == name, done.err


def test_choices_that_code_of_the_users_adds_are_accepted(
    clusterjobs: Callable[..., object], folder: pathlib.Path
) -> None:
    fairseq = "fairseq: {arch: my_arch, data: /fsx/d, task: my_task}"
    args = "args: {optimizer: mine, lr: 1e-4, lr-scheduler: mine}"
    text = SPEC.replace("deepspeed\nscript: t.py", f"fairseq\n{fairseq}")
    (folder / "exp.yaml").write_text(f"{text}{args}\n")
    assert clusterjobs("render", "exp.yaml").code == 1
    (folder / "exp.yaml").write_text(f"{text}{args[:-1]}, user-dir: /fsx/code/mine}}\n")
    assert clusterjobs("render", "exp.yaml").code == 0

"""fairseq trains one RoBERTa in four ranks on two nodes, and never four: by both command lines.

That its GPU ranks find each other follows from fairseq's own code, asked here with GPUs made up.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import re
import subprocess
from typing import Any

import goldens
import pytest
from faults import TIMEOUT, Running
from nodes_programs import Prepared, prepared, prepared_folders  # noqa: F401
from own_numbers import Kind
from reported import check_report, recorded

from clusterjobs.frameworks.fairseq.framework import Fairseq
from clusterjobs.frameworks.fairseq.settings import _quoted
from clusterjobs.lab.lab import until

pytestmark = [pytest.mark.lab, pytest.mark.frameworks]

SENTENCES = {"train": 400, "valid": 60}


@pytest.fixture(scope="module")
def data(
    prepared: Prepared,  # noqa: F811
    tmp_path_factory: pytest.TempPathFactory,
) -> pathlib.Path:
    """A little text of 200 words, as fairseq-preprocess writes it, in a folder with a space."""
    folder = tmp_path_factory.mktemp("text")
    chance = random.Random(1)
    words = [f"w{number}" for number in range(200)]
    for name, count in SENTENCES.items():
        lines = (" ".join(chance.choices(words, k=chance.randint(10, 30))) for _ in range(count))
        (folder / name).write_text("\n".join(lines) + "\n")
    command = [prepared.venv / "bin" / "fairseq-preprocess", "--only-source"]
    files = ["--trainpref", folder / "train", "--validpref", folder / "valid"]
    subprocess.run(
        [*command, *files, "--destdir", folder / "a bin", "--workers", "1"],
        env=prepared.environment,
        check=True,
        capture_output=True,
    )
    return folder / "a bin"


RECORDER = str(pathlib.Path(__file__).with_name("fairseq_record"))
FLAGS = {
    "optimizer": "adam",
    "lr": 1e-3,
    "max-update": 16,
    "log-interval": 2,
    "num-workers": 0,
    "user-dir": RECORDER,
}
OVERRIDES = {
    "optimizer": "adam",
    "lr_scheduler": "fixed",
    "optimization.lr": [1e-3],
    "optimization.max_update": 16,
    "common.log_interval": 2,
    "common.log_format": "simple",
    "common.user_dir": RECORDER,
    "dataset.num_workers": 0,
}


def fairseq_spec(jobs, prepared: Prepared, data: pathlib.Path, cli: str, **keys: Any):  # noqa: F811
    kind = {"task": "masked_lm", "arch": "roberta_base", "criterion": "masked_lm"}
    spec = jobs.spec(
        f"{cli}-{keys.get('launcher', 'srun')}",
        framework="fairseq",
        software={"venv": str(prepared.venv)},
        fairseq={"cli": cli, "data": str(data), "bucket_cap_mb": 200, **kind},
        model={"layers": 2, "hidden": 32, "heads": 2, "sequence": 64},
        batch={"micro": 4, "global": 32},
        args=FLAGS if cli == "fairseq-train" else OVERRIDES,
        checkpoints={"path": f"/fsx/check points/{cli}-{keys.get('launcher', 'srun')}"},
        **keys,
    )
    del spec["script"]
    return spec


@pytest.mark.parametrize(
    ("cli", "launcher"),
    [("fairseq-train", "srun"), ("fairseq-train", "torchrun"), ("fairseq-hydra-train", "srun")],
    ids=("fairseq-train-by-srun", "fairseq-train-by-torchrun", "hydra-by-srun"),
)
def test_fairseq_trains_one_model_in_four_ranks(
    jobs,
    prepared,  # noqa: F811
    data: pathlib.Path,
    cli: str,
    launcher: str,
) -> None:
    spec = fairseq_spec(jobs, prepared, data, cli, launcher=launcher)
    job_id = jobs.submit(jobs.render(recorded(spec)), **prepared.environment)
    ended = jobs.end(job_id, spec["name"], 300)
    assert ended.exit_code == 0, ended.log
    assert "'distributed_world_size': 4" in ended.log
    ranks = re.findall(r"initialized host (\S+) as rank (\d)", ended.log)
    first, second = jobs.lab.facts.nodes
    wanted = [(first, "0"), (first, "1"), (second, "2"), (second, "3")]
    assert sorted(ranks, key=lambda found: found[1]) == wanted, ended.log
    (line,) = Fairseq.log_lines
    found = [match.groupdict() for match in re.finditer(line.pattern, ended.log)]
    # One training: one rank reports, and its batches are the four ranks'.
    steps = [int(match["step"]) for match in found]
    assert steps == list(range(2, 17, 2)), ended.log
    assert "bsz=32" in ended.log
    assert ended.log.count("done training in") == 1
    checkpoints = jobs.lab.folder.shared("/fsx") / "check points" / f"{cli}-{launcher}"
    assert (checkpoints / "checkpoint_last.pt").exists()
    kind = Kind("fairseq", every=2, is_mean=True)
    check_report(jobs, spec["name"], ended.job_id, kind, "torch")


@pytest.mark.slow
def test_fairseq_goes_on_from_its_last_checkpoint_after_the_time_limit(
    jobs,
    prepared,  # noqa: F811
    data: pathlib.Path,
) -> None:
    spec = fairseq_spec(jobs, prepared, data, "fairseq-train")
    spec["name"] = "fairseq-limit"
    spec["args"] = {
        **FLAGS,
        "max-update": 10**6,
        "save-interval-updates": 40,
        "save-interval": 8,
        "no-epoch-checkpoints": True,
    }
    spec["checkpoints"] = {"path": "/fsx/fairseq limit"}
    spec["time_limit"] = "00:30:00"
    spec["restarts"] = {"time_limit": 1, "grace_seconds": 1}
    folder = jobs.lab.folder.shared("/fsx") / "fairseq limit"
    job = Running(jobs.lab, jobs.submit(jobs.render(spec), **prepared.environment), folder)
    # fairseq copies checkpoint_last.pt in place: a kill during the copy would cut it.
    until(lambda: "Saved checkpoint" in job.log(), TIMEOUT, job.log)
    job.scancel("--batch", "--signal=USR1")  # what Slurm does for --signal=B:USR1@...
    loaded = re.compile(r"Loaded checkpoint \S*/fairseq limit/checkpoint_last.pt .*@ (\d+) updates")
    until(lambda: loaded.search(job.log()), TIMEOUT, job.log)
    job.scancel()
    job.wait()
    found = loaded.search(job.log())
    assert found
    assert int(found[1]) >= 40
    assert [one["reason"] for one in job.records()] == ["time_limit", "cancelled"]


ASKED = """
import json, os, sys
import torch
torch.cuda.device_count = lambda: 8
torch.cuda.set_device = lambda _: None
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed.utils import infer_init_method
parsed = options.parse_args_and_arch(options.get_training_parser(), sys.argv[1:])
found = convert_namespace_to_omegaconf(parsed)
ranks = found.distributed_training
infer_init_method(ranks)
print(json.dumps({
    "world": ranks.distributed_world_size, "rank": ranks.distributed_rank,
    "device": ranks.device_id, "no_spawn": ranks.distributed_no_spawn,
    "init": ranks.distributed_init_method, "bucket": ranks.bucket_cap_mb,
    "fp16": found.common.fp16, "update_freq": list(found.optimization.update_freq),
    "batch": found.dataset.batch_size, "layers": found.model.encoder_layers,
    "ffn": found.model.encoder_ffn_embed_dim, "positions": found.model.max_positions,
}))
"""


def test_fairseqs_own_parser_reads_the_golden_command_line_as_it_is_meant(
    prepared,  # noqa: F811
) -> None:
    launch = goldens.read()["fairseq-train-p3dn"]["launch.sh"]
    lines = re.search(r"^  command=\(\n(.*?)^  \)", launch, re.M | re.S)
    assert lines
    shown = subprocess.run(
        ["bash", "-c", f'command=({lines[1]}); printf "%s\\0" "${{command[@]:1}}"'],
        capture_output=True,
        check=True,
        text=True,
    )
    ranks = {"RANK": "11", "LOCAL_RANK": "3", "WORLD_SIZE": "16", "MASTER_ADDR": "a"}
    asked = subprocess.run(
        [prepared.venv / "bin/python3", "-c", ASKED, *shown.stdout.split("\0")[:-1]],
        env={**prepared.environment, **ranks, "MASTER_PORT": "12345"},
        capture_output=True,
        text=True,
    )
    assert asked.returncode == 0, asked.stderr
    assert json.loads(asked.stdout.splitlines()[-1]) == {
        "world": 16,
        "rank": 11,
        "device": 3,
        "no_spawn": True,
        "init": "env://",
        "bucket": 200,
        "fp16": True,
        "update_freq": [8],
        "batch": 16,
        "layers": 24,
        "ffn": 4096,
        "positions": 512,
    }


READ_BY_HYDRA = """
import json, sys
from hydra.core.override_parser.overrides_parser import OverridesParser
print(json.dumps([one.value() for one in OverridesParser.create().parse_overrides(sys.argv[1:])]))
"""

HOSTILE = [
    *("plain", "/fsx/a b", "it's", 'say "hi"', "both ' and \"", "a,b", "{x: 1}", "[1]", "end\\"),
    *("back\\'slash", "a\\\\'b", "x=y", "$(touch /x)", "é, ü", "trailing ' \\", "#", "!x"),
]


def test_hydra_reads_every_quoted_text_as_it_was(prepared) -> None:  # noqa: F811
    words = [f"key={_quoted(text)}" for text in HOSTILE]
    done = subprocess.run(
        [prepared.venv / "bin/python3", "-c", READ_BY_HYDRA, *words],
        env={**os.environ, **prepared.environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == HOSTILE

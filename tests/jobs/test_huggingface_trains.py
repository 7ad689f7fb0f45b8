"""Hugging Face's Trainer and Accelerate train in the lab: one training of four ranks each.

Interrupted at a time limit, each resumes from its newest checkpoint with the same losses.
"""

from __future__ import annotations

import pytest
from huggingface_jobs import (
    HOLD_AT,
    assert_one_training,
    assert_resumed,
    own_keys,
    start,
    trainer_keys,
)
from own_numbers import Kind
from reported import check_report

pytest.importorskip("transformers", reason="needs the extra 'train'")
pytest.importorskip("accelerate", reason="needs the extra 'train'")
pytestmark = [pytest.mark.lab, pytest.mark.slow]


OWN_CONFIG = {
    "fsdp_config": {
        "fsdp_version": 2,
        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "fsdp_state_dict_type": "SHARDED_STATE_DICT",
    }
}


def test_the_trainer_with_fsdp_resumes_with_the_same_losses(jobs) -> None:
    """Once by the key `fsdp`; the resumed one by a config of accelerate launch."""
    keys = {"fsdp": {"reshard_after_forward": True}, "launcher": "accelerate"}
    straight = start(jobs, "fsdp-straight", **trainer_keys(as_gpus=True), **keys)
    assert straight.wait() == 0, straight.log()
    assert "FSDPLlamaForCausalLM ended at step 12" in straight.log()
    keys = {"accelerate_config": OWN_CONFIG, "launcher": "accelerate"}
    job = start(jobs, "fsdp", **trainer_keys(as_gpus=True, hold_at=HOLD_AT), **keys)
    assert_resumed(straight, job)
    assert_one_training(job, jobs, "FSDP")
    assert "from checkpoint checkpoint-7" in job.log()
    packages = ("transformers", "accelerate", "torch")
    kind = Kind("huggingface", clock="")
    check_report(jobs, "fsdp-straight", straight.job_id, kind, *packages)
    check_report(jobs, "fsdp", job.job_id, kind, *packages)


@pytest.mark.faults
def test_the_trainer_with_zero_2_resumes_with_the_same_losses(jobs) -> None:
    pytest.importorskip("deepspeed", reason="needs the extra 'train'")
    keys = {"zero": {"stage": 2}, "ds_config": {"gradient_clipping": "auto"}}
    straight = start(jobs, "zero-straight", **trainer_keys(as_gpus=True), **keys)
    assert straight.wait() == 0, straight.log()
    assert "DeepSpeedEngine ended at step 12" in straight.log()
    job = start(jobs, "zero", **trainer_keys(as_gpus=True, hold_at=HOLD_AT), **keys)
    assert_resumed(straight, job)
    assert_one_training(job, jobs, "DEEPSPEED")


@pytest.mark.faults
def test_the_trainer_on_cpus_is_one_training(jobs) -> None:
    straight = start(jobs, "cpu-straight", **trainer_keys())
    assert straight.wait() == 0, straight.log()
    job = start(jobs, "cpu", **trainer_keys(hold_at=HOLD_AT))
    assert_resumed(straight, job)
    assert_one_training(job, jobs, "MULTI_CPU")


@pytest.mark.faults
@pytest.mark.parametrize("launcher", ["accelerate", "torchrun", "srun"])
def test_an_accelerator_resumes_with_the_same_losses(jobs, launcher: str) -> None:
    straight = start(jobs, f"own-straight-{launcher}", launcher=launcher, **own_keys())
    assert straight.wait() == 0, straight.log()
    job = start(jobs, f"own-{launcher}", launcher=launcher, **own_keys(HOLD_AT))
    assert_resumed(straight, job)
    assert_one_training(job, jobs, "MULTI_CPU")
    check_report(jobs, f"own-{launcher}", job.job_id, Kind("own script"), "accelerate", "torch")

"""Hugging Face's Trainer and Accelerate train in the lab: one training of four ranks each.

Interrupted at a time limit, each resumes from its newest checkpoint with the same losses.
"""

from __future__ import annotations

import pytest
from huggingface_jobs import HOLD_AT, assert_one_training, assert_resumed, start, trainer_keys

pytest.importorskip("transformers", reason="needs the extra 'train'")
pytest.importorskip("accelerate", reason="needs the extra 'train'")
pytestmark = [pytest.mark.lab, pytest.mark.slow]


def test_the_trainer_with_fsdp_resumes_with_the_same_losses(jobs) -> None:
    keys = {"fsdp": {"reshard_after_forward": True}, "launcher": "accelerate"}
    straight = start(jobs, "fsdp-straight", **trainer_keys(as_gpus=True), **keys)
    assert straight.wait() == 0, straight.log()
    assert "FSDPLlamaForCausalLM ended at step 12" in straight.log()
    job = start(jobs, "fsdp", **trainer_keys(as_gpus=True, hold_at=HOLD_AT), **keys)
    assert_resumed(straight, job)
    assert_one_training(job, jobs, "FSDP")
    assert "from checkpoint checkpoint-7" in job.log()

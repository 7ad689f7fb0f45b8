"""When Megatron-LM needs CUDA_DEVICE_MAX_CONNECTIONS=1, and when it must not have it.

Source: megatron/training/arguments.py, validate_args.
"""

from __future__ import annotations

from clusterjobs.frameworks.arguments import given_arguments
from clusterjobs.frameworks.base import Task

NAME = "CUDA_DEVICE_MAX_CONNECTIONS"
FSDP = ("use_torch_fsdp2", "use_megatron_fsdp")
# With them Megatron-LM only prints what would be faster.
_LEFT_OPEN = (*FSDP, "overlap_moe_expert_parallel_comm")
_BLACKWELL = ("B200", "B300", "GB200", "GB300", "RTX PRO")  # compute capability 10 and above


def is_asked_for(task: Task) -> bool:
    """Whether Megatron-LM asserts the variable, or would on other GPUs."""
    flags = {one.key for one in given_arguments(task.experiment)}
    is_divided = task.parallelism.tensor > 1 or task.parallelism.context > 1
    return is_divided and not flags & set(_LEFT_OPEN)


def needs_one_connection(task: Task) -> bool:
    """Whether Megatron-LM stops without the variable on these GPUs."""
    is_blackwell = (task.gpu_model or "").startswith(_BLACKWELL)
    return bool(task.shape.gpus_per_node) and is_asked_for(task) and not is_blackwell

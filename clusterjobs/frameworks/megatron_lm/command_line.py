"""Megatron-LM's flags and variables that a spec's keys become.

Source of the flags: megatron/training/arguments.py.
"""

from collections.abc import Iterator

from clusterjobs.frameworks.arguments import arguments_by_key
from clusterjobs.frameworks.base import Task, Variable
from clusterjobs.frameworks.megatron.command_line import (
    ModelFlags,
    batch_arguments,
    checkpoint_arguments,
    model_arguments,
    parallel_arguments,
)
from clusterjobs.text import Value
from clusterjobs.yaml.document import Path

# When Megatron-LM needs CUDA_DEVICE_MAX_CONNECTIONS=1, and when it must not have it: validate_args.

NAME = "CUDA_DEVICE_MAX_CONNECTIONS"
FSDP = ("use_torch_fsdp2", "use_megatron_fsdp")
# With them Megatron-LM only prints what would be faster.
_LEFT_OPEN = (*FSDP, "overlap_moe_expert_parallel_comm")
_BLACKWELL = ("B200", "B300", "GB200", "GB300", "RTX PRO")  # compute capability 10 and above


def is_asked_for(task: Task) -> bool:
    """Whether Megatron-LM asserts the variable, or would on other GPUs."""
    flags = arguments_by_key(task.spec).keys()
    is_divided = task.parallelism.tensor > 1 or task.parallelism.context > 1
    return is_divided and not flags & set(_LEFT_OPEN)


def needs_one_connection(task: Task) -> bool:
    """Whether Megatron-LM stops without the variable on these GPUs."""
    is_blackwell = (task.gpu_model or "").startswith(_BLACKWELL)
    return bool(task.shape.gpus_per_node) and is_asked_for(task) and not is_blackwell


def derived_arguments(task: Task) -> Iterator[Value]:
    """The flags that follow from the spec's other keys."""
    yield from model_arguments(task.spec, True, MODEL_FLAGS)
    yield from parallel_arguments(task)
    yield from _further_parallel_arguments(task)
    yield from batch_arguments(task)
    yield from checkpoint_arguments(task.spec)


MODEL_FLAGS = ModelFlags(("group-query-attention", "num-query-groups"), "moe-router-topk")


def _further_parallel_arguments(task: Task) -> Iterator[str]:
    parallel = task.parallelism
    if parallel.virtual_pipeline > 1:
        yield from ("--num-virtual-stages-per-pipeline-rank", str(parallel.virtual_pipeline))
    if parallel.context > 1:
        yield from ("--context-parallel-size", str(parallel.context))
    if parallel.expert > 1:
        yield from ("--expert-model-parallel-size", str(parallel.expert))
    if parallel.sequence and parallel.tensor > 1:
        yield "--sequence-parallel"


DERIVED_FROM: dict[str, Path] = {
    "num_virtual_stages_per_pipeline_rank": ("parallel", "virtual_pipeline"),
    "num_layers_per_virtual_pipeline_stage": ("parallel", "virtual_pipeline"),
    "context_parallel_size": ("parallel", "context"),
    "expert_model_parallel_size": ("parallel", "expert"),
    "sequence_parallel": ("parallel", "sequence"),
}


def environment(task: Task) -> Iterator[Variable]:
    """What no launcher sets."""
    if needs_one_connection(task):
        yield Variable(
            NAME,
            "1",
            "tensor and context ranks need kernels in launch order; Blackwell does not",
            "Megatron-LM megatron/training/arguments.py, validate_args",
        )

"""GPT-NeoX: its configs as deepy.py and the ranks read them, and the launcher's options.

Source: EleutherAI/gpt-neox, deepy.py and megatron/neox_arguments/arguments.py.
"""

from __future__ import annotations

import logging
import os
import tempfile
from typing import Any, List

import deepspeed_config
from argument_request import NotCheckedError, Request, imported, message_of, source_of


def check(request: Request) -> None:
    """Report what GPT-NeoX refuses."""
    with tempfile.TemporaryDirectory() as folder:
        hosts = os.path.join(folder, "hosts")
        with open(hosts, "w", encoding="utf-8") as file:
            for node in range(request.nodes):
                file.write(f"node-{node} slots={request.ranks_per_node}\n")
        os.environ["DLTS_HOSTFILE"] = hosts  # GPT-NeoX reads it when it is imported
        args = parsed(request)
    keys = getattr(args, "deepspeed_config", None)
    if isinstance(keys, dict):
        sizes = (args.model_parallel_size or 1) * max(1, args.pipe_parallel_size or 1)
        deepspeed_config.check(request, keys, request.world_size // sizes)


def parsed(request: Request) -> Any:
    """The settings as the ranks get them; None if they are refused."""
    module = imported("megatron.neox_arguments", request.title)
    deepspeed = imported("deepspeed", request.title)
    runner = imported("deepspeed.launcher.runner", "DeepSpeed")
    torch = imported("torch", request.title)
    torch.cuda.device_count = lambda: request.ranks_per_node
    request.version = f"GPT-NeoX (DeepSpeed {deepspeed.__version__})"
    said = Errors()
    logging.getLogger().addHandler(said)
    # The script writes the file with the address only when it starts the ranks.
    late = os.path.join(request.folder, "clusterjobs_master.yml")
    words = [word for word in request.arguments if word != late]
    with request.refusals():
        try:
            args = request.parse(module.NeoXArgs.consume_deepy_args, words)
            launched = runner.parse_args(args.get_deepspeed_main_args())
            return module.NeoXArgs.consume_neox_args(input_args=launched.user_args)
        except (AssertionError, ValueError, NotImplementedError) as error:
            if not said.messages:
                raise
            for message in said.messages:  # its errors say less than its log
                request.problem(message, source_of(error))
            if not request.problems:
                raise NotCheckedError(message_of(error)) from error
    return None


class Errors(logging.Handler):
    """The errors that GPT-NeoX logs before it raises one without a message."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: List[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it, without the colours and names of its start."""
        text = record.getMessage().replace("\033[91m\033[1m", "").replace("\033[0m", "")
        text = text.replace("[FAIL] ", "")
        self.messages.append(" ".join(text.split()))

"""GPT-NeoX: its configs as deepy.py and the ranks read them, and the launcher's options.

Source: EleutherAI/gpt-neox, deepy.py and megatron/neox_arguments/arguments.py.
"""

from __future__ import annotations

import logging
import os
import re
import tempfile
from typing import Any, List

import deepspeed_config
from argument_request import Request, imported, is_of_the_machine, message_of, source_of


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
    # The import has read it; the check may be made again with another one.
    module.arguments.DLTS_HOSTFILE = os.environ["DLTS_HOSTFILE"]
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
            source = source_of(error)
            for message in said.messages or [message_of(error)]:  # its log says more
                if is_of_the_machine(message, source):
                    raise
                names = re.findall(r"\w+_\w+", message + source)
                keys = [key for name in names for key in request.keys_in(name)]
                request.problem(plain(message), source, (keys or [""])[0])
    return None


class Errors(logging.Handler):
    """The errors that GPT-NeoX logs before it raises one without a message."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: List[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.messages.append(record.getMessage())


def plain(text: str) -> str:
    """The text without colours and without the name of its level."""
    return " ".join(re.sub(r"\033\[\d+m|\[FAIL\]", "", text).split())

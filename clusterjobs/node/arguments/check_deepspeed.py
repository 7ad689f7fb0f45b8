"""A script with DeepSpeed: the config that it gets, and DeepSpeed's own launcher's options."""

from __future__ import annotations

import deepspeed_config
from argument_request import Request, imported


def check(request: Request) -> None:
    """Report what DeepSpeed refuses."""
    deepspeed = imported("deepspeed", request.title)
    request.version = f"DeepSpeed {deepspeed.__version__}"
    for word, value in zip(request.words, request.words[1:]):
        if word in ("--deepspeed_config", "--deepspeed-config"):
            deepspeed_config.check(request, value, request.world_size // request.pipeline)

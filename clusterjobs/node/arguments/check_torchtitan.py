"""torchtitan: its own ConfigManager, and what its config checks when it is made.

Source: torchtitan 0.3, config/manager.py; 0.2, config/manager.py.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import re
from typing import Any, List, Sequence, Set

from argument_request import DoneError, RefusedError, Request, imported, stand_in_if_missing


def check(request: Request) -> None:
    """Report what torchtitan refuses."""
    imported("torch", request.title)
    stand_in(request.capability)
    torchtitan = imported("torchtitan", request.title)
    request.version = f"torchtitan {getattr(torchtitan, '__version__', '')}".rstrip()
    manager = imported("torchtitan.config", request.title)
    words = request.arguments
    with request.refusals():
        check_module(request, words)
        config = parsed(manager.ConfigManager(), words)
        check_parts(request, config)


def stand_in(capability: Sequence[int]) -> None:
    """In place of what needs a GPU."""
    torch: Any = importlib.import_module("torch")
    torch.compile = lambda model=None, **_: model or (lambda function: function)
    torch.cuda.get_device_capability = lambda *_: tuple(capability)
    stand_in_if_missing("triton")


def check_module(request: Request, words: List[str]) -> None:
    """A module of another name than torchtitan's own, which is not installed either."""
    for word, name in zip(words, words[1:]):
        if word == "--module" and importlib.util.find_spec(name.partition(".")[0]) is None:
            known: Set[str] = set()
            for part in ("models", "experiments"):
                package = importlib.import_module(f"torchtitan.{part}")
                known |= set(getattr(package, f"_supported_{part}", ()))
            if known and name not in known:
                request.problem(f"there is no module {name}, but {sorted(known)}", flag=word)
                raise DoneError


def parsed(manager: Any, words: List[str]) -> Any:
    """The config that the words make."""
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            return manager.parse_args(list(words))
    except SystemExit as error:
        said = plain(errors.getvalue())
        raise RefusedError(said or f"it ended with exit code {error.code}") from error


def check_parts(request: Request, config: Any) -> None:
    """What the trainer checks first: the degrees against the world size, the model's config."""
    parallel = importlib.import_module("torchtitan.distributed").ParallelDims
    if hasattr(parallel, "from_config"):  # of 0.3
        parallel.from_config(config.parallelism, request.world_size)
        config.model_spec.model.update_from_config(config=config)


def plain(text: str) -> str:
    """The text in tyro's box, without its frame and without what was logged above it."""
    boxed = [line for line in text.splitlines() if line[:1] in "│|╭╰"] or text.splitlines()
    lines = [re.sub(r"^[│|╭╰─\s]+|[│|╮╯─\s]+$", "", line) for line in boxed]
    return " ".join(line for line in lines if line).partition(" For full helptext")[0]

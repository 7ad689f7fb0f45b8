"""Lightning's Trainer, with the variables of the job or the arguments of a LightningCLI.

Source: Lightning 2.6, pytorch/trainer/trainer.py and pytorch/cli.py.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import sys
import typing
from typing import Any, Dict, List

import script_names
from argument_request import NotCheckedError, RefusedError, Request, imported

# The job's own; the Trainer of this one process gets them in another way.
_OF_THE_JOB = ("accelerator", "devices", "num_nodes", "default_root_dir", "logger")


def check(request: Request) -> None:
    """Report what the Trainer refuses."""
    lightning = package()
    request.version = f"Lightning {lightning.__version__}"
    name = lightning.__name__
    errors = importlib.import_module(
        "lightning.fabric.utilities.exceptions" if name == "lightning" else
        "lightning_fabric.utilities.exceptions"
    )  # fmt: skip
    tree = script_names.tree_of(request.script)
    is_cli = bool(tree and script_names.calls_of(tree, ["LightningCLI"]))
    title = "" if is_cli else "the Trainer's settings"
    with request.refusals(errors.MisconfigurationException, config=title):
        if is_cli:
            check_cli(request, lightning)
        else:
            given = {
                key[len("PL_TRAINER_") :].lower(): value
                for key, value in {**os.environ, **request.settings}.items()
                if key.startswith("PL_TRAINER_")
            }
            make_trainer(lightning, request, read(given))


def package() -> Any:
    """`lightning`, or `pytorch_lightning`, its older name."""
    try:
        return importlib.import_module("lightning")
    except ImportError:
        return imported("pytorch_lightning", "Lightning")


def read(given: Dict[str, str]) -> Dict[str, Any]:
    """The values as Lightning reads its variables: Python's literals, else text."""
    found: Dict[str, Any] = {}
    for name, text in given.items():
        try:
            found[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            found[name] = text
    return found


def make_trainer(lightning: Any, request: Request, given: Dict[str, Any]) -> None:
    """A Trainer of one process, with all settings but those of the hardware."""
    for name in list(os.environ):
        if name.startswith(("SLURM_", "PL_TRAINER_")):
            del os.environ[name]  # it would look for the other ranks
    pytorch = getattr(lightning, "pytorch", lightning)
    plugins = importlib.import_module(f"{pytorch.__name__}.plugins.environments")
    further = {name: value for name, value in given.items() if name not in _OF_THE_JOB}
    check_types(pytorch.Trainer, given)
    further.setdefault("enable_checkpointing", False)
    stand_in(pytorch, request)
    pytorch.Trainer(
        accelerator="gpu" if given.get("accelerator", "gpu") in ("gpu", "cuda", "auto") else "cpu",
        devices=request.ranks_per_node,
        num_nodes=request.nodes,
        logger=False,
        plugins=[plugins.LightningEnvironment()],
        **further,
    )


def check_types(trainer: Any, given: Dict[str, Any]) -> None:
    """A text where the Trainer's annotations allow none, or only some: it would fail later."""
    hints = typing.get_type_hints(inspect.unwrap(trainer.__init__))
    for name, value in given.items():
        kinds = [one for one in kinds_of(hints.get(name, Any)) if one is not type(None)]
        takes_text = str in kinds or Any in kinds
        if isinstance(value, str) and not takes_text and value not in kinds:
            wanted = " or ".join(getattr(kind, "__name__", str(kind)) for kind in kinds)
            raise TypeError(f"`{name}` is {value!r}, and it must be {wanted}")


def kinds_of(hint: Any) -> List[Any]:
    """The types and texts that an annotation allows."""
    inner = typing.get_args(hint)
    return [one for part in inner for one in kinds_of(part)] if inner else [hint]


def stand_in(pytorch: Any, request: Request) -> None:
    """The node's GPUs, which the Trainer counts."""
    fabric = "lightning_fabric" if pytorch.__name__ == "pytorch_lightning" else "lightning.fabric"
    for name in (f"{fabric}.accelerators.cuda", f"{pytorch.__name__}.accelerators.cuda"):
        module = importlib.import_module(name)
        module.num_cuda_devices = lambda: request.ranks_per_node  # type: ignore[attr-defined]
    torch = importlib.import_module("torch")
    torch.cuda.is_available = lambda: True
    torch.cuda.device_count = lambda: request.ranks_per_node
    torch.cuda.is_bf16_supported = lambda *_, **__: True
    torch.cuda.get_device_capability = lambda *_: tuple(request.capability)
    torch.cuda.set_device = lambda *_: None


def check_cli(request: Request, lightning: Any) -> None:
    """The script's own LightningCLI, with the parser but without its run."""
    pytorch = getattr(lightning, "pytorch", lightning)
    cli = imported(f"{pytorch.__name__}.cli", "Lightning")
    tree = script_names.tree_of(request.script)
    if tree is None:
        raise NotCheckedError(f"the script {request.script} cannot be read")
    captured: List[Any] = []

    class ParsedError(Exception):
        """The parser has answered."""

    def stop(self: Any, *_: Any, **__: Any) -> None:
        captured.append(self)
        raise ParsedError

    cli.LightningCLI.before_instantiate_classes = stop
    refuse_as_argparse(cli)
    for call in script_names.calls_of(tree, ["LightningCLI"]):
        try:
            sys.argv = [request.script, *request.arguments]
            script_names.value_of(tree, request.script, call)
        except ParsedError:
            pass
        except (NameError, ImportError) as error:
            raise NotCheckedError(f"the script's LightningCLI: {error}") from error
        break
    else:
        raise NotCheckedError("the script calls no LightningCLI that could be found")
    check_trainer_of_cli(request, lightning, captured[0].config if captured else None)


def refuse_as_argparse(cli: Any) -> None:
    """jsonargparse has an `error` of its own."""

    def refuse(_self: Any, message: str, _error: Any = None) -> None:
        raise RefusedError(str(message))

    cli.LightningArgumentParser.error = refuse
    importlib.import_module("jsonargparse").ArgumentParser.error = refuse


def check_trainer_of_cli(request: Request, lightning: Any, config: Any) -> None:
    """The Trainer's part of the parsed config, without its classes."""
    if config is None:
        return
    subcommand = config.get("subcommand")
    trainer = config[subcommand]["trainer"] if subcommand else config["trainer"]
    plain = {
        name: value
        for name, value in dict(trainer.items()).items()
        if isinstance(value, (int, float, str))
    }
    make_trainer(lightning, request, plain)

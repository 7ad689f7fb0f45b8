"""fairseq: the parser of fairseq-train, or hydra for fairseq-hydra-train, and the conversion.

Source: fairseq 0.12, options.py, dataclass/utils.py and dataclass/initialize.py.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
from typing import Any, List

from argument_request import Request, imported


def check(request: Request) -> None:
    """Report what fairseq refuses."""
    fairseq = imported("fairseq", request.title)
    request.version = f"fairseq {getattr(fairseq, '__version__', '')}".rstrip()
    torch = importlib.import_module("torch")
    torch.cuda.device_count = lambda: request.ranks_per_node
    names = [os.path.basename(word) for word in request.words]
    hydra = next((name for name in names if name.startswith("fairseq-hydra-train")), None)
    program = hydra or next(name for name in names if name.startswith("fairseq-train"))
    arguments = request.words[names.index(program) + 1 :]
    of_hydra = importlib.import_module("hydra.errors").HydraException
    of_omegaconf = importlib.import_module("omegaconf.errors").OmegaConfBaseException
    with request.refusals(of_hydra, of_omegaconf, SyntaxError):  # it evaluates some values
        if hydra:
            compose(arguments)
        else:
            config = request.parse(train_config, arguments)
            check_parts(config)


def train_config(arguments: List[str]) -> Any:
    """The settings of fairseq-train."""
    options = importlib.import_module("fairseq.options")
    tools = importlib.import_module("fairseq.dataclass.utils")
    sys.argv = ["fairseq-train", *arguments]
    parsed = options.parse_args_and_arch(options.get_training_parser(), arguments)
    return tools.convert_namespace_to_omegaconf(parsed)


def compose(arguments: List[str]) -> None:
    """The settings of fairseq-hydra-train: hydra's own `--cfg job`, which does not train."""
    sys.argv = ["fairseq-hydra-train", *arguments, "--cfg", "job"]
    hydra_init = importlib.import_module("fairseq.dataclass.initialize").hydra_init
    main = importlib.import_module("fairseq_cli.hydra_train").hydra_main
    get_args = importlib.import_module("hydra._internal.utils").get_args
    hydra_init(get_args().config_name or "config")
    os.environ["HYDRA_FULL_ERROR"] = "1"  # else hydra prints the error and exits
    with contextlib.redirect_stdout(io.StringIO()):
        main()


def check_parts(config: Any) -> None:
    """The optimizer with its schedule, and one step of a small layer: each has assertions."""
    torch = importlib.import_module("torch")
    optim = importlib.import_module("fairseq.optim")
    schedules = importlib.import_module("fairseq.optim.lr_scheduler")
    parameters = list(torch.nn.Linear(2, 2).parameters())
    if not getattr(config.optimizer, "fp16_adam_stats", False):  # needs a GPU
        optimizer = optim.build_optimizer(config.optimizer, parameters)
        schedules.build_lr_scheduler(config.lr_scheduler, optimizer)
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()  # reads the parameters of the optimizer, such as betas

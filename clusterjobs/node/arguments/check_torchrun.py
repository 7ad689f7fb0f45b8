"""torchrun: its own parser, and what it makes of the options and of variables such as PET_TEE.

Source: PyTorch 2.13, torch/distributed/run.py and launcher/api.py.
"""

from __future__ import annotations

from typing import Any, Callable, Tuple

from argument_request import NotCheckedError, Request, imported, message_of


def check(request: Request) -> None:
    """Report what torchrun refuses."""
    try:
        torch = imported("torch", "torchrun")
    except NotCheckedError as error:
        cause, variable = error.__cause__, "env.TORCH_LOGS"
        names_it = isinstance(cause, ValueError) and "TORCH_LOGS" in str(cause)
        if not names_it or variable not in request.read_variables:
            raise
        request.problem(message_of(cause), "", variable)
        return
    run = imported("torch.distributed.run", "torchrun")
    request.version = request.version or f"torchrun {torch.__version__}"
    check_variables(request, run.get_args_parser())
    shape = [f"--nnodes={request.nodes}", f"--nproc-per-node={request.ranks_per_node}"]
    place = ["--node-rank=0", "--master-addr=localhost", "--master-port=12345"]
    words = [*shape, *place, *request.launcher_words, *request.words]
    with request.refusals(config="torchrun"):
        args = request.parse(run.get_args_parser().parse_args, words)
        started(request, run, lambda: run.run(args))


def check_variables(request: Request, parser: Any) -> None:
    """Report PET_ variables that are no option, or one that torchrun reads from no variable."""
    read = {one.dest for one in parser._actions if type(one).__name__ in ("env", "check_env")}
    for name in request.read_variables:
        option = name.partition("env.PET_")[2].lower()
        if read and option and option not in read:
            request.problem(f"torchrun reads no variable PET_{option.upper()}", "", name)


def started(
    request: Request, run: Any, start: Callable[[], Any], rank: Callable[[], Any] = lambda: None
) -> None:
    """Call `start` with `rank` for the ranks of a node; report what differs from the plan."""
    events = imported("torch.distributed.elastic.events.handlers", "torchrun")
    found = []

    def elastic_launch(config: Any, entrypoint: Any) -> Any:
        events.get_logging_handler(config.event_log_handler)
        rank()  # it has their environment
        return lambda *arguments: found.append((config, entrypoint, arguments))

    run.elastic_launch = elastic_launch
    start()
    for config, entrypoint, arguments in found:
        option, what = difference(request, config, entrypoint, arguments)
        if option:
            keys = request.keys_in(f"'{option}'")
            request.problem(f"{option}: {what}", "", (keys or [""])[0])


def difference(request: Request, config: Any, entrypoint: Any, arguments: Any) -> Tuple[str, str]:
    """The option that makes torchrun start something else than planned, and what it would start."""
    script = request.words[0]
    if request.nodes > 1 and config.rdzv_endpoint.startswith("localhost:0"):
        return "standalone", "each node would start its own rendezvous and wait for the others"
    if not script.endswith(".py") or callable(entrypoint):
        return "", ""
    if "-m" in arguments[:2]:
        return "module", f"python would import {script} as a module"
    if not arguments or entrypoint == script:
        return "no_python", f"{script} would be started as a program, without python"
    return "", ""

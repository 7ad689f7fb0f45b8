"""torchrun: its own parser, and what it makes of the options."""

from __future__ import annotations

from argument_request import Request, imported


def check(request: Request) -> None:
    """Report what torchrun refuses."""
    torch = imported("torch", "torchrun")
    run = imported("torch.distributed.run", "torchrun")
    request.version = request.version or f"torchrun {torch.__version__}"
    shape = [f"--nnodes={request.nodes}", f"--nproc-per-node={request.ranks_per_node}"]
    place = ["--node-rank=0", "--master-addr=localhost", "--master-port=12345"]
    words = [*shape, *place, *request.launcher_words, *request.words]
    with request.refusals():
        args = request.parse(run.get_args_parser().parse_args, words)
        run.config_from_args(args)

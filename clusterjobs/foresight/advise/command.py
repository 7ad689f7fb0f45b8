"""clusterjobs advise: layouts, node types and node counts, ranked by time or cost."""

from __future__ import annotations

import pathlib

import click

from clusterjobs.console.options import set_option, spec_argument
from clusterjobs.console.show import print_json
from clusterjobs.errors import one_problem
from clusterjobs.foresight.advise.request import parse_request

_EXAMPLES = """\b
Examples:
  clusterjobs advise exp.yaml
  clusterjobs advise exp.yaml --by cost --nodes 4,8,16
  clusterjobs advise exp.yaml --clusters p4d-a100,p5-h100 --plot pareto.png
  clusterjobs advise exp.yaml --gpu A100-80 --gpus 64      (without a cluster)
  clusterjobs advise exp.yaml --write                      (the first layout, into exp.yaml)
  clusterjobs advise exp.yaml --json | jq '.options[0].set[]'
"""


@click.command(epilog=_EXAMPLES)
@spec_argument
@set_option
@click.option("--by", type=click.Choice(["time", "cost"]), default="time", show_default=True)
@click.option("--nodes", metavar="N,N", help="Try these numbers of nodes: 4,8,16.")
@click.option("--clusters", metavar="NAME,NAME", help="Try the node types of these clusters.")
@click.option("--gpu", metavar="GPU", help="Suppose this GPU, without a cluster: A100-80, H100-80.")
@click.option("--gpus", type=click.IntRange(1, 100_000), help="With --gpu: how many.")
@click.option(
    "--gpus-per-node", type=click.IntRange(1, 72), help="With --gpu: GPUs of a node, by default 8."
)
@click.option(
    "--fabric-gbps", type=float, help="With --gpu: Gbit/s of a node's network, by default 400."
)
@click.option(
    "--top", type=click.IntRange(1, 50), default=8, show_default=True, help="Show so many."
)
@click.option("--write", is_flag=True, help="Write the first option's settings into SPEC.")
@click.option("--pareto", is_flag=True, help="Draw time against cost in the terminal.")
@click.option(
    "--plot",
    type=click.Path(path_type=pathlib.Path, dir_okay=False),
    metavar="FILE",
    help="Draw it into a .png or .svg; needs matplotlib.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for a script to read.")
def advise(
    spec: pathlib.Path,
    settings: tuple[str, ...],
    by: str,
    nodes: str | None,
    clusters: str | None,
    gpu: str | None,
    gpus: int | None,
    gpus_per_node: int | None,
    fabric_gbps: float | None,
    top: int,
    write: bool,
    pareto: bool,
    plot: pathlib.Path | None,
    as_json: bool,
) -> int:
    """Rank layouts of the job in SPEC that keep its global batch and precision.

    Layouts: tensor, pipeline and sequence parallelism, ZeRO, micro batch, recomputation. With
    --nodes and --clusters also numbers of nodes and instance types. Those within the model's error
    are ties.
    """
    from clusterjobs.foresight.advise.advise import advice_of
    from clusterjobs.foresight.advise.report import advice_data, advice_text

    if write and (clusters or gpu):
        other = "--clusters" if clusters else "--gpu"
        raise click.UsageError(f"--write, {other}: write the one that you choose by hand")
    if write and settings:
        raise click.UsageError("--write, --set: the options rest on values that SPEC does not have")
    request = parse_request(by, nodes, clusters, gpu, gpus, gpus_per_node, fabric_gbps, top)
    advice = advice_of(spec, settings, request)
    if write and advice.point:
        raise one_problem(
            "--write: the best layout of one point may not be that of the others",
            hint="choose one, and write it into the spec by hand",
        )
    if plot:
        from clusterjobs.foresight.advise.report import write_plot

        write_plot(plot, advice)
    if as_json:
        print_json(advice_data(advice))
    else:
        click.echo(advice_text(advice))
        if pareto:
            from clusterjobs.foresight.advise.report import terminal_plot

            click.echo(f"\n{terminal_plot(advice.found.candidates)}")
    if plot:
        click.echo(f"wrote {plot}", err=True)
    if not advice.options:
        click.echo("no layout of this job fits; see what was ruled out", err=True)
        return 1
    if write:
        from clusterjobs.foresight.advise.choices import write_settings

        write_settings(spec, advice.options[0].settings)
        click.echo(f"wrote {spec}", err=True)
    return 0

"""clusterjobs advise: layouts, node types and node counts, ranked by time or cost."""

import math
import pathlib
import shlex
from collections.abc import Sequence
from typing import Any

import click

from clusterjobs.console import print_json, printable, set_option, spec_argument, table
from clusterjobs.errors import counted, one_problem
from clusterjobs.extras import how_to_install
from clusterjobs.foresight.advise.advise import STEPS_OF_A_PRICE, Advice, Option, layout_text
from clusterjobs.foresight.advise.request import parse_request
from clusterjobs.foresight.foresee import range_data, rounded
from clusterjobs.foresight.formulas.layouts import TIE, Candidate, complexity, pareto_front
from clusterjobs.foresight.text import VERDICTS, between, hours, number

SHOWN_RULES = 6


def advice_text(advice: Advice) -> str:
    """The options, what to set for the best, and what was ruled out."""
    job = advice.job
    head = f"{counted(advice.found.tried, 'layout')} tried; unchanged: global batch "
    head += f"{job.layout.global_batch}, precision {job.layout.precision}, {job.layout.engine}"
    if advice.point:
        head += f"\nthe first point of the sweep: {printable(advice.point)}"
    parts = [head, _options_table(advice)]
    tied = sum(one.is_tie for one in advice.options)
    if tied > 1:
        simplest = min(range(tied), key=lambda rank: complexity(advice.options[rank].candidate))
        parts.append(
            f"1= to {tied}= are within {TIE:.0%}, the model's error: they are a tie, and "
            f"{simplest + 1}= is the simplest. clusterjobs calibrate measures one of them."
        )
    if advice.options and (best := advice.options[0]).settings:
        arguments = " ".join(f"--set {shlex.quote(one.written())}" for one in best.settings)
        parts.append("for the first:\n  " + printable(arguments))
    elif advice.options:
        parts.append("the spec has the first layout already")
    parts += [_ruled_out(advice), "\n".join(advice.no_prices)]
    return "\n\n".join(filter(None, parts))


def _options_table(advice: Advice) -> str:
    several = advice.of_clusters
    length = "time" if advice.job.length else f"{STEPS_OF_A_PRICE:,} steps"
    where = ["where"] if several else []
    rows = [["", "layout", *where, "nodes", "step", length, "cost", "memory", "why"]]
    for rank, one in enumerate(advice.options, 1):
        rows.append(
            [
                f"{rank}{'=' if one.is_tie else ''}",
                layout_text(one.layout),
                *([one.node_option.name] if several else []),
                str(one.candidate.nodes),
                between(one.speed.step_seconds, "s"),
                hours(one.seconds),
                _cost(one, advice.by_cost),
                f"{VERDICTS[one.memory.verdict]} {one.candidate.share:.0%}",
                one.why,
            ]
        )
    return table([[printable(cell) for cell in row] for row in rows])


def _cost(one: Option, by_cost: bool) -> str:
    """The cost; sorted by cost, with the high end, which covers what nobody has measured."""
    if one.cost is None:
        return "?"
    usd = one.cost.usd
    return f"${usd.mid:,.0f}, at most ${usd.high:,.0f}" if by_cost else f"${usd.mid:,.0f}"


def _ruled_out(advice: Advice) -> str:
    """The reasons, each with the first few things that it rules out."""
    lines = []
    for why, names in _by_reason(advice).items():
        more = f" and {len(names) - SHOWN_RULES} more" if len(names) > SHOWN_RULES else ""
        lines.append(f"  {why}: {', '.join(names[:SHOWN_RULES])}{more}")
    if advice.found.too_large:
        least = advice.found.smallest_share
        count = counted(advice.found.too_large, "layout")
        lines.append(f"  does not fit: {count}; the smallest needs {least:.0%} of a GPU's memory")
    reasons = dict.fromkeys(why for _, why in advice.refused)
    lines += [f"  refused by the spec's own checks: {why}" for why in reasons]
    return "ruled out:\n" + "\n".join(lines) if lines else ""


def _by_reason(advice: Advice) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for one in advice.found.ruled_out:
        groups.setdefault(one.why, []).append(one.what)
    return groups


def advice_data(advice: Advice) -> dict[str, Any]:
    """The advice as JSON data. Names and structure are stable across versions."""
    layout = advice.job.layout
    return {
        "by": "cost" if advice.by_cost else "time",
        "point": advice.point or None,
        "unchanged": {"global_batch": layout.global_batch, "precision": layout.precision},
        "tried": advice.found.tried,
        "does_not_fit": advice.found.too_large,
        "options": [_option_data(n, one) for n, one in enumerate(advice.options, 1)],
        "ruled_out": [{"why": why, "what": what} for why, what in _by_reason(advice).items()],
        "refused": sorted({why for _, why in advice.refused}),
        "pareto": [
            {
                "where": one.where,
                "nodes": one.nodes,
                "layout": layout_text(one.layout),
                "step_seconds": rounded(one.seconds),
                "usd": rounded(one.usd or 0.0),
            }
            for one in pareto_front(advice.found.candidates)
        ],
    }


def _option_data(rank: int, one: Option) -> dict[str, Any]:
    layout = one.layout
    return {
        "rank": rank,
        "tie": one.is_tie,
        "where": one.node_option.name,
        "nodes": one.candidate.nodes,
        "gpus": layout.gpus,
        "layout": {
            "tensor": layout.tensor,
            "pipeline": layout.pipeline,
            "virtual_pipeline": layout.virtual_pipeline,
            "sequence": layout.sequence_parallel,
            "zero": layout.zero,
            "micro": layout.micro_batch,
            "recompute": layout.recompute,
        },
        "step_seconds": range_data(one.speed.step_seconds),
        "seconds": range_data(one.seconds),
        "cost": range_data(one.cost.usd) if one.cost else None,
        "price": one.cost.price._asdict() if one.cost else None,
        "memory_gib": range_data(one.memory.gib),
        "verdict": one.memory.verdict,
        "why": one.why,
        "set": [setting.written() for setting in one.settings],
    }


FORMATS = (".png", ".svg")


def write_plot(file: pathlib.Path, advice: Advice) -> None:
    """Time against cost, drawn with matplotlib.

    Raises InputError without matplotlib, without prices, or if the file cannot be written.
    """
    if file.suffix not in FORMATS:
        raise one_problem(f"--plot: {file} is no .png or .svg", hint="write --plot pareto.png")
    priced = [one for one in advice.found.candidates if one.usd]
    if not priced:
        hint = advice.no_prices[0] if advice.no_prices else "no layout fits"
        raise one_problem("--plot: time against cost needs a price", hint=hint)
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise one_problem(
            "--plot needs the package matplotlib",
            hint=f"{how_to_install('plot')}, or use --pareto for the terminal",
        ) from None
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    for where in dict.fromkeys(one.where for one in priced):
        points = [one for one in priced if one.where == where]
        axes.scatter([p.seconds for p in points], [p.usd or 0.0 for p in points], s=6, label=where)
    front = pareto_front(priced)
    axes.plot(
        [p.seconds for p in front], [p.usd or 0.0 for p in front], "k.-", label="Pareto front"
    )
    for point in front[:8]:
        text = f"{point.nodes} nodes, {layout_text(point.layout)}"
        axes.annotate(text, (point.seconds, point.usd), fontsize=6)
    axes.set(xscale="log", yscale="log", xlabel="seconds a step", ylabel="USD")
    axes.legend(fontsize=8)
    try:
        figure.savefig(file, dpi=150)
    except OSError as error:
        raise one_problem(f"cannot write {file}: {error.strerror or error}") from None


# The plot in the terminal.
WIDTH, HEIGHT = 64, 16
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
NO_PRICES = "no Pareto plot: no price is known; site.yaml can give prices"


def terminal_plot(candidates: Sequence[Candidate]) -> str:
    """Time against cost, on logarithmic axes.

    A dot is a layout, a letter one that no other beats in both.
    """
    priced = [one for one in candidates if one.usd]
    if not priced:
        return NO_PRICES
    front = pareto_front(priced)[: len(LETTERS)]
    x = _Axis([one.seconds for one in priced], WIDTH)
    y = _Axis([one.usd or 0.0 for one in priced], HEIGHT)
    grid = [[" "] * WIDTH for _ in range(HEIGHT)]
    for one in priced:
        grid[y.cell(one.usd or 0.0)][x.cell(one.seconds)] = "."
    for letter, one in reversed([*zip(LETTERS, front, strict=False)]):
        grid[y.cell(one.usd or 0.0)][x.cell(one.seconds)] = letter
    rows = ["".join(row).rstrip() for row in reversed(grid)]
    labels = [f"${number(y.most)}", *[""] * (HEIGHT - 2), f"${number(y.least)}"]
    margin = max(map(len, labels))
    lines = [f"{label:>{margin}} |{row}" for label, row in zip(labels, rows, strict=True)]
    left, right = f"{number(x.least)} s", f"{number(x.most)} s a step"
    lines += [
        f"{'':>{margin}} +{'-' * WIDTH}",
        f"{'':>{margin}}  {left}{right:>{WIDTH - len(left)}}",
        *(
            f"  {letter}  {number(one.seconds)} s, ${number(one.usd or 0.0)}: {one.where}, "
            f"{one.nodes} nodes, {layout_text(one.layout)}"
            for letter, one in zip(LETTERS, front, strict=False)
        ),
    ]
    return "\n".join(lines)


class _Axis:
    def __init__(self, values: Sequence[float], cells: int) -> None:
        self.least, self.most, self._cells = min(values), max(values), cells

    def cell(self, value: float) -> int:
        span = math.log(self.most / self.least)
        share = math.log(value / self.least) / span if span else 0.0
        return min(self._cells - 1, int(share * self._cells))


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
    from clusterjobs.foresight.advise.command import advice_data, advice_text

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
        from clusterjobs.foresight.advise.command import write_plot

        write_plot(plot, advice)
    if as_json:
        print_json(advice_data(advice))
    else:
        click.echo(advice_text(advice))
        if pareto:
            from clusterjobs.foresight.advise.command import terminal_plot

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

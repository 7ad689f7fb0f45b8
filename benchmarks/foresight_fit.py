"""Fits foresight's constants to the published rows, leaving publications out to judge them.

Usage: python -m benchmarks.foresight_fit [--write | --judge FILE | --left-out]

Prints the fitted constants, with their range over random halves of the publications, and the error
of each publication predicted by constants fitted to all others. `--write` stores the constants in
clusterjobs/foresight/formulas/constants.json, and those fitted without each publication in
tests/foresight/left_out.json. `--judge` fits nothing: it compares the constants as they are with
the rows of another file, which has the columns of benchmarks/published.csv. `--left-out` fits
nothing either: it prints the errors of docs/foresight.md, by publication, framework and GPU, from
the constants stored for each publication left out. Fitting needs scipy and takes a minute.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import datetime
import json
import math
import pathlib
import random
from collections import Counter
from collections.abc import Iterable, Sequence

from benchmarks.published_rows import (
    Error,
    Published,
    best_is_tied,
    bias,
    blackwell_rows,
    dense_rows,
    error,
    inside,
    prepare,
    published,
    quantile,
    read_rows,
    with_values,
)
from clusterjobs.foresight.formulas.constants import (
    DATA_FILE,
    Constants,
    fitted_constants,
    range_factors,
)
from clusterjobs.foresight.formulas.speed import NEAREST_FILE, region

LEFT_OUT_FILE = pathlib.Path(__file__).parents[1] / "tests/foresight/left_out.json"
HALVES = 24

# What is fitted, and from where. The starting values are round numbers near data sheets, papers and
# earlier fits of the same rows, so they are not independent of the publications left out. A pull
# towards them keeps a constant sane where rows say nothing about it.
START: dict[str, float] = {
    "products.V100": 0.70,
    "products.A100": 0.75,
    "products.H100": 0.70,
    "products.H100-500W": 0.65,
    "products_fp8.H100": 0.65,
    "flash.A100": 0.40,
    "flash.H100": 0.50,
    "flash_eager": 0.25,
    "elementwise": 70.0,
    "unfused": 11.0,
    "fixed": 0.0005,
    "network": 0.55,
    "overlap": 0.70,
    "overlap_old": 0.30,
    "tensor_overlap": 0.70,
}
# One publication has all rows of Blackwell: these are fitted to it alone, after the rest.
START_BLACKWELL: dict[str, float] = {
    "products.Blackwell": 0.60,
    "products_fp8.Blackwell": 0.55,
    "flash.Blackwell": 0.60,
}
SHARES = ("products", "flash", "network", "overlap", "tensor_overlap")
LARGEST_SHARE = 0.95
PULL = 0.2  # of the logarithm of a constant by its starting value, beside the rows' errors
SCALE = 0.08  # errors beyond this count linearly

# The range claims 80 % of new rows. These quantiles of publications left out hold a few more,
# since the structure of the model was chosen with all rows in view.
RANGE = (0.065, 0.94)


def fit(
    rows: Sequence[Published], start: dict[str, float], base: Constants | None = None
) -> dict[str, float]:
    """Least squares of the logarithms; every publication has the weight of its rows' root."""
    from scipy.optimize import least_squares  # only for this

    base = base or fitted_constants()
    count = Counter(row.source for row in rows)
    weights = [count[row.source] ** -0.25 for row in rows]
    names = list(start)

    def residuals(parameters: Sequence[float]) -> list[float]:
        values = {n: start[n] * math.exp(p) for n, p in zip(names, parameters, strict=True)}
        constants = with_values(base, values)
        errors = [w * error(row, constants).log_ratio for w, row in zip(weights, rows, strict=True)]
        return [*errors, *(PULL * p for p in parameters)]

    upper = [math.log(LARGEST_SHARE / start[n]) if n.startswith(SHARES) else 3.0 for n in names]
    lower = [-3.0] * len(names)
    solved = least_squares(
        residuals, [0.0] * len(names), bounds=(lower, upper), loss="soft_l1", f_scale=SCALE
    )
    return {n: start[n] * math.exp(p) for n, p in zip(names, solved.x, strict=True)}


def fit_without(source: str) -> tuple[str, dict[str, float]]:
    return source, fit([row for row in dense_rows() if row.source != source], START)


def fit_half(seed: int) -> tuple[dict[str, float], list[Error]]:
    """Fit to a random half of the publications; the errors of the other half."""
    rows = dense_rows()
    sources = sorted({row.source for row in rows})
    chosen = set(random.Random(seed).sample(sources, len(sources) // 2))
    values = fit([row for row in rows if row.source in chosen], START)
    constants = with_values(fitted_constants(), values)
    return values, [error(row, constants) for row in rows if row.source not in chosen]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--judge", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--left-out", action="store_true")
    arguments = parser.parse_args()
    if arguments.judge:
        judge(arguments.judge)
    elif arguments.left_out:
        print("\n".join(table(left_out_errors())))
    else:
        fit_and_print(arguments.write)


def judge(file: pathlib.Path) -> None:
    with file.open(encoding="utf-8", newline="") as lines:
        rows = dense_rows(read_rows(lines))
    errors = [error(row, fitted_constants()) for row in rows]
    print_errors(f"publication of {file.name}", errors)
    validated = [e for e in errors if is_validated(e.row)]
    low, _, high = range_factors("validated")
    print(f"inside {low} to {high}: {inside(validated, low, high):.1%} of {len(validated)} rows")


def left_out_errors() -> list[Error]:
    """Every row, predicted by the stored constants that were fitted to the other publications."""
    base, without = fitted_constants(), json.loads(LEFT_OUT_FILE.read_text(encoding="utf-8"))
    return [error(row, with_values(base, without[row.source])) for row in dense_rows()]


def table(errors: Sequence[Error]) -> list[str]:
    """The errors in Markdown: of each publication, framework and GPU, and of all.

    The last column: of the validated rows, the share that was measured within the range.
    """
    head = "| {}, left out | rows | bias | median error | p90 | in the range of 80 % |"
    lines: list[str] = []
    for title, name_of in (
        ("publication", lambda row: row.source),
        ("engine", lambda row: row.layout.engine),
        ("GPU", lambda row: row.gpu.name),
    ):
        lines += ["", head.format(title), "|---|---|---|---|---|---|"]
        names = [name_of(e.row) for e in errors]
        for name in dict.fromkeys(names):
            lines.append(
                _line(name, [e for e, own in zip(errors, names, strict=True) if own == name])
            )
        lines.append(_line("**all**", errors))
    return lines[1:]


def _line(name: str, errors: Sequence[Error]) -> str:
    low, _, high = range_factors("validated")
    validated = [e for e in errors if is_validated(e.row)]
    covered = f"{inside(validated, low, high):.0%} of {len(validated)}" if validated else "-"
    median, p90 = quantile(errors, 0.5), quantile(errors, 0.9)
    return (
        f"| {name} | {len(errors)} | {bias(errors):+.1%} | {median:.1%} | {p90:.1%} | {covered} |"
    )


def fit_and_print(write: bool) -> None:
    rows = dense_rows()
    sources = list(dict.fromkeys(row.source for row in rows))
    with concurrent.futures.ProcessPoolExecutor(4) as pool:
        everything = pool.submit(fit, rows, START)
        without = dict(pool.map(fit_without, sources))
        halves = list(pool.map(fit_half, range(HALVES)))
    base = fitted_constants()
    values = everything.result()
    values |= fit(blackwell_rows(), START_BLACKWELL, with_values(base, values))
    left_out = [error(row, with_values(base, without[row.source])) for row in rows]
    print_constants(values, [half for half, _ in halves])
    print_errors("publication, left out", left_out)
    constants = with_values(base, values)
    print_line("all, fitted", [error(row, constants) for row in rows])
    print_line("Blackwell, fitted", [error(row, constants) for row in blackwell_rows()])
    low, high = measured_range(left_out)
    print_halves([errors for _, errors in halves], low, high)
    if write:
        write_files(values, without, (low, high))


def measured_range(errors: Sequence[Error]) -> tuple[float, float]:
    """Measured by predicted, of the rows in the validated region."""
    ratios = sorted(math.exp(-e.log_ratio) for e in errors if is_validated(e.row))
    low, high = (ratios[int(share * len(ratios))] for share in RANGE)
    return round(low, 2), round(high, 2)


def is_validated(row: Published) -> bool:
    return region(row.model, row.layout, row.gpu, row.network).trust == "validated"


def print_constants(values: dict[str, float], halves: Sequence[dict[str, float]]) -> None:
    print(f"{'constant':24} {'value':>10}   10 to 90 % over halves")
    for name, value in values.items():
        seen = sorted(half.get(name, value) for half in halves)
        low, high = seen[len(seen) // 10], seen[-1 - len(seen) // 10]
        print(f"{name:24} {value:10.3g}   {low:.3g} to {high:.3g}")


def print_errors(title: str, errors: Sequence[Error]) -> None:
    print(f"{title:52} rows   bias median    p90")
    for source in dict.fromkeys(e.row.source for e in errors):
        print_line(source, [e for e in errors if e.row.source == source])
    print_line("all", errors)
    best = best_is_tied(errors)
    print(f"measured best within the tie: {sum(best)} of {len(best)} jobs")


def print_line(name: str, errors: Sequence[Error]) -> None:
    print(
        f"{name[:52]:52} {len(errors):4} {bias(errors):+6.1%} {quantile(errors, 0.5):6.1%}"
        f" {quantile(errors, 0.9):6.1%}"
    )


def print_halves(halves: Sequence[Sequence[Error]], low: float, high: float) -> None:
    for share in (0.5, 0.9):
        print(f"halves, quantile {share}: {_spread(quantile(errors, share) for errors in halves)}")
    print(f"halves, inside {low} to {high}: {_spread(inside(e, low, high) for e in halves)}")


def _spread(values: Iterable[float]) -> str:
    seen = sorted(values)
    return f"middle {seen[len(seen) // 2]:.1%}, {seen[0]:.1%} to {seen[-1]:.1%}"


def write_files(
    values: dict[str, float], without: dict[str, dict[str, float]], validated: tuple[float, float]
) -> None:
    data = json.loads(DATA_FILE.read_text(encoding="utf-8"))
    data["values"] = with_values(fitted_constants(), rounded(values))._asdict()
    data["ranges"]["validated"] = validated
    data["date"] = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    DATA_FILE.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    prepared = json.dumps(prepare(published()), ensure_ascii=False, separators=(",", ":"))
    NEAREST_FILE.write_text(prepared + "\n", encoding="utf-8")
    left_out = {source: rounded(fitted) for source, fitted in without.items()}
    LEFT_OUT_FILE.write_text(json.dumps(left_out, indent=1) + "\n", encoding="utf-8")


def rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.4g}") for name, value in values.items()}


if __name__ == "__main__":
    main()

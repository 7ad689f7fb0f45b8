"""Fits foresight's constants to the published rows, leaving publications out to judge them.

Usage: python benchmarks/foresight_fit.py [--write]

Prints the fitted constants, with the range over random halves of the publications, and the error
of each publication predicted by constants fitted to all others. `--write` stores the constants in
clusterjobs/foresight/constants.json, and those fitted without each publication in
tests/foresight/left_out.json. Needs scipy; takes minutes.
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
from collections.abc import Sequence
from typing import Any

from scipy.optimize import least_squares

from clusterjobs.foresight.constants import DATA_FILE, Constants, fitted_constants
from clusterjobs.foresight.published import Published, published
from clusterjobs.foresight.step import step_time

LEFT_OUT_FILE = pathlib.Path(__file__).parents[1] / "tests/foresight/left_out.json"
BLACKWELL = "NVIDIA Megatron-Bridge performance summary"
HALVES = 24

# What is fitted, with the starting value and how far (a factor's logarithm) it may well be off.
# A share is fitted as such; a pull towards its start keeps it sane where rows say nothing.
START: dict[str, float] = {
    "products.V100": 0.70,
    "products.A100": 0.72,
    "products.H100": 0.67,
    "products.H100-500W": 0.60,
    "products_fp8": 0.66,
    "flash.A100": 0.34,
    "flash.H100": 0.49,
    "flash_eager": 0.18,
    "elementwise": 86.0,
    "unfused": 11.0,
    "fixed": 0.00056,
    "network": 0.52,
    "overlap": 0.79,
    "overlap_old": 0.29,
    "tensor_overlap": 0.60,
}
FAMILY_COPIES = {"flash.V100": "flash.A100", "flash.H100-500W": "flash.H100"}
AT_MOST_ONE = ("products", "flash", "network", "overlap", "tensor_overlap")
PULL = 0.05  # weight of the pull: ten times the starting value costs as much as a wrong row
SCALE = 0.08  # errors beyond this count linearly


def dense_rows() -> list[Published]:
    """What is fitted and judged: dense models on GPUs with several publications."""
    return [
        row
        for row in published()
        if row.use == "time"
        and row.step_seconds
        and not row.model.experts
        and row.gpu.family not in ("", "Blackwell")
    ]


def with_values(base: Constants, values: dict[str, float]) -> Constants:
    """The constants with fitted values; `products.A100` is a value of a dictionary."""
    changed: dict[str, Any] = {}
    for name, value in {**values, **_copies(values)}.items():
        field, _, family = name.partition(".")
        if family:
            changed.setdefault(field, dict(getattr(base, field)))[family] = value
        else:
            changed[field] = value
    return base._replace(**changed)


def _copies(values: dict[str, float]) -> dict[str, float]:
    return {copy: values[name] for copy, name in FAMILY_COPIES.items() if name in values}


def error(row: Published, constants: Constants) -> float:
    """Logarithm of predicted by measured."""
    assert row.step_seconds
    seconds = step_time(row.model, row.layout, row.gpu, row.network, constants).seconds
    return math.log(seconds / row.step_seconds)


def fit(rows: Sequence[Published], start: dict[str, float] = START) -> dict[str, float]:
    """Least squares of the logarithms; every publication has the weight of its rows' root."""
    base = fitted_constants()
    count = Counter(row.source for row in rows)
    weights = [count[row.source] ** -0.25 for row in rows]
    names = list(start)

    def residuals(parameters: Sequence[float]) -> list[float]:
        values = {n: start[n] * math.exp(p) for n, p in zip(names, parameters, strict=True)}
        constants = with_values(base, values)
        errors = [w * error(row, constants) for w, row in zip(weights, rows, strict=True)]
        return [*errors, *(PULL * p for p in parameters)]

    upper = [math.log(0.95 / start[n]) if _is_share(n) else 3.0 for n in names]
    solved = least_squares(
        residuals, [0.0] * len(names), bounds=([-3.0] * len(names), upper), loss="soft_l1",
        f_scale=SCALE, max_nfev=25,
    )  # fmt: skip
    return {n: start[n] * math.exp(p) for n, p in zip(names, solved.x, strict=True)}


def _is_share(name: str) -> bool:
    return name.startswith(AT_MOST_ONE)


def quantile(errors: Sequence[float], share: float) -> float:
    """Of the absolute errors: predicted by measured, less one."""
    ordered = sorted(abs(math.expm1(e)) for e in errors)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def fit_without(source: str) -> tuple[str, dict[str, float]]:
    return source, fit([row for row in dense_rows() if row.source != source])


def fit_half(seed: int) -> tuple[dict[str, float], list[float]]:
    """Fit to a random half of the publications; the errors of the other half."""
    rows = dense_rows()
    sources = sorted({row.source for row in rows})
    chosen = set(random.Random(seed).sample(sources, len(sources) // 2))
    values = fit([row for row in rows if row.source in chosen])
    constants = with_values(fitted_constants(), values)
    return values, [error(row, constants) for row in rows if row.source not in chosen]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    rows = dense_rows()
    sources = sorted({row.source for row in rows})
    with concurrent.futures.ProcessPoolExecutor(4) as pool:
        everything = pool.submit(fit, rows)
        without = dict(pool.map(fit_without, sources))
        halves = list(pool.map(fit_half, range(HALVES)))
    values = everything.result()
    print_constants(values, [half for half, _ in halves])
    print_errors(rows, values, without)
    print_halves([errors for _, errors in halves])
    if write:
        write_files(values, without)


def print_constants(values: dict[str, float], halves: Sequence[dict[str, float]]) -> None:
    print(f"{'constant':20} {'value':>10}   10 to 90 % over halves")
    for name, value in values.items():
        seen = sorted(half[name] for half in halves)
        low, high = seen[len(seen) // 10], seen[-1 - len(seen) // 10]
        print(f"{name:20} {value:10.3g}   {low:.3g} to {high:.3g}")


def print_errors(
    rows: Sequence[Published], values: dict[str, float], without: dict[str, dict[str, float]]
) -> None:
    base = fitted_constants()
    fitted = [error(row, with_values(base, values)) for row in rows]
    left_out = [error(row, with_values(base, without[row.source])) for row in rows]
    print(f"{'publication, left out':52} rows   bias median    p90")
    for source in dict.fromkeys(row.source for row in rows):
        errors = [e for row, e in zip(rows, left_out, strict=True) if row.source == source]
        print_line(source, errors)
    print_line("all, each left out", left_out)
    print_line("all, fitted", fitted)


def print_line(name: str, errors: Sequence[float]) -> None:
    bias = math.expm1(sorted(errors)[len(errors) // 2])
    print(
        f"{name[:52]:52} {len(errors):4} {bias:+6.1%} {quantile(errors, 0.5):6.1%}"
        f" {quantile(errors, 0.9):6.1%}"
    )


def print_halves(halves: Sequence[Sequence[float]]) -> None:
    for share in (0.5, 0.9):
        seen = sorted(quantile(errors, share) for errors in halves)
        print(
            f"halves, quantile {share}: middle {seen[len(seen) // 2]:.1%},"
            f" {seen[0]:.1%} to {seen[-1]:.1%}"
        )


def write_files(values: dict[str, float], without: dict[str, dict[str, float]]) -> None:
    data = json.loads(DATA_FILE.read_text(encoding="utf-8"))
    constants = with_values(fitted_constants(), rounded(values))
    data["values"] = constants._asdict()
    data["date"] = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    DATA_FILE.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    left_out = {source: rounded(fitted) for source, fitted in without.items()}
    LEFT_OUT_FILE.write_text(json.dumps(left_out, indent=1) + "\n", encoding="utf-8")


def rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.4g}") for name, value in values.items()}


if __name__ == "__main__":
    main()

"""The page as a text: what it says without JavaScript, that nothing in it can act, and its size."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import re
from dataclasses import replace
from typing import Any

import pytest
from example_runs import hostile_run, short_run, sweep_runs, week_run

from clusterjobs.report.logs.records import Window
from clusterjobs.report.page import page
from clusterjobs.report.page.page import asset
from clusterjobs.report.run import Run
from clusterjobs.report.tables import Table

_VOID = {"input", "meta", "rect", "line"}


class Parsed(html.parser.HTMLParser):
    """The elements of a page with their attributes, and its texts by element."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open = [""]
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self._open[-1], []).append(data)

    @property
    def unclosed(self) -> list[str]:
        return self._open[1:]

    @property
    def all_text(self) -> str:
        return " ".join(" ".join(texts) for tag, texts in self.texts.items() if tag != "script")


def data_of(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def empty_run() -> Run:
    return replace(
        short_run(),
        attempts=(),
        steps=None,
        gpus=None,
        nodes=None,
        rates={},
        windows=(),
        efficiency=None,
        paid_seconds=None,
        lost_seconds={},
        goodput=None,
        cost=None,
        advice=(),
        notes=(),
        derived={},
        steady_from=None,
        mean_samples_per_second=None,
        no_steady_state="no line of the log has a step",
    )


PAGES = {
    "short": lambda: page([short_run()]),
    "week": lambda: page([week_run()]),
    "sweep": lambda: page(sweep_runs()),
    "hostile": lambda: page([hostile_run(), short_run()], [Table("<b>", ("<i>",), (("<u>",),))]),
    "empty": lambda: page([empty_run()]),
    "no runs": lambda: page([]),
    "many": lambda: page(
        [replace(run, name=f"p{at}") for at, run in enumerate(sweep_runs(3) * 20)]
    ),
}


@pytest.fixture(scope="module", params=PAGES)
def text(request: pytest.FixtureRequest) -> str:
    return PAGES[request.param]()


def test_page_is_whole_and_loads_nothing(text: str) -> None:
    parsed = Parsed(text)
    assert parsed.unclosed == []
    assert not {"link", "img", "iframe", "object", "base", "form", "a"} & {
        tag for tag, _ in parsed.elements
    }
    for _, attributes in parsed.elements:
        assert not {"src", "href", "style", "srcset", "action"} & attributes.keys()
        assert not [name for name in attributes if name.startswith("on")]


def test_page_stays_below_a_megabyte(text: str) -> None:
    assert len(text.encode()) < 1_000_000


def test_only_this_style_and_this_script_may_act(text: str) -> None:
    parsed = Parsed(text)
    policy = next(a["content"] for _, a in parsed.elements if a.get("http-equiv"))
    styles = parsed.texts["style"]
    scripts = parsed.texts["script"][1:]  # the first is data
    assert policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    for kind, texts in (("style-src", styles), ("script-src", scripts)):
        (one,) = texts
        digest = base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy


def test_page_has_no_character_that_acts(text: str) -> None:
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]", text
    )


def test_ids_are_unique_and_every_reference_is_there(text: str) -> None:
    attributes = [found for _, found in Parsed(text).elements]
    ids = [found["id"] for found in attributes if "id" in found]
    assert len(ids) == len(set(ids))


def test_same_runs_give_the_same_bytes() -> None:
    assert page([week_run()]) == page([week_run()])


def test_answer_comes_first() -> None:
    said = Parsed(page([short_run()])).all_text
    for part in (
        "182,400",
        "17.1 %",
        "HFU 22.8 %",
        "34.5 %",
        "4.283",
        "$25.30",
        "Waiting for data",
    ):
        assert part in said


def test_page_says_in_words_what_plots_show() -> None:
    said = " ".join(Parsed(page([week_run()])).texts["p"])
    assert "From 10.677 at step 100 to 2.145 at step 1,200,000, lowest 2.067" in said
    assert "Not a number in 1 line, first at step 500,000." in said


def test_every_plot_has_a_table_of_its_values() -> None:
    parsed = Parsed(page([short_run()]))
    figures = [tag for tag, _ in parsed.elements if tag == "figure"]
    labels = [a["aria-label"] for _, a in parsed.elements if a.get("role") == "region"]
    assert len(figures) == 6
    for title in ("Loss", "Throughput", "Time of a step", "Learning rate", "Gradient norm"):
        assert f"{title}, table" in labels


def test_curves_of_a_week_keep_their_spikes() -> None:
    run = week_run()
    (loss,) = (plot for plot in data_of(page([run]))["plots"] if plot["id"] == "loss")
    (curve,) = (one for one in loss["curves"] if one["name"] == "loss")
    assert len(curve["low"]) + len(curve["high"]) <= 2_000
    late = [one.values["loss"] for one in run.windows[2_000:] if one.step != 500_000]
    spikes = [value for value in late if value > 3]
    assert len(spikes) >= 5
    for value in spikes:
        assert float(f"{value:.5g}") in curve["high"]


def test_log_text_appears_as_text() -> None:
    parsed = Parsed(PAGES["hostile"]())
    assert "<script>alert(1)</script>\\u202egnp.exe" in parsed.texts["bdi"][0]
    assert "\\x1b[31mred" in parsed.all_text
    assert [tag for tag, _ in parsed.elements].count("script") == 2


def test_run_without_numbers_says_why() -> None:
    assert "no line of the log has a step" in Parsed(PAGES["empty"]()).all_text
    assert data_of(PAGES["empty"]())["plots"] == []


def test_more_runs_than_can_be_told_apart_are_named_but_not_drawn() -> None:
    text = PAGES["many"]()
    assert "Only the best 24 runs have curves; 36 more are in the table above." in text
    assert all(len(plot["curves"]) == 24 for plot in data_of(text)["plots"])


def test_runs_without_a_common_rate_are_drawn_with_the_one_that_most_have() -> None:
    def without(run: Run) -> Run:
        windows = [
            Window(w.step, {k: v for k, v in w.values.items() if k != "tokens_per_second"})
            for w in run.windows
        ]
        return replace(run, windows=tuple(windows))

    runs = [short_run(), without(short_run())]
    ids = [plot["id"] for plot in data_of(page(runs))["plots"]]
    assert "samples_per_second" in ids
    assert "tokens_per_second" not in ids


def test_colours_are_readable_on_both_grounds() -> None:
    """WCAG: 4.5 for texts; more than the 3 of graphics for curves, since they are thin."""
    blocks = re.findall(r":root(?::not\(\.paper\))? \{(.*?)\}", asset("style.css"), re.DOTALL)
    light, dark = (dict(re.findall(r"--(\w+): (#\w{6})", block)) for block in blocks[:2])
    for colours in (light, dark):
        names = ("ink", "soft", *(f"c{number}" for number in range(8)))
        assert min(contrast(colours[name], colours["ground"]) for name in names) >= 4.5
        assert min(contrast(colours[name], colours["track"]) for name in ("useful", "lost")) >= 3
    assert len({light[f"c{number}"] for number in range(8)}) == 8


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted(map(_luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_constant_is_said_to_be_one_and_a_single_value_is_no_plot() -> None:
    run = short_run()
    windows = [one._replace(values={**one.values, "grad_norm": 0.77}) for one in run.windows]
    windows = [
        one._replace(values={k: v for k, v in one.values.items() if k != "memory_gib" or not at})
        for at, one in enumerate(windows)
    ]
    text = page([replace(run, windows=tuple(windows))])
    assert "Always 0.77, from step 100 to 3,000." in text
    assert "memory_gib" not in [plot["id"] for plot in data_of(text)["plots"]]
    assert "Peak memory of the GPU that prints it: 31.2 GiB." in text


def test_titles_of_tables_are_headings_but_names_of_files_stay() -> None:
    tables = [
        Table("slow ranks", ("a",), (("1",),)),
        Table("train.log against exp.yaml", notes=("x",)),
    ]
    headings = Parsed(page([short_run()], tables)).texts["h2"]
    assert {"Slow ranks", "train.log against exp.yaml"} <= set(headings)


def test_runs_of_one_name_are_told_apart_by_their_jobs() -> None:
    runs = [replace(short_run(), job_id=job_id) for job_id in ("1", "2")]
    text = page(runs)
    assert text.count("<bdi>gpt-350m (2)</bdi>") == 2
    assert [one["name"] for one in data_of(text)["plots"][0]["curves"]] == [
        "gpt-350m (1)",
        "gpt-350m (2)",
    ]


def test_curves_of_one_run_are_named_by_what_they_are() -> None:
    plots = {plot["id"]: plot["curves"] for plot in data_of(page([short_run()]))["plots"]}
    assert [one["name"] for one in plots["loss"]] == ["loss", "validation"]
    assert [one["name"] for one in plots["seconds"]] == ["step", "forward", "backward"]


def test_points_of_a_sweep_have_their_values_in_the_comparison() -> None:
    runs = sweep_runs(2)
    parsed = Parsed(page([runs[0], replace(runs[1], point={"args.lr": "<b>"})]))
    assert "args.lr" in parsed.texts["th"]
    assert {"0.0001", "<b>"} <= set(parsed.texts["td"])


def test_page_has_the_licence_of_what_draws_its_plots() -> None:
    assert asset("uplot/LICENSE") in page([short_run()])

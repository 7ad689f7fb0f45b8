"""The page in a real browser: plots, hover, zoom, keyboard, both colour schemes, paper."""

from __future__ import annotations

import itertools
import json
import pathlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from browser import Browser, chromium, find_chromium
from example_runs import hostile_run, seeded_sweep, short_run, sweep_runs, week_run

from clusterjobs.errors import InputError
from clusterjobs.report.page import page

pytestmark = pytest.mark.slow  # starts a browser

PAGES: dict[str, Callable[[], str]] = {
    "short": lambda: page([short_run()]),
    "week": lambda: page([week_run()]),
    "sweep": lambda: page(sweep_runs()),
    "seeds": lambda: page(seeded_sweep()),
    "hostile": lambda: page([hostile_run(), short_run()]),
    "hostile_sweep": lambda: page(
        [
            replace(run, point={hostile_run().name: f"</svg><script>alert(4)</script>{run.name}"})
            for run in sweep_runs(4)
        ]
    ),
    "hostile_alone": lambda: page([hostile_run()]),
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    try:
        program = find_chromium()
    except InputError as error:
        pytest.skip(f"no Chromium: {error}")
    with chromium(program, tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pathlib.Path]:
    folder = tmp_path_factory.mktemp("pages")
    paths = {name: folder / f"{name}.html" for name in PAGES}
    for name, path in paths.items():
        path.write_text(PAGES[name](), encoding="utf-8")
    return paths


@pytest.fixture
def open_page(
    browser: Browser, pages: dict[str, pathlib.Path]
) -> Iterator[Callable[[str], Browser]]:
    def opened(name: str) -> Browser:
        browser.media("light")
        browser.open(pages[name])
        return browser

    yield opened
    browser.media("light")


def readout(browser: Browser, plot: str) -> str:
    text: str = browser.run(f"document.querySelector('#{plot} .readout').innerText")
    return text


def hover(browser: Browser, plot: str, across: float, down: float = 0.5) -> None:
    box = browser.box(f"#{plot} .u-over")
    browser.mouse("mouseMoved", box["x"] + across * box["width"], box["y"] + down * box["height"])
    browser.settle()


def x_range(browser: Browser, plot: str) -> list[str]:
    """What the readouts at both ends say: the steps that are drawn."""
    ends = []
    for across in (0.001, 0.999):
        hover(browser, plot, across)
        ends.append(readout(browser, plot).split("\n")[0])
    return ends


def ink(browser: Browser, plot: str) -> list[int]:
    """Pixels of a canvas: how many have a colour, and the means of red, green and blue."""
    count: list[int] = browser.run(
        f"""(() => {{
            const canvas = document.querySelector('#{plot} canvas');
            const {{width, height}} = canvas;
            const {{data}} = canvas.getContext('2d').getImageData(0, 0, width, height);
            const sum = [0, 0, 0, 0];
            for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 128) {{
                sum[0]++; sum[1] += data[i]; sum[2] += data[i + 1]; sum[3] += data[i + 2];
            }}
            return sum.map((one, i) => i ? Math.round(one / Math.max(1, sum[0])) : one);
        }})()"""
    )
    return count


@pytest.mark.parametrize("name", PAGES)
def test_page_complains_of_nothing_and_asks_for_nothing(
    open_page: Callable[[str], Browser], pages: dict[str, pathlib.Path], name: str
) -> None:
    browser = open_page(name)
    assert browser.complaints() == []
    assert browser.requests() == [pages[name].as_uri()]


@pytest.mark.parametrize(("name", "plots"), [("short", 6), ("week", 6), ("sweep", 6)])
def test_every_plot_is_drawn(open_page: Callable[[str], Browser], name: str, plots: int) -> None:
    browser = open_page(name)
    ids = browser.run("[...document.querySelectorAll('figure')].map(one => one.id)")
    assert len(ids) == plots
    for plot in ids:
        assert ink(browser, plot)[0] > 1_000, plot


def column(browser: Browser, name: str) -> list[str]:
    """The cells of the rows that are shown."""
    found: list[str] = browser.run(
        f"""(() => {{
            const table = document.querySelector('.compared');
            const heads = [...table.tHead.rows[0].cells].map(one => one.textContent);
            const at = heads.indexOf('{name}');
            const rows = [...table.tBodies[0].rows].filter(one => !one.classList.contains('out'));
            return rows.map(one => one.cells[at].textContent);
        }})()"""
    )
    return found


def test_the_table_of_a_sweep_sorts_by_a_column(open_page: Callable[[str], Browser]) -> None:
    browser = open_page("seeds")
    head = (
        "[...document.querySelectorAll('.compared thead button')]"
        ".find(one => one.textContent === 'Last loss').click()"
    )
    for way in (1, -1):
        browser.run(head)
        losses = [float(cell) for cell in column(browser, "Last loss")]
        assert losses == sorted(losses, reverse=way < 0)
        assert len(losses) == 120


def test_a_filter_leaves_points_out_of_table_and_drawings(
    open_page: Callable[[str], Browser],
) -> None:
    browser = open_page("seeds")
    browser.run(
        "(one => {one.value = 'completed lr<1e-3 width=512';"
        " one.dispatchEvent(new Event('input'))})"
        "(document.querySelector('.filter'))"
    )
    assert set(column(browser, "args.width")) == {"512"}
    assert set(column(browser, "State")) == {"completed"}
    rows = len(column(browser, "Run"))
    assert rows == 19  # of 20, one has crashed
    assert browser.run("document.querySelectorAll('.parallel polyline:not(.out)').length") == rows
    assert browser.run("document.querySelectorAll('.key[aria-pressed=\"true\"]').length") < 120


def test_chosen_runs_show_the_keys_that_differ(open_page: Callable[[str], Browser]) -> None:
    """Runs 40 to 43 have one width, and 45 the next one."""
    browser = open_page("seeds")

    def differences(*chosen: int) -> list[list[str]]:
        browser.run(
            f"""for (const row of document.querySelectorAll('.compared tbody tr')) {{
                const box = row.querySelector('.chosen');
                if (box.checked !== {list(chosen)}.includes(Number(row.dataset.point))) box.click();
            }}"""
        )
        found: list[list[str]] = browser.run(
            "[...document.querySelectorAll('.differences .scroll:not([hidden]) tr')]"
            ".map(row => [...row.cells].map(cell => cell.textContent))"
        )
        return found

    assert differences() == differences(40) == []
    assert differences(40, 45) == [
        ["Key", "lr=0.0001,width=768,seed=1", "lr=0.0003,width=256,seed=1"],
        ["args.lr", "0.0001", "0.0003"],
        ["args.width", "768", "256"],
        ["world_size", "24", "8"],
    ]
    assert differences(40, 42)[1:] == [["args.seed", "1", "3"]]
    assert browser.run("document.querySelectorAll('.chosen').length") == 120


def test_curves_are_drawn_over_hours_and_smoothed(open_page: Callable[[str], Browser]) -> None:
    browser = open_page("seeds")
    before = ink(browser, "loss")
    browser.run("document.querySelector('.hours').click()")
    hover(browser, "loss", 0.5)
    assert readout(browser, "loss").split("\n")[0].endswith(" h")
    over_hours = ink(browser, "loss")
    browser.run(
        "(one => {one.value = 0.95; one.dispatchEvent(new Event('input'))})"
        "(document.querySelector('.smooth'))"
    )
    browser.settle()
    assert before != over_hours != ink(browser, "loss")
    assert browser.complaints() == []


def test_policy_of_the_page_stops_everything_else(open_page: Callable[[str], Browser]) -> None:
    browser = open_page("short")
    browser.run(
        "document.body.insertAdjacentHTML('beforeend', '<img src=https://example.org/a.png>')"
    )
    browser.run(
        "document.body.append(Object.assign(document.createElement('script'),"
        "{textContent: 'window.acted = 1'}))"
    )
    refused = browser.run("fetch('https://example.org/').then(() => 'sent', () => 'refused')")
    browser.settle()
    assert refused == "refused"
    assert browser.run("window.acted") is None
    assert len(browser.complaints()) >= 3


def test_hostile_text_is_inert(open_page: Callable[[str], Browser]) -> None:
    for name in ("hostile", "hostile_alone"):
        browser = open_page(name)
        assert browser.run("document.querySelectorAll('img, iframe, textarea').length") == 0
        assert browser.run("document.querySelectorAll('script').length") == 2
        assert browser.run("getComputedStyle(document.body).display") == "block"
        hover(browser, "loss", 0.5)
        assert "step" in readout(browser, "loss")
    assert "<script>alert(1)</script>\\u202egnp.exe" in browser.run("document.title")
    assert browser.complaints() == []


def test_hover_shows_the_values_in_all_plots(open_page: Callable[[str], Browser]) -> None:
    browser = open_page("short")
    hover(browser, "loss", 0.6667)
    run = short_run()
    window = next(one for one in run.windows if one.step == 2_000)
    loss, validation = (float(f"{window.values[name]:.4g}") for name in ("loss", "validation_loss"))
    assert readout(browser, "loss").split("\n") == [
        "step 2,000",
        f"loss {loss:g}",
        f"validation {validation:g}",
    ]
    assert readout(browser, "grad_norm").startswith("step 2,000\n")
    hover(browser, "loss", 0.6667, down=-1)
    assert readout(browser, "loss") == ""


def test_hover_over_a_thinned_curve_shows_the_extremes(open_page: Callable[[str], Browser]) -> None:
    browser = open_page("week")
    hover(browser, "seconds", 0.5)
    step, value = readout(browser, "seconds").split("\n")
    assert step.startswith("step ")
    assert value.startswith("0.5")
    assert " to " in value


def test_dragging_zooms_all_plots_and_a_double_click_shows_everything(
    open_page: Callable[[str], Browser],
) -> None:
    browser = open_page("short")
    everything = x_range(browser, "grad_norm")
    assert everything == ["step 100", "step 3,000"]
    box = browser.box("#loss .u-over")
    start, end = ((box["x"] + box["width"] * across, box["y"] + 80) for across in (0.5, 0.8))
    browser.drag(start, end)
    assert x_range(browser, "grad_norm") != everything
    assert x_range(browser, "loss") == x_range(browser, "grad_norm")
    box = browser.box("#loss .u-over")
    for clicks in (1, 2):
        browser.mouse("mousePressed", box["x"] + 90, box["y"] + 80, clicks)
        browser.mouse("mouseReleased", box["x"] + 90, box["y"] + 80, clicks)
    browser.settle()
    assert x_range(browser, "grad_norm") == everything


def test_plots_can_be_read_with_the_keyboard(open_page: Callable[[str], Browser]) -> None:
    browser = open_page("short")
    browser.run("document.querySelector('#loss .canvas').focus()")
    browser.press("Home")
    assert readout(browser, "loss").startswith("step 100\n")
    browser.press("ArrowRight", "ArrowRight")
    assert readout(browser, "loss").startswith("step 300\n")
    browser.press("ArrowLeft")
    assert readout(browser, "loss").startswith("step 200\n")
    browser.press("End")
    assert readout(browser, "loss").startswith("step 3,000\n")
    browser.press("+", "+")
    assert not browser.run("document.querySelector('#loss .all').hidden")
    browser.press("Home")
    assert readout(browser, "loss").startswith("step 100\n")
    browser.press("0")
    assert browser.run("document.querySelector('#loss .all').hidden")


def test_everything_that_acts_is_reached_with_tab(open_page: Callable[[str], Browser]) -> None:
    browser = open_page("sweep")
    reached = set()
    for _ in range(80):
        browser.press("Tab")
        reached.add(browser.run("document.activeElement.outerHTML.slice(0, 60)"))
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        assert browser.run(f"document.activeElement === document.body || {outline} !== 'none'")
    wanted = browser.run(
        "[...document.querySelectorAll('button:not([hidden]), input, .canvas, summary')]"
        ".map(one => one.outerHTML.slice(0, 60))"
    )
    assert set(wanted) <= reached


def test_runs_are_chosen_with_the_keyboard(open_page: Callable[[str], Browser]) -> None:
    browser = open_page("sweep")
    browser.run("document.querySelector('#loss .canvas').focus()")
    browser.press("End")
    assert "lr-0.0001 " in readout(browser, "loss")
    browser.press("ArrowDown")
    assert "lr-0.00015 " in readout(browser, "loss")
    browser.press("ArrowUp", "ArrowUp")
    assert "lr-0.0086 " in readout(browser, "loss")


def test_run_in_focus_is_the_same_in_all_plots(open_page: Callable[[str], Browser]) -> None:
    browser = open_page("sweep")
    box = browser.box("#loss .u-over")
    browser.mouse("mouseMoved", box["x"] + 0.95 * box["width"], box["y"] + 0.48 * box["height"])
    browser.settle()
    assert "lr-0.00034 " in readout(browser, "loss")
    assert "lr-0.00034 " in readout(browser, "seconds")


def test_run_can_be_hidden_in_all_plots(open_page: Callable[[str], Browser]) -> None:
    browser = open_page("sweep")
    before = [ink(browser, plot)[0] for plot in ("loss", "learning_rate")]
    browser.run("[...document.querySelectorAll('.key')].slice(1).forEach(one => one.click())")
    browser.settle()
    after = [ink(browser, plot)[0] for plot in ("loss", "learning_rate")]
    assert browser.run("document.querySelectorAll('.key[aria-pressed=true]').length") == 1
    assert [new < old for new, old in zip(after, before, strict=True)] == [True, True]


def test_scale_can_be_logarithmic(open_page: Callable[[str], Browser]) -> None:
    browser = open_page("short")
    pressed = "document.querySelector('#seconds .log').getAttribute('aria-pressed')"
    assert browser.run(pressed) == "true"  # its first windows are 25 times as slow
    assert browser.run(pressed.replace("seconds", "loss")) == "false"
    before = browser.run("document.querySelector('#loss canvas').toDataURL()")
    browser.run("document.querySelector('#loss .log').click()")
    browser.settle()
    assert browser.run("document.querySelector('#loss canvas').toDataURL()") != before
    assert ink(browser, "loss")[0] > 1_000
    assert browser.complaints() == []


def test_plots_follow_the_colour_scheme(open_page: Callable[[str], Browser]) -> None:
    browser = open_page("week")
    light = ink(browser, "learning_rate")
    browser.media("dark")
    dark = ink(browser, "learning_rate")
    assert (
        browser.run("getComputedStyle(document.documentElement).backgroundColor")
        == "rgb(20, 23, 27)"
    )
    assert dark[0] > 1_000
    assert dark != light
    curve = browser.run("getComputedStyle(document.querySelector('.c1 line')).stroke")
    assert curve == "rgb(244, 162, 97)"


def test_paper_is_light_even_in_the_dark(open_page: Callable[[str], Browser]) -> None:
    browser = open_page("week")
    browser.resize(700, 1000)
    printed = []
    for scheme in ("light", "dark"):
        browser.media(scheme, "print")
        browser.run("dispatchEvent(new Event('beforeprint'))")
        browser.settle()
        printed.append(ink(browser, "learning_rate"))
        assert browser.run("getComputedStyle(document.body).color") == "rgb(27, 31, 36)"
        assert browser.run("document.documentElement.scrollWidth") <= 700
        browser.run("dispatchEvent(new Event('afterprint'))")
        browser.settle()
    assert printed[0] == printed[1]


def test_page_is_printed_with_its_plots(open_page: Callable[[str], Browser]) -> None:
    browser = open_page("week")
    browser.media("dark")
    dark = ink(browser, "learning_rate")
    at_print = "window.printed = document.documentElement.className"
    browser.run(f"addEventListener('beforeprint', () => {{ {at_print} }})")
    document = browser.pdf()
    assert document.startswith(b"%PDF")
    assert browser.run("window.printed") == "scripted paper"
    browser.settle()
    assert browser.complaints() == []
    assert ink(browser, "learning_rate") == dark


@pytest.mark.parametrize("width", [360, 820, 1920])
@pytest.mark.parametrize("name", ["week", "sweep", "hostile"])
def test_page_fits_narrow_and_wide_screens(
    open_page: Callable[[str], Browser], name: str, width: int
) -> None:
    browser = open_page(name)
    browser.resize(width, 900)
    browser.settle()
    assert browser.run("document.documentElement.scrollWidth") <= width
    canvas, box = browser.run(
        "['canvas', '.canvas'].map(one => document.querySelector('#loss ' + one).clientWidth)"
    )
    assert canvas == box


def test_page_says_everything_without_javascript(
    browser: Browser, pages: dict[str, pathlib.Path]
) -> None:
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.call("Page.navigate", url=pages["short"].as_uri())
        browser.wait_for("document.readyState === 'complete' && document.title === 'gpt-350m'")
        text = browser.run("document.body.innerText")
        assert "Plots need JavaScript. The tables have the same values." in text
        assert "From 7.049 at step 100 to 4.283 at step 3,000" in text
        assert "Drag over a plot" not in text
        features = [{"name": "prefers-color-scheme", "value": "dark"}]
        for kind, ink_colour in (("screen", "rgb(231, 233, 236)"), ("print", "rgb(27, 31, 36)")):
            browser.call("Emulation.setEmulatedMedia", media=kind, features=features)
            assert browser.run("getComputedStyle(document.body).color") == ink_colour
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


def tree(browser: Browser) -> list[tuple[str, str, dict[str, Any]]]:
    """Role, name and properties of all that assistive technology is told of."""
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    return [
        (
            node["role"]["value"],
            node.get("name", {}).get("value", ""),
            {one["name"]: one["value"].get("value") for one in node.get("properties", [])}
            | {"description": node.get("description", {}).get("value", "")}
            | {"value": node.get("value", {}).get("value")},
        )
        for node in nodes
        if not node.get("ignored")
    ]


def test_screen_reader_hears_what_plots_show(open_page: Callable[[str], Browser]) -> None:
    browser = open_page("short")
    browser.run("document.querySelector('#loss .canvas').focus()")
    browser.press("End")
    sliders = {
        name: more for role, name, more in tree(browser) if role == "slider" and "plot" in name
    }
    assert len(sliders) == 6
    loss = sliders["Loss, plot over steps"]
    assert loss["description"].startswith("From 7.049 at step 100 to 4.283 at step 3,000")
    assert (loss["focused"], loss["value"], loss["valuemin"]) == (True, 3_000, 100)
    text = browser.run("document.querySelector('#loss .canvas').getAttribute('aria-valuetext')")
    assert text.startswith("step 3,000, loss 4.283")


@pytest.mark.parametrize("name", PAGES)
def test_everything_has_a_name_and_headings_have_an_order(
    open_page: Callable[[str], Browser], name: str
) -> None:
    browser = open_page(name)
    found = tree(browser)
    named = {
        "slider",
        "button",
        "region",
        "columnheader",
        "rowheader",
        "heading",
        "DisclosureTriangle",
    }
    assert [role for role, text, _ in found if role in named and not text.strip()] == []
    levels = [more["level"] for role, _, more in found if role == "heading"]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert {"banner", "main"} <= {role for role, _, _ in found}
    assert json.dumps(found).count('"img"') == 0  # what is drawn is said in words

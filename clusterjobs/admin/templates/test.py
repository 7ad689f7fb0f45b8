"""clusterjobs templates test: what the site's own specs render, compared with what is expected."""

import contextlib
import difflib
import json
import pathlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import click

from clusterjobs.admin.site_tests import SiteTest, site_tests
from clusterjobs.admin.templates.check import chosen_site, site_option
from clusterjobs.console import echo_diff, show_problems
from clusterjobs.errors import InputError
from clusterjobs.plugins import LOCAL_CLUSTERS, PlannedJob
from clusterjobs.sites.folders import is_refusal

_EXAMPLES = """\b
Examples:
  clusterjobs templates test
  clusterjobs templates test --update        accept what is rendered now
  clusterjobs templates test --lab           also start the ranks in a lab
"""


class _Result(NamedTuple):
    """`result`: passed, changed, new, updated, failed, refused (by a rule) or skipped (by the lab).

    `diff`: from what is expected to what is rendered.
    """

    test: str
    result: str
    diff: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        return self.result in ("passed", "updated", "refused")


@click.command(epilog=_EXAMPLES, short_help="Compare renders with your site's expected files.")
@click.option("--update", is_flag=True, help="Accept what is rendered as what is expected.")
@click.option("--lab", is_flag=True, help="Also start the ranks of each test in a lab.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@site_option
def test(update: bool, lab: bool, as_json: bool, site: pathlib.Path | None) -> None:
    """Render the specs of the site's tests/NAME/spec.yaml, and compare with tests/NAME/expected/.

    The version of clusterjobs and the programs that a job carries are left out, so that an upgrade
    changes only what matters. Exit code 1 if a test has changed, is new, fails, or is skipped.
    """
    found = site_tests(chosen_site(site))
    results = []
    for result in _results(found, update, lab):
        if not as_json:
            _show(result)
        results.append(result)
    if as_json:
        click.echo(json.dumps([result._asdict() for result in results], indent=2))
    else:
        counts = Counter(result.result for result in results)
        told = ", ".join(f"{many} {name}" for name, many in sorted(counts.items()))
        count = "1 test" if len(results) == 1 else f"{len(results)} tests"
        click.echo(f"{count}: {told}")
    if not all(result.is_good for result in results):
        raise click.exceptions.Exit(1)


def _results(tests: list[SiteTest], update: bool, lab: bool) -> Iterator[_Result]:
    for one in tests:
        yield _run(one, update)
    if lab:
        for name, result in LOCAL_CLUSTERS["lab"].start_ranks(_planned(tests)):
            yield _Result(f"{name} (lab)", result)


def _planned(tests: list[SiteTest]) -> Iterator[tuple[str, PlannedJob]]:
    for one in tests:
        with contextlib.suppress(InputError):  # the render has reported it
            yield one.name, one.load().planned_jobs[0]


def _run(one: SiteTest, update: bool) -> _Result:
    try:
        wanted, files = one.wanted(), one.rendered()
        diff = tuple(_differences(one, wanted, files))
        if diff and update:
            one.accept(files)
            return _Result(one.name, "updated", diff)
    except InputError as error:
        if is_refusal(error) and not one.expected.exists():
            return _Result(one.name, "refused")  # `policy test` says whether it must be
        show_problems(error.problems)
        return _Result(one.name, "failed")
    return _Result(one.name, "passed" if not diff else "changed" if wanted else "new", diff)


def _differences(
    one: SiteTest, wanted: Mapping[str, str], files: Mapping[str, str]
) -> Iterator[str]:
    for name in sorted({*wanted, *files}):
        old, new = wanted.get(name), files.get(name)
        path = f"{one.name}/expected/{name}"
        yield from difflib.unified_diff(
            (old or "").splitlines(),
            (new or "").splitlines(),
            "/dev/null" if old is None else path,
            "/dev/null" if new is None else f"{path} (rendered now)",
            lineterm="",
        )


_ADVICE = {
    "refused": "by the site's policy; `clusterjobs policy test` compares with its rules.yaml",
    "changed": "`clusterjobs templates test --update` accepts it",
    "new": "nothing is expected yet; `clusterjobs templates test --update` writes expected/",
}


def _show(result: _Result) -> None:
    if result.result != "new":
        echo_diff(result.diff)
    advice = _ADVICE.get(result.result)
    click.echo(f"{result.test}: {result.result}" + (f": {advice}" if advice else ""))

"""Overrides of packaged blocks: written, compared, and merged after an upgrade of clusterjobs."""

from __future__ import annotations

import pathlib

import pytest
from packaged_upgrade import edit, upgrade

from clusterjobs import resources
from clusterjobs.admin.templates import check, overrides
from clusterjobs.admin.templates.check import packaged_samples

__all__ = ["upgrade"]

LAUNCH = pathlib.Path("site/templates/blocks/launch.sh.j2")
ORIGINAL = LAUNCH.with_name("launch.sh.j2.orig")
BASES = pathlib.Path("site/templates/.base/blocks")
SPEC = "{name: a, cluster: small, framework: command, command: ./run}\n"


@pytest.fixture
def site(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """An empty site folder and a spec, in the working folder."""
    (folder / "site").mkdir()
    (folder / "spec.yaml").write_text(SPEC)
    monkeypatch.setenv("CLUSTERJOBS_SITE", "site")
    return folder / "site"


def files_of(folder: pathlib.Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


def rendered(clusterjobs) -> str:
    outcome = clusterjobs("render", "spec.yaml", "--force")
    assert outcome.code == 0, outcome.err
    return pathlib.Path("generated/job.sh").read_text()


def without_names_of_templates(script: str) -> str:
    lines = script.split("\n")
    return "\n".join(line for line in lines if "template" not in line)


@pytest.mark.parametrize("way", ["--replace", "--extend"])
def test_an_override_without_changes_renders_the_same_script(clusterjobs, site, way) -> None:
    before = rendered(clusterjobs)
    assert clusterjobs("templates", "override", "launch", way).code == 0
    after = rendered(clusterjobs)
    assert str(LAUNCH) in after
    assert without_names_of_templates(after) == without_names_of_templates(before)


def test_diff_shows_what_the_site_changes(clusterjobs, site) -> None:
    assert clusterjobs("templates", "diff").out == "no site folder overrides a block\n"
    clusterjobs("templates", "override", "launch")
    assert clusterjobs("templates", "diff", "launch").out == (
        f"{LAUNCH}: the same as the packaged text\n"
    )
    edit(LAUNCH, "  command=(\n", "  command=( # of our site\n")
    shown = clusterjobs("templates", "diff").out.splitlines()
    assert shown[:2] == ["--- blocks/launch.sh.j2 (clusterjobs 0.1.0)", f"+++ {LAUNCH}"]
    assert [line for line in shown[2:] if line[0] in "+-"] == [
        "-  command=(",
        "+  command=( # of our site",
    ]


def test_diff_of_an_extension_shows_only_its_own_lines(clusterjobs, site) -> None:
    clusterjobs("templates", "override", "launch", "--extend")
    LAUNCH.write_text(LAUNCH.read_text() + "  echo launched\n")
    shown = clusterjobs("templates", "diff").out.splitlines()
    assert [line for line in shown[2:] if line[0] in "+-"] == ["+  echo launched"]


def test_an_upgrade_that_changes_other_lines_is_merged(clusterjobs, site, upgrade) -> None:
    clusterjobs("templates", "override", "launch")
    edit(LAUNCH, "  command=(\n", "  command=( # of our site\n")
    upgrade("0.2.0", ("export CLUSTERJOBS_ATTEMPT=$attempt", "export CLUSTERJOBS_TRY=$attempt"))

    before = files_of(site)
    dry = clusterjobs("templates", "update", "--dry-run")
    assert files_of(site) == before
    outcome = clusterjobs("templates", "update")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == dry.out
    for line in (
        "blocks/launch.sh.j2 has changed since clusterjobs 0.1.0:",
        "--- blocks/launch.sh.j2 (0.1.0)",
        "+++ blocks/launch.sh.j2 (0.2.0)",
        f"{LAUNCH}: merged into yours:",
        "+  export CLUSTERJOBS_TRY=$attempt # the watchdog knows the ranks by it",
    ):
        assert line in outcome.out

    text = LAUNCH.read_text()
    assert "    packaged: 0.2.0 sha256:" in text
    assert "command=( # of our site" in text
    assert "CLUSTERJOBS_TRY" in text
    assert [path.read_text() for path in BASES.iterdir()] == [
        overrides.packaged_text("blocks/launch.sh.j2")
    ]
    assert not ORIGINAL.exists()
    assert "command=( # of our site" in rendered(clusterjobs)
    again = clusterjobs("templates", "update")
    assert again.out == f"{LAUNCH}: unchanged since clusterjobs 0.2.0\n"


def test_check_reports_a_copy_that_an_upgrade_has_left_behind(
    clusterjobs, site, upgrade, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = tuple(one for one in packaged_samples() if one.name == "plain")
    monkeypatch.setattr(check, "packaged_samples", lambda: few)
    clusterjobs("templates", "override", "launch")
    clusterjobs("templates", "override", "placement")
    clusterjobs("templates", "override", "job", "--extend")
    assert "has changed" not in clusterjobs("templates", "check").err
    upgrade("0.2.0", ("  command=(\n", "  command=( # of clusterjobs\n"))
    outcome = clusterjobs("templates", "check")
    assert (outcome.code, outcome.err.count("has changed")) == (0, 1), outcome
    assert f"{LAUNCH}:2:1 info: clusterjobs has changed blocks/launch.sh.j2 since" in outcome.err
    assert clusterjobs("templates", "update").code == 0
    assert "has changed" not in clusterjobs("templates", "check").err


def test_an_upgrade_that_changes_the_same_line_is_marked_until_resolved(
    clusterjobs, site, upgrade
) -> None:
    clusterjobs("templates", "override", "launch")
    edit(LAUNCH, "  command=(\n", "  command=( # of our site\n")
    before = LAUNCH.read_text()
    upgrade("0.2.0", ("  command=(\n", "  command=( # of clusterjobs\n"))

    outcome = clusterjobs("templates", "update")
    line = LAUNCH.read_text().split("\n").index("<<<<<<< yours") + 1
    message = (
        f"{LAUNCH}:{line}:1 a conflict of a merge is not resolved\n"
        f"{line:>5} | <<<<<<< yours\n"
        "      | ^^^^^^^^^^^^^\n"
        "   hint: choose one of the versions between the markers, remove the markers, and run "
        "`clusterjobs templates update`\n"
    )
    assert (outcome.code, outcome.err) == (1, message)
    assert f"{LAUNCH}: merged with conflicts:" in outcome.out
    conflict = (
        "<<<<<<< yours\n  command=( # of our site\n||||||| clusterjobs 0.1.0\n  command=(\n"
        "=======\n  command=( # of clusterjobs\n>>>>>>> clusterjobs 0.2.0\n"
    )
    assert conflict in LAUNCH.read_text()
    assert ORIGINAL.read_text() == before

    for command in (("render", "spec.yaml"), ("templates", "update")):  # nothing goes on with it
        refused = clusterjobs(*command)
        assert (refused.code, refused.err) == (1, message)

    edit(LAUNCH, conflict, "  command=( # of both\n")
    resolved = clusterjobs("templates", "update")
    assert (resolved.code, resolved.err) == (0, "")
    assert resolved.out == (
        f"{LAUNCH}: its conflicts with clusterjobs 0.2.0 are resolved\n"
        f"{LAUNCH}: unchanged since clusterjobs 0.2.0\n"
    )
    assert not ORIGINAL.exists()
    assert len(list(BASES.iterdir())) == 1
    assert "command=( # of both" in rendered(clusterjobs)


def test_conflicts_that_are_resolved_after_a_further_upgrade_are_merged_with_it(
    clusterjobs, site, upgrade
) -> None:
    clusterjobs("templates", "override", "launch")
    edit(LAUNCH, "  command=(\n", "  command=( # of our site\n")
    upgrade("0.2.0", ("  command=(\n", "  command=( # of clusterjobs\n"))
    clusterjobs("templates", "update")
    text = LAUNCH.read_text()
    start, end = text.index("<<<<<<<"), text.index(">>>>>>> clusterjobs 0.2.0\n")
    LAUNCH.write_text(text[:start] + "  command=( # of both\n" + text[end:].partition("\n")[2])
    upgrade("0.3.0", ("$attempt # the watchdog", "$attempt # a watchdog"))
    outcome = clusterjobs("templates", "update")
    assert (outcome.code, outcome.err) == (0, "")
    merged = LAUNCH.read_text()
    assert "packaged: 0.3.0 sha256:" in merged
    assert "  command=( # of both\n" in merged
    assert "# a watchdog" in merged


def test_an_extension_has_nothing_to_merge(clusterjobs, site, upgrade) -> None:
    clusterjobs("templates", "override", "launch", "--extend")
    LAUNCH.write_text(LAUNCH.read_text() + "  echo launched\n")
    upgrade("0.2.0", ("  command=(\n", "  command=( # of clusterjobs\n"))
    outcome = clusterjobs("templates", "update")
    assert outcome.code == 0
    assert "+  command=( # of clusterjobs" in outcome.out
    assert f"{LAUNCH}: it has lines around that block alone: nothing to merge" in outcome.out
    assert "packaged: 0.2.0 sha256:" in LAUNCH.read_text()
    assert LAUNCH.read_text().endswith("  echo launched\n")
    assert "command=( # of clusterjobs" in rendered(clusterjobs)


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_merge_that_is_interrupted_can_be_begun_again(
    clusterjobs, site, upgrade, monkeypatch, after: int
) -> None:
    """Ctrl-C after none, one or two of the files that a merge with conflicts writes."""
    clusterjobs("templates", "override", "launch")
    edit(LAUNCH, "  command=(\n", "  command=( # of our site\n")
    before = LAUNCH.read_text()
    upgrade("0.2.0", ("  command=(\n", "  command=( # of clusterjobs\n"))
    replace_file, written = overrides.replace_file, []

    def interrupted(path: pathlib.Path, text: str) -> None:
        if len(written) == after:
            raise KeyboardInterrupt
        written.append(path)
        replace_file(path, text)

    monkeypatch.setattr(overrides, "replace_file", interrupted)
    assert clusterjobs("templates", "update").code == 130
    assert LAUNCH.read_text() == before
    monkeypatch.setattr(overrides, "replace_file", replace_file)
    outcome = clusterjobs("templates", "update")
    assert outcome.code == 1
    line = LAUNCH.read_text().split("\n").index("<<<<<<< yours") + 1
    assert outcome.err.startswith(f"{LAUNCH}:{line}:1 a conflict of a merge is not resolved\n")
    assert ORIGINAL.read_text() == before


@pytest.mark.slow
def test_overrides_of_all_templates_pass_the_check(clusterjobs, site) -> None:
    for number, name in enumerate(resources.template_texts()):
        way = ("--replace", "--extend")[number % 2]
        assert clusterjobs("templates", "override", name, way).code == 0
    checked = clusterjobs("templates", "check")
    assert checked.code == 0, checked.err
    assert clusterjobs("templates", "update").out.count("unchanged since") == number + 1

"""Keys of specs get their new names; all else of a file stays."""

from __future__ import annotations

import pathlib

import pytest

from clusterjobs.admin.migrate import migrated
from clusterjobs.runs.load import load
from clusterjobs.spec import key_names

HEAD = "name: a\ncluster: small\nframework: command\ncommand: ./run\n"
# Before, and after.
CHANGES = {
    "a key beside its new name": (
        "data:  # two\n- {source: /a, target: /b, check: contents}\n"
        "- source: /c  # from\n  target: /d\n  check: source  # each time\n",
        "data:  # two\n- {source: /a, target: /b, verify: contents}\n"
        "- source: /c  # from\n  target: /d\n  verify: source  # each time\n",
    ),
    "a key of a new section": (
        "# where\nlogs_export: s3://corpus/logs  # kept\nnodes: 1\n",
        '# where\nlogs: {export: "s3://corpus/logs"}  # kept\nnodes: 1\n',
    ),
    "a key of a section that is there": (
        "logs_export: s3://corpus/logs  # kept\nlogs:\n  path: /fsx/l  # here\nnodes: 1\n",
        '# kept\nlogs:\n  path: /fsx/l  # here\n  export: "s3://corpus/logs"\nnodes: 1\n',
    ),
    "a key of a section in one line": (
        "logs: {path: /fsx/l}\nlogs_export: /archive",
        'logs: {path: /fsx/l, export: "/archive"}\n',
    ),
    "a key of a short section": (
        "logs: '/fsx/{{ name }}'\r\nlogs_export: /archive\r\nnodes: 1\r\n",
        "logs: {path: '/fsx/{{ name }}', export: /archive}\r\nnodes: 1\r\n",
    ),
    "a key of an empty section": (
        "logs:\nlogs_export: /archive\n",
        'logs: {export: "/archive"}\n',
    ),
    "text with a comma": ('logs_export: "/a,b"\n', 'logs: {export: "/a,b"}\n'),
    "a spec in one line": ("{name: a, logs_export: /x}", "{name: a, logs: {export: /x}}"),
    "nothing": ("x: {check: 1}\nsweep: {logs_export: /x}\n", None),
}
LEFT = {
    "both names": "data: [{source: /a, target: /b, check: source, verify: record}]\n",
    "a block of text": "logs_export: |\n  /archive\n",
    "a spec in one line": "{logs: /fsx/l, logs_export: /x}",
    "a value that is no text": "logs: {path: /fsx/l}\nlogs_export: [/x]\n",
    "a section of another kind": "logs: [/x]\nlogs_export: /x\n",
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_renamed_key_gets_its_new_name_and_comments_stay(what: str) -> None:
    before, after = CHANGES[what]
    assert migrated(before, "e.yaml") == (before if after is None else after, [])


@pytest.mark.parametrize("what", LEFT)
def test_what_cannot_be_changed_with_certainty_is_left_with_a_hint(what: str) -> None:
    text, (problem,) = migrated(LEFT[what], "e.yaml")
    assert text == LEFT[what]
    assert problem.where
    assert (problem.where.file, problem.hint[:6]) == ("e.yaml", "write ")


def test_any_key_can_get_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"walltime_": ("time_limit",), "old.part": ("preflight",), "sbatch.x": ("sbatch", "y")}
    monkeypatch.setattr("clusterjobs.admin.migrate.renamed_keys", lambda: names)
    monkeypatch.setattr(key_names, "renamed_keys", lambda: names)
    before = f"{HEAD}walltime_: 1:00:00 # an hour\nsbatch:\n  x: 1 # one\n"
    after = f"{HEAD}time_limit: 1:00:00 # an hour\nsbatch:\n  y: 1 # one\n"
    assert migrated(before, "e.yaml") == (after, [])


def test_all_specs_below_a_folder_are_shown_then_changed(clusterjobs, folder: pathlib.Path) -> None:
    specs = folder / "specs"
    (specs / "ann").mkdir(parents=True)
    (specs / "ann/a.yaml").write_text(f"{HEAD}logs_export: /archive  # for years\n")
    (specs / "b.yaml").write_text(f"extends: base.yaml\n{HEAD}")
    (specs / "base.yaml").write_text("logs_export: /archive\n")
    (specs / "new.yaml").write_text(HEAD)
    shown = clusterjobs("migrate", "specs")
    assert shown.code == 0
    assert (
        "-logs_export: /archive  # for years\n+logs: {export: /archive}  # for years" in shown.out
    )
    assert "4 specs, 2 with old names of keys: --write changes them" in shown.err
    assert "logs_export" in (specs / "ann/a.yaml").read_text()
    assert clusterjobs("migrate", "specs", "--write").out == shown.out
    assert "0 with old names of keys\n" in clusterjobs("migrate", "specs").err
    for name in ("ann/a.yaml", "b.yaml"):
        assert load(specs / name).spec.logs.export == "/archive"


def test_a_file_that_cannot_be_read_stops_no_other(clusterjobs, folder: pathlib.Path) -> None:
    (folder / "broken.yaml").write_text(f"{HEAD}x: [\n")
    (folder / "fine.yaml").write_text(f"{HEAD}logs_export: /archive\n")
    outcome = clusterjobs("migrate", "broken.yaml", "fine.yaml", "--write")
    assert outcome.code == 1
    assert "broken.yaml:6" in outcome.err
    assert "logs: {export: /archive}" in (folder / "fine.yaml").read_text()


@pytest.mark.parametrize(
    ("keys", "hint"),
    [
        (
            "logs_export: /a\nlogs: {export: /b}\n",
            "write one of the two values there, and remove logs_export",
        ),
        ("logs_export: >\n  /a\n", "write logs: {export: ...}"),
    ],
)
def test_a_key_that_is_left_is_counted_and_says_what_to_write(
    keys: str, hint: str, clusterjobs, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pathlib.Path("a.yaml").write_text(f"name: a\nframework: command\n{keys}")
    shown = clusterjobs("migrate", "a.yaml")
    assert "1 spec, 0 with old names of keys; 1 key left to you" in shown.err
    assert f"hint: {hint}\n" in shown.err

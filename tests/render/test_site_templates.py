"""A site's templates in a script: replaced, extended, or lines at the insertion points."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable

import pytest
from script_runs import SMALL, as_yaml, run_script

from clusterjobs import resources
from clusterjobs.clusters.parallelcluster.facts import cluster_facts
from clusterjobs.clusters.parallelcluster.source import read_cluster
from clusterjobs.errors import InputError
from clusterjobs.frameworks import option_models
from clusterjobs.script.site import INSERTION_POINTS, SiteFile, SiteTemplates
from clusterjobs.sections.order import resolve
from clusterjobs.sections.render import Inputs, Script, render_script
from clusterjobs.sites import folders as site_folders
from clusterjobs.spec.load import load_spec

SPEC = {"name": "a", "cluster": "small", "framework": "command", "command": ["true"]}
INCLUDE = '{% include "packaged/blocks/launch.sh.j2" %}\n'


def render(*files: tuple[str, str], **keys: object) -> Script:
    """job.sh of a small spec with these templates of a site, the highest precedence first."""
    text = as_yaml({**SPEC, **keys})
    plan = resolve(
        load_spec(text, "spec.yaml", option_models()),
        cluster_facts(read_cluster(SMALL, "small.yaml", {})[0]),
    )
    names = [name for name, _ in files]
    folders = [f"/site{names[:i].count(name)}" for i, name in enumerate(names)]
    site = tuple(
        SiteFile(name, f"{folder}/templates/{name}", text)
        for folder, (name, text) in zip(folders, files, strict=True)
    )
    inputs = Inputs(("spec.yaml", text), ("small.yaml", SMALL), templates=SiteTemplates(site))
    return render_script(plan, inputs)


def test_module_is_defined_before_inserted_lines_that_call_it() -> None:
    text = render(("before_environment.sh", "module load cuda\n")).text
    assert text.index(". /etc/profile.d/modules.sh") < text.index("module load cuda")
    assert "modules.sh" not in render(("before_environment.sh", "true\n")).text


def test_lines_of_every_insertion_point_are_printed_where_their_name_says() -> None:
    lines = {point: f": {point}" for point in INSERTION_POINTS}
    lines["directives"] = "#SBATCH --account=ml"
    text = render(*((f"{point}.sh", f"{line}\n") for point, line in lines.items())).text
    order = (
        *("#SBATCH --no-requeue", lines["directives"], "set -euo pipefail +o posix"),
        *("export MASTER_ADDR", lines["before_environment"], "# ---- environment"),
        *("export OMP_NUM_THREADS", lines["after_environment"], "# ---- launch"),
        *("run_ranks srun", "reason=after_failure", lines["after_launch"]),
    )
    places = [text.index(mark) for mark in order]
    assert places == sorted(places)
    assert text.index(lines["before_launch"]) < text.index("# ---- launch")
    assert "  # From /site0/templates/before_launch.sh:\n: before_launch\n" in text


def test_lines_of_several_layers_are_printed_the_lowest_precedence_first() -> None:
    text = render(("before_launch.sh", ": user\n"), ("before_launch.sh", ": system\n")).text
    assert text.index(": system\n") < text.index(": user\n")


def test_of_two_overrides_the_highest_precedence_is_used() -> None:
    script = render(
        ("blocks/launch.sh.j2", "  : user\n" + INCLUDE),
        ("blocks/launch.sh.j2", "  : system\n" + INCLUDE),
    )
    assert ": user\n" in script.text
    assert ": system\n" not in script.text
    assert [one.file for one in script.site_files] == ["/site0/templates/blocks/launch.sh.j2"]


def test_an_override_may_print_lines_around_the_packaged_template() -> None:
    text = render(("blocks/launch.sh.j2", f"  : first\n{INCLUDE}  : last\n")).text
    assert text.index(": first") < text.index("# ---- launch") < text.index(": last")


def test_an_override_may_extend_one_block_and_keep_the_rest() -> None:
    override = """{% extends "packaged/blocks/launch.sh.j2" %}
{% block command %}
{{ super() }}
  command=(nice "${command[@]}")
{% endblock %}
"""
    text = render(("blocks/launch.sh.j2", override)).text
    assert re.search(r'    true\n  \)\n\n  command=\(nice "\$\{command\[@\]\}"\)\n', text)
    assert "run_ranks srun" in text


def test_an_override_may_replace_the_whole_template() -> None:
    text = render(("blocks/launch.sh.j2", "  run_ranks srun true\n")).text
    assert "# ---- launch" not in text


def test_an_override_may_include_a_template_of_its_own() -> None:
    files = (("blocks/launch.sh.j2", '{% include "own/gpus.sh.j2" %}\n' + INCLUDE),)
    script = render(*files, ("own/gpus.sh.j2", "  nvidia-smi -L\n"))
    assert "  nvidia-smi -L\n" in script.text
    assert len(script.site_files) == 2


def test_the_header_names_the_files_that_were_used_and_no_other() -> None:
    script = render(("launch/mpirun.sh.j2", "  : unused\n"), ("before_launch.sh", ": used\n"))
    header = script.text.partition("#SBATCH")[0]
    assert (
        "# Changed by templates of this site:\n#   /site0/templates/before_launch.sh\n# shellcheck"
        in header
    )
    assert "mpirun" not in script.text
    unused = render(("launch/mpirun.sh.j2", "  : unused\n"))
    assert unused.text == render().text


def test_a_comment_of_bash_and_braces_in_inserted_lines_are_no_template() -> None:
    lines = "echo ${#nodes[@]} '{{ nothing }}' # {% raw\n"
    assert lines in render(("before_launch.sh", lines)).text


def test_inserted_lines_run_in_their_order_and_a_failure_ends_the_job(
    tmp_path: pathlib.Path,
) -> None:
    text = render(
        ("before_launch.sh", "echo before $MASTER_PORT\n"),
        ("after_launch.sh", "echo after\nfalse\necho never\n"),
        command=["echo", "training"],
    ).text
    run = run_script(tmp_path, text)
    assert re.search(r"before \d+\n(.*\n)*training\nafter\n", run.log), run.log
    assert "never" not in run.log
    assert (run.code, run.reasons) == (1, ["after_failure"])


def test_a_script_larger_than_slurm_accepts_is_refused() -> None:
    loops = "{% for a in environment.kept_slurm %}{% for b in job.directives %}"
    override = f"{loops}{': too long' * 30_000}\n{{% endfor %}}{{% endfor %}}"
    with pytest.raises(InputError, match="larger than the 4 MiB that Slurm accepts"):
        render(("blocks/launch.sh.j2", override))


def test_the_manifest_has_the_origin_of_every_template_that_was_used(
    clusterjobs: Callable[..., object], folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(site_folders.VARIABLE, "site")
    (folder / "spec.yaml").write_text(as_yaml(SPEC))
    (folder / "site/templates/blocks").mkdir(parents=True)
    (folder / "site/templates/blocks/launch.sh.j2").write_text(INCLUDE)
    (folder / "site/templates/before_launch.sh").write_text("date\n")
    (folder / "site/templates/README.md").write_text("no template\n")
    outcome = clusterjobs("render", "spec.yaml")
    assert outcome.code == 0, outcome.err
    inputs = json.loads((folder / "generated/manifest.json").read_text())["inputs"]
    assert [one["name"] for one in inputs["site_templates"]] == [
        "site/templates/before_launch.sh",
        "site/templates/blocks/launch.sh.j2",
    ]
    assert "blocks/launch.sh.j2" in inputs["templates"]  # it is included
    assert set(inputs["templates"]) <= set(resources.template_texts())


def test_links_to_folders_are_followed_once(
    clusterjobs: Callable[..., object], folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(site_folders.VARIABLE, "site")
    (folder / "spec.yaml").write_text(as_yaml(SPEC))
    (folder / "shared").mkdir()
    (folder / "shared/launch.sh.j2").write_text("  : shared\n" + INCLUDE)
    (folder / "shared/again").symlink_to(folder / "shared")
    (folder / "site/templates").mkdir(parents=True)
    (folder / "site/templates/blocks").symlink_to(folder / "shared")
    assert clusterjobs("render", "spec.yaml").code == 0
    assert "  : shared\n" in (folder / "generated/job.sh").read_text()

"""The JSON Schema of a spec agrees with `render`.

It accepts every good spec of the cases, the pages and the examples, and refuses bad ones by
themselves, without a cluster.
"""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from case_files import read_cases
from click.testing import CliRunner

from clusterjobs.cli.main import cli
from clusterjobs.errors import InputError
from clusterjobs.reference.keys import all_keys
from clusterjobs.reference.schema import spec_schema
from clusterjobs.yaml import document

ROOT = pathlib.Path(__file__).parents[2]
SCHEMA = spec_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
# The bad specs of the cases that the schema accepts: what is wrong depends on other keys, on the
# cluster, on other files or on what a text means. An editor shows nothing there, `render` does.
ACCEPTED = ROOT / "tests" / "cases" / "accepted_by_schema.txt"


def _plain(value: Any) -> Any:
    """As JSON has it: numbers that remember how they were written are numbers."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _good_specs() -> Iterator[tuple[str, str]]:
    for case in read_cases("good/*.txt"):
        for name, file in case.files.items():
            if name == case.arguments[1]:
                yield case.name, file.text
    for path in sorted((ROOT / "examples").rglob("*.yaml")):
        if "clusters" not in path.parts and path.name != "site.yaml":
            yield str(path.relative_to(ROOT)), path.read_text("utf-8")
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        blocks = re.findall(r"```yaml\n(.*?)```", page.read_text("utf-8"), re.S)
        for number, block in enumerate(blocks):
            if re.match(r"(#.*\n)*name: ", block) and "\nframework: " in block:
                yield f"{page.name}:{number}", block


GOOD = dict(_good_specs())


@pytest.mark.parametrize("name", GOOD)
def test_it_accepts_what_render_accepts(name: str) -> None:
    data = _plain(document.load(GOOD[name], name).value)
    errors = [f"{'.'.join(map(str, e.absolute_path))}: {e.message}" for e in _errors(data)]
    assert errors == []


def _errors(data: Any) -> Iterator[jsonschema.ValidationError]:
    return VALIDATOR.iter_errors(data)  # type: ignore[no-any-return]


def test_it_is_a_schema_of_2020_12() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        ("nodse: 2", ""),
        ("nodes: two", "nodes"),
        ("nodes: 0", "nodes"),
        ("framework: deepspead", "framework"),
        ("framework: deepspeed\nzero: {stage: 4}", "zero"),  # at the choice, false or a mapping
        ("framework: torchrun\nzero: {stage: 1}", ""),  # at the condition, says jsonschema
        ("batch: {micor: 8}", "batch"),
        ("precision: fp8", "precision"),
        ("data: [{source: /a}]", "data"),
        ("data: {source: /a, target: /b}", "data"),
        ("preflight: [gpus, eva]", "preflight"),
        ("env: {DEBUG: true}", "env.DEBUG"),
        ("env: {A: {value: 1}}", "env.A"),
        ("software: {container: {image: a.sqsh, runtime: podman}}", "software.container.runtime"),
        ("sweep: {grids: {}}", "sweep"),
        ("restarts: {failure: many}", "restarts.failure"),
    ],
)
def test_it_refuses(spec: str, where: str) -> None:
    paths = {".".join(map(str, error.absolute_path)) for error in _errors(_plain(_read(spec)))}
    assert paths == {where}


@pytest.mark.parametrize(
    "spec",
    [
        "workdir: ''",
        "workdir: $HOME/a",
        "software: {venv: /fsx/venv/bin/activate}",
        "software: {container: {image: -a.sqsh}}",
        "software: {container: {image: a.sqsh, mounts: ['/fsx:/']}}",
        "software: {container: {image: a.sqsh, mounts: ['data:/data']}}",
        "software: {container: {image: a.sqsh, shm: big}}",
        "data: [{source: 's3://My_Bucket/a', target: /b}]",
        "command: a | b",
        "command: [cd, /fsx]",
        "command: []",
        "framework: torchrun\nlauncher: mpirun",
        "launcher: srun\nssh: {port: 22}",
        "launcher: srun\ntorchrun: {tee: 3}",
        "launcher: mpirun\nsoftware: {container: {runtime: pyxis, image: a.sqsh}}",
        "framework: torchrun\ncommand: ./a",
        "framework: deepspeed\nparallel: {context: 2}",
        "script: a.py\ncommand: ./a",
        "training: {steps: 1, tokens: 5}",
        "needs: [{spec: a.yaml, job: 4711}]",
        "secrets: {TOKEN: {file: /a, command: ./b}}",
        "sbatch: {partition: gpu}",
        "srun: {ntasks: 3}",
        "env: {SLURM_X: a}",
        "env: {A B: a}",
        "parameters: {lr: 3}",
        "roles: {Server: {command: ./a}}",
        "sweep: {grid: {name: [a, b]}}",
        "sweep: {grid: {lr: [1, 2]}}",
        "sweep: {random: {args.lr: {log_uniform: [0, 1]}}}",
        "nodes: '{{ parameters.N }}'",
    ],
)
def test_it_refuses_texts_and_combinations(spec: str) -> None:
    assert list(_errors(_plain(_read(spec))))


def test_keys_that_exclude_each_other_are_refused_by_render_too(
    clusterjobs: Any, folder: pathlib.Path
) -> None:
    excluding = [one for one in all_keys() if one.key.excludes]
    assert {one.path for one in excluding} >= {"script", "training.tokens", "needs[].job"}
    keys = {one.path: one.key for one in all_keys()}
    for one in excluding:
        above = one.path[: one.path.rfind(".") + 1]
        for other in one.key.excludes:
            second = keys[f"{above}{other}"].example
            text = f"{one.path.removeprefix(above)}: {one.key.example}, {other}: {second}"
            for step in reversed(above.replace("NAME", "X").split(".")[:-1]):
                is_list = step.endswith("[]")
                text = f"{step[:-2]}: [{{{text}}}]" if is_list else f"{step}: {{{text}}}"
            spec = {"name": "a", "cluster": "small", "framework": "torchrun"}
            spec |= _plain(_read(f"{{{text}}}"))
            assert not VALIDATOR.is_valid(spec), text
            (folder / "spec.yaml").write_text(json.dumps({"script": "train.py", **spec}))
            assert clusterjobs("plan", "spec.yaml").code == 1, text


def _read(spec: str) -> Any:
    return document.load(spec, "spec.yaml").value


@pytest.mark.parametrize(
    "spec",
    [
        'nodes: "{{ site.nodes }}"',
        "gpus_per_node: a100:4",
        "setup: {append: [ulimit -l unlimited]}",
        "software: {setup: {prepend: module purge}}",
        "args: [--lr, 1e-4]",
        "args: {lr: 1e-4, bf16: true, sizes: [1, 2]}",
        "secrets: {WANDB_API_KEY: null}",
        "env: {LD_PRELOAD: {value: /a.so, force: true, reason: jemalloc}}",
        "before: [make data, [python3, prepare.py], {command: [a, b], per: node}]",
        "needs: [a.yaml, {job: 4711}]",
        "logs: /fsx/logs",
        "preflight: true",
        "framework: huggingface\nfsdp: {wrap: [LlamaDecoderLayer]}",
        "extends: [a.yaml, b.yaml]",
    ],
)
def test_it_accepts_each_form_of_a_value(spec: str) -> None:
    if spec.startswith("setup"):
        spec = f"software: {{{spec}}}"
    assert [error.message for error in _errors(_plain(_read(spec)))] == []


def test_the_bad_specs_that_it_accepts_are_known_by_name(request: pytest.FixtureRequest) -> None:
    """It refuses none that `render` accepts with a warning, and all others but those listed."""
    accepted, refused = [], []
    for case in read_cases("bad/*.txt"):
        file = case.files.get("spec.yaml")
        if file is None or case.arguments[0] != "render":
            continue
        is_rendered = case.expected.rstrip().endswith("exit code 0")
        try:
            data = _plain(document.load(file.text, "spec.yaml").value)
        except InputError:
            continue  # no YAML
        is_valid = VALIDATOR.is_valid(data)
        assert is_valid or not is_rendered, case.name
        if not is_rendered:
            (accepted if is_valid else refused).append(f"{case.path.stem} {case.name}")
    text = "".join(f"{one}\n" for one in accepted)
    if request.config.getoption("--update-goldens"):
        ACCEPTED.write_text(text)
    assert text == ACCEPTED.read_text(), "--update-goldens writes them"
    assert len(refused) >= 114


def test_each_key_at_the_top_has_its_meaning_and_an_example_that_it_accepts() -> None:
    for key in all_keys():
        if "." in key.path or "[" in key.path:
            continue
        entry = SCHEMA["properties"][key.path]
        assert entry["description"]
        assert entry["examples"]
        example = _plain(_read(f"{key.path}: {key.key.example}\n"))
        assert [one.message for one in _errors(example)] == [], key.path


@pytest.mark.parametrize("what", ["site", "policy", "cluster"])
def test_other_files_have_a_schema(what: str) -> None:
    done = CliRunner().invoke(cli, ["schema", "--of", what])
    assert done.exit_code == 0
    jsonschema.Draft202012Validator.check_schema(json.loads(done.output))


FILES_OF_THE_PROJECT = [
    *(("cluster", path) for path in (ROOT / "examples").rglob("clusters/*.yaml")),
    *(("policy", path) for path in (ROOT / "site-folder").rglob("policy.yaml")),
    *(("site", path) for path in (ROOT / "site-folder").rglob("site.yaml")),
]


@pytest.mark.parametrize(("what", "path"), FILES_OF_THE_PROJECT, ids=lambda one: str(one)[-40:])
def test_they_accept_the_projects_own(what: str, path: pathlib.Path) -> None:
    schema = json.loads(CliRunner().invoke(cli, ["schema", "--of", what]).output)
    data = _plain(document.load(path.read_text("utf-8"), path.name).value) or {}
    if what == "cluster" and data.get("kind") != "slurm":
        pytest.skip("a ParallelCluster config has the schema of ParallelCluster")
    errors = jsonschema.Draft202012Validator(schema).iter_errors(data)
    assert [error.message for error in errors] == []


@pytest.mark.parametrize("command", ["render", "diff"])
def test_what_a_command_prints_with_json_is_as_its_schema_says(
    command: str, clusterjobs: Any, folder: pathlib.Path
) -> None:
    (folder / "exp.yaml").write_text("name: a\ncluster: small\nframework: command\ncommand: ./a\n")
    schema = json.loads(clusterjobs("schema", "--of", command).out)
    jsonschema.Draft202012Validator.check_schema(schema)
    answer = json.loads(clusterjobs(command, "exp.yaml", "--json").out)
    assert {one["name"]: one["change"] for one in answer["files"]}["job.sh"] == "new"
    jsonschema.validate(answer, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**answer, "files": [{"name": "job.sh"}]}, schema)

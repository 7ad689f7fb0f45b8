"""Configs of templates that were not filled in: what is said of them, and what works with them."""

from __future__ import annotations

import pathlib

import pytest

from clusterjobs.cli.main import run

CONFIG = """\
Region: us-east-1
Image: {Os: ubuntu2204}
HeadNode:
  InstanceType: c5.xlarge
  Networking: {SubnetId: subnet-0123456789abcdef0}
  Ssh: {KeyName: lab}
Scheduling:
  Scheduler: slurm
  SlurmQueues:
    - Name: train
      Networking: {SubnetIds: [subnet-0123456789abcdef1], PlacementGroup: {Enabled: true}}
      ComputeResources:
        - Name: a100
          InstanceType: p4d.24xlarge
          MaxCount: 4
          Efa: {Enabled: true}
SharedStorage:
  - Name: fsx
    MountDir: /fsx
    StorageType: FsxLustre
    FsxLustreSettings: {StorageCapacity: 1200, DeletionPolicy: Retain}
"""
SPEC = """\
name: a
cluster: ./c.yaml
framework: torchrun
script: t.py
workdir: /fsx
software: {venv: /fsx/e}
"""
OUTSIDE = "Resources:\n  Cluster:\n    Properties:\n      ClusterConfiguration:"
INSIDE = "".join(f"        {line}\n" for line in CONFIG.splitlines())

# what is in the config, and the placeholder in its place
FORMS = [
    ("us-east-1", "${AWS_REGION}"),
    ("us-east-1", "{AWS_REGION}"),
    ("us-east-1", "$AWS_REGION"),
    ("us-east-1", "{{ region }}"),
    ("us-east-1", "@REGION@"),
    ("us-east-1", "%REGION%"),
    ("subnet-0123456789abcdef0", "!GetAtt Network.PublicSubnet"),
    ("subnet-0123456789abcdef0", "{SUBNET}"),
    ("subnet-0123456789abcdef0", "subnet-xxxxxxxx"),
    ("subnet-0123456789abcdef0", "<your subnet>"),
    ("subnet-0123456789abcdef0", "subnet-xx-xx-xx"),
    ("subnet-0123456789abcdef0", "subnet-XXXX"),
    ("subnet-0123456789abcdef0", "subnet-REPLACE_ME"),
    ("subnet-0123456789abcdef0", "subnet-<PUBLIC SUBNET ID>"),
    ("lab", "!Ref Key"),
    ("lab", "your_key"),
    ("lab", "YOUR_KEY"),
    ("MaxCount: 4", "MaxCount: ${COUNT}"),
    ("MaxCount: 4", "MaxCount: {COUNT}"),
    ("Name: a100", "Name: ${RESOURCE}"),
    ("Retain", "${POLICY}"),
]
# those that a plan needs, and what the spec can say instead
NEEDED = [
    ("p4d.24xlarge", "${INSTANCE}", "gpus_per_node: 8"),
    ("p4d.24xlarge", "{INSTANCE}", "gpus_per_node: 8"),
    ("p4d.24xlarge", "<instance type>", "gpus_per_node: 8"),
    ("p4d.24xlarge", "{{ instance_type }}", "gpus_per_node: 8"),
    ("Name: train", "Name: ${QUEUE}", "queue: train"),
    ("Name: train", "Name: {QUEUE}", "queue: train"),
]


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nowhere"))
    return tmp_path


def render(folder: pathlib.Path, config: str, more: str = "") -> int:
    (folder / "c.yaml").write_text(config)
    (folder / "exp.yaml").write_text(SPEC + more)
    return run(["render", "exp.yaml", "-o", "out"])


def placeholder_of(new: str) -> str:
    return new.rpartition(": ")[2]


@pytest.mark.aws
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("old", "new"), [*FORMS, *((old, new) for old, new, _ in NEEDED)])
def test_a_placeholder_is_named_and_nothing_else_is_said_of_its_value(
    folder: pathlib.Path, old: str, new: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pcluster")
    (folder / "c.yaml").write_text(CONFIG.replace(old, new, 1))
    assert run(["validate", "c.yaml"]) == 1
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("c.yaml:")]
    errors = [line for line in errors if " info: " not in line and " warning: " not in line]
    assert len(errors) == 1, errors
    assert errors[0].endswith(f": {placeholder_of(new)} was not filled in")


@pytest.mark.parametrize(("old", "new"), FORMS)
def test_a_job_is_rendered_where_the_plan_does_not_need_the_value(
    folder: pathlib.Path, old: str, new: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert render(folder, CONFIG.replace(old, new, 1)) == 0
    assert "gpus-per-node=8" in (folder / "out/job.sh").read_text()
    told = capsys.readouterr().err
    if (folder / "out/cluster.yaml").exists():
        assert f"cluster.yaml has {placeholder_of(new)} as it is: nobody filled it in\n" in told
    else:
        assert f"(the job runs without it): {placeholder_of(new)} was not filled in" in told
    assert told.count("info: ") == 1


def test_code_of_the_configs_own_is_no_placeholder(
    folder: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "CustomActions: {OnNodeStart: {Script: 's3://b/x.sh', Args: ['${HOME}', '$(id)']}}"
    assert render(folder, CONFIG.replace("  Ssh:", f"  {code}\n  Ssh:")) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("old", "new", "instead"), NEEDED)
def test_what_the_plan_needs_is_named_and_the_spec_can_say_it(
    folder: pathlib.Path, old: str, new: str, instead: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config = CONFIG.replace(old, new, 1)
    assert render(folder, config) == 1
    told = capsys.readouterr().err
    assert f"({placeholder_of(new)}) was not filled in" in told
    assert f"add `{instead.partition(':')[0]}:`" in told
    assert render(folder, config, f"{instead}\n") == 0
    script = (folder / "out/job.sh").read_text()
    assert "gpus-per-node=8" in script
    assert "partition=train" in script


def test_what_is_no_yaml_yet_is_not_written_and_said_so(
    folder: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = CONFIG.replace("us-east-1", "{{ region }}").replace("KeyName: lab", "KeyName: @KEY@")
    assert render(folder, config.replace("{KeyName: @KEY@}", "\n    KeyName: @KEY@")) == 0
    told = capsys.readouterr().err
    assert "cluster.yaml is not written (the job runs without it)" in told
    assert "{{ region }} was not filled in (c.yaml:1, and 1 more)" in told
    assert not (folder / "out/cluster.yaml").exists()


def test_lines_of_a_template_are_errors_of_validate(
    folder: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = CONFIG.replace("SharedStorage:", "{% if storage %}\nSharedStorage:") + "{% endif %}\n"
    (folder / "c.yaml").write_text(config)
    assert run(["validate", "c.yaml"]) == 1
    told = capsys.readouterr().err
    assert told.count("this line of a template was not filled in") == 2
    assert "c.yaml:17:1" in told
    assert render(folder, config) == 0


def test_a_config_inside_another_file_serves_a_job(
    folder: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inside = INSIDE.replace("us-east-1", "!Ref AWS::Region")
    assert render(folder, f"{OUTSIDE}\n{inside}") == 0
    assert "the config is inside another file" in capsys.readouterr().err
    assert not (folder / "out/cluster.yaml").exists()


def test_a_config_that_is_text_inside_another_file_is_found(
    folder: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert render(folder, f"{OUTSIDE} !Sub |\n{INSIDE}") == 1
    told = capsys.readouterr().err
    assert "c.yaml:4:7 " in told
    assert "the config is a text inside another file" in told
    assert "save that text in a file of its own" in told


def test_a_job_that_changes_the_config_needs_it(
    folder: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = 'data: [{source: "s3://bucket/x", target: /fsx/x, via: association}]\n'
    assert render(folder, CONFIG.replace("us-east-1", "{{ region }}"), data) == 1
    told = capsys.readouterr().err
    assert "cluster.yaml, which cannot be written: {{ region }} was not filled in" in told

"""Real files that are not a plain config: CloudFormation's functions, envsubst, copied commands."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from test_placeholders import CONFIG, SPEC

KEY = "{{resolve:secretsmanager:keys:SecretString:name}}"


@pytest.fixture
def outcomes(
    folder: pathlib.Path, clusterjobs: Callable[..., Any]
) -> Callable[[str], tuple[Any, Any]]:
    """`validate` of the config, and `render` of a spec with it."""

    def both(config: str) -> tuple[Any, Any]:
        (folder / "c.yaml").write_text(config)
        (folder / "exp.yaml").write_text(SPEC)
        return clusterjobs("validate", "c.yaml"), clusterjobs("render", "exp.yaml", "-o", "out")

    return both


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("Region: us-east-1", "Region: !FindInMap [Regions, !Ref Env, name]", "Fn::FindInMap"),
        ("Region: us-east-1", "Region: {Fn::FindInMap: [Regions, a, b]}", "Fn::FindInMap"),
        ("subnet-0123456789abcdef0", "!If [IsPublic, a, b]", "Fn::If"),
        ("[subnet-0123456789abcdef1]", "!Split [',', !Ref Subnets]", "Fn::Split"),
        ("lab", "{Ref: Key}", "Ref"),
    ],
)
def test_a_function_of_cloudformation_is_named_and_nothing_else_is_said(
    outcomes: Callable[[str], tuple[Any, Any]], old: str, new: str, name: str
) -> None:
    validated, rendered = outcomes(CONFIG.replace(old, new))
    assert f"{name} was not filled in" in validated.err
    assert "crashes" not in validated.err
    assert "Not a valid" not in validated.err
    assert (validated.code, rendered.code) == (1, 0)


def test_a_dynamic_reference_of_cloudformation_is_kept(
    outcomes: Callable[[str], tuple[Any, Any]],
) -> None:
    validated, rendered = outcomes(CONFIG.replace("lab", f'"{KEY}"'))
    assert f"{KEY} is replaced by CloudFormation" in validated.err
    assert (validated.code, rendered.code) == (0, 0)
    assert f'"{KEY}"' in pathlib.Path("out/cluster.yaml").read_text()


@pytest.mark.parametrize("command", ["pcluster create-cluster -n a -c c.yaml", "EOF"])
def test_a_job_runs_with_a_config_that_ends_with_a_command(
    outcomes: Callable[[str], tuple[Any, Any]], command: str
) -> None:
    validated, rendered = outcomes(f"{CONFIG}{command}\n")
    assert "this is a shell command, not part of the config" in validated.err
    assert rendered.code == 0
    what = f"{command} is a shell command, not part of the config (c.yaml:22)"
    assert f"cluster.yaml is not written (the job runs without it): {what}" in rendered.err


def test_lines_of_envsubst_are_named(outcomes: Callable[[str], tuple[Any, Any]]) -> None:
    config = CONFIG.replace("SharedStorage:\n", "${QUEUES}\nSharedStorage:\n")
    validated, rendered = outcomes(config)
    assert "c.yaml:17:1 this line of a template was not filled in" in validated.err
    assert "envsubst < c.yaml > cluster.yaml" in validated.err
    assert "${QUEUES} was not filled in (c.yaml:17)" in rendered.err
    assert rendered.code == 0


def test_such_a_line_within_a_text_is_no_template(
    outcomes: Callable[[str], tuple[Any, Any]],
) -> None:
    text = "Tags:\n- Key: a\n  Value: |\n    ${ONE}\n"
    validated, _ = outcomes(CONFIG + text)
    assert "line of a template" not in validated.err


def test_a_new_operating_system_is_no_safe_change(
    folder: pathlib.Path, clusterjobs: Callable[..., Any]
) -> None:
    (folder / "c.yaml").write_text(CONFIG.replace("ubuntu2204", "ubuntu1804"))
    outcome = clusterjobs("clusters", "upgrade", "c.yaml")
    assert "1 change for a new cluster; --write makes them" in outcome.err
    assert "safe change" not in outcome.err

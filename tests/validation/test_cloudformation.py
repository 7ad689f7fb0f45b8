"""ParallelCluster's own builder creates a CloudFormation template from every ready config."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys
from typing import Any

import pytest
import yaml
from single_changes import base_text

from clusterjobs import resources
from clusterjobs.clusters.source import is_description

pytestmark = [pytest.mark.aws, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
pytest.importorskip("pcluster")
pytest.importorskip("moto")

READY = sorted(
    path.stem
    for path in resources.cluster_configs_dir().glob("*.yaml")
    if not is_description(path.read_text())
)
CFN_LINT = pathlib.Path(sys.executable).with_name("cfn-lint")


def build(text: str) -> dict[str, Any]:
    """The template, as `pcluster create-cluster` would pass it to CloudFormation."""
    from clusterjobs.validation import offline, optional_deps, schema
    from clusterjobs.validation.default_account import default_account

    data = yaml.safe_load(text)
    with (
        optional_deps.quiet(),
        optional_deps.event_loop(),
        offline.simulated_account(default_account(data)),
    ):
        import boto3
        from pcluster.models.s3_bucket import S3Bucket
        from pcluster.templates.cdk_builder import CDKTemplateBuilder

        config, findings = schema.load(data)
        assert not findings
        config.config_version = "1"
        boto3.client("s3").create_bucket(Bucket="for-templates")
        bucket = S3Bucket("training", "training", "training", name="for-templates")
        template, _ = CDKTemplateBuilder().build_cluster_template(config, bucket, "training")
    answer: dict[str, Any] = template
    return answer


@pytest.mark.skipif(not shutil.which("node"), reason="needs Node.js")
@pytest.mark.skipif(not CFN_LINT.is_file(), reason="needs cfn-lint")
@pytest.mark.parametrize("name", READY)
def test_template_is_built_and_linted(name: str, tmp_path: pathlib.Path) -> None:
    template = build(base_text(name))
    assert any(
        resource["Type"] == "AWS::EC2::LaunchTemplate"
        for resource in template["Resources"].values()
    )
    file = tmp_path / "template.json"
    file.write_text(json.dumps(template))
    done = subprocess.run(
        [CFN_LINT, "--non-zero-exit-code", "error", "--regions", "us-east-1", "--", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout

"""Runs the real `pcluster` with a simulated account: a moto server in this process.

The account is the same as for our own validation, so that the results can be compared.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import yaml

from clusterjobs.validation.account import with_overrides
from clusterjobs.validation.default_account import default_account
from clusterjobs.validation.moto import patched_moto, seed
from clusterjobs.validation.offline import offline_environment
from clusterjobs.validation.optional_deps import environment

PCLUSTER = pathlib.Path(sys.executable).with_name("pcluster")
SUCCEEDED = "Request would have succeeded, but DryRun flag is set."


@contextlib.contextmanager
def served(config: str, facts: dict[str, Any] | None = None) -> Iterator[str]:
    """A server with the default account of the config; yields its address."""
    import boto3
    from moto.server import ThreadedMotoServer

    account = with_overrides(default_account(yaml.safe_load(config)), facts or {})
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    here = offline_environment(account.region) | {"AWS_ENDPOINT_URL": address}
    try:
        with environment(here), patched_moto(account), patch.object(boto3, "DEFAULT_SESSION", None):
            boto3.client("s3").create_bucket(Bucket="to-reset-all-that-was-before")
            _reset(address)
            seed(account)
            yield address
    finally:
        server.stop()


def _reset(address: str) -> None:
    import urllib.request

    request = urllib.request.Request(f"{address}/moto-api/reset", method="POST")
    urllib.request.urlopen(request).close()


def dry_run(
    config: str, folder: pathlib.Path, facts: dict[str, Any] | None = None
) -> dict[str, Any]:
    """What `pcluster create-cluster --dryrun true` says."""
    with served(config, facts) as address:
        return dry_run_at(address, config, folder)


def dry_run_at(address: str, config: str, folder: pathlib.Path) -> dict[str, Any]:
    """The same, with the account that is served at `address`."""
    file = folder / "cluster.yaml"
    file.write_text(config, encoding="utf-8")
    command = [str(PCLUSTER), "create-cluster", "--dryrun", "true", "--cluster-name", "training"]
    done = subprocess.run(
        [*command, "--cluster-configuration", str(file)],
        env=_environment(folder, address),
        capture_output=True,
        text=True,
        check=False,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _environment(home: pathlib.Path, address: str) -> dict[str, str]:
    values = {**os.environ, **offline_environment("us-east-1"), "AWS_ENDPOINT_URL": address}
    values |= {"HOME": str(home), "PCLUSTER_LOG_FILE": str(home / "pcluster.log")}
    return {name: value for name, value in values.items() if value is not None}

"""Simulates an AWS account in this process: no request leaves the machine.

This module knows the environment that ParallelCluster, boto3 and moto need; it must not know which
calls they make.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import pathlib
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from clusterjobs.validation.account import Account
from clusterjobs.validation.fake_clients import fake_clients
from clusterjobs.validation.moto import patched_moto, seed, with_catalogue
from clusterjobs.validation.optional_deps import environment


def offline_environment(region: str) -> dict[str, str | None]:
    """Invalid credentials, and no access to real ones."""
    return {
        "AWS_DEFAULT_REGION": region,
        "AWS_REGION": None,
        "AWS_PROFILE": None,
        "AWS_ENDPOINT_URL": None,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_SESSION_TOKEN": None,
        "AWS_SECURITY_TOKEN": None,
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
        "MOTO_ACCOUNT_ID": None,
        "MOTO_EC2_LOAD_DEFAULT_AMIS": "false",
    }


@contextlib.contextmanager
def simulated_account(account: Account) -> Iterator[None]:
    """Within this context, calls of ParallelCluster and boto3 read the simulated account."""
    with environment(offline_environment(account.region)):
        import boto3

        with _one_session(), _mocked(account), _no_network():
            seed(account)
            with _clients_replaced(fake_clients(account, boto3.client("ec2", account.region))):
                yield


@contextlib.contextmanager
def _mocked(account: Account) -> Iterator[None]:
    """Import and start moto. Its import reads the regions from boto3, so the session must exist."""
    from moto import mock_aws

    with mock_aws(), patched_moto(account), with_catalogue(account.region):
        yield


@contextlib.contextmanager
def _clients_replaced(clients: dict[str, Any]) -> Iterator[None]:
    import pcluster.validators.iam_validators
    from pcluster.aws.aws_api import AWSApi

    AWSApi.reset()
    vars(AWSApi.instance()).update(clients)
    try:
        with patch.object(pcluster.validators.iam_validators, "IamClient", lambda: clients["_iam"]):
            yield
    finally:
        AWSApi.reset()


@contextlib.contextmanager
def _one_session() -> Iterator[None]:
    """Use one boto3 session and one loader for everything.

    boto3's default session keeps the caller's credentials. ParallelCluster creates a new session
    for every call, to log it, which takes longer than the call. The loader caches the descriptions
    of the services, which are megabytes of JSON.
    """
    import boto3
    import botocore.session
    import pcluster.aws.common

    loader = _loader()
    with patch.object(botocore.session, "create_loader", lambda *_: loader):
        session = _session()
        with (
            patch.object(boto3, "DEFAULT_SESSION", session),
            patch.object(boto3.session, "Session", lambda: session),
            patch.object(pcluster.aws.common, "_log_boto3_calls", lambda **_: None),
        ):
            yield


@functools.cache
def _loader() -> Any:
    import botocore.loaders

    return botocore.loaders.create_loader()


@functools.cache
def _session() -> Any:
    import boto3

    return boto3.session.Session()


@contextlib.contextmanager
def _no_network() -> Iterator[None]:
    """Replace the requests that bypass boto3: ParallelCluster's list of regions, and its URLs."""
    import pcluster
    import pcluster.utils
    import pcluster.validators.s3_validators

    regions = pcluster.utils.retrieve_supported_regions

    listed = pathlib.Path(pcluster.__file__).parent / "resources" / "supported-regions"
    names = listed.read_text(encoding="utf-8").split()

    def urlopen(_url: Any, *_args: Any, **_kwargs: Any) -> io.BytesIO:
        return io.BytesIO()

    validator = pcluster.validators.s3_validators.UrlValidator
    # It caches results by URL for ten seconds; they may be those of another account.
    inspect.getclosurevars(validator._validate_async).nonlocals["_cache"].clear()
    with (
        patch.object(regions, "cache", names, create=True),
        patch.object(pcluster.validators.s3_validators, "urlopen", urlopen),
    ):
        yield

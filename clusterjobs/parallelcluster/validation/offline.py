"""An account acted out in this process: no request leaves the machine.

This floor knows which environment ParallelCluster, boto3 and moto want; it must not know what is
asked of them.
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

from clusterjobs.parallelcluster.validation.account import Account
from clusterjobs.parallelcluster.validation.fake_clients import answering_clients
from clusterjobs.parallelcluster.validation.moto_gaps import filled_gaps
from clusterjobs.parallelcluster.validation.moto_seed import seed
from clusterjobs.parallelcluster.validation.optional_deps import environment


def offline_environment(region: str) -> dict[str, str | None]:
    """Credentials that open nothing, and no way to real ones."""
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
def acted_out(account: Account) -> Iterator[None]:
    """ParallelCluster's and boto3's calls are answered from the account."""
    with environment(offline_environment(account.region)):
        import boto3

        with _one_session(), _mocked(account), _no_network():
            seed(account)
            with _answering(answering_clients(account, boto3.client("ec2", account.region))):
                yield


@contextlib.contextmanager
def _mocked(account: Account) -> Iterator[None]:
    """moto asks boto3 for the regions while it is imported, so this comes within the session."""
    from moto import mock_aws

    with mock_aws(), filled_gaps(account):
        yield


@contextlib.contextmanager
def _answering(clients: dict[str, Any]) -> Iterator[None]:
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
    """One session for all: boto3's own keeps the caller's credentials, and a new one for every
    call, as ParallelCluster makes them to log it, costs more than the call. One loader, because
    it keeps the descriptions of the services, which are megabytes of JSON."""
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
    """What ParallelCluster asks past boto3: its list of regions, and whether a URL is there."""
    import pcluster
    import pcluster.utils
    import pcluster.validators.s3_validators

    regions = pcluster.utils.retrieve_supported_regions

    listed = pathlib.Path(pcluster.__file__).parent / "resources" / "supported-regions"
    names = listed.read_text(encoding="utf-8").split()

    def urlopen(_url: Any, *_args: Any, **_kwargs: Any) -> io.BytesIO:
        return io.BytesIO()

    validator = pcluster.validators.s3_validators.UrlValidator
    # It remembers for ten seconds what it was answered, by the URL: another account's answers.
    inspect.getclosurevars(validator._validate_async).nonlocals["_cache"].clear()
    with (
        patch.object(regions, "cache", names, create=True),
        patch.object(pcluster.validators.s3_validators, "urlopen", urlopen),
    ):
        yield

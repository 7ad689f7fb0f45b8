from __future__ import annotations

import shutil

import pytest
from single_changes import base_text, find_problems

from clusterjobs.validation.command import _check_shell
from clusterjobs.validation.finding import Finding, merge

OS = ("Image", "Os")
THEIRS = Finding("must be one of", OS, validator="ConfigSchemaValidator")
OURS = Finding("no alinux2 any more", OS, hint="Os: alinux2023")


def test_a_finding_that_parallelcluster_also_reports_has_its_text_and_our_hint() -> None:
    (merged,) = merge([OURS, THEIRS])
    assert (merged.text, merged.validator) == (THEIRS.text, THEIRS.validator)
    assert merged.hint == "Os: alinux2023"


def test_a_finding_of_one_side_alone_is_kept() -> None:
    elsewhere = Finding("x", ("Region",))
    note = Finding("by the way", OS, "info", "DeletionPolicyValidator")
    assert merge([OURS, elsewhere]) == [OURS, elsewhere]
    assert merge([OURS, note]) == [OURS, note]
    assert merge([THEIRS, THEIRS]) == [THEIRS]


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_a_syntax_error_in_the_job_script_is_a_problem() -> None:
    assert not _check_shell({"job.sh": "#!/bin/bash\ntrue\n"}, ["job.sh"])
    (problem,) = _check_shell({"job.sh": "if true; then\n"}, ["job.sh"])
    assert "bash reports an error" in problem.what


@pytest.mark.aws
@pytest.mark.filterwarnings("ignore")
def test_validation_does_not_reuse_results_of_an_earlier_account() -> None:
    """ParallelCluster caches for ten seconds whether a script exists."""
    pytest.importorskip("pcluster")
    pytest.importorskip("moto")
    missing = {"objects": {"s3://lab-data/bootstrap/head.sh": {"missing": True}}}
    told = [
        {problem.validator for problem in find_problems(base_text("wide"), facts)}
        for facts in ({}, missing, {})
    ]
    assert ["AsyncTimedUrlValidator" in names for names in told] == [False, True, False]

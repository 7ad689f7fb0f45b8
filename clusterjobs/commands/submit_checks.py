"""Refuses submissions of a sweep that would start points twice, or that Slurm would not take."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from clusterjobs.counted import counted
from clusterjobs.errors import InputError, Problem

from clusterjobs.commands.submit_lock import user_name
from clusterjobs.jobs.submissions import Submission, has_token
from clusterjobs.jobs.sweeps import digest_of
from clusterjobs.slurm.limits import Limits
from clusterjobs.slurm.queue import Queued

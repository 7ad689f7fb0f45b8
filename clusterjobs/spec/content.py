"""The content hash of a spec: it covers what the ranks compute, but not scheduling keys."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

# Keys that decide when, where and under which name a job runs, not what it computes.
_SCHEDULING = frozenset(
    (
        *("extends", "logs", "name", "needs", "preflight", "queue", "report", "restarts"),
        *("sbatch", "sweep", "time_limit"),
    )
)


def content_hash(values: Mapping[str, Any], configs: Mapping[str, str]) -> str:
    """16 hex digits of the merged spec with its references expanded, and of its config files.

    `configs`: name -> text of the program's own config files. A completed job with another content
    has to run again.
    """
    kept: Any = {key: value for key, value in values.items() if key not in _SCHEDULING}
    # Without config files, the hash is that of jobs which earlier versions have recorded.
    whole = [kept, dict(configs)] if configs else kept
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]

from __future__ import annotations

from lab_fixtures import own_lab, shared_lab

__all__ = ["own_lab", "shared_lab"]

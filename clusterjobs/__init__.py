"""Render, check and run multi-node training jobs on Slurm clusters.

The Python API is here (docs/python.md):

    run = clusterjobs.load("sweep.yaml", set={"nodes": 2})
    job = run.submit()
    job.wait(timeout=3600)
"""

from typing import TYPE_CHECKING, Any

from clusterjobs.version import __version__

if TYPE_CHECKING:
    from clusterjobs.api import InputError, Plan, Point, Problem, Run, load
    from clusterjobs.runs.job import Job, JobPoint

__all__ = [
    "InputError",
    "Job",
    "JobPoint",
    "Plan",
    "Point",
    "Problem",
    "Run",
    "__version__",
    "load",
]


def __getattr__(name: str) -> Any:
    """Import the API when it is used: the command line loads what a command needs (PEP 562)."""
    if name in __all__:
        from importlib import import_module

        home = "clusterjobs.runs.job" if name.startswith("Job") else "clusterjobs.api"
        return getattr(import_module(home), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

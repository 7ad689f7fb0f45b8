"""What the stand-ins of container engines share: they write down each call, and what an image is.

The image has a PATH and two variables of its own: NCCL_DEBUG, which the job sets too, and
OF_THE_IMAGE, which it does not.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import uuid

HERE = pathlib.Path(__file__).parent


def image_environment() -> dict[str, str]:
    path = f"{pathlib.Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin"
    extra = os.environ.get("IMAGE_PATH")
    found = {"PATH": f"{extra}:{path}" if extra else path}
    if libraries := os.environ.get("IMAGE_LD_LIBRARY_PATH"):
        found["LD_LIBRARY_PATH"] = libraries
    return {**found, "NCCL_DEBUG": "OF_THE_IMAGE", "OF_THE_IMAGE": "1"}


def record(engine: str) -> list[str]:
    """Write this call down, and hand back its arguments."""
    folder = pathlib.Path(os.environ["CALLS"])
    folder.mkdir(parents=True, exist_ok=True)
    call = {"argv": sys.argv[1:], "host": os.uname().nodename, "cwd": str(pathlib.Path.cwd())}
    (folder / f"{engine}-{uuid.uuid4().hex}.json").write_text(json.dumps(call))
    return sys.argv[1:]

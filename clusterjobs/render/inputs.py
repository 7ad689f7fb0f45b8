"""What a render was made from."""

from __future__ import annotations

import functools
import hashlib
from typing import NamedTuple

from clusterjobs.render.site.templates import NO_SITE, SiteTemplates


class Inputs(NamedTuple):
    """The texts that a render was made from, by kind: (file name, text). No name has a folder,
    except those of the site's templates. `content`: the hash of what the ranks compute."""

    spec: tuple[str, str]
    cluster: tuple[str, str]
    sites: tuple[tuple[str, str], ...] = ()
    settings: tuple[str, ...] = ()
    defaults: tuple[tuple[str, str], ...] = ()
    bases: tuple[tuple[str, str], ...] = ()
    templates: SiteTemplates = NO_SITE
    content: str = ""


@functools.lru_cache(maxsize=8)  # the same spec for every point of a sweep
def digest(text: str) -> str:
    """SHA-256 of a text's UTF-8 bytes."""
    return hashlib.sha256(text.encode()).hexdigest()

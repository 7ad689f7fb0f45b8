"""Single keys of a config.json, checked: counts, flags, names. It must not know architectures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from clusterjobs.foresight.records import ModelShape

MOST = 10_000_000  # of any size: beyond it, a file is damaged or hostile


class Mistake(NamedTuple):
    """What is wrong with a key of the file, and what to do."""

    key: str
    what: str
    hint: str


class ConfigKeys:
    """The keys of one file. A wrong value is a mistake, and reads as 1, so that all are found."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self.mistakes: list[Mistake] = []

    def mistake(self, key: str, what: str, hint: str) -> None:
        if all(one.key != key for one in self.mistakes):
            self.mistakes.append(Mistake(key, what, hint))

    def count(self, key: str, default: int | None = None) -> int:
        """An integer, 1 or more; the default if the key is missing or null."""
        value = self._config.get(key)
        if value is None and default is not None:
            return default
        if value is None:
            kind = self._config.get("model_type")
            self.mistake(key, f"{key} is missing, which {kind} has", f'add "{key}"')
            return 1
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST:
            shown = repr(value) if isinstance(value, (bool, int, float, str)) else "a list or map"
            self.mistake(key, f"{shown[:40]} is not a count", f"an integer, 1 to {MOST:,}")
            return 1
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self._config.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.mistake(key, f"{str(value)[:40]!r} is not true or false", "true or false")
            return default
        return value

    def text(self, key: str) -> str:
        value = self._config.get(key)
        return value if isinstance(value, str) else ""

    def names(self, key: str) -> tuple[str, ...]:
        """The texts of a list."""
        value = self._config.get(key)
        return (
            tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()
        )

    def kv_heads(self, key: str, heads: int) -> int:
        """The number of kv heads, which divides the heads."""
        found = self.count(key, heads)
        if self.mistakes:
            return found
        if found > heads:
            self.mistake(key, f"{found} kv heads, and only {heads} heads", f"{heads} or less")
        elif heads % found:
            what = f"{found} kv heads do not divide {heads} heads"
            self.mistake(key, what, f"a divisor of {heads}")
        return found

    def classic(
        self,
        layers: str,
        hidden: str,
        heads: str,
        ffn: str,
        positions: str,
        sequence: int | None = None,
    ) -> ModelShape:
        """The shape of a transformer like GPT-2, by the names that an architecture has for it."""
        width, number = self.count(hidden), self.count(heads)
        if width % number:
            what = f"{hidden} {width} is not a multiple of {heads} {number}"
            self.mistake(heads, what, f"a divisor of {width}")
        return ModelShape(
            layers=self.count(layers),
            hidden=width,
            heads=number,
            kv_heads=number,
            head_dim=max(1, width // number),
            ffn=self.count(ffn, 4 * width) if ffn else 4 * width,
            sequence=self.count(positions, sequence),
            vocab=self.count("vocab_size"),
        )

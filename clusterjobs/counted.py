"""A number with its noun, in the singular or plural. The plural only adds an s."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """`1 node`, `2 nodes`, `1,000 nodes`."""
    return f"{number} {noun}" if number == 1 else f"{number:,} {noun}s"

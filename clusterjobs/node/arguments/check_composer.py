"""MosaicML's composer: the options of its launcher."""

from __future__ import annotations

from argument_request import Request, imported


def check(request: Request) -> None:
    """Report what the launcher refuses."""
    composer = imported("composer", request.title)
    request.version = f"composer {composer.__version__}"
    launcher = imported("composer.cli.launcher", request.title)
    words = [*request.launcher_words, *request.words]
    with request.refusals():
        request.parse(launcher._get_parser().parse_args, words)

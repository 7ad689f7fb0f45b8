"""A headless Chromium for tests, driven by its DevTools protocol over a pipe.

It needs nothing but Chromium: no driver, no port, no package of Python.
Protocol: https://chromedevtools.github.io/devtools-protocol/
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from clusterjobs.lab import slurm as packages

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_LIMIT = 120  # seconds that anything may take on a busy machine


class Program(NamedTuple):
    """`libraries`: folders that the system's loader does not search."""

    path: str
    libraries: Sequence[pathlib.Path] = ()


def find_chromium() -> Program:
    """Installed, or unpacked from Debian's packages into the user's cache. Raises InputError."""
    if found := next((path for name in NAMES if (path := shutil.which(name))), None):
        return Program(found)
    wanted = ["chromium", "chromium-common"]
    root = packages.unpacked_packages(packages.cache_dir(), "chromium", wanted)
    path = root / "usr/lib/chromium/chromium"
    return Program(str(path), packages.library_dirs_of(root / "usr/bin/chromium"))


class Browser:
    """One page. `events`: what the browser has said meanwhile, in its own words."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._rest = b""
        self._last = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []

    def attach(self) -> None:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        found = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = found["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command, and its answer. Raises AssertionError if the browser refuses it."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._last:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + _LIMIT
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, end - time.monotonic()))
            assert ready, "Chromium does not answer"
            read = os.read(self._answers, 1 << 20)
            assert read, "Chromium has ended"
            self._rest += read
        message, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        if "method" in answer:
            self.events.append(answer)
        return answer

    def open(self, path: pathlib.Path, width: int = 1280, height: int = 900) -> None:
        """Open a file, and wait until it is loaded and its plots are drawn."""
        self.resize(width, height)
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri())
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")
        self.settle()

    def resize(self, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def run(self, expression: str) -> Any:
        """The value of JavaScript in the page; it may be a promise."""
        done = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in done, f"{expression}: {done['exceptionDetails']}"
        return done["result"].get("value")

    def wait_for(self, expression: str) -> None:
        end = time.monotonic() + _LIMIT
        while not self.run(expression):
            assert time.monotonic() < end, f"never true: {expression}"

    def settle(self) -> None:
        """Two frames later, all that a change causes has been drawn."""
        frame = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        self.run(f"{frame}.then(() => 1)")

    def media(self, scheme: str = "light", kind: str = "") -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=kind, features=features)
        self.settle()

    def press(self, *keys: str) -> None:
        for key in keys:
            text = key if len(key) == 1 else ""
            for kind in ("keyDown", "keyUp"):
                held = {"text": text} if text and kind == "keyDown" else {}
                self.call(
                    "Input.dispatchKeyEvent", type=kind, key=key, code=_CODES.get(key, ""), **held
                )
            self.settle()

    def mouse(self, kind: str, x: float, y: float, clicks: int = 0) -> None:
        button = {"button": "left", "buttons": 1} if kind != "mouseMoved" or clicks else {}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, clickCount=clicks, **button)

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        self.mouse("mouseMoved", *start)
        self.mouse("mousePressed", *start, clicks=1)
        self.mouse("mouseMoved", *end, clicks=1)
        self.mouse("mouseReleased", *end, clicks=1)
        self.settle()

    def box(self, selector: str) -> dict[str, float]:
        """Where the first match is in the window, after scrolling to it."""
        quoted = json.dumps(selector)
        self.run(f"document.querySelector({quoted}).scrollIntoView({{block: 'center'}})")
        self.settle()
        found: dict[str, float] = self.run(
            f"document.querySelector({quoted}).getBoundingClientRect().toJSON()"
        )
        return found

    def screenshot(self, path: pathlib.Path, whole: bool = True) -> bytes:
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole, **self._clip(whole))
        image = base64.b64decode(data["data"])
        path.write_bytes(image)
        return image

    def _clip(self, whole: bool) -> dict[str, Any]:
        if not whole:
            return {}
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {
            "clip": {"x": 0, "y": 0, "scale": 1, "width": size["width"], "height": size["height"]}
        }

    def pdf(self) -> bytes:
        return base64.b64decode(self.call("Page.printToPDF", printBackground=False)["data"])

    def complaints(self) -> list[str]:
        """Errors and warnings of the console, exceptions, and dialogs that scripts have opened."""
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        dialogs = ("Page.javascriptDialogOpening", "Page.windowOpen")
        return [json.dumps(event) for event in self.events if event["method"] in (*kinds, *dialogs)]

    def requests(self) -> list[str]:
        """The addresses of all that the page has asked for."""
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event["method"] == "Network.requestWillBeSent"
        ]


_CODES = {"Tab": "Tab", "Enter": "Enter", "Escape": "Escape"}


@contextlib.contextmanager
def chromium(program: Program, home: pathlib.Path) -> Iterator[Browser]:
    """A running browser with one empty page; its profile lies in `home`."""
    to_browser, from_browser = _pipe(), _pipe()
    # The protocol is on descriptors 3 and 4.
    wrapped = f'exec "$@" 3<&{to_browser[0]} 4>&{from_browser[1]}'
    process = subprocess.Popen(
        ["bash", "-c", wrapped, "bash", program.path, *_options(home)],
        pass_fds=(to_browser[0], from_browser[1]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=_environment(program, home),
        start_new_session=True,
    )
    os.close(to_browser[0])
    os.close(from_browser[1])
    try:
        browser = Browser(to_browser[1], from_browser[0])
        browser.attach()
        yield browser
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(to_browser[1])
        os.close(from_browser[0])


def _environment(program: Program, home: pathlib.Path) -> dict[str, str]:
    libraries = os.pathsep.join(map(str, program.libraries))
    return {
        **os.environ,
        "HOME": str(home),
        **({"LD_LIBRARY_PATH": libraries} if libraries else {}),
    }


def _pipe() -> tuple[int, int]:
    """A pipe whose descriptors are not 3 and 4."""
    ends = os.pipe()
    read, write = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return read, write


def _options(home: pathlib.Path) -> Sequence[str]:
    # Without a sandbox, which root and many containers cannot have: the pages are our own.
    return (
        *("--headless=new", "--remote-debugging-pipe", f"--user-data-dir={home}", "--no-sandbox"),
        *("--no-first-run", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
        *("--disable-background-networking", "--disable-component-update", "--disable-extensions"),
        "about:blank",
    )

"""A role for tests: answers each request over HTTP with its node, and writes down how it ends.

    role_server.py FOLDER [deaf]

It exits with the code in the file FOLDER/die once that exists. `deaf`: it ignores SIGTERM.
"""

from __future__ import annotations

import http.server
import json
import os
import pathlib
import signal
import socket
import sys
import threading
import time

FOLDER = pathlib.Path(sys.argv[1])


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        names = [name for name in os.environ if name.startswith("CLUSTERJOBS_")]
        said = {"host": socket.gethostname(), **{name: os.environ[name] for name in names}}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(said).encode())


def end(*_: object) -> None:
    (FOLDER / "server.ended").write_text("SIGTERM")
    os._exit(0)


def die() -> None:
    while not (FOLDER / "die").exists():
        time.sleep(0.1)
    code = int((FOLDER / "die").read_text())
    (FOLDER / "die").unlink()
    print("the server dies", flush=True)
    os._exit(code)


signal.signal(signal.SIGTERM, signal.SIG_IGN if "deaf" in sys.argv else end)
threading.Thread(target=die, daemon=True).start()
print("the server starts", flush=True)
http.server.HTTPServer(("", int(os.environ["CLUSTERJOBS_SERVER_PORT"])), Answer).serve_forever()

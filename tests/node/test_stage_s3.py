"""stage.py from a bucket, by stand-ins for aws and s5cmd: what arrives is what was listed."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import re
import stat
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from node_programs import STAND_INS, content, write_tree

pytestmark = pytest.mark.slow  # each starts many programs


@dataclass
class Bucket:
    """A bucket of the stand-ins, and how it is staged."""

    folder: pathlib.Path
    environment: dict[str, str]
    stage: Callable[..., object]

    def __call__(self, *arguments: object, **environment: str):
        return self.stage(*arguments, **self.environment, **environment)

    def fault(self, **faults: object) -> None:
        pathlib.Path(self.environment["FAULTS"]).write_text(json.dumps(faults))

    def has(self, tool: str) -> bool:
        return tool in os.listdir(self.environment["PATH"].split(":")[0])

    def calls(self) -> list[list[str]]:
        lines = (self.folder.parent / ".calls").read_text().splitlines()
        return [json.loads(line) for line in lines]


@pytest.fixture(params=["aws", "s5cmd"])
def bucket(request, tmp_path, staged) -> Bucket:
    tools = tmp_path / "bin"
    tools.mkdir()
    tool = tools / request.param
    tool.write_text(f"#!{sys.executable}\n" + (STAND_INS / "bucket_tool.py").read_text())
    tool.chmod(0o755)
    folder = tmp_path / "buckets" / "corpus"
    folder.mkdir(parents=True)
    environment = {
        "PATH": f"{tools}:/usr/bin:/bin",
        "BUCKETS": str(folder.parent),
        "FAULTS": str(tmp_path / "faults"),
    }
    return Bucket(folder, environment, staged)


def contents(folder: pathlib.Path) -> dict[bytes, object]:
    """Names and bytes; a bucket has no permissions and times."""
    return {
        name: found[1] if isinstance(found, tuple) else stat.S_IFMT(found)
        for name, found in content(folder).items()
    }


def test_a_prefix_arrives_whole_and_is_found_again_without_asking(tmp_path, bucket) -> None:
    write_tree(bucket.folder / "books", 40, 40 << 20)
    (bucket.folder / "books" / "odd [name]*?").write_text("odd")
    (bucket.folder / "books2").mkdir()
    (bucket.folder / "books2" / "not wanted").touch()
    done = bucket("s3://corpus/books", tmp_path / "to")
    assert done.returncode == 0, done.stdout
    assert contents(tmp_path / "to") == contents(bucket.folder / "books")
    calls = len(bucket.calls())
    assert "up to date, 42 files" in bucket("s3://corpus/books", tmp_path / "to").stdout
    assert len(bucket.calls()) == calls


def test_one_object_is_a_data_set(tmp_path, bucket) -> None:
    (bucket.folder / "vocab.json").write_text("{}")
    done = bucket("s3://corpus/vocab.json", tmp_path / "vocab")
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "vocab").read_text() == "{}"


def test_what_does_not_arrive_or_not_as_it_was_is_copied_again(tmp_path, bucket) -> None:
    write_tree(bucket.folder / "books", 10, 1000)
    bucket.fault(corrupt={"books/large": 1}, lose={"books/part 1/0001": 1})
    done = bucket("s3://corpus/books", tmp_path / "to")
    assert done.returncode == 0, done.stdout
    assert "2 objects again" in done.stdout
    assert contents(tmp_path / "to") == contents(bucket.folder / "books")


@pytest.mark.slow
def test_an_object_that_never_arrives_as_it_was_is_named_and_nothing_is_there(
    tmp_path, bucket
) -> None:
    write_tree(bucket.folder / "books", 10, 1000)
    bucket.fault(corrupt={"books/large": 99})
    done = bucket("s3://corpus/books", tmp_path / "to")
    assert done.returncode == 1
    assert "s3://corpus/books/large: differs from its ETag" in done.stdout
    assert not (tmp_path / "to").exists()
    bucket.fault()
    assert bucket("s3://corpus/books", tmp_path / "to").returncode == 0
    assert contents(tmp_path / "to") == contents(bucket.folder / "books")


@pytest.mark.slow
def test_a_tool_that_fails_is_called_again(tmp_path, bucket) -> None:
    write_tree(bucket.folder / "books", 5, 1000)
    bucket.fault(fail=2)
    assert bucket("s3://corpus/books", tmp_path / "to").returncode == 0
    bucket.fault(fail=99)
    done = bucket("s3://corpus/other", tmp_path / "other")
    assert done.returncode == 1
    assert "s3://corpus/other: An error occurred (InternalError)" in done.stdout


def test_a_denied_bucket_is_not_asked_again_and_the_job_is_told(tmp_path, bucket) -> None:
    write_tree(bucket.folder / "books", 5, 1000)
    bucket.environment["STAGE_DIR"] = str(tmp_path)
    bucket.fault(deny=99)
    for words in ([], ["--check"]):
        done = bucket(*words, "s3://corpus/books", tmp_path / "to")
        assert done.returncode == 1
        assert "stage failed: s3://corpus/books: An error occurred (AccessDenied)" in done.stdout
        (tmp_path / "source_failed").unlink()
    assert len(bucket.calls()) == 2


def test_objects_that_may_be_listed_and_not_read_are_not_asked_for_again(tmp_path, bucket) -> None:
    write_tree(bucket.folder / "books", 5, 1000)
    bucket.environment["STAGE_DIR"] = str(tmp_path)
    bucket.fault(forbid=99)
    done = bucket("s3://corpus/books", tmp_path / "to")
    assert done.returncode == 1
    assert "AccessDenied" in done.stdout
    assert "again" not in done.stdout
    assert (tmp_path / "source_failed").exists()


def test_a_check_only_asks_whether_there_are_objects(tmp_path, bucket) -> None:
    write_tree(bucket.folder / "books", 5, 1000)
    (bucket.folder / "vocab.json").write_text("{}")
    for source in ("s3://corpus/books", "s3://corpus/vocab.json", "s3://corpus"):
        done = bucket("--check", source, tmp_path / "to")
        assert (done.returncode, done.stdout) == (0, "")
    assert not (tmp_path / "to").exists()
    done = bucket("--check", "s3://corpus/nothing", tmp_path / "to")
    assert (done.returncode, "s3://corpus/nothing: no objects found" in done.stdout) == (1, True)


def test_a_check_asks_nothing_where_the_data_is(tmp_path, bucket) -> None:
    write_tree(bucket.folder / "books", 5, 1000)
    assert bucket("s3://corpus/books", tmp_path / "to").returncode == 0
    calls = len(bucket.calls())
    bucket.fault(deny=99)
    assert bucket("--check", "s3://corpus/books", tmp_path / "to").returncode == 0
    assert len(bucket.calls()) == calls


def test_a_check_refuses_a_target_of_another_source(tmp_path, bucket) -> None:
    for name in ("books", "words"):
        write_tree(bucket.folder / name, 5, 1000)
    assert bucket("s3://corpus/books", tmp_path / "to").returncode == 0
    done = bucket("--check", "s3://corpus/words", tmp_path / "to")
    assert done.returncode == 1
    assert "contains the data of another source, s3://corpus/books" in done.stdout


def test_with_kms_an_etag_is_no_checksum(tmp_path, bucket) -> None:
    if bucket.has("s5cmd"):
        pytest.skip("only aws can tell")
    write_tree(bucket.folder / "books", 5, 1000)
    bucket.fault(corrupt={"books/large": 99}, kms=9)
    done = bucket("s3://corpus/books", tmp_path / "to")
    assert done.returncode == 0, done.stdout
    assert "is encrypted: only sizes are compared" in done.stdout


@pytest.mark.parametrize("part", [8 << 20, 7_000_000, 7 << 20, 5_300_000, 9_999_999])
def test_what_came_in_parts_is_checked_too(tmp_path, bucket, part) -> None:
    write_tree(bucket.folder / "books", 5, 20 << 20)
    (bucket.folder / "books" / "other").write_bytes(os.urandom(21_000_000))
    keys = ("books/large", "books/other")
    (bucket.folder.parent / ".parts").write_text(json.dumps({key: [part] for key in keys}))
    if part == 9_999_999 and bucket.has("s5cmd"):  # only aws can ask for the size
        done = bucket("s3://corpus/books", tmp_path / "to", STAGE_DIR=str(tmp_path))
        assert done.returncode == 1
        assert "differs from its ETag for each round part size" in done.stdout
        assert "install aws on the nodes, which can ask S3 for the size, or upload" in done.stdout
        assert (tmp_path / "source_failed").exists()
        return
    bucket.fault(corrupt={"books/large": 1})
    done = bucket("s3://corpus/books", tmp_path / "to")
    assert done.returncode == 0, done.stdout
    assert "1 object again" in done.stdout
    assert contents(tmp_path / "to") == contents(bucket.folder / "books")
    assert "only sizes" not in done.stdout
    if part != 8 << 20:
        return
    bucket.fault(corrupt={"books/large": 99})
    done = bucket("s3://corpus/books", tmp_path / "again")
    assert done.returncode == 1
    assert "s3://corpus/books/large: differs from its ETag" in done.stdout
    assert not (tmp_path / "again").exists()


def test_an_object_that_is_longer_than_listed_is_named_and_nothing_is_there(
    tmp_path, bucket
) -> None:
    write_tree(bucket.folder / "books", 5, 1000)
    bucket.fault(shorter={"books/large": 10})
    done = bucket("s3://corpus/books", tmp_path / "to")
    assert done.returncode == 1
    wrong = "1000 of 990 bytes" if bucket.has("s5cmd") else "differs|did not arrive|of 990 bytes"
    assert re.search(f"s3://corpus/books/large: .*({wrong})", done.stdout), done.stdout
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize("new_keys", [0, 10**6])
def test_a_listing_without_end_is_an_error(
    tmp_path, bucket, modules, monkeypatch, new_keys
) -> None:
    """The same page again and again, or ever new keys."""
    import stage_bucket

    write_tree(bucket.folder / "books", 5, 1000)
    bucket.fault(endless=99, **{"new keys": new_keys})
    monkeypatch.setattr(stage_bucket, "MAX_OBJECTS", 50)
    monkeypatch.setattr(stage_bucket, "PAGE", 7)
    for name, value in bucket.environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(stage_bucket.StageError) as caught:
        stage_bucket.Bucket("s3://corpus/books").list()
    wanted = "more than 50 objects" if new_keys else "does not end: it repeats books/"
    assert f"s3://corpus/books: {wanted}" in str(caught.value).replace("the listing ", "")


def test_a_listing_of_empty_pages_without_end_is_an_error(tmp_path, modules, monkeypatch) -> None:
    import stage_tool

    lines = stage_tool.output_of(["bash", "-c", "echo a; echo b; sleep 60"])
    assert [next(lines), next(lines)] == [b"a", b"b"]
    monkeypatch.setattr(stage_tool, "QUIET_SECONDS", 1)  # from now: starting bash may take longer
    with pytest.raises(stage_tool.StageError, match="bash was killed: it printed nothing for"):
        next(lines)


def test_rereading_compares_every_byte_with_the_record(tmp_path, bucket) -> None:
    """A disk that rots changes no time; so the record gets the times after the change."""
    write_tree(bucket.folder / "books", 5, 1000)
    target = tmp_path / "to"
    bucket("s3://corpus/books", target)
    (target / "large").write_bytes(b"r" * 1000)
    status = (target / "large").stat()
    record = tmp_path / ".to.stage" / "record.json"
    data = json.loads(record.read_text())
    data["files"]["large"][4:6] = status.st_mtime_ns, status.st_ctime_ns
    record.write_text(json.dumps(data))
    assert "up to date" in bucket("s3://corpus/books", target).stdout
    assert "complete" in bucket("--reread", "s3://corpus/books", target).stdout
    assert contents(target) == contents(bucket.folder / "books")


def test_files_of_the_target_that_were_not_staged_are_not_overwritten(tmp_path, bucket) -> None:
    write_tree(bucket.folder / "books", 5, 1000)
    (tmp_path / "to").mkdir()
    for text in ("mine", "m" * 1000):
        (tmp_path / "to" / "large").write_text(text)
        done = bucket("s3://corpus/books", tmp_path / "to")
        assert done.returncode == 1
        assert f"{tmp_path}/to/large exists and was not staged by a job" in done.stdout
        assert (tmp_path / "to" / "large").read_text() == text
    done = bucket("--overwrite", "s3://corpus/books", tmp_path / "to")
    assert done.returncode == 0, done.stdout
    assert contents(tmp_path / "to") == contents(bucket.folder / "books")


def test_an_object_that_left_the_bucket_leaves_the_target(tmp_path, bucket) -> None:
    write_tree(bucket.folder / "books", 5, 1000)
    bucket("s3://corpus/books", tmp_path / "to")
    (bucket.folder / "books" / "large").unlink()
    done = bucket("--refresh", "s3://corpus/books/", tmp_path / "to")
    assert "removed, as no longer in the source: large (1 file)" in done.stdout
    assert contents(tmp_path / "to") == contents(bucket.folder / "books")


def test_an_etag_that_tells_nothing_is_said_once(tmp_path, bucket) -> None:
    write_tree(bucket.folder / "books", 5, 20 << 20)
    (bucket.folder / "books" / "other").write_bytes(os.urandom(20 << 20))
    keys = ("books/large", "books/other")
    sizes = [5_300_000, 1_000_000]  # none alone makes as many parts, nor does a usual one
    (bucket.folder.parent / ".parts").write_text(json.dumps(dict.fromkeys(keys, sizes)))
    done = bucket("s3://corpus/books", tmp_path / "to")
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("only sizes are compared") == 1


def test_a_file_that_was_corrupted_here_is_fetched_again_and_no_other(tmp_path, bucket) -> None:
    write_tree(bucket.folder / "books", 10, 1000)
    bucket("s3://corpus/books", tmp_path / "to")
    inode = (tmp_path / "to" / "part 1" / "0001").stat().st_ino
    (tmp_path / "to" / "large").write_bytes(b"!" * 1000)
    done = bucket("s3://corpus/books", tmp_path / "to")
    assert done.returncode == 0, done.stdout
    assert contents(tmp_path / "to") == contents(bucket.folder / "books")
    assert (tmp_path / "to" / "part 1" / "0001").stat().st_ino == inode


def test_a_bucket_that_has_changed_is_seen_where_it_is_asked(tmp_path, bucket) -> None:
    write_tree(bucket.folder / "books", 10, 1000)
    bucket("s3://corpus/books", tmp_path / "to")
    (bucket.folder / "books" / "large").write_bytes(b"new" * 400)
    assert "up to date" in bucket("s3://corpus/books", tmp_path / "to").stdout
    assert "complete" in bucket("--refresh", "s3://corpus/books", tmp_path / "to").stdout
    assert contents(tmp_path / "to") == contents(bucket.folder / "books")


def test_an_empty_prefix_a_missing_bucket_and_a_missing_tool_are_errors(
    tmp_path, bucket, staged
) -> None:
    for source, why in (
        ("s3://corpus/none", "s3://corpus/none: no objects found"),
        ("s3://nobody/x", "NoSuchBucket"),
    ):
        done = bucket(source, tmp_path / "to")
        assert done.returncode == 1
        assert why in done.stdout
    done = staged("s3://corpus/x", tmp_path / "to", PATH="/nonexistent")
    assert done.returncode == 1
    assert "neither s5cmd nor aws is installed on this node" in done.stdout


# ------------------------------------------------------------------ ETags and names


def test_the_etag_of_parts_is_recognized(tmp_path, modules) -> None:
    import hashlib
    import zlib

    import stage_etag

    block = stage_etag.BLOCK
    data = os.urandom(block + (8 << 20) + 5)
    (tmp_path / "x").write_bytes(data)
    crcs = [zlib.crc32(data[:block]), zlib.crc32(data[block:])]
    part = 15 << 20  # its borders and those of blocks are not the same
    parts = [hashlib.md5(data[at : at + part]).digest() for at in range(0, len(data), part)]
    etag = hashlib.md5(b"".join(parts)).hexdigest() + "-3"
    with (tmp_path / "x").open("rb") as file:

        def compared(said: str) -> int:
            found, sums = stage_etag.check_etag(
                file.fileno(), len(data), said, stage_etag.PART_SIZES
            )
            assert sums == crcs
            return found

        assert compared(etag) == stage_etag.GOOD
        assert compared(hashlib.md5(data).hexdigest()) == stage_etag.GOOD
        assert compared("0" * 32 + "-3") == stage_etag.BAD
        assert compared("0" * 32 + "-77") == stage_etag.UNKNOWN  # no usual size makes 77 of it
        assert compared("0" * 32) == stage_etag.BAD
        assert compared("what is this") == stage_etag.UNKNOWN
        short, long = len(data) - 1, len(data) + 1
        for size in (short, long):
            said = hashlib.md5(data).hexdigest()
            assert stage_etag.check_etag(file.fileno(), size, said, [])[0] == stage_etag.BAD


@pytest.mark.parametrize(
    ("size", "part"),
    [
        (16_000_000, 7_000_000),
        (100_000_000, 70_000_000),  # of two parts: many sizes are possible
        (100_000_000, 60 << 20),
        (143_210_987, 7_000_000),
        (1_000_000_000, 600_000_000),
        (5 << 30, 700 << 20),
        (12_345_678, 6_172_839),  # divided evenly
        (20_000_000, 5_300_000),
    ],
)
def test_each_whole_part_size_is_tried(modules, size, part) -> None:
    import stage_etag

    found = stage_etag.possible_part_sizes(size, stage_etag.part_count(size, part))
    assert part in found
    assert len(found) == len(set(found)) <= 256
    assert all(stage_etag.part_count(size, one) == str(-(-size // part)) for one in found)


@pytest.mark.parametrize("etag", ["d41d8cd98f00b204e9800998ecf8427e", "", "0" * 32])
def test_an_empty_object_has_sums_too(tmp_path, modules, etag) -> None:
    import stage_etag

    (tmp_path / "x").touch()
    with (tmp_path / "x").open("rb") as file:
        found = stage_etag.check_etag(file.fileno(), 0, etag, stage_etag.PART_SIZES)
    verdict = {"": stage_etag.UNKNOWN, "0" * 32: stage_etag.BAD}.get(etag, stage_etag.GOOD)
    assert found == (verdict, [0])


def test_patterns_share_out_every_name_to_one_tool(modules) -> None:
    import fnmatch
    import random

    import stage_download

    chance = random.Random(3)
    for count in (1, 2, 3, 50, 400):
        names = {
            "".join(chance.choices("ab/[]*?.é\n0", k=chance.randint(1, 9))): chance.randint(1, 99)
            for _ in range(count)
        }
        parts = stage_download.patterns_of(names, 4)
        assert len(parts) <= 4
        for name in names:
            hits = [part for part in parts if any(fnmatch.fnmatchcase(name, one) for one in part)]
            assert len(hits) == 1, (name, parts)
    even = stage_download.patterns_of({f"shard-{n:05}": 1 for n in range(1000)}, 4)
    assert len(even) == 4


@pytest.mark.parametrize("names", [["a", "a/b"], ["a//b"], ["a/../b"], ["./a"]])
def test_names_that_no_folder_can_hold_are_refused(modules, names) -> None:
    import stage_s3

    with pytest.raises(stage_s3.StageError, match="s3://corpus"):
        stage_s3._listing({name: [1, ""] for name in names}, "s3://corpus")


def test_an_object_that_is_written_after_it_was_read_is_read_again(tmp_path, modules) -> None:
    """A tool may write to where an object is compared."""
    import stage_log
    import stage_s3

    path = tmp_path / "a"
    path.write_bytes(b"good")
    os.utime(path, ns=(1, 1))
    tools = types.SimpleNamespace(aws=[], etag_is_checksum=lambda _: True)
    wanted = {"a": [4, hashlib.md5(b"good").hexdigest()]}
    verifier = stage_s3.ObjectVerifier(tools, str(tmp_path), wanted, stage_log.Progress("a", 4))

    def finished() -> list[str] | None:
        if "a" not in verifier.found:
            return []
        path.write_bytes(b"evil")
        os.utime(path, ns=(2, 2))
        return None

    verifier.run(["a"], finished)
    assert verifier.find_bad() == {"a": "differs from its ETag"}

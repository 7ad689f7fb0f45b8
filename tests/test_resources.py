"""Which programs for the nodes a job carries follows from their text."""

from __future__ import annotations

import pathlib

import pytest

from clusterjobs import resources


@pytest.fixture
def programs(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A folder of programs in place of those for the nodes."""
    monkeypatch.setattr(
        resources, "node_programs", lambda: {path.name: path for path in tmp_path.iterdir()}
    )
    resources._needed_by.cache_clear()
    yield tmp_path
    resources._needed_by.cache_clear()


def test_a_program_comes_with_all_that_it_imports_and_names(programs: pathlib.Path) -> None:
    texts = {
        "first.py": "import os\nimport second\nfrom third import x\nfrom nonesuch import y\n",
        "second.py": "def late():\n    from fourth import z\n",
        "third.py": 'PARTS = ("part.sh", "nonesuch.sh")\n',
        "fourth.py": "import first\n",  # a cycle
        "part.sh": "import other\n",
        "other.py": "import first\n",
        "unused.py": "import first\n",
    }
    for name, text in texts.items():
        (programs / name).write_text(text)
    (programs / "other.py").unlink()
    needed = ("first.py", "fourth.py", "part.sh", "second.py", "third.py")
    assert resources.with_imports(["first.py"]) == needed
    assert resources.with_imports(["fourth.py", "first.py"]) == needed
    assert resources.with_imports(["part.sh"]) == ("part.sh",)
    assert resources.with_imports([]) == ()


def test_an_unknown_program_is_an_error(programs: pathlib.Path) -> None:
    with pytest.raises(KeyError):
        resources.with_imports(["nonesuch.py"])


def test_a_job_that_copies_a_folder_carries_nothing_for_buckets_and_archives() -> None:
    folder = set(resources.with_imports(["stage.py"]))
    assert {"stage_copy.py", "stage_list.py"} <= folder
    bucket = set(resources.with_imports(["stage.py", "stage_s3.py"])) - folder
    archive = set(resources.with_imports(["stage.py", "stage_archive.py"])) - folder
    assert {"stage_bucket.py", "stage_etag.py"} <= bucket
    assert archive == {"stage_archive.py"}

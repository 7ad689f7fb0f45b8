from __future__ import annotations

import pytest
import yaml

from clusterjobs.clusters.facts import BucketLink
from clusterjobs.clusters.parallelcluster.render_config import Fitted, fit
from clusterjobs.clusters.parallelcluster.source import read_cluster
from clusterjobs.errors import InputError

BOOKS = BucketLink("/fsx/data/books", "s3://lab/books", "data[0] stages s3://lab/books")
HEAD = """\
Region: us-east-1   # ours
Scheduling: {SlurmQueues: []}
SharedStorage:
  - {Name: tools, MountDir: /tools, StorageType: Efs}
  # the fast one
  - Name: fsx
    MountDir: /fsx
    StorageType: FsxLustre
"""
BLOCK = """\
    FsxLustreSettings:
      DeploymentType: PERSISTENT_2   # lasts
      StorageCapacity: 2400
      # nothing after this
Tags: []
"""
LISTED = """\
    FsxLustreSettings:
      DeploymentType: PERSISTENT_2
      DataRepositoryAssociations:
        # checkpoints
        - Name: books
          FileSystemPath: /checkpoints
          DataRepositoryPath: s3://lab/checkpoints   # theirs

        # the end
# and the tags
Tags: []
"""


def fitted(config: str, *wanted: BucketLink) -> Fitted:
    _, document = read_cluster(config, "ours.yaml", {})
    return fit(document, {}, (), wanted)


def body(result: Fitted) -> str:
    return result.text.split("\n\n", 1)[1]


def test_association_becomes_a_new_key_with_its_reason() -> None:
    result = fitted(HEAD + BLOCK, BOOKS)
    assert body(result) == HEAD + BLOCK.replace(
        "      StorageCapacity: 2400\n",
        """\
      StorageCapacity: 2400
      # Added by clusterjobs: data[0] stages s3://lab/books
      DataRepositoryAssociations:
        - Name: books
          FileSystemPath: /data/books
          DataRepositoryPath: s3://lab/books
          BatchImportMetaDataOnCreate: true
          AutoImportPolicy: [NEW, CHANGED]
""",
    )
    assert [str(change) for change in result.changes] == [
        "SharedStorage[1].FsxLustreSettings.DataRepositoryAssociations: added books, /data/books "
        "with s3://lab/books (data[0] stages s3://lab/books)"
    ]
    assert not result.problems


def test_association_joins_those_that_are_there_under_a_free_name() -> None:
    result = fitted(HEAD + LISTED, BOOKS)
    assert body(result) == HEAD + LISTED.replace(
        "s3://lab/checkpoints   # theirs\n",
        """\
s3://lab/checkpoints   # theirs
        # Added by clusterjobs: data[0] stages s3://lab/books
        - Name: books-2
          FileSystemPath: /data/books
          DataRepositoryPath: s3://lab/books
          BatchImportMetaDataOnCreate: true
          AutoImportPolicy: [NEW, CHANGED]
""",
    )


@pytest.mark.parametrize(
    "settings",
    [
        "    FsxLustreSettings: {DeploymentType: SCRATCH_2}\n",
        "    FsxLustreSettings: {DeploymentType: SCRATCH_2, DataRepositoryAssociations: []}\n",
        "    FsxLustreSettings: {DeploymentType: SCRATCH_2,\n      StorageCapacity: 1200,\n    }\n",
        "    FsxLustreSettings:\n      DeploymentType: SCRATCH_2\n"
        "      DataRepositoryAssociations: []   # none yet\n",
        "    FsxLustreSettings:\n      DeploymentType: SCRATCH_2\n"
        "      DataRepositoryAssociations:\n      StorageCapacity: 1200\n",
        "    FsxLustreSettings:\n      DeploymentType: SCRATCH_2\n      DataRepositoryAssociations:"
        "\n      - {Name: a, FileSystemPath: /a, DataRepositoryPath: 's3://lab/a'}\n",
        "    FsxLustreSettings: {DeploymentType: SCRATCH_2, DataRepositoryAssociations: "
        "[{Name: a, FileSystemPath: /a, DataRepositoryPath: 's3://lab/a'}]}",
        "    FsxLustreSettings:\n        DeploymentType: SCRATCH_2",
    ],
)
def test_association_fits_whatever_form_the_settings_have(settings: str) -> None:
    result = fitted(HEAD + settings, BOOKS)
    before = yaml.safe_load(HEAD + settings)["SharedStorage"][1]["FsxLustreSettings"]
    after = yaml.safe_load(result.text)["SharedStorage"][1]["FsxLustreSettings"]
    added = after["DataRepositoryAssociations"].pop()
    assert added["DataRepositoryPath"] == "s3://lab/books"
    if not after["DataRepositoryAssociations"]:
        del after["DataRepositoryAssociations"]
        before.pop("DataRepositoryAssociations", None)
    assert after == before
    assert "# Added by clusterjobs: data[0]" in result.text


def test_export_gets_an_export_policy_and_several_additions_go_together() -> None:
    export = BucketLink("/fsx/out", "s3://lab/out", "checkpoints.export", True)
    result = fitted(HEAD + BLOCK, BOOKS, export)
    (_, storage) = yaml.safe_load(result.text)["SharedStorage"]
    linked = storage["FsxLustreSettings"]["DataRepositoryAssociations"]
    assert [entry["Name"] for entry in linked] == ["books", "out"]
    assert linked[1]["AutoExportPolicy"] == ["NEW", "CHANGED"]
    assert "AutoImportPolicy" not in linked[1]
    assert result.data == yaml.safe_load(result.text)
    assert len(result.changes) == 2


def test_nothing_is_added_where_an_association_shows_it_already() -> None:
    config = HEAD + LISTED.replace("/checkpoints\n", "/\n").replace(
        "s3://lab/checkpoints", "s3://x"
    )
    wanted = BucketLink("/fsx/data/books", "s3://x/data/books", "r")
    result = fitted(config, wanted)
    assert body(result) == config
    assert not result.changes
    assert not result.problems


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ("{FileSystemId: fs-1}", "fs-1 is left as it is"),
        ("{DeploymentType: SCRATCH_1}", "SCRATCH_1 file system takes no associations"),
        ("{StorageCapacity: 3600}", "SCRATCH_1 file system takes no associations"),
        ("{DeploymentType: SCRATCH_2, ImportPath: s3://x}", "beside ImportPath"),
        (
            "{DeploymentType: SCRATCH_2, DataRepositoryAssociations: [{Name: all, "
            "FileSystemPath: /data, DataRepositoryPath: s3://other}]}",
            "overlaps the association all",
        ),
        (
            "{DeploymentType: SCRATCH_2, DataRepositoryAssociations: ["
            + ", ".join(
                f"{{Name: a{n}, FileSystemPath: /a{n}, DataRepositoryPath: s3://a{n}}}"
                for n in range(8)
            )
            + "]}",
            "has 8 associations",
        ),
    ],
)
def test_what_cannot_be_added_is_reported_and_nothing_changed(settings: str, what: str) -> None:
    config = HEAD + f"    FsxLustreSettings: {settings}\n"
    result = fitted(config, BOOKS)
    assert body(result) == config
    (problem,) = result.problems
    assert what in problem.what
    assert problem.hint


def test_existing_file_system_gets_the_command_to_be_run() -> None:
    result = fitted(HEAD + "    FsxLustreSettings: {FileSystemId: fs-1}\n", BOOKS)
    assert result.problems[0].warning
    assert result.problems[0].hint == (
        "aws fsx create-data-repository-association --file-system-id fs-1 "
        "--file-system-path /data/books --data-repository-path s3://lab/books"
    )


def test_folder_on_no_lustre_has_to_be_copied() -> None:
    wanted = BucketLink("/tools/books", "s3://lab/books", "r")
    (problem,) = fitted(HEAD + BLOCK, wanted).problems
    assert "no Lustre" in problem.what


def test_settings_behind_an_alias_are_refused_and_not_broken() -> None:
    config = (
        "Common: &fsx {DeploymentType: SCRATCH_2}\n"
        + HEAD
        + "    FsxLustreSettings: *fsx\nOther: *fsx\n"
    )
    with pytest.raises(InputError, match="cannot be added here"):
        fitted(config, BOOKS)

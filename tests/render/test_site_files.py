"""Files of bash that a job reads before `workdir`, and calls of `module`, run in bash."""

from __future__ import annotations

import pathlib

from script_runs import run_script, script

# Written for a shell without `set -eu`: ends with the exit code of a failed test.
SITE_FILE = """\
export PROJECT=$HOME_OF_PROJECT
set -x
echo "unset: $NO_SUCH_VARIABLE"; false
set +eu
[ -f /nowhere ]
"""


def test_a_site_file_is_read_before_workdir(tmp_path: pathlib.Path) -> None:
    (tmp_path / "my site.sh").write_text(SITE_FILE)
    (tmp_path / "code").mkdir()
    text = script(
        workdir="${PROJECT}/code",
        command=["bash", "-c", 'echo "rank of $PROJECT in ${PWD##*/}"'],
        setup=['echo "options: $-"'],
        software={"source": ["my site.sh"]},
    )
    run = run_script(tmp_path, text, environment={"HOME_OF_PROJECT": str(tmp_path)})
    assert run.reasons == ["completed"], run.log
    assert f"rank of {tmp_path} in code" in run.log
    assert "my site.sh ended with exit code 1" in run.log
    (options,) = (line for line in run.log.splitlines() if line.startswith("options: "))
    assert "x" not in options
    assert "e" in options


HOSTILE = """\
echo "arguments of the file: <$*>"
set -- others; cd /; IFS=:
set -Cf
trap 'echo the trap of the file' EXIT
"""


def test_a_site_file_changes_neither_arguments_nor_folder_nor_the_end(
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "site.sh").write_text(HOSTILE)
    text = script(
        command=["bash", "-c", 'echo "rank in $PWD: <$1>"; exit 7', "rank"],
        software={"source": ["site.sh"]},
        setup=['echo "options: $-"'],
        job_arguments=True,
    )
    run = run_script(tmp_path, text, arguments=["a b"])
    assert "arguments of the file: <>" in run.log
    assert f"rank in {tmp_path}: <a b>" in run.log
    assert (run.code, run.reasons, run.recorded) == (7, ["failure"], [7]), run.log
    assert not set("Cf") & set(run.log.partition("options: ")[2].split()[0])
    refused = run_script(tmp_path, script(command=["true"], software={"source": ["site.sh"]}))
    assert refused.reasons[-1] == "completed", refused.log


def test_a_missing_site_file_ends_the_job_before_it_starts(tmp_path: pathlib.Path) -> None:
    run = run_script(tmp_path, script(software={"source": ["/nowhere/site.sh"]}))
    assert run.reasons == ["not_started"]
    said = "no file /nowhere/site.sh (source: in the cluster's description, or of software)"
    assert f"clusterjobs: {said}" in run.log


def test_modules_are_called_in_the_order_of_the_spec(tmp_path: pathlib.Path) -> None:
    modules = ["purge", "use /opt/a", "gcc/13", "hdf5", "swap gcc/13 gcc/14", "unload hdf5", "b"]
    text = script(command=["true"], software={"modules": modules})
    run = run_script(tmp_path, text, stand_ins={"module": 'echo "module $*"'})
    assert run.reasons == ["completed"], run.log
    assert [line for line in run.log.splitlines() if line.startswith("module ")] == [
        "module purge",
        "module use /opt/a",
        "module load gcc/13 hdf5",
        "module swap gcc/13 gcc/14",
        "module unload hdf5",
        "module load b",
    ]


def test_names_of_files_and_folders_are_never_run(tmp_path: pathlib.Path) -> None:
    name = "a $(touch executed) `touch executed` 'q' \"d\" ; * é"
    (tmp_path / name).mkdir()
    (tmp_path / name / "site.sh").write_text("echo the site file")
    copy = tmp_path / name / "all.log"
    text = script(
        command=["true"],
        software={"source": [str(tmp_path / name / "site.sh").replace("$", "$$")]},
        logs={"copy": str(copy).replace("$", "$$")},
    )
    run = run_script(tmp_path, text)
    assert run.reasons == ["completed"], run.log
    assert "the site file" in copy.read_text()
    assert not list(tmp_path.rglob("executed"))

"""Which version of Slurm a lab runs, and what happens where it cannot be downloaded."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from clusterjobs.errors import InputError, one_problem
from clusterjobs.lab import apt
from clusterjobs.lab import slurm as choice
from clusterjobs.lab import slurm as suites
from clusterjobs.lab.command import up
from clusterjobs.lab.slurm import VERSIONS, Slurm, by_distance, choose_slurm

Choose = Callable[[str | None, str | None], tuple[str, list[str]]]


class Machine:
    """Debian 12 with its own Slurm, `cached` versions, and others that can be had if `online`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
        self.cache, self.online = cache, True
        self.installed: Slurm | None = None
        self.downloads: list[str] = []
        monkeypatch.setattr(choice, "installed_slurm", lambda: self.installed)
        monkeypatch.setattr(choice, "suite_version", lambda: "22.05")
        monkeypatch.setattr(choice, "find_slurm", lambda *_: self.installed or slurm("22.05.8"))
        monkeypatch.setattr(choice, "unpacked_slurm", lambda root: slurm(root.name.split("-")[1]))
        monkeypatch.setattr(choice, "fetch_suite", self.fetch)

    def has_cached(self, version: str) -> None:
        suite = suites.SUITES[version]
        name = f"slurm-{version}.5-1-{suite}-{suites.platform.machine()}"
        (self.cache / name).mkdir(parents=True)

    def fetch(self, cache: Path, version: str, _: object) -> Path:
        self.downloads.append(version)
        if not self.online:
            raise one_problem(f"Slurm {version} cannot be downloaded: no network")
        return cache / f"slurm-{version}.5-1-suite-arch"

    def choose(self, version: str | None, cluster: str | None) -> tuple[str, list[str]]:
        said: list[str] = []
        return choose_slurm(self.cache, version, cluster, said.append).name, said


def slurm(version: str) -> Slurm:
    major, minor, micro = map(int, version.split("."))
    return Slurm((major, minor, micro), None, ())


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    return Machine(monkeypatch, tmp_path)


@pytest.mark.parametrize(
    ("cluster", "nearest"),
    [
        ("21.08.8", "22.05"),
        ("22.05.8", "22.05"),
        ("23.02.7", "22.05"),
        ("23.11.10", "24.11"),
        ("24.05.8", "24.11"),
        ("25.05.1", "24.11"),
        ("25.11.8", "26.05"),
        ("27.11.0", "26.05"),
    ],
)
def test_versions_are_as_near_as_their_years_and_months(cluster: str, nearest: str) -> None:
    assert by_distance(cluster, suites.SUITES)[0] == nearest


def test_of_two_equally_near_versions_the_newer_is_taken() -> None:
    assert by_distance("25.08", ["24.11", "26.05"]) == ["26.05", "24.11"]


def test_by_default_a_lab_runs_the_version_nearest_to_the_clusters_and_says_so(
    machine: Machine,
) -> None:
    version, said = machine.choose(None, "25.11.8")
    assert version == "26.05.5"
    assert said == ["Slurm 26.05.5, the nearest to the cluster's; the cluster has 25.11.8"]


def test_a_cached_version_needs_no_network(machine: Machine) -> None:
    machine.has_cached("26.05")
    assert machine.choose(None, "25.11.8")[0] == "26.05.5"
    assert machine.choose("26.05", "22.05.8")[0] == "26.05.5"
    assert machine.downloads == []


def test_without_a_network_a_plain_lab_runs_this_machines_own_with_a_notice(
    machine: Machine,
) -> None:
    machine.online = False
    version, said = machine.choose(None, "25.11.8")
    assert version == "22.05.8"
    assert said == [
        "Slurm 26.05 cannot be downloaded: no network; using a version that is on this machine",
        "Slurm 22.05.8, the nearest of those on this machine; the cluster has 25.11.8",
    ]


def test_a_download_that_failed_is_not_tried_again_for_a_version_that_is_less_near(
    machine: Machine,
) -> None:
    machine.online = False
    machine.has_cached("24.11")
    assert machine.choose(None, "25.11.8")[0] == "24.11.5"
    assert machine.downloads == ["26.05"]


def test_a_version_that_was_asked_for_is_not_replaced_by_another(machine: Machine) -> None:
    machine.online = False
    with pytest.raises(InputError, match="no network"):
        machine.choose("24.11", "25.11.8")


def test_an_unknown_version_of_the_cluster_is_no_reason_to_download(machine: Machine) -> None:
    version, said = machine.choose(None, None)
    assert (version, machine.downloads) == ("22.05.8", [])
    assert said == ["Slurm 22.05.8, this machine's own; the cluster has an unknown version"]


def test_an_installed_version_is_one_of_those_that_can_be_had(machine: Machine) -> None:
    machine.installed = slurm("25.11.2")
    assert machine.choose(None, "25.11.8")[0] == "25.11.2"
    assert machine.choose("own", "22.05.8")[0] == "25.11.2"
    assert machine.choose("22.05", "22.05.8")[0] == "22.05.5"  # its own suite has another
    assert machine.downloads == ["22.05"]


def test_the_command_has_the_versions_that_there_are() -> None:
    (option,) = (one for one in up.params if one.name == "version")
    assert list(option.type.choices) == list(VERSIONS)


# ------------------------------------------------------------------ packages


@pytest.mark.parametrize(
    ("release", "listed", "found"),
    [
        ("debian", "bookworm https://a.example/debian\n", "https://a.example/debian"),
        (
            "debian",
            "bookworm-security https://a.example/debian-security\nbookworm https://b.example/x/\n"
            "bookworm https://c.example/debian/\n",
            "https://c.example/debian/",
        ),
        ("debian", "bookworm https://copy.example/deb12\n", "https://copy.example/deb12"),
        ("debian", "bookworm-security https://a.example/debian-security\n", "no source"),
        ("ubuntu", "bookworm https://a.example/debian\n", "packages of Debian, and this is ubuntu"),
    ],
)
def test_the_mirror_is_the_one_that_apt_uses_for_debian(
    monkeypatch: pytest.MonkeyPatch, release: str, listed: str, found: str
) -> None:
    facts = {"ID": release, "VERSION_CODENAME": "bookworm"}
    monkeypatch.setattr(suites, "_release", lambda: facts)
    monkeypatch.setattr(suites, "output", lambda _: listed)
    if found.startswith("https"):
        assert suites._mirror() == found
    else:
        with pytest.raises(OSError, match=found):
            suites._mirror()


def test_a_suite_that_has_a_newer_version_by_now_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Debian forky has 26.11.1-1 now"):
        suites._target(tmp_path, "26.05", "26.11.1-1")


@pytest.mark.skipif(not shutil.which("apt-get"), reason="needs apt")
def test_package_lists_without_debians_signature_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lists = tmp_path / "mirror/dists/forky"
    lists.mkdir(parents=True)
    (lists / "Release").write_text("Origin: Debian\nSuite: testing\nCodename: forky\n")
    monkeypatch.setattr(suites, "_mirror", lambda: f"file://{tmp_path}/mirror")
    cache = tmp_path / "cache"
    with pytest.raises(InputError) as error:
        suites.fetch_suite(cache, "26.05", lambda _: None)
    (problem,) = error.value.problems
    assert problem.what.startswith("Slurm 26.05 cannot be downloaded: ")
    assert "is not signed" in problem.what
    assert list(cache.iterdir()) == []


def test_a_download_prints_how_far_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(apt, "_PROGRESS_SECONDS", 0.05)
    (tmp_path / "downloads").mkdir()
    waits = "head -c 2500000 /dev/zero > part; until [[ -e ../go ]]; do sleep 0.05; done"
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        if line == "  2.5 MB of 17.0 MB":
            (tmp_path / "go").touch()

    apt._follow(["bash", "-c", waits], tmp_path / "downloads", " of 17.0 MB", say)
    assert said[-1] == "  2.5 MB of 17.0 MB"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("W: slow\nE: Failed to fetch x  No route\nE: Some index files failed\n", "x  No route"),
        ("dpkg: one\ndpkg: two\n", "dpkg: two"),
        ("", "returned non-zero exit status 100."),
    ],
)
def test_the_reason_of_a_failure_is_apts_first_error(said: str, reason: str) -> None:
    error = subprocess.CalledProcessError(100, ["apt-get"], stderr=said)
    assert apt.reason(error).endswith(reason)

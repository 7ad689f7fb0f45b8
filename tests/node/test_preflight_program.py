"""Each check of the preflight sees its fault and names the node.

Hardware is acted: the stand-ins of nvidia-smi and fi_info print what the real ones are documented
to print (NVIDIA's nvidia-smi manual, --query-gpu with --format=csv,noheader; the EC2 user guide,
"Confirm that the EFA software components were successfully installed").
"""

from __future__ import annotations

import os
import pathlib
import re
import resource
import signal
import socket

import pytest
from preflight_nodes import FAILED, NVIDIA_SMI, clock

from clusterjobs.lab.lab import until

VERBS = pathlib.Path("/sys/class/infiniband_verbs")
NOT_LOADED = "" if VERBS.exists() else "; ib_uverbs is not loaded: sudo modprobe ib_uverbs"
# A p4d.24xlarge of today: three entries for each of four cards, the fabric named alike.
FI_INFO = """\
#!/bin/bash
[[ "$*" == "-p efa" ]] || exit 1
for ((i = 0; i < ${CARDS:-4}; i++)); do
  for kind in efa-direct:rdm:RDM efa:rdm:RDM efa:dgrm:DGRAM; do
    IFS=: read -r fabric suffix type <<< "$kind"
    printf 'provider: efa\\n    fabric: %s\\n' "$fabric"
    printf '    domain: rdmap%ss27-%s\\n' "$((16 * i))" "$suffix"
    printf '    version: 201.0\\n    type: FI_EP_%s\\n    protocol: FI_PROTO_EFA\\n' "$type"
  done
done
"""


def row_of(said: str, check: str) -> str:
    """The table's lines of a check, blanks made one."""
    lines = [re.sub(r" +", " ", line.strip()) for line in said.splitlines()]
    return "\n".join(line for line in lines if f" {check} " in line and "failed" not in line)


def test_good_nodes_pass_and_stand_in_one_line(preflight) -> None:
    preflight.program("nvidia-smi", NVIDIA_SMI)
    preflight.program("fi_info", FI_INFO)
    code, said = preflight.run("gpus=8", "processes", "efa=4", "clock=5", nodes=3)
    assert code == 0, said
    *table, verdict = said.splitlines()
    assert table == [
        "      check      seen                     wanted                        nodes",
        "  ok  gpus       8 NVIDIA A100-SXM4-40GB  8, no uncorrected ECC errors  all 3",
        "  ok  processes  none                     none on the GPUs              all 3",
        "  ok  efa        4 domains                4 domains                     all 3",
        "  ok  clock      within 5 s               within 5 s                    all 3",
    ]
    assert re.fullmatch(r"clusterjobs: preflight passed on 3 nodes in \d+\.\d s", verdict)


@pytest.mark.parametrize(
    ("check", "fault", "seen"),
    [
        ("gpus=8", "export GPUS=7", "gpus: 7 NVIDIA A100-SXM4-40GB; wanted: 8, no uncorrected"),
        ("gpus=8", "export GPUS=0", "gpus: 0; wanted: 8"),
        ("gpus=8", "export BROKEN_GPU=3", "ECC errors: GPU 3 has 2; wanted"),
        ("processes", "export STRANGER=python3", "processes: 4711, python3; wanted: none"),
        ("efa=4", "export CARDS=3", "efa: 3 domains; wanted: 4 domains"),
        ("efa=4", "export CARDS=0", f"efa: 0 domains{NOT_LOADED}; wanted: 4 domains"),
        ("memlock", "ulimit -l 64", "memlock: 64 KiB; wanted: unlimited"),
        ("network", "export NCCL_SOCKET_IFNAME=nonesuch", "no such interface; wanted: one that"),
        ("names", "export MASTER_ADDR=nonesuch.invalid", "names: nonesuch.invalid: "),
        ("clock=5", clock("+ 3600"), "clock: 3600 s ahead; wanted:"),
        ("clock=5", clock("- 60"), "clock: 60 s behind; wanted:"),
    ],
)
def test_a_fault_of_one_node_is_seen_and_named(preflight, check, fault, seen) -> None:
    preflight.program("nvidia-smi", NVIDIA_SMI)
    preflight.program("fi_info", FI_INFO)
    if check == "memlock":
        soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
        if hard != resource.RLIM_INFINITY:
            pytest.skip("this machine gives nobody unlimited locked memory: no good node to be had")
        assert soft
    preflight.environment["MASTER_ADDR"] = "192.0.2.1"  # an address is its own name
    preflight.fault("node-2", fault)
    code, said = preflight.run(check, nodes=3)
    assert code == FAILED, said
    (line,) = [line for line in said.splitlines() if "preflight failed" in line]
    assert line.startswith("clusterjobs: preflight failed on node node-2: ")
    assert seen in line
    assert preflight.bad_nodes == "node-2"
    name = check.partition("=")[0]
    assert row_of(said, name).count("\n") == 1  # the good nodes in one line, node-2 in another
    assert re.search(rf"(?m)^  BAD  {name} .* node-2$", said)


def test_a_low_limit_on_locked_memory_is_seen(preflight) -> None:
    for node in ("node-1", "node-2"):
        preflight.fault(node, "ulimit -l 64")
    preflight.program("fi_info", FI_INFO)
    code, said = preflight.run("memlock")
    assert code == FAILED
    assert "memlock: 64 KiB; wanted: unlimited" in said


def test_hardware_that_is_missing_outside_of_a_lab_is_a_fault(preflight) -> None:
    code, said = preflight.run("gpus=8", "efa=4")
    assert code == FAILED
    assert "gpus: no nvidia-smi; wanted: 8" in said
    assert "efa: no fi_info; wanted: 4 domains" in said


def test_tokens_are_removed_also_where_the_preflight_is_killed(preflight) -> None:
    begun = preflight.folder / "begun"
    preflight.fault("node-1", f"echo $BASHPID > {begun}; exec sleep 300 2> /dev/null")
    folder = preflight.folder / "shared"
    folder.mkdir()
    started = preflight.start(f"folder={folder}")
    until(lambda: begun.exists() and begun.read_text(), 120, lambda: "not begun")
    assert len(list(folder.iterdir())) >= 1
    started.kill()
    until(lambda: not list(folder.iterdir()), 120, lambda: str(list(folder.iterdir())))
    os.kill(int(begun.read_text()), signal.SIGKILL)  # no Slurm here to end it
    started.communicate(timeout=120)


def test_a_node_on_which_srun_fails_is_named(preflight) -> None:
    preflight.fault("node-1", "exit 1")
    code, said = preflight.run("shm=0", nodes=3)
    assert code == FAILED
    assert "failed on node node-1: answers: srun ended without its answer" in said


def test_a_check_that_breaks_is_a_fault_and_not_the_end(preflight) -> None:
    preflight.program("nvidia-smi", "#!/bin/bash\necho 'No devices were found' >&2; exit 6\n")
    code, said = preflight.run("gpus=8", "shm=0")
    assert code == FAILED
    assert "gpus: nvidia-smi exits 6: No devices were found" in said
    assert re.search(r"ok +shm .* all 2$", said, re.MULTILINE)


def test_a_check_without_an_answer_is_no_good_one(preflight) -> None:
    code, said = preflight.run("shm=0", "nonesuch=1")
    assert code == FAILED
    assert "failed on nodes [node-1,node-2]: nonesuch: no answer; wanted: an answer" in said


def test_a_port_that_is_taken_is_the_masters_fault(preflight) -> None:
    with socket.socket() as taker:
        taker.bind(("", int(preflight.environment["MASTER_PORT"])))
        taker.listen()
        code, said = preflight.run("port")
    assert code == FAILED
    port = preflight.environment["MASTER_PORT"]
    assert f"failed on node node-1: port: {port}: Address already in use; wanted: a free" in said


def test_a_port_is_free_again_after_the_preflight(preflight) -> None:
    assert preflight.run("port")[0] == 0
    with socket.socket() as listener:  # without SO_REUSEADDR: nothing is in TIME_WAIT either
        listener.bind(("", int(preflight.environment["MASTER_PORT"])))


def test_folders_mounts_and_space(preflight, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    good = (f"folder={folder}", f"space=0:{folder}", "mount=/proc")
    code, said = preflight.run(*good)
    assert code == 0, said
    assert list(folder.iterdir()) == []  # nothing is left behind
    code, said = preflight.run(
        f"folder={folder}.none", f"mount={folder}", f"space=1000000:{folder}"
    )
    assert code == FAILED
    assert f"folder {folder}.none: not there; wanted: the batch host's, writable" in said
    assert f"mount {folder}: a folder of the node's own; wanted: a mount" in said
    assert re.search(rf"space {folder}: [\d.]+ GiB; wanted: 1000000 GiB free", said)


def test_a_link_that_another_user_has_planted_is_not_written_to(preflight, tmp_path) -> None:
    """In a folder where everyone may write: the batch host's file shows the names of the nodes'."""
    folder, own = tmp_path / "folder", tmp_path / "own"
    folder.mkdir()
    own.write_text("own\n")
    preflight.fault("node-2", f'ln -s {own} "{folder}/$6.node-2"')  # the sixth word is the token
    _, said = preflight.run(f"folder={folder}")
    assert own.read_text() == "own\n", said
    assert list(folder.iterdir()) == []


def test_what_follows_from_a_missing_mount_is_no_fault_of_its_own(preflight, tmp_path) -> None:
    """Of node-1 it is the batch host's, so that the others see nothing of what was made there."""
    answers = (
        'for node in $NODES; do\n  . "$FAULTS/$node"\n'
        "  printf 'preflight\\t%s\\tmount /fsx\\t%s\\tnfs\\ta mount\\n' $node $mount\n"
        "  printf 'preflight\\t%s\\tfolder /fsx/a\\tbad\\tnot there\\tthe same\\n' $node\n"
        "  printf 'preflight\\t%s\\tspace /tmp\\tbad\\t1 GiB\\t10 GiB free\\n' $node\n"
        "  printf 'preflight\\t%s\\t\\tend\\t\\t\\n' $node\ndone\n"
    )
    preflight.program("srun", f"#!/bin/bash\n{answers}")
    for lost, others in (("node-1", ""), ("node-2", "node-1")):
        for node in ("node-1", "node-2"):
            preflight.fault(node, f"mount={'bad' if node == lost else 'ok'}")
        _, said = preflight.run("mount=/fsx", "folder=/fsx/a", "space=10:/tmp")
        failed = [line.partition(" on ")[2] for line in said.splitlines() if "failed" in line]
        assert failed == [
            f"node {lost}: mount /fsx: nfs; wanted: a mount",
            *(
                f"node {node}: folder /fsx/a: not there; wanted: the same"
                for node in others.split()
            ),
            "nodes [node-1,node-2]: space /tmp: 1 GiB; wanted: 10 GiB free",
        ]
        assert row_of(said, "folder /fsx/a").endswith(" all 2")  # it is told all the same


def test_a_mount_of_another_kind_is_not_lustre(preflight) -> None:
    code, said = preflight.run("lustre=/proc")
    assert code == FAILED
    assert "lustre /proc: proc, no lustre; wanted: a mount of lustre" in said


def installed(folder: pathlib.Path, name: str, version: str) -> None:
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


@pytest.mark.parametrize(
    ("wanted", "is_good"),
    [
        ("clotho==2.6", True),
        ("clotho==2.6.1", True),
        ("clotho==2", True),
        ("clotho", True),
        ("clotho==2.60", False),
        ("clotho==2.6.10", False),
        ("clotho==3", False),
        ("clotho,lachesis", False),
    ],
)
def test_a_package_has_the_version_that_is_pinned(preflight, tmp_path, wanted, is_good) -> None:
    installed(tmp_path / "site", "clotho", "2.6.1+cu124")
    preflight.environment["PYTHONPATH"] = str(tmp_path / "site")
    code, said = preflight.run(f"packages={wanted}")
    assert code == (0 if is_good else FAILED), said
    assert "clotho 2.6.1+cu124" in said


def test_a_package_is_not_taken_for_another_whose_name_ends_alike(preflight, tmp_path) -> None:
    installed(tmp_path / "site", "sentence_clotho", "3.0")
    preflight.environment["PYTHONPATH"] = str(tmp_path / "site")
    code, said = preflight.run("packages=sentence_clotho,clotho")
    assert code == FAILED, said
    assert "packages: sentence_clotho 3.0, no clotho; wanted" in said


def test_a_warning_of_nvidia_smi_is_no_gpu(preflight) -> None:
    warning = "echo 'WARNING: infoROM is corrupted, or so' >&2\n"
    preflight.program("nvidia-smi", NVIDIA_SMI.replace("case $1", f"{warning}case $1"))
    code, said = preflight.run("gpus=8")
    assert code == 0, said


def test_pyxis_is_looked_for_in_the_help_of_srun(preflight) -> None:
    plain = (preflight.folder / "bin" / "srun").read_text()
    code, said = preflight.run("containers")
    assert (code, "containers: no pyxis" in said) == (FAILED, True)
    helping = '#!/bin/bash\n[[ $1 == --help ]] && echo "  --container-image=..." && exit\n'
    preflight.program("srun", plain.replace("#!/bin/bash\n", helping))
    code, said = preflight.run("containers")
    assert code == 0, said


def test_many_bad_nodes_are_not_given_up(preflight) -> None:
    """Where most are bad the fault is elsewhere, and other nodes would have it too."""
    preflight.environment["MASTER_ADDR"] = "192.0.2.1"
    for node in ("node-1", "node-3"):
        preflight.fault(node, "export MASTER_ADDR=nonesuch.invalid")
    assert preflight.run("names", nodes=3)[0] == FAILED
    assert preflight.bad_nodes == ""
    assert preflight.run("names", nodes=4)[0] == FAILED
    assert preflight.bad_nodes == "[node-1,node-3]"


def test_sixty_four_nodes_fit_on_a_screen(preflight) -> None:
    """The answers are acted, so that 64 nodes take no longer than two."""
    preflight.program(
        "srun",
        "#!/bin/bash\nfor node in $NODES; do n=${node#node-}\n"
        'seen="$((100 + n)) GiB" verdict=ok; ((n % 20)) || seen="1 GiB" verdict=bad\n'
        "printf 'preflight\\t%s\\tspace /fsx\\t%s\\t%s\\t10 GiB free\\n' $node $verdict \"$seen\"\n"
        "printf 'preflight\\t%s\\t\\tend\\t\\t\\n' $node; done\n",
    )
    code, said = preflight.run("space=10:/fsx", nodes=64)
    assert code == FAILED
    assert said.splitlines()[1:] == [
        "  BAD  space /fsx  1 GiB               10 GiB free  [node-20,node-40,node-60]",
        "  ok   space /fsx  101 GiB to 164 GiB  10 GiB free  "
        + f"[{','.join(f'node-{n}' for n in range(1, 65) if n % 20)}]",
        "clusterjobs: preflight failed on nodes [node-20,node-40,node-60]: space /fsx: 1 GiB; "
        "wanted: 10 GiB free",
    ]


def test_what_else_a_node_prints_is_passed_on(preflight) -> None:
    preflight.fault("node-2", "echo a module says hello")
    code, said = preflight.run("shm=0")
    assert code == 0
    assert "a module says hello" in said.splitlines()


def test_what_the_jobs_environment_has_for_bash_is_not_the_nodes(preflight, tmp_path) -> None:
    """As module systems leave it; a function or a file of start-up could hide every answer."""
    start_up = tmp_path / "start-up"
    start_up.write_text("readonly token=nobodys\n")
    preflight.environment |= {"BASH_ENV": str(start_up), "BASH_FUNC_printf%%": "() { :; }"}
    code, said = preflight.run("shm=0", f"folder={tmp_path}")
    assert code == 0, said


def test_a_preflight_that_is_told_to_end_ends(preflight) -> None:
    begun = preflight.folder / "begun"
    preflight.fault("node-1", f"echo $BASHPID > {begun}; exec sleep 300 2> /dev/null")
    folder = preflight.folder / "shared"
    folder.mkdir()
    started = preflight.start("shm=0", f"folder={folder}")
    until(lambda: begun.exists() and begun.read_text(), 120, lambda: "not begun")
    started.send_signal(signal.SIGTERM)
    assert started.wait(30) == 128 + signal.SIGTERM
    assert list(folder.iterdir()) == []  # nothing is left behind
    started.communicate(timeout=120)

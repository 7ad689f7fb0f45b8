"""clusterjobs import: the spec of an sbatch script launches the same, or it is no success."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
import yaml

pytest.importorskip("bashkit")

from clusterjobs.cli.main import run

HEAD = """\
#!/bin/bash
#SBATCH --job-name=gpt
#SBATCH -N 2 --ntasks-per-node=1
#SBATCH --gres=gpu:a100:8
#SBATCH --time=12:00:00
#SBATCH -p train -A ml
"""
RENDEZVOUS = """\
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=29500
"""


def _import(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], script: str, **files: str
) -> dict[str, Any]:
    path = tmp_path / "job.sbatch"
    path.write_text(script)
    for name, text in files.items():
        (tmp_path / f"{name}.sh").write_text(text)
    run(["import", str(path), "--json"])
    (found,) = json.loads(capsys.readouterr().out)
    return dict(found)


# What the spec has to contain, and how many words are the same.
SCRIPTS = {
    "torchrun in an array of words": (
        """
        ARGS=(--lr 1e-4 --name "two words")
        srun torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 --rdzv_id $SLURM_JOB_ID \\
            --rdzv_backend c10d --rdzv_endpoint $MASTER_ADDR:29500 train.py "${ARGS[@]}"
        """,
        ["framework: torchrun", "script: train.py", '  name: "two words"'],
        5,
    ),
    "a module": (
        "srun torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 -m axolotl.cli.train c.yml --lr 1",
        ["framework: torchrun", 'script: "-m axolotl.cli.train"'],
        5,
    ),
    "torch.distributed.launch by its module": (
        "srun python -m torch.distributed.launch --nproc_per_node=4 --use_env train.py --a 1",
        ["ranks_per_node: 4", "  a: 1"],
        3,
    ),
    "a task per rank": (
        "srun --mpi=pmix --ntasks-per-node=8 python -u train.py data/ --epochs 3",
        ["launcher: srun", "srun:\n  mpi: pmix", "  - data/"],
        4,
    ),
    "a function with arguments": (
        'launch() { srun torchrun --nproc_per_node 8 "$1" --seed "$2"; }\nlaunch train.py 7',
        ["script: train.py", "  seed: 7"],
        3,
    ),
    "conda from its own folder": (
        "source /opt/miniconda3/bin/activate\nconda activate /envs/gpt\n"
        "srun --ntasks-per-node=8 python train.py --a 1",
        ["  source: [/opt/miniconda3/bin/activate]\n  conda: /envs/gpt"],
        3,
    ),
    "conda from its own folder in one line": (
        "source /opt/miniconda3/bin/activate gpt\nsrun --ntasks-per-node=8 python train.py --a 1",
        ["  source: [/opt/miniconda3/bin/activate]\n  conda: gpt"],
        3,
    ),
    "packages that the script installs": (
        "python3 -m venv v\nsource v/bin/activate\npython -m pip install torch\n"
        "srun --ntasks-per-node=8 python train.py --a 1",
        ["  venv: v", 'before:\n  - {command: [python3, "-m", venv, v]}', "pip, install, torch"],
        3,
    ),
    "an option of srun with an underscore": (
        "srun --cpu_bind=v --ntasks-per-node=8 python train.py --a 1",
        ["srun:\n  cpu-bind: v"],
        3,
    ),
    "the address of the first node as an argument": (
        "IP=$(ssh $MASTER_ADDR hostname -I)\nsrun --ntasks-per-node=8 python train.py --at $IP",
        ["framework: command", 'exec python train.py --at \\"${MASTER_ADDR}\\"'],
        3,
    ),
    "bash -c around one command": (
        'srun bash -c "torchrun --node_rank \\$SLURM_PROCID --nproc_per_node 8 train.py --x 1"',
        ["script: train.py", "  x: 1"],
        3,
    ),
    "a container of pyxis": (
        "srun --container-image nvcr.io/nvidia/pytorch:24.01-py3 --container-mounts /fsx:/fsx "
        "torchrun --nproc_per_node 8 train.py",
        ["runtime: pyxis", 'image: "nvcr.io#nvidia/pytorch:24.01-py3"', 'mounts: ["/fsx:/fsx"]'],
        1,
    ),
    "a program of a container on one node, as code": (
        "singularity run a.sif bash -c 'python train.py --a 1'",
        ["container:\n    runtime: singularity", "command: [python, train.py"],
        3,
    ),
    "a runner of a project, without srun": (
        "uv run python main.py --a 1",
        ["command: [uv, run, python, main.py"],
        6,
    ),
    "a container with mounts that no spec has": (
        "srun singularity exec -B a.sqsh:/data:image-src=/ b.sif python train.py",
        ['command: [singularity, exec, "-B", "a.sqsh:/data:image-src=/", b.sif, python, train.py]'],
        7,
    ),
    "what mktemp prints": (
        'D=$(mktemp -d)\nE=$(mktemp)\nexport CACHE=$D/cache\nsrun python train.py --log "$E"',
        [
            'CACHE: "{{ values.mktemp_9 }}/cache"',
            'log: "{{ values.mktemp_10 }}"',
            'values: {mktemp_9: {command: ["mktemp", "-d"]}, mktemp_10: {command: ["mktemp"]}}',
        ],
        3,
    ),
    "a container of apptainer": (
        "srun apptainer exec --nv -B /fsx:/fsx /fsx/a.sif torchrun --nproc_per_node 8 train.py",
        ["runtime: apptainer", "image: /fsx/a.sif"],
        1,
    ),
    "the deepspeed launcher": (
        "srun deepspeed --num_gpus 8 --num_nodes 2 train.py --deepspeed_config ds.json",
        ["framework: torchrun", "  deepspeed_config: ds.json"],
        3,
    ),
    "accelerate as the command of each node": (
        "srun accelerate launch --mixed_precision bf16 --main_process_ip $MASTER_ADDR "
        "--machine_rank $SLURM_NODEID train.py --lr 1",
        ["framework: command", "ranks_per_node: 1", '"exec accelerate launch'],
        11,
    ),
    "variables of the user": (
        'srun torchrun --nproc_per_node 8 train.py --out "$HOME/run/$SLURM_JOB_ID" --data $DATA/x',
        ['out: "{{ env.HOME }}/run/{{ job.id }}"', 'data: "{{ env.DATA }}/x"'],
        5,
    ),
    "a default and an eval": (
        'CMD="torchrun --nproc_per_node 8 train.py --lr ${LR:-3e-4}"\neval "srun $CMD"',
        ["  lr: 3e-4"],
        3,
    ),
    "an early end without arguments": (
        'if [[ ! -f $CONFIG ]]; then echo "no config"; exit 1; fi\n'
        "srun torchrun --nproc_per_node 8 train.py",
        ["script: train.py"],
        1,
    ),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_spec_launches_the_same_words(
    name: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body, parts, words = SCRIPTS[name]
    found = _import(tmp_path, capsys, HEAD + RENDEZVOUS + body.replace("\n        ", "\n"))
    assert found["same"], (found["differences"], found["problems"], found["spec"])
    assert found["words"] == words
    for part in (*parts, "name: gpt", "nodes: 2", "gpus_per_node: 8", "queue: train"):
        assert part in found["spec"]
    assert "MASTER_ADDR" not in found["spec"].replace("${MASTER_ADDR}", "")


VALUES = {
    "HOME": "{{ env.HOME }}",
    "SCRATCH": "{{ env.SCRATCH }}",
    "USER": "{{ env.USER }}",
    "LOGNAME": "{{ env.USER }}",
    "MODEL": "{{ env.MODEL }}",
    "FOLDER": "{{ env.FOLDER }}",
    "COUNT": "{{ env.COUNT }}",
    "SLURM_JOB_ID": "{{ job.id }}",
    "SLURM_NODEID": "{{ job.node_rank }}",
    "SLURM_SUBMIT_DIR": "{{ env.SLURM_SUBMIT_DIR }}",
    "SLURM_JOB_NAME": "gpt",
    "SLURM_NTASKS": "2",
    "SLURM_JOB_NODELIST": "{{ env.SLURM_JOB_NODELIST }}",
}
NEIGHBOURS = "/_-.:=,@+"


@pytest.mark.parametrize("name", VALUES)
def test_a_variable_keeps_what_is_beside_it(
    name: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forms = ["V", "VV"]
    for sign in NEIGHBOURS:
        forms += [f"V{sign}", f"a{sign}V", f"{sign}V", f"V{sign}b", f"a{sign}V{sign}b"]
        forms += [f"a{sign}V{sign}V", f"s3://a{sign}V{sign}"]
    words = " ".join(f"'{form}'".replace("V", f"'${{{name}}}'") for form in forms)
    # Whether a variable is used for folders, or in arithmetic, changes nothing.
    other = "ls $FOLDER/x; : $((COUNT))\n"
    script = f"{HEAD}{other}srun python train.py w {words}\nexport AFTER=/a/${name}/b\n"
    script = script.replace("srun", f"export BEFORE=/a/${name}/b:${name}\ncd /code/${name}/x\nsrun")
    found = _import(tmp_path, capsys, script)
    spec = yaml.safe_load(found["spec"])
    assert [str(one) for one in spec["args"][1:]] == [
        form.replace("V", VALUES[name]) for form in forms
    ]
    assert spec["env"]["BEFORE"] == f"/a/{VALUES[name]}/b:{VALUES[name]}"
    assert spec["workdir"] == f"/code/{VALUES[name]}/x"


UNKNOWN = [
    "$(cat ~/.token)",
    "$(ls -t ckpt | head -1)",
    "$(ls ckpt/*.pt 2>/dev/null | head -1)",
    "$(grep x f | cut -d= -f2)",
    "$(sed -n 1p f)",
    "$(awk '{print $1}' f)",
    "$(head -1 f)",
    "$(tail -1 f)",
    "$(find . -name x)",
    "$(wc -l < f)",
    "$(< f)",
    "$(git rev-parse HEAD)",
    "$(nproc)",
    "$(date +%s)",
    "$(echo $SLURM_JOB_NODELIST | tr , ' ')",
    "$(echo $MODEL | wc -c)",
    "$RANDOM",
    "$$",
    "$SLURM_PROCID",
    "$SLURM_LOCALID",
    "$SLURM_CPUS_ON_NODE",
    "$SLURM_NEW_IN_SOME_VERSION",
    "$SLURM_CPUS_PER_TASK",
    "$((SLURM_CPUS_PER_TASK - 2))",
    "$((FOO * 2))",
    "$((SLURM_JOB_ID % 100))",
    "${LRS[$SLURM_ARRAY_TASK_ID]}",
    "${MODEL##*/}",
    "${MODEL:0:2}",
    "${MODEL^^}",
    "${HOME##*/}",
    "${#MODEL}",
    "${SLURM_JOB_NODELIST%%,*}",
    "$1",
    "${2}",
    "$(printf %04d $SLURM_ARRAY_TASK_ID)",
    "$((SLURM_JOB_ID % 2))",
    "$((SLURM_JOB_ID % 12))",
    "$(expr $MODEL + 1)",
    "$(expr $(nproc) / 2)",
    "$(seq -s, 1 $(nproc))",
    "$(printf %d $(nproc))",
    "$0",
    "$BASH_VERSION",
    "$((RANDOM % 2))",
    "$(nvidia-smi -L | grep -c H100)",
    "$(nvidia-smi | wc -c)",
]


@pytest.mark.parametrize("value", UNKNOWN)
def test_a_value_that_the_import_does_not_know_is_no_success(
    value: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bodies = [
        f"srun python train.py --before 1 --value {value} --after 2",
        f"srun python train.py --value=/a/{value}",
        f"export VALUE={value}\nsrun python train.py",
        f"cd /a/{value}\nsrun python train.py",
        f"V={value}\nmkdir -p /a/$V\nsrun python train.py",
    ]
    for body in bodies:
        found = _import(tmp_path, capsys, f"{HEAD}LRS=(1 2)\n{body}\n")
        assert found["not_carried_over"], (body, found["spec"])
        if "python train.py --" in body or "export" in body:
            assert not found["same"], body
            assert "UNKNOWN" in found["spec"], (body, found["spec"])
    assert run(["import", str(tmp_path / "job.sbatch")]) == 1


# Conditions on which the launch depends: whether the import knows their answer.
CONDITIONS = {
    "[ -f last.pt ]": False,
    "[[ ! -d /data ]]": False,
    "test -e last.pt": False,
    "[[ $(hostname) == login* ]]": False,
    "nvidia-smi | grep -q H100": False,
    "grep -q x f": False,
    "command -v git && git diff --quiet": False,
    '[[ -n "$DEBUG" ]]': False,
    '[ "$MODEL" = big ]': False,
    '[ "$SLURM_PROCID" -eq 0 ]': False,
    '[ "$(nproc)" -gt 8 ]': False,
    "(( SLURM_JOB_ID % 2 ))": False,
    "N=$(nproc); (( N > 8 ))": False,
    "python check.py; [ $? -eq 0 ]": False,
    "python check.py; RC=$?; [ $RC -eq 0 ]": False,
    "[[ $SIZE == small ]]": True,
    '[ "$SLURM_NNODES" -gt 1 ]': True,
    '[ -n "$HOME" ]': True,
    "(( COUNT > 2 ))": True,
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_that_the_import_cannot_decide_is_no_success(
    condition: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for body in (
        f"if {condition}; then A=1; else A=2; fi\nsrun python train.py --a $A",
        f"A=2; B=3\n{condition} && A=1\nsrun python train.py --a $A",
    ):
        found = _import(tmp_path, capsys, f"{HEAD}SIZE=small COUNT=3\n{body}\n")
        assert CONDITIONS[condition] is not bool(found["not_carried_over"]), body
        named = [one["what"] for one in found["not_carried_over"]]
        assert any(condition.rpartition("; ")[2] in one for one in named) or not named
        # A condition on which nothing depends is nobody's business.
        found = _import(tmp_path, capsys, f"{HEAD}{body.replace('--a $A', '--a 1')}\n")
        assert not found["not_carried_over"], body


def test_a_case_that_the_import_cannot_decide_is_no_success(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = "SIZE=big\ncase $%s in big) A=1;; *) A=2;; esac\nsrun python train.py $A\n"
    assert not _import(tmp_path, capsys, HEAD + body % "SIZE")["not_carried_over"]
    (found,) = _import(tmp_path, capsys, HEAD + body % "MODEL")["not_carried_over"]
    assert found["what"].startswith("case $MODEL")


IN_A_STEP = {
    "bash -c 'accelerate launch --machine_rank $SLURM_NODEID train.py --lr 1'": (
        "{{ job.node_rank }}"
    ),
    'bash -c "accelerate launch --machine_rank \\$SLURM_PROCID train.py --lr 1"': (
        "{{ job.node_rank }}"
    ),
    'bash -c "$CMD"': "{{ job.node_rank }}",
    "bash -c 'accelerate launch --main_process_ip $MASTER_ADDR train.py \"$@\"' _ --lr 1": (
        "${MASTER_ADDR}"
    ),
}


@pytest.mark.parametrize("step", IN_A_STEP)
def test_a_launcher_in_a_shell_of_each_node_is_its_command(
    step: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = "CMD='accelerate launch --machine_rank $SLURM_NODEID train.py --lr 1'\n"
    found = _import(tmp_path, capsys, f"{HEAD}{RENDEZVOUS}{command}srun {step}\n")
    assert found["same"]
    assert not found["not_carried_over"]
    (line,) = [one for one in found["spec"].splitlines() if one.startswith("command:")]
    assert "srun" not in line
    assert IN_A_STEP[step] in line
    assert "--lr" in line


def test_other_code_of_a_step_stays_whole(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for before in ("source /opt/env.sh", "cd /code", "grep -q x f"):
        body = f"srun bash -c '{before} && accelerate launch train.py --lr 1'\n"
        found = _import(tmp_path, capsys, HEAD + body)
        assert found["same"]
        words = yaml.safe_load(found["spec"])["command"]
        assert words == ["bash", "-c", f"{before} && accelerate launch train.py --lr 1"]


def test_an_option_with_what_only_a_node_knows_is_named(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = (
        'LAUNCHER="torchrun --nproc_per_node 8 --nnodes 2 --rdzv_endpoint $MASTER_ADDR:29500"\n'
        'srun bash -c "$LAUNCHER --role \\$(hostname -s): train.py --lr 1"\n'
    )
    found = _import(tmp_path, capsys, HEAD + RENDEZVOUS + body)
    assert found["same"]
    (missing,) = found["not_carried_over"]
    assert missing["what"] == "a value that hostname computes"
    assert "role" not in found["spec"]


def test_a_variable_that_each_job_sets_itself_may_be_unknown(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = HEAD.replace("--ntasks-per-node=1", "--ntasks-per-node=8")
    step = "srun bash -c 'export RANK=$SLURM_PROCID %s; python train.py --lr 1'\n"
    found = _import(tmp_path, capsys, head + step % "")
    assert not found["not_carried_over"]
    assert found["not_needed"]["env.RANK"]
    (missing,) = _import(tmp_path, capsys, head + step % "OWN=$SLURM_PROCID")["not_carried_over"]
    assert missing["what"].startswith("$SLURM_PROCID")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("export WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567", "env.WANDB_API_KEY"),
        ("export LD_PRELOAD=/opt/libfast.so", "env.LD_PRELOAD"),
        ("export SLURM_CPU_BIND=none", "env.SLURM_CPU_BIND"),
        ("#SBATCH --gpu-per-node=8", "sbatch.gpu-per-node"),
        ("#SBATCH --nodes=two", "--nodes=two"),
        ("#SBATCH --ntasks=all", "--ntasks=all"),
        ("#SBATCH --gpus-per-node=some", "--gpus-per-node=some"),
        ("trap 'scontrol requeue $SLURM_JOB_ID' USR1", "trap 'scontrol"),
        ("export attempt=3", "env.attempt"),
        ("export CUDA_VISIBLE_DEVICES=0,1", "env.CUDA_VISIBLE_DEVICES"),
        ("N=$((SLURM_JOB_ID > 3 ? 1 : 2))", "N=$((SLURM_JOB_ID > 3"),
        ("trap again SIGTERM SIGUSR1", "trap again"),
    ],
)
def test_what_the_job_needs_is_never_left_out_in_silence(
    line: str, what: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = f"{HEAD}{line}\nsrun python train.py\n"
    found = _import(tmp_path, capsys, script)
    (missing,) = found["not_carried_over"]
    assert missing["what"].startswith(what)
    assert script.splitlines()[missing["number"] - 1] == line
    assert not found["not_needed"]
    assert ("secrets: [WANDB_API_KEY]" in found["spec"]) == ("WANDB" in line)


def test_files_of_a_pattern_are_not_known(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for word, is_known in (("/data/*.tar", False), ("'/data/*.tar'", True), ('"$D"/*.tar', False)):
        found = _import(tmp_path, capsys, f"{HEAD}srun python train.py --data {word}\n")
        assert bool(found["not_carried_over"]) is not is_known


def test_the_number_of_items_in_a_variable_is_not_known(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = 'IFS=, read -ra PARTS <<< "$LIST"\nsrun python train.py --n ${#PARTS[@]}\n'
    assert _import(tmp_path, capsys, HEAD + body)["not_carried_over"]


def test_a_number_of_ranks_that_is_not_known_is_named(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for value, what in (("$(nproc)", "nproc"), ("$RANKS", "$RANKS ranks"), ("cpu", "cpu ranks")):
        body = f"srun torchrun --nproc_per_node {value} train.py\n"
        missing = _import(tmp_path, capsys, HEAD + body)["not_carried_over"]
        assert any(what in one["what"] for one in missing)


def test_a_launch_that_depends_on_a_calculation_is_named_and_the_spec_stays_yaml(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = "N=$(nproc)\nsrun python train.py --a 1 --n $((N / 2)) --b 2\n"
    found = _import(tmp_path, capsys, HEAD + body)
    assert not found["same"]
    assert found["not_carried_over"]
    assert yaml.safe_load(found["spec"])["script"] == "train.py"


def test_a_trap_of_the_end_is_a_step(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = _import(tmp_path, capsys, f"{HEAD}trap 'rsync a b' EXIT\nsrun python train.py\n")
    assert not found["not_carried_over"]
    assert "after:\n  - {command: [rsync, a, b]}" in found["spec"]


def test_sourced_files_stay(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["/opt/conda/etc/profile.d/conda.sh", "/etc/profile.d/modules.sh", "/opt/env.sh"]
    body = "".join(f"source {one}\n" for one in files) + "conda activate torch\n"
    found = _import(tmp_path, capsys, f"{HEAD}{body}srun python train.py\n")
    assert yaml.safe_load(found["spec"])["software"] == {"source": files, "conda": "torch"}
    assert found["same"]


def test_a_problem_names_the_file_that_is_written(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.sbatch"
    path.write_text(HEAD.replace("12:00:00", "noon") + "srun python train.py\n")
    assert run(["import", str(path), "-o", str(tmp_path / "mine.yaml")]) == 1
    shown = capsys.readouterr().err
    assert "mine.yaml:" in shown
    assert "imported.yaml" not in shown


def test_values_that_follow_from_the_directives_are_numbers(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = "#SBATCH -N 2 --ntasks-per-node=8 --gpus-per-node=8 --cpus-per-task=12\n"
    body = (
        "srun python train.py $SLURM_NTASKS $SLURM_NPROCS $((4*SLURM_NTASKS)) $SLURM_NNODES"
        " $SLURM_NTASKS_PER_NODE $SLURM_GPUS_PER_NODE $((SLURM_CPUS_PER_TASK-2)) "
        "$(nvidia-smi -L | wc -l) $(nvidia-smi --query-gpu=name --format=csv | wc -l) "
        "$(scontrol show hostnames $SLURM_JOB_NODELIST | wc -l) $(expr $SLURM_NNODES + 1)\n"
    )
    found = _import(tmp_path, capsys, head + body)
    assert found["same"]
    assert not found["not_carried_over"]
    assert yaml.safe_load(found["spec"])["args"] == [16, 16, 64, 2, 8, 8, 10, 8, 8, 2, 3]


def test_a_path_that_the_script_extends_keeps_what_it_was(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = "export PYTHONPATH=/code/src:$PYTHONPATH\nsrun python train.py\n"
    found = _import(tmp_path, capsys, HEAD + body)
    assert 'PYTHONPATH: "/code/src:${PYTHONPATH:-}"' in found["spec"]
    assert found["same"]


def test_a_path_with_a_default_or_used_as_it_is_is_no_extended_path(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = ': "${DATA_PATH:=/fsx}"\nsrun python train.py $DATA_PATH/a $MODEL_PATH/b\n'
    found = _import(tmp_path, capsys, HEAD + body)
    assert yaml.safe_load(found["spec"])["args"] == ["/fsx/a", "{{ env.MODEL_PATH }}/b"]
    assert found["same"]


def test_a_variable_that_the_script_adds_to_starts_empty_and_is_named(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = (
        'ARGS="$ARGS --x 1"\nARGS="$ARGS --y 2"\nOWN=1\nOWN="$OWN,2"\nMORE+=" --z 3"\n'
        "LIST+=(4)\nsrun python train.py $ARGS $MORE --own $OWN ${LIST[0]}\n"
    )
    found = _import(tmp_path, capsys, HEAD + body)
    assert [one for one in found["assumed"] if "environment" in one] == [
        "ARGS is not in sbatch's environment: line 7 adds to it",
        "MORE is not in sbatch's environment: line 11 adds to it",
    ]
    assert found["same"]


def test_a_script_that_gives_another_to_sbatch_is_imported_as_that_one(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = (
        "#!/bin/bash\nMODEL=${MODEL:-gpt}\nmkdir -p logs\nexport RUN=7\nrsync -a code /fsx\n"
        "sbatch -N 4 <<EOF\n#!/bin/bash\n#SBATCH --job-name=$MODEL\n#SBATCH --gpus-per-node=8\n"
        "srun python $HOME/train.py --model $MODEL --id \\$SLURM_JOB_ID\nEOF\n"
    )
    found = _import(tmp_path, capsys, script)
    spec = yaml.safe_load(found["spec"])
    assert (spec["name"], spec["nodes"], spec["gpus_per_node"]) == ("gpt", 4, 8)
    assert spec["args"] == {"model": "gpt", "id": "{{ job.id }}"}
    assert spec["env"] == {"RUN": 7}
    (lost,) = found["not_carried_over"]
    assert (lost["number"], lost["what"]) == (5, "rsync -a code /fsx")
    assert "MODEL is not in sbatch's environment: line 2 has its default" in found["assumed"]
    assert "the job is the script that line 6 gives to sbatch" in found["assumed"]
    assert found["same"]


def test_options_that_have_exit_in_their_names_stay_if_the_script_ends_early(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = "[ $# -lt 1 ] && exit 1\nsrun --kill-on-bad-exit=1 python train.py --early-exit 3\n"
    found = _import(tmp_path, capsys, HEAD + body)
    assert yaml.safe_load(found["spec"])["args"] == {"early-exit": 3}
    assert "kill-on-bad" not in found["spec"], "every job has this option"
    assert found["same"]


def test_relative_mounts_are_below_the_folder_of_submission(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = "srun --container-image ./a.sqsh --container-mounts .:/w,../d:/d python train.py\n"
    container = yaml.safe_load(_import(tmp_path, capsys, HEAD + body)["spec"])["software"]
    assert container["container"]["mounts"] == [
        "${SLURM_SUBMIT_DIR}/.:/w",
        "${SLURM_SUBMIT_DIR}/../d:/d",
    ]


def test_software_steps_and_variables_are_keys(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = """\
module purge
module load cuda/12 nccl
source /fsx/venvs/t/bin/activate
export NCCL_DEBUG=INFO
ulimit -l unlimited
ulimit -Sn 65536
ulimit -n $(ulimit -Hn)
mkdir -p $SCRATCH/out
cd /fsx/code
nvidia-smi
srun torchrun --nproc_per_node 8 train.py
python eval.py --all
"""
    spec = _import(tmp_path, capsys, HEAD + RENDEZVOUS + body)["spec"]
    assert "workdir: /fsx/code\n" in spec
    assert "  venv: /fsx/venvs/t\n" in spec
    assert "  modules: [purge, cuda/12, nccl]\n" in spec
    assert "  NCCL_DEBUG: INFO\n" in spec
    assert "ulimit: {memlock: unlimited, nofile: 65536}\n" in spec
    assert 'setup: ["ulimit -n $(ulimit -Hn)"]\n' in spec
    assert 'before:\n  - {command: [mkdir, "-p", "{{ env.SCRATCH }}/out"]}\n' in spec
    assert 'after:\n  - {command: [python, eval.py, "--all"]}\n' in spec
    assert "sbatch:\n  account: ml\n" in spec


def test_a_script_beside_it_is_read(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inner = "#!/bin/bash\ntorchrun --nproc_per_node 8 train.py --lr 1e-4\n"
    found = _import(tmp_path, capsys, HEAD + "srun bash train.sh\n", train=inner)
    assert found["same"]
    assert "script: train.py" in found["spec"]


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("LR=$(python -c 'print(1)')\nsrun torchrun train.py --lr $LR", "a value that python"),
        ("cat > ds.json <<EOF\n{}\nEOF\nsrun torchrun train.py", "the file ds.json"),
        ("srun torchrun a.py\nsrun torchrun b.py", "srun torchrun a.py"),
        ("srun torchrun train.py\nsbatch next.sh", "sbatch next.sh"),
        ("srun torchrun --brand-new x train.py", "--brand-new"),
        ("srun torchrun train.py --host $MASTER_ADDR", "$MASTER_ADDR"),
        ("#SBATCH --array=0-9\nsrun torchrun train.py", "--array"),
    ],
)
def test_what_is_not_carried_over_is_said_with_its_line(
    body: str, what: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = (HEAD + body if body.startswith("#SBATCH") else HEAD + RENDEZVOUS + body) + "\n"
    missing = _import(tmp_path, capsys, script)["not_carried_over"]
    (found,) = [one for one in missing if one["what"].startswith(what)]
    if found["number"]:
        line = script.splitlines()[found["number"] - 1]
        assert what.split()[-1] in line
    assert run(["import", str(tmp_path / "job.sbatch")]) == 1  # never a success


def test_the_gpus_of_srun_are_those_of_the_job_if_no_directive_names_them(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = (
        "#!/bin/bash\n#SBATCH -N 2\nsrun -n16 --ntasks-per-node=8 --gpus-per-node=8 python t.py\n"
    )
    found = _import(tmp_path, capsys, script)
    assert found["not_carried_over"] == []
    assert "gpus_per_node: 8\n" in found["spec"]


def test_a_variable_with_the_first_node_that_the_script_itself_uses_is_not_lost(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = HEAD + "export HOST=$(hostname)\nexport OTHER=$(hostname)\n"
    launch = "srun torchrun --nproc_per_node 8 --rdzv_endpoint=$HOST:29500 train.py\n"
    found = _import(tmp_path, capsys, script + launch)
    assert [one["what"] for one in found["not_carried_over"]] == ["export OTHER"]
    assert "HOST is used by the script alone, not by the ranks" in found["assumed"]


def test_without_a_launch_it_is_no_success(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = _import(tmp_path, capsys, HEAD + "echo hello\n")
    assert not found["same"]
    assert found["not_carried_over"][0]["what"] == "the launch"


def test_nothing_of_the_script_is_executed_here(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept"
    kept.write_text("mine")
    planted = tmp_path / "planted"
    body = f"rm -rf {kept}\n/bin/rm -f {kept}\ntouch {planted}\necho x > {planted}\n: > {kept}\n"
    _import(tmp_path, capsys, HEAD + body + "srun torchrun train.py\n")
    assert kept.read_text() == "mine"
    assert not planted.exists()


@pytest.mark.parametrize(
    "text", ["", "\n", "no script at all", "if [\n", "#!/bin/bash\nwhile true; do :; done\n"]
)
def test_an_odd_script_is_no_crash(
    text: str,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "job.sbatch"
    path.write_text(text)
    assert run(["import", str(path)]) == 1
    assert "internal error" not in capsys.readouterr().err


def test_it_writes_files_and_overwrites_none(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        (tmp_path / f"{name}.sbatch").write_text(HEAD + f"srun torchrun {name}.py\n")
    arguments = ["import", "a.sbatch", "b.sbatch", "--cluster", "p4d-a100", "-o", "specs"]
    assert run(arguments) == 0
    assert "cluster: p4d-a100" in (tmp_path / "specs" / "a.yaml").read_text()
    assert run(["render", "specs/a.yaml"]) == 0
    assert run(arguments) == 1
    assert "specs/a.yaml exists" in capsys.readouterr().err


def test_a_variable_with_a_default_is_named_and_variables_keep_their_order(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = (
        f'{HEAD}: "${{STEPS:=60}}"\nSEED=${{SEED:-7}}\nOWN=1\nexport ZED=2 ABLE=3\n'
        'srun python train.py --lr "${LR:-1e-4}" --steps $STEPS --seed $SEED --own "${OWN:-0}"\n'
    )
    found = _import(tmp_path, capsys, script)
    assert [one for one in found["assumed"] if "environment" in one] == [
        "STEPS is not in sbatch's environment: line 7 has its default",
        "SEED is not in sbatch's environment: line 8 has its default",
        "LR is not in sbatch's environment: line 11 has its default",
    ]
    assert found["spec"].index("ZED: 2") < found["spec"].index("ABLE: 3")


# Of a script with two nodes of eight GPUs: what is not carried over; None if nothing is.
_PARTS = {
    "srun -N 1 python train.py": "srun --nodes=1",
    "srun --nodes=1-2 python train.py": "srun --nodes=1-2",
    "srun -n 4 python train.py": "srun --ntasks=4",
    "srun -w node1 python train.py": "srun --nodelist=node1",
    "srun --gres=gpu:4 --ntasks-per-node=4 python train.py": "srun --gres=gpu:4",
    "srun --ntasks-per-node=8 torchrun train.py": "srun --ntasks-per-node=8",
    "srun python train.py --rank $SLURM_NODEID": "$SLURM_NODEID",
    "R=$SLURM_NODEID\nsrun python train.py --rank $R": "$SLURM_NODEID",
    "srun python train.py --seed ${SLURM_ARRAY_TASK_ID:-0}": "SLURM_ARRAY_TASK_ID",
    "srun -N 2 -n 16 -w $SLURM_JOB_NODELIST --gpus-per-node=8 python train.py": None,
    "srun -N $SLURM_NNODES -n $SLURM_NTASKS python train.py": None,
    "srun --ntasks-per-node=4 python train.py": None,
    "srun -n $SLURM_NNODES --ntasks-per-node=1 torchrun train.py": None,
    "srun bash -c 'python train.py --rank $SLURM_NODEID'": None,
}


@pytest.mark.parametrize("body", _PARTS)
def test_ranks_on_a_part_of_the_job_or_with_other_numbers_are_no_success(
    body: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = "#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=8 --gpus-per-node=8\n"
    found = _import(tmp_path, capsys, f"{head}{body}\n")
    wanted = _PARTS[body]
    assert [one["what"] for one in found["not_carried_over"]] == ([wanted] if wanted else [])
    assert found["same"]


def test_a_variable_with_a_default_beside_other_text_is_named(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = 'A="--lr 1 ${A:-}"\nB="--x ${B:---y}"\nC="${C:-}"\nsrun python train.py $A $B $C\n'
    found = _import(tmp_path, capsys, HEAD + body)
    assert {one for one in found["assumed"] if "environment" in one} == {
        "A is not in sbatch's environment: line 7 adds to it",
        "B is not in sbatch's environment: line 8 has its default",
        "C is not in sbatch's environment: line 9 has its default",
    }


@pytest.mark.parametrize(
    ("text", "kind", "hint"),
    [
        ("name: a\nnodes: 2\n", "a spec", "clusterjobs render FILE makes its script"),
        ("import torch\n", "a Python program", "clusterjobs init --script FILE"),
        ("NodeName=n1 CPUs=4\n", "a file of Slurm", "clusters import --from-files FILE"),
        ("kind: slurm\n", "a description of a Slurm cluster", "clusterjobs clusters show FILE"),
    ],
)
def test_another_kind_of_file_is_named_with_its_command(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], text: str, kind: str, hint: str
) -> None:
    (tmp_path / "file").write_text(text)
    assert run(["import", str(tmp_path / "file"), "-o", str(tmp_path / "out.yaml")]) == 1
    err = capsys.readouterr().err
    assert f"{kind}, not an sbatch script" in err
    assert hint.replace("FILE", str(tmp_path / "file")) in err
    assert not (tmp_path / "out.yaml").exists()


def test_each_directive_is_a_key_or_named(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = "#SBATCH --cpus-per-task=64\n#SBATCH --output=out-%j.log -e err-%j.log\n"
    found = _import(tmp_path, capsys, f"{HEAD}{more}#SBATCH --qos=high\nsrun torchrun train.py\n")
    named = [one for one in found["not_needed"] if one.startswith("line ")]
    assert [one.partition(": ")[2] for one in named] == [
        "--cpus-per-task",
        "--output",
        "--error",
    ]
    assert yaml.safe_load(found["spec"])["sbatch"] == {"account": "ml", "qos": "high"}
    kept = _import(tmp_path, capsys, f"{HEAD}{more}srun python train.py\n")  # a rank is a task
    assert not [one for one in kept["not_needed"] if "cpus" in one]
    assert yaml.safe_load(kept["spec"])["cpus_per_task"] == 64


def test_a_message_with_the_time_is_no_step(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = f"""{HEAD}log() {{ echo "[$(date +%T)] $*"; }}
log start
srun torchrun train.py
log end
"""
    found = _import(tmp_path, capsys, script)
    assert not {"before", "after"} & set(yaml.safe_load(found["spec"]))


def test_what_the_job_sets_itself_is_not_said_to_be_lost(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = "export MASTER_PORT=$((29500 + RANDOM % 100))\n"
    found = _import(tmp_path, capsys, f"{HEAD}{port}srun torchrun train.py\n")
    assert "env.MASTER_PORT" in found["not_needed"]
    assert not found["not_carried_over"]


def test_the_path_of_a_cluster_is_written_as_the_spec_finds_it(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "job.sh").write_text(f"{HEAD}srun torchrun train.py\n")
    description = (
        "kind: slurm\nnode_types: {a: {cpus: 64, gpus: 8}}\npartitions: {train: {nodes: {a: 2}}}\n"
    )
    for place in ("here.yaml", "own/there.yaml"):
        (tmp_path / place).write_text(description)
        assert (
            run(["import", "own/job.sh", "--cluster", place, "-o", "own/out.yaml", "--force"]) == 0
        )
        assert run(["plan", "own/out.yaml"]) == 0
    assert yaml.safe_load((tmp_path / "own" / "out.yaml").read_text())["cluster"] == "there.yaml"


def test_a_further_launch_is_shown_with_the_scripts_variables(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    launch = "srun python main.py --data $SCRATCH/imagenet --seed"
    found = _import(tmp_path, capsys, f"{HEAD}{launch} 1\n{launch} 2\n")
    assert found["not_carried_over"][0]["what"] == f"{launch} 1"


ONE = "#!/bin/bash\n#SBATCH --nodes=2 --gpus-per-node=8\n"
ARRAY = ONE.replace("nodes=2", "nodes=2 --array=0-3%2")
_TRAIN = "srun torchrun train.py"
# The key `sweep`, and `args` of the first point.
SWEEPS = {
    "an array of values": (
        f"{ARRAY}LRS=(1 2 3 4)\nLR=${{LRS[$SLURM_ARRAY_TASK_ID]}}\n"
        f"{_TRAIN} --lr $LR --out x/lr-$LR\n",
        {"grid": {"args.lr": [1, 2, 3, 4]}, "max_running": 2},
        {"lr": 1, "out": "x/lr-{{ args.lr }}"},
    ),
    "two values of an index": (
        f"{ARRAY}I=$SLURM_ARRAY_TASK_ID\n{_TRAIN} --a $((I % 2)) --b $((I / 2 + 5))\n",
        {"grid": {"args.b": [5, 6], "args.a": [0, 1]}, "max_running": 2},
        {"a": 0, "b": 5},
    ),
    "a line of a file for each task": (
        f'{ARRAY}read LR SEED < <(sed -n "$((SLURM_ARRAY_TASK_ID + 1))p" points.txt)\n'
        f"{_TRAIN} --lr $LR --seed $SEED\n",
        {"zip": {"args.lr": [1, 2, 3, 4], "args.seed": [7, 7, 8, 9]}, "max_running": 2},
        {"lr": 1, "seed": 7},
    ),
    "arguments that only some tasks have": (
        f"{ARRAY}[ $SLURM_ARRAY_TASK_ID = 2 ] && A=--fast\n{_TRAIN} --i $SLURM_ARRAY_TASK_ID $A\n",
        {
            "grid": {"args": [{"i": 0}, {"i": 1}, {"i": 2, "fast": True}, {"i": 3}]},
            "max_running": 2,
        },
        None,
    ),
    "loops over values": (
        f"{ONE}for s in 1 2; do for lr in 3e-4 1e-4; do\nmkdir -p out/$s-$lr\n"
        f"{_TRAIN} --seed $s --lr $lr\ndone; done\n",
        {"grid": {"args.seed": [1, 2], "args.lr": [3e-4, 1e-4]}},
        {"seed": 1, "lr": 3e-4},
    ),
    "jobs with arguments, variables and options": (
        "#!/bin/bash\nfor m in a b; do for n in 1 4; do\n"
        "SEED=3 sbatch -N $n -J $m-$n -o logs/$m/%j --export=ALL,LR=5 one.sh $m\ndone; done\n",
        {"grid": {"args.model": ["a", "b"], "nodes": [1, 4]}},
        {"model": "a", "seed": 3, "lr": 5},
    ),
    "jobs of texts": (
        "#!/bin/bash\nfor m in a b; do\nsbatch <<EOF\n"
        f"{ONE.replace('nodes=2', 'nodes=2 -J $m')}{_TRAIN} --model $m\nEOF\ndone\n",
        {"grid": {"args.model": ["a", "b"]}},
        {"model": "a"},
    ),
}


@pytest.mark.parametrize("name", SWEEPS)
def test_launches_that_differ_in_values_are_a_sweep(
    name: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script, sweep, arguments = SWEEPS[name]
    (tmp_path / "points.txt").write_text("1 7\n2 7\n3 8\n4 9\n")
    one = f"{ONE}{_TRAIN} --model $1 --seed $SEED --lr $LR\n"
    found = _import(tmp_path, capsys, script, one=one)
    spec = yaml.load(found["spec"], yaml.CSafeLoader)
    assert found["same"], (found["differences"], found["problems"], found["spec"])
    assert not found["not_carried_over"]
    assert _numbers(spec["sweep"]) == sweep
    assert _numbers(spec.get("args")) == arguments
    assert found["points"] >= 2
    assert spec["name"] == "job"


def _numbers(value: Any) -> Any:
    """PyYAML reads 3e-4 as text."""
    if isinstance(value, dict):
        return {key: _numbers(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_numbers(one) for one in value]
    return float(value) if isinstance(value, str) and "e-" in value else value


# What is not carried over, and why there is no sweep.
_NO_SWEEPS = {
    f"{ARRAY}{_TRAIN}\n": "all launch the same words",
    f"{ARRAY}{_TRAIN} --a.b $SLURM_ARRAY_TASK_ID\n": "no path names args.a.b",
    f"{ARRAY.replace('0-3', '0-200')}{_TRAIN} --i $SLURM_ARRAY_TASK_ID\n": "more than 100",
    f"{ONE}for i in 0 1; do\nCUDA_VISIBLE_DEVICES=$i python train.py --i $i &\ndone\n": "per_node",
    f"{ONE}for i in 0 1; do\n[ $i = 1 ] && module load a\n{_TRAIN} --i $i\ndone\n": "only some",
    "#!/bin/bash\nfor i in 1 1; do sbatch one.sh; done\n": "all launch the same words",
}


@pytest.mark.parametrize("script", _NO_SWEEPS)
def test_launches_that_are_no_points_of_a_sweep_are_no_success(
    script: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = _import(tmp_path, capsys, script, one=f"{ONE}{_TRAIN}\n")
    assert "sweep:" not in found["spec"]
    reasons = [one["why"] for one in found["not_carried_over"] if "no sweep" in one["why"]]
    assert len(reasons) == 1
    assert _NO_SWEEPS[script] in reasons[0]


def test_a_long_array_of_a_command_stays_one(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = "#SBATCH --array=0-199%10\npython tokenize.py --shard $SLURM_ARRAY_TASK_ID\n"
    found = _import(tmp_path, capsys, f"#!/bin/bash\n{body}")
    spec = yaml.safe_load(found["spec"])
    assert spec["sbatch"] == {"array": "0-199%10"}
    assert spec["args"] == {"shard": "{{ job.array_index }}"}
    assert found["same"]
    assert not found["not_carried_over"]


def test_scripts_that_submit_each_other_end(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = _import(tmp_path, capsys, "sbatch a.sh\n", a="sbatch b.sh\n", b="sbatch a.sh\n")
    assert not found["same"]


def test_what_a_loop_does_after_some_of_its_launches_is_named(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = (
        f"for i in 1 2; do\nrsync a b-$i\n{_TRAIN} --i $i\npython show.py $i\ndone\npython all.py\n"
    )
    found = _import(tmp_path, capsys, f"{ONE}module load a\n{body}")
    spec = yaml.safe_load(found["spec"])
    assert spec["before"] == [{"command": ["rsync", "a", "b-{{ args.i }}"]}]
    assert spec["after"] == [{"command": ["python", "show.py", "{{ args.i }}"]}]
    assert [one["what"] for one in found["not_carried_over"]] == ["python all.py"]
    assert spec["software"] == {"modules": ["a"]}


def test_an_argument_of_the_script_is_named_with_the_key_for_it(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (lost,) = _import(tmp_path, capsys, f"{ONE}{_TRAIN} --lr $1\n")["not_carried_over"]
    assert lost["what"].startswith("$1: ")
    assert "write it under parameters" in lost["why"]


def test_the_framework_of_the_python_script_is_named(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text("from transformers import Trainer\nTrainer(None)\n")
    assumed = _import(tmp_path, capsys, f"{ONE}{_TRAIN}\n")["assumed"]
    assert any("framework: huggingface" in one for one in assumed)


@pytest.mark.parametrize("restarts", [True, False])
def test_a_signal_whose_handler_is_not_carried_over_is_left_out(
    restarts: bool, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = "scontrol requeue $SLURM_JOB_ID" if restarts else "touch stop"
    signal = f"#SBATCH --signal=B:USR1@120\n#SBATCH --requeue\ntrap '{handler}' USR1\n"
    found = _import(tmp_path, capsys, HEAD + signal + "srun torchrun train.py\n")
    assert yaml.safe_load(found["spec"])["sbatch"] == {"account": "ml", "requeue": True}
    directive, trap = found["not_carried_over"]
    assert (directive["number"], directive["what"]) == (7, "--signal=B:USR1@120")
    assert ("restarts: {time_limit: N}" in directive["why"]) is restarts
    assert trap["what"].startswith("trap")


def test_a_signal_to_the_ranks_stays(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = _import(tmp_path, capsys, HEAD + "#SBATCH --signal=USR1@60\nsrun torchrun train.py\n")
    assert '  signal: "USR1@60"' in found["spec"]


@pytest.mark.parametrize(
    ("line", "step"),
    [
        (
            'srun --ntasks-per-node=1 bash -c "mkdir -p /s/$USER && [ -f d ] || tar xf d"',
            {
                "command": ["bash", "-c", "mkdir -p /s/{{ env.USER }} && [ -f d ] || tar xf d"],
                "per": "node",
            },
        ),
        ("srun --ntasks-per-node=1 ./warm.bin", None),
        ("srun mkdir -p /s", {"command": ["mkdir", "-p", "/s"], "per": "node"}),
        ("srun -N1 -n1 tar xf /d", {"command": ["tar", "xf", "/d"]}),
        ("srun --ntasks-per-node=8 touch /d", {"command": ["touch", "/d"], "per": "rank"}),
    ],
)
def test_an_srun_before_the_training_is_a_step_or_named_once(
    line: str,
    step: dict[str, Any] | None,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = _import(tmp_path, capsys, f"{HEAD}{line}\nsrun torchrun train.py\n")
    assert yaml.safe_load(found["spec"]).get("before") == (step and [step])
    assert [one["number"] for one in found["not_carried_over"]] == ([] if step else [7])
    assert found["same"]


def test_an_srun_that_no_step_can_be_like_is_named(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = "srun -n 3 touch /d\nsrun --mpi=pmix mkdir /d\n"
    found = _import(tmp_path, capsys, HEAD + lines + "srun torchrun train.py\n")
    assert "before" not in found["spec"]
    whys = [one["why"].split()[5] for one in found["not_carried_over"]]
    assert whys == ["--ntasks", "--mpi"]


CLUSTER = "kind: slurm\nnode_types: {n: {cpus: 64, gpus: 8}}\npartitions: {P: {nodes: {n: 4}}}\n"


def _on_a_cluster(
    queue: str, script: str, folder: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> dict[str, Any]:
    """The import for a cluster that has only this queue."""
    (folder / "job.sbatch").write_text(script)
    (folder / "cluster.yaml").write_text(CLUSTER.replace("P:", f"{queue}:"))
    path = f"{folder}/cluster.yaml"
    run(["import", str(folder / "job.sbatch"), "--cluster", path, "--json"])
    return dict(json.loads(capsys.readouterr().out)[0])


def test_a_queue_that_the_cluster_lacks_changes_nothing_else(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = "export MASTER_PORT=$((10000 + $(date +%N) % 1000))\n"
    script = f"{HEAD}{port}srun torchrun train.py\n"
    right, wrong = (_on_a_cluster(one, script, tmp_path, capsys) for one in ("train", "other"))
    assert not right["problems"]
    (problem,) = wrong["problems"]
    assert "has no queue train" in problem["what"]
    for key in ("spec", "not_needed", "not_carried_over"):
        assert wrong[key] == right[key]
    assert not wrong["same"]


@pytest.mark.parametrize(
    ("options", "allocated"),
    [
        ("--cpus-per-task=32", ["whole nodes with all memory", "64 CPUs of each node, not 32"]),
        ("--cpus-per-task=64 --exclusive", ["all memory"]),
        ("--cpus-per-task=64 --exclusive --mem=0", []),
        ("--mem=100G", ["whole nodes, for which"]),
    ],
)
def test_what_the_job_gets_beyond_the_script_is_said(
    options: str,
    allocated: list[str],
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = f"{HEAD}#SBATCH {options}\nsrun torchrun train.py\n"
    found = _on_a_cluster("train", script, tmp_path, capsys)["allocation"]
    assert len(found) == len(allocated)
    assert all(one.startswith(start) for one, start in zip(found, allocated, strict=True))
    run(["import", str(tmp_path / "job.sbatch"), "--cluster", f"{tmp_path}/cluster.yaml"])
    shown = capsys.readouterr().err.splitlines()
    assert [one for one in shown if one.startswith("allocated: ")] == [
        f"allocated: {one}" for one in found
    ]


@pytest.mark.parametrize("image", ["nersc/pytorch:24.08", ""])
def test_the_image_of_shifter_may_be_an_option_of_sbatch(
    image: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = HEAD.replace("#SBATCH", f"#SBATCH --image={image}\n#SBATCH", 1) if image else HEAD
    found = _import(tmp_path, capsys, head + "srun shifter -V /fsx/a:/data python b.py\n")
    made = yaml.safe_load(found["spec"])
    if image:
        assert made["software"]["container"] == {
            "runtime": "shifter",
            "image": image,
            "mounts": ["/fsx/a:/data"],
        }
        assert "image" not in made["sbatch"]
    assert made.get("command", made.get("script")) in ("b.py", ["python", "b.py"], "python b.py")
    assert any(one["what"] == "shifter" for one in found["not_carried_over"]) is not bool(image)

"""Which rule of a policy each job breaks, and at which value."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from plans import BASE

from clusterjobs import resources
from clusterjobs.clusters.parallelcluster.facts import cluster_facts
from clusterjobs.clusters.parallelcluster.source import read_cluster
from clusterjobs.errors import InputError, Problem
from clusterjobs.frameworks import option_models
from clusterjobs.sections.order import resolve
from clusterjobs.sites.policy import load_policy
from clusterjobs.sites.policy_check import JobValues, User, check_policies
from clusterjobs.spec.keys.container import spellings
from clusterjobs.spec.load import load_spec

_PACKED = {"per_node": 8, "grid": {"gpus_per_node": [1]}}
ANN = User("ann", frozenset({"students", "users"}))


def broken(
    rule: dict[str, Any],
    user: User = ANN,
    planned: bool = True,
    default_queue: str = "",
    **keys: object,
) -> list[Problem]:
    """What a job of BASE with these keys breaks of one rule."""
    policy = {"rules": [{"name": "one", "message": "Do it.", **rule}]}
    rules = load_policy(yaml.safe_dump(policy, sort_keys=False), "policy.yaml", option_models())
    data = {key: value for key, value in {**BASE, **keys}.items() if value is not None}
    spec = load_spec(json.dumps(data), "exp.yaml", option_models())
    name = f"{data['cluster']}.yaml"
    text = (resources.cluster_configs_dir() / name).read_text(encoding="utf-8")
    facts = cluster_facts(read_cluster(text, name, {})[0])
    plan = resolve(spec, facts) if planned else None
    return list(check_policies(rules, JobValues(spec, plan, facts.name, user, default_queue)))


def said(*arguments: Any, **keys: Any) -> list[str]:
    """`path: what` of each."""
    return [f"{one.path}: {one.what}" for one in broken(*arguments, **keys)]


# Each row: the rule, keys of a spec, the paths of the values that break it.
TABLE: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
    # keys that are required
    ({"require": ["time_limit"]}, {}, ["time_limit"]),
    ({"require": ["time_limit"]}, {"time_limit": "1:00:00"}, []),
    ({"require": ["sbatch.account"]}, {"sbatch": {"comment": "x"}}, ["sbatch.account"]),
    ({"require": ["sbatch.account"]}, {"sbatch": {"account": False}}, ["sbatch.account"]),
    ({"require": ["sbatch.account"]}, {"sbatch": {"account": "a"}}, []),
    ({"require": ["queue"]}, {}, ["queue"]),  # a derived value is not written
    ({"require": ["nodes", "logs"]}, {}, ["nodes", "logs"]),  # nor is a built-in default
    ({"require": ["logs.path"]}, {"logs": "/fsx/logs"}, []),
    ({"require": ["preflight"]}, {}, ["preflight"]),
    ({"require": ["preflight"]}, {"preflight": False}, ["preflight"]),
    ({"require": ["preflight"]}, {"preflight": True}, []),
    ({"require": ["data.size_gib"]}, {}, []),  # every data set has it: there is none
    (
        {"require": ["data.size_gib"]},
        {
            "data": [
                {"source": "/fsx/a", "target": "/fsx/b", "size_gib": 1},
                {"source": "/fsx/c", "target": "/fsx/d"},
            ]
        },
        ["data[1].size_gib"],
    ),
    # values that are allowed
    ({"allow": {"sbatch.account": "bio-*"}}, {}, []),
    ({"allow": {"sbatch.account": ["bio-*", "chem"]}}, {"sbatch": {"account": "bio-1"}}, []),
    ({"allow": {"sbatch.account": "bio-*"}}, {"sbatch": {"account": "b"}}, ["sbatch.account"]),
    ({"allow": {"sbatch.account": "Bio"}}, {"sbatch": {"account": "bio"}}, ["sbatch.account"]),
    ({"allow": {"nodes": [1, 2, 4]}}, {"nodes": 3}, ["nodes"]),
    ({"allow": {"nodes": [1, 2, 4]}}, {}, []),  # the built-in default is 1
    ({"allow": {"launcher": ["srun"]}}, {"launcher": "torchrun"}, ["launcher"]),
    ({"allow": {"queue": ["other"]}}, {}, ["queue"]),  # a derived value
    ({"allow": {"instance_type": ["p5*"]}}, {}, ["instance_type"]),
    ({"allow": {"cluster": ["p4d-*"]}}, {}, []),
    (
        {"allow": {"sbatch": ["account", "mail-*"]}},  # of a mapping, the names
        {"sbatch": {"account": "a", "mail-type": "END", "comment": "x"}},
        ["sbatch.comment"],
    ),
    (
        {"allow": {"data.source": ["s3://our-*"]}},  # of a list, each item
        {"data": [{"source": "/fsx/a", "target": "/fsx/b"}]},
        ["data[0].source"],
    ),
    # values and keys that are forbidden
    ({"forbid": {"software.modules": "cuda/1*"}}, {"software": {"modules": ["a", "cuda/11"]}},
     ["software.modules[1]"]),
    ({"forbid": {"env": ["NCCL_*"]}}, {"env": {"NCCL_ALGO": "Ring", "X": 1}}, ["env.NCCL_ALGO"]),
    ({"forbid": ["env.X"]}, {"env": {"X": 1}}, ["env.X"]),
    ({"forbid": ["env.X"]}, {"env": {"Y": 1}}, []),
    ({"forbid": ["nodes"]}, {}, []),  # a default is not written
    ({"forbid": ["sbatch.exclusive"]}, {"sbatch": {"exclusive": False}}, []),
    ({"forbid": {"logs.path": "logs"}}, {}, ["logs.path"]),
    ({"forbid": {"args": ["fast"]}}, {"args": {"fast": True}}, ["args.fast"]),
    ({"forbid": {"args.lr": ["0.1"]}}, {"args": {"lr": 0.1}}, ["args.lr"]),
    ({"forbid": {"sbatch.hold": ["true"]}}, {"sbatch": {"hold": True}}, ["sbatch.hold"]),
    # limits
    ({"limits": {"nodes": 2}}, {"nodes": 2}, []),
    ({"limits": {"nodes": 2}}, {"nodes": 3}, ["nodes"]),
    ({"limits": {"gpus": 16}}, {"nodes": 2}, []),
    ({"limits": {"gpus": 15}}, {"nodes": 2}, ["nodes"]),
    ({"limits": {"gpus": 0}}, {"gpus_per_node": 0, "launcher": "srun"}, []),
    ({"limits": {"gpus": 15}}, {"sweep": _PACKED}, []),  # 8 points with a GPU each
    ({"limits": {"gpus": 7}}, {"sweep": _PACKED}, ["nodes"]),
    ({"limits": {"gpus_per_node": 4}}, {}, ["gpus_per_node"]),
    ({"limits": {"gpus_per_node": 4}}, {"gpus_per_node": 4}, []),
    ({"limits": {"time": "1-00:00:00"}}, {"time_limit": "24:00:00"}, []),
    ({"limits": {"time": "1-00:00:00"}}, {"time_limit": "24:00:01"}, ["time_limit"]),
    ({"limits": {"time": 90}}, {"time_limit": "1:30:00"}, []),
    ({"limits": {"time": "1-00:00:00"}}, {}, ["time_limit"]),
    ({"limits": {"time": "1-00:00:00"}}, {"time_limit": "UNLIMITED"}, ["time_limit"]),
    ({"limits": {"gpu_hours": 8}}, {"time_limit": "1:00:00"}, []),
    ({"limits": {"gpu_hours": 7.9}}, {"time_limit": "1:00:00"}, ["time_limit"]),
    ({"limits": {"gpu_hours": 8}}, {}, ["time_limit"]),
    ({"limits": {"gpu_hours": 8}}, {"gpus_per_node": 0, "launcher": "srun"}, []),
    # the preflight
    ({"preflight": True}, {}, ["preflight"]),
    ({"preflight": ["gpus"]}, {"preflight": True}, []),
    ({"preflight": ["gpus", "efa"]}, {"preflight": ["gpus"]}, ["preflight"]),
    ({"preflight": ["gpus"]}, {"preflight": {"checks": ["gpus", "efa"]}}, []),
    # which jobs
    ({"when": {"queues": ["train"]}, "require": ["after"]}, {}, ["after"]),
    ({"when": {"queues": ["p5"]}, "require": ["after"]}, {}, []),
    ({"when": {"clusters": ["p4d-*"]}, "require": ["after"]}, {}, ["after"]),
    ({"when": {"clusters": ["p5-*"]}, "require": ["after"]}, {}, []),
    ({"when": {"frameworks": ["torchrun"]}, "require": ["after"]}, {}, ["after"]),
    ({"when": {"users": ["bob", "an?"]}, "require": ["after"]}, {}, ["after"]),
    ({"when": {"groups": ["students"]}, "require": ["after"]}, {}, ["after"]),
    ({"when": {"groups": ["staff"]}, "require": ["after"]}, {}, []),
    ({"when": {"groups": ["students"], "users": ["bob"]}, "require": ["after"]}, {}, []),
    ({"unless": {"groups": ["students"]}, "require": ["after"]}, {}, []),
    ({"unless": {"groups": ["staff"]}, "require": ["after"]}, {}, ["after"]),
    ({"unless": {"groups": ["students"], "users": ["bob"]}, "require": ["after"]}, {}, ["after"]),
    (
        {"when": {"groups": ["students"]}, "unless": {"users": ["ann"]}, "require": ["after"]},
        {},
        [],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "keys", "paths"), TABLE)
def test_rule_is_broken_at_these_values(
    rule: dict[str, Any], keys: dict[str, Any], paths: list[str]
) -> None:
    assert [one.path for one in broken(rule, **keys)] == paths


def test_problem_has_the_admins_message_its_link_the_rule_and_the_position() -> None:
    (one,) = broken({"limits": {"nodes": 1}, "link": "https://wiki.example.org"}, nodes=2)
    assert one.hint == "Do it. See https://wiki.example.org"
    assert str(one.rule) == "rule one, policy.yaml:2"
    assert one.where is not None
    assert one.where.source[one.where.column - 1] == "2"
    assert not one.warning


def test_a_user_without_groups_is_exempt_from_no_rule_that_exempts_a_group() -> None:
    rule = {"unless": {"groups": ["vision"]}, "limits": {"nodes": 4}}
    assert [one.path for one in broken(rule, User(""), nodes=6)] == ["nodes"]
    assert broken(rule, User("", frozenset({"vision"})), nodes=6) == []


def test_rule_that_warns_gives_a_warning() -> None:
    (one,) = broken({"limits": {"nodes": 1}, "action": "warn"}, nodes=2)
    assert one.warning


def test_derived_value_is_shown_with_its_reason() -> None:
    rule = {"forbid": {"queue": "train"}}
    assert said(rule) == ["queue: 'train' is forbidden (derived: the only GPU queue of p4d-a100)"]
    assert said(rule, queue="train") == ["queue: 'train' is forbidden"]


def test_a_job_that_names_no_queue_may_run_in_the_planned_one_and_in_slurms_default() -> None:
    """`sbatch: {partition: false}`: Slurm chooses, or the options of sbatch."""
    dropped: dict[str, Any] = {"sbatch": {"partition": False}, "default_queue": "p5"}
    for queue in ("train", "p5"):
        assert len(broken({"forbid": {"queue": queue}}, **dropped)) == 1
        assert broken({"allow": {"queue": queue}}, **dropped)
        assert broken({"when": {"queues": [queue]}, "require": ["after"]}, **dropped)
        assert broken({"unless": {"queues": [queue]}, "require": ["after"]}, **dropped)
    assert not broken({"unless": {"queues": ["train", "p5"]}, "require": ["after"]}, **dropped)
    assert not broken({"forbid": {"queue": "p5"}}, default_queue="p5")  # not dropped
    assert said({"forbid": {"queue": "p5"}}, queue="train", **dropped) == [
        "queue: 'p5' is forbidden"
    ]


def test_rules_about_values_that_no_plan_has_made_are_left_out() -> None:
    for rule in (
        {"when": {"queues": ["train"]}, "require": ["after"]},
        {"unless": {"queues": ["p5"]}, "require": ["after"]},
        {"forbid": {"queue": "train"}},
        {"limits": {"gpus": 1, "gpus_per_node": 1, "gpu_hours": 1}},
    ):
        assert said(rule, planned=False) == []
    assert said({"limits": {"nodes": 1}}, planned=False, nodes=2) == ["nodes: 2 is more than 1"]
    rule = {"when": {"queues": ["train"]}, "limits": {"gpus": 1}}
    assert said(rule, planned=False, queue="train", gpus_per_node=8) == [
        "nodes: 8 GPUs (1 x 8) are more than 1"
    ]


@pytest.mark.parametrize(
    ("image", "names"),
    [
        ("pytorch/pytorch:2.6", ("docker.io/pytorch/pytorch:2.6", "pytorch/pytorch:2.6")),
        ("ubuntu", ("docker.io/library/ubuntu:latest", "ubuntu:latest")),
        ("docker.io/library/ubuntu:24.04", ("docker.io/library/ubuntu:24.04", "ubuntu:24.04")),
        ("index.docker.io/a/b:1", ("docker.io/a/b:1", "a/b:1")),
        ("Docker.io:443/a/b:1", ("docker.io/a/b:1", "a/b:1")),
        ("docker://nvcr.io#nvidia/pytorch:24.01", ("nvcr.io/nvidia/pytorch:24.01",)),
        ("docker://$oauthtoken@nvcr.io#nvidia/pytorch", ("nvcr.io/nvidia/pytorch:latest",)),
        ("NVCR.io/nvidia/pytorch:24.01", ("nvcr.io/nvidia/pytorch:24.01",)),
        ("localhost:5000/a:1", ("localhost:5000/a:1",)),
        ("r.example.org/a@sha256:00ff", ("r.example.org/a@sha256:00ff",)),
        ("/fsx/images/a.sqsh", ()),
        ("./a.sif", ()),
        ("oras://r.example.org/a:1", ()),
    ],
)
def test_image_is_compared_in_all_its_spellings(image: str, names: tuple[str, ...]) -> None:
    assert spellings(image) == (image, *names)


@pytest.mark.parametrize(
    ("rule", "image", "count"),
    [
        ({"forbid": ["*:latest"]}, "ubuntu", 1),
        ({"forbid": ["docker.io/*"]}, "ubuntu:24.04", 1),
        ({"forbid": ["nvcr.io/*"]}, "docker://nvcr.io#nvidia/pytorch:24.01", 1),
        ({"forbid": ["nvcr.io/*"]}, "r.example.org/a:1", 0),
        ({"allow": ["r.example.org/*"]}, "r.example.org/a:1", 0),
        ({"allow": ["r.example.org/*"]}, "ubuntu:24.04", 1),
        ({"allow": ["*.sqsh"]}, "/fsx/a.sqsh", 0),
    ],
)
def test_images_are_allowed_and_forbidden(rule: dict[str, Any], image: str, count: int) -> None:
    software = {"container": {"runtime": "pyxis", "image": image}}
    keys = [one.path for one in broken({"images": rule}, software=software, planned=False)]
    assert keys == ["software.container.image"] * count
    keys = [one.path for one in broken({"images": rule}, srun={"container-image": image})]
    assert keys == ["srun.container-image"] * count


def test_job_without_a_container_breaks_no_rule_about_images() -> None:
    assert said({"images": {"allow": ["r.example.org/*"]}}) == []


def test_keys_of_a_framework_are_compared_too() -> None:
    keys = {"framework": "deepspeed", "batch": {"micro": 1, "accumulation": 1}}
    rule = {"forbid": {"zero.stage": [3]}}
    assert said(rule, **keys, zero={"stage": 3}) == ["zero.stage: '3' is forbidden"]
    assert said(rule, **keys, zero={"stage": 2}) == []
    assert said(rule) == []


def test_pattern_of_many_stars_is_compared_in_time() -> None:
    rule = {"forbid": {"name": "a*" * 200 + "b"}}
    assert said(rule, name="a" * 200) == []


def test_bad_policy_is_an_error_before_any_job_is_compared() -> None:
    with pytest.raises(InputError):
        broken({})


def test_a_rule_can_forbid_an_option_of_a_launcher() -> None:
    rule = {"forbid": ["torchrun.max_restarts"]}
    assert said(rule, torchrun={"tee": 3}) == []
    keys = {"checkpoints": {"path": "/fsx/c"}, "torchrun": {"max_restarts": 2}}
    assert [one.path for one in broken(rule, **keys)] == ["torchrun.max_restarts"]

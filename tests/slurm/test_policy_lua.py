"""The job_submit plugin of a policy, run by plain Lua with jobs of our own."""

from __future__ import annotations

import fnmatch
import json
import pathlib
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from clusterjobs.admin.policy_lua import lua_plugin
from clusterjobs.errors import InputError
from clusterjobs.frameworks import option_models
from clusterjobs.lab.slurm import cache_dir, find_program
from clusterjobs.sites.policy import load_policy

pytestmark = pytest.mark.slow

# What slurmctld gives the plugin, and a last line of JSON: what was returned, and said.
DRIVER = """\
local said = {}
slurm = { SUCCESS = 0, ERROR = -1 }
function slurm.log_user(form, ...) said[#said + 1] = string.format(form, ...) end
local parts = { main = { flag_default = 1 }, p5 = { flag_default = 0 } }
local plugin = assert(loadfile(arg[1]))
plugin()
local function answer(code)
   print(code)
   for _, one in ipairs(said) do print(one) end
end
"""


@pytest.fixture(scope="module")
def lua() -> pathlib.Path:
    try:
        return find_program("lua5.3", "lua5.3", cache_dir())
    except InputError as error:
        pytest.skip(str(error))


def plugin_of(*rules: dict[str, Any], cluster: str | None = None) -> str:
    named = [{"name": f"r{i}", "message": f"m{i}", **rule} for i, rule in enumerate(rules)]
    text = yaml.safe_dump({"rules": named}, sort_keys=False)
    return lua_plugin(load_policy(text, "policy.yaml", option_models()), cluster)


@pytest.fixture
def submit(tmp_path: pathlib.Path, lua: pathlib.Path) -> Callable[..., tuple[int, str]]:
    """Run the plugin of rules with one job; returns what it answers, and says to the user."""

    def run(rules: list[dict[str, Any]], uid: int = 1000, modify: bool = False, **job: Any) -> Any:
        (tmp_path / "job_submit.lua").write_text(plugin_of(*rules))
        fields = ", ".join(f"[{json.dumps(k)}] = {json.dumps(v)}" for k, v in job.items())
        call = f"slurm_job_submit({{ {fields} }}, parts, {uid})"
        if modify:
            call = f"slurm_job_modify({{ {fields} }}, {{ min_nodes = 9 }}, parts, {uid})"
        (tmp_path / "driver.lua").write_text(f"{DRIVER}answer({call})\n")
        done = subprocess.run(
            [lua, tmp_path / "driver.lua", tmp_path / "job_submit.lua"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        code, _, said = done.stdout.partition("\n")
        return int(code), said

    return run


Submit = Callable[..., tuple[int, str]]
NO_TIME = 4294967294


def test_a_job_above_a_limit_is_refused_with_the_message_and_the_rule(submit: Submit) -> None:
    rules = [{"limits": {"nodes": 8}, "message": "Ask us.", "link": "https://a.b/c"}]
    assert submit(rules, min_nodes=8) == (0, "")
    code, said = submit(rules, min_nodes=9)
    assert code == -1
    assert said == "nodes: 9 is more than 8 [rule r0]\n  Ask us. See https://a.b/c\n"
    assert submit(rules, min_nodes=2, max_nodes=9)[0] == -1
    assert submit(rules, min_nodes=2, max_nodes=NO_TIME)[0] == 0


@pytest.mark.parametrize(
    ("field", "value", "gpus"),
    [
        ("tres_per_node", "gres:gpu:8", 16),
        ("tres_per_node", "gres/gpu:h100:4", 8),
        ("tres_per_node", "gres:gpu", 2),
        ("tres_per_node", "gres:nvme:1,gres:gpu:a100:2", 4),
        ("tres_per_job", "gres:gpu:5", 5),
        ("tres_per_task", "gres:gpu:2", 12),
        ("tres_per_node", "gres:gpus:8", 0),
    ],
)
def test_gpus_are_counted_in_every_form_of_a_request(
    submit: Submit, field: str, value: str, gpus: int
) -> None:
    job = {field: value, "min_nodes": 2, "num_tasks": 6}
    assert submit([{"limits": {"gpus": gpus}}], **job)[0] == 0
    assert submit([{"limits": {"gpus": gpus - 1}}], **job)[0] == -1 if gpus else True


def test_a_job_without_a_time_limit_breaks_rules_about_time(submit: Submit) -> None:
    rules = [{"limits": {"time": "2:00:00"}}]
    assert submit(rules, time_limit=120) == (0, "")
    assert "121 minutes are longer than 2:00:00" in submit(rules, time_limit=121)[1]
    for endless in (NO_TIME, NO_TIME + 1):
        said = submit(rules, time_limit=endless)[1]
        assert "the job has no time limit: write 2:00:00 at most" in said
    hours = [{"limits": {"gpu_hours": 4}}]
    job = {"tres_per_node": "gres:gpu:2", "min_nodes": 1}
    assert submit(hours, time_limit=120, **job)[0] == 0
    assert submit(hours, time_limit=121, **job)[0] == -1
    assert submit(hours, time_limit=NO_TIME, **job)[0] == -1


def test_a_warning_is_said_and_does_not_refuse(submit: Submit) -> None:
    code, said = submit([{"require": ["sbatch.comment"], "action": "warn"}])
    assert (code, said) == (0, "sbatch.comment: comment is missing [rule r0]\n  m0\n")


def test_queues_are_those_of_the_job_or_the_default_one(submit: Submit) -> None:
    rule = {"when": {"queues": ["main"]}, "limits": {"nodes": 1}}
    assert submit([rule], min_nodes=2)[0] == -1
    assert submit([rule], min_nodes=2, partition="p5,main")[0] == -1
    assert submit([rule], min_nodes=2, partition="p5")[0] == 0
    unless = {"unless": {"queues": ["p*"]}, "limits": {"nodes": 1}}
    assert submit([unless], min_nodes=2, partition="p5,main")[0] == -1
    assert submit([unless], min_nodes=2, partition="p5,p4")[0] == 0
    assert submit([{"forbid": {"queue": ["p5"]}}], partition="main,p5")[0] == -1


def test_users_accounts_and_groups_select(submit: Submit) -> None:
    for kind in ("users", "accounts"):
        rule = {"when": {kind: ["an*"]}, "limits": {"nodes": 1}}
        field = {"users": "user_name", "accounts": "account"}[kind]
        assert submit([rule], min_nodes=2, **{field: "ann"})[0] == -1
        assert submit([rule], min_nodes=2, **{field: "bob"})[0] == 0
        assert (
            submit(
                [{**rule, "when": {}, "unless": {kind: ["an*"]}} | {"when": {"queues": ["*"]}}],
                min_nodes=2,
                **{field: "ann"},
            )[0]
            == 0
        )
    rule = {"when": {"groups": ["root"]}, "limits": {"nodes": 1}}
    assert submit([rule], min_nodes=2, user_name="root")[0] == -1
    assert submit([rule], min_nodes=2, user_name="nobody-here")[0] == 0
    assert submit([rule], min_nodes=2, user_name="root; id")[0] == 0


def test_a_changed_job_is_compared_as_a_whole_except_for_root(submit: Submit) -> None:
    rules = [{"limits": {"nodes": 8}}]
    assert submit(rules, modify=True)[0] == -1  # it has nine nodes
    assert submit(rules, modify=True, min_nodes=4)[0] == 0
    assert submit(rules, modify=True, uid=0)[0] == 0


PATTERNS = [
    "a*",
    "?b",
    "[ab]c",
    "[!a]c",
    "a.b",
    "a-b",
    "a+b",
    "100%",
    "[a-c]d",
    "a[b",
    "*",
    "(x)",
    "ü*",
]
VALUES = [
    "a",
    "ab",
    "bb",
    "ac",
    "cc",
    "a.b",
    "axb",
    "a-b",
    "a+b",
    "aab",
    "100%",
    "bd",
    "a[b",
    "(x)",
    "x",
]


def test_patterns_fit_what_they_fit_in_a_plan(submit: Submit) -> None:
    for pattern in PATTERNS:
        rules = [{"forbid": {"sbatch.comment": [pattern]}}]
        for value in VALUES:
            refused = submit(rules, comment=value)[0] == -1
            assert refused == fnmatch.fnmatchcase(value, pattern), (pattern, value)


@pytest.mark.parametrize("text", ['"]] --', "a\\", "%s %d", "]] }", "\u00fc", "${x}"])
def test_no_text_of_a_rule_can_leave_its_string(submit: Submit, text: str) -> None:
    rules = [{"message": text, "require": ["sbatch.comment"], "allow": {"sbatch.qos": [text]}}]
    code, said = submit(rules)
    assert code == -1
    assert said == f"sbatch.comment: comment is missing [rule r0]\n  {' '.join(text.split())}\n"


def test_what_slurm_cannot_know_is_named() -> None:
    text = plugin_of(
        {"limits": {"nodes": 1}, "when": {"frameworks": ["torchrun"]}},
        {"images": {"forbid": ["*:latest"]}},
        {"require": ["env.X", "sbatch.comment"]},
        {"limits": {"nodes": 1}, "when": {"clusters": ["a"]}},
    )
    for line in (
        "-- not enforced: r0: the rule: Slurm does not know the framework of a job",
        "-- not enforced: r1: images: Slurm does not know the image of a container",
        "-- not enforced: r2: require: a job of Slurm has no field for env.X",
        "-- not enforced: r3: the rule: it is for the clusters a: name one with --cluster",
    ):
        assert line in text
    assert "r3" not in plugin_of(
        *({"limits": {"nodes": 1}} for _ in range(3)),
        {"limits": {"nodes": 1}, "when": {"clusters": ["a"]}},
        cluster="b",
    )


def test_command_prints_the_plugin(clusterjobs: Callable[..., Any], folder: pathlib.Path) -> None:
    (folder / "site").mkdir()
    rule = "{name: one, message: m, limits: {nodes: 2}}"
    (folder / "site" / "policy.yaml").write_text(f"rules:\n- {rule}\n")
    outcome = clusterjobs("policy", "export", "--lua", "--site", "site")
    assert (outcome.code, outcome.err) == (0, "")
    assert '["name"] = "one"' in outcome.out
    assert clusterjobs("policy", "export", "--lua", "--slurm", "--site", "site").code == 2

"""An admin's story, command by command: what he changes, and what he sees before users get it.

`our-site` is his working copy, `released` is what the users' specs are rendered with.
"""

from __future__ import annotations

import json
import pathlib
import shutil

import pytest
from packaged_upgrade import edit, upgrade

from clusterjobs import resources

__all__ = ["upgrade"]
pytestmark = pytest.mark.slow

SPEC = """\
name: {name}
cluster: {cluster}
framework: command
command: [./train]
time_limit: 60
"""
DEFAULTS = """\
all:
  sbatch: {account: research}
  setup: {prepend: ["module load our-stack"]}
"""
POLICY = """\
rules:
  - name: no-students-on-p4d
    message: The p4d queue is for funded projects; students use the cluster small.
    link: https://wiki.example.org/queues
    when: {clusters: [p4d-a100], groups: [students]}
    forbid: {queue: [train]}
"""
SITE, RELEASED = pathlib.Path("our-site"), pathlib.Path("released")
LAUNCH = SITE / "templates/blocks/launch.sh.j2"


class Admin:
    """Runs commands in a folder with the specs of ten users."""

    def __init__(self, clusterjobs) -> None:
        self._clusterjobs = clusterjobs
        for user in range(10):
            for number, cluster in enumerate(("small", "p4d-a100", "p4d-a100")):
                spec = pathlib.Path(f"users/user{user}/exp{number}.yaml")
                spec.parent.mkdir(parents=True, exist_ok=True)
                spec.write_text(SPEC.format(name=f"u{user}-{number}", cluster=cluster))

    def runs(self, line: str, code: int = 0) -> str:
        """What a command line says; it must end with that exit code."""
        outcome = self._clusterjobs(*line.split())
        assert outcome.code == code, (line, outcome.out, outcome.err)
        return outcome.out + outcome.err

    def sees_impact(self, *said: str) -> str:
        """What the working copy would change in the users' 30 specs."""
        shown = self.runs(f"impact users --before {RELEASED} --jobs 2")
        for text in said:
            assert text in shown
        return shown

    def releases(self) -> None:
        shutil.rmtree(RELEASED)
        shutil.copytree(SITE, RELEASED)


@pytest.fixture
def admin(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, clusterjobs) -> Admin:
    """An admin with a new site folder that is released as it was made."""
    monkeypatch.setenv("CLUSTERJOBS_SITE", str(SITE))
    SITE.mkdir()
    found = Admin(clusterjobs)
    found.runs(f"site init {SITE}")
    shutil.copytree(SITE, RELEASED)
    for name, cluster in (("cpus", "small"), ("gpus", "p4d-a100")):
        test = SITE / "tests" / name
        test.mkdir(parents=True, exist_ok=True)
        (test / "spec.yaml").write_text(SPEC.format(name=name, cluster=cluster))
    found.runs("templates test --update")
    return found


def test_the_account_and_a_module_for_all_specs(admin: Admin) -> None:
    (SITE / "defaults.yaml").write_text(DEFAULTS)
    shown = admin.runs("templates test", code=1)
    assert "+#SBATCH --account=research" in shown
    assert "+module load our-stack" in shown
    admin.runs("templates test --update")
    impact = admin.sees_impact("changed: 30 specs", "30 specs rendered: 30 changed, 0 unchanged")
    assert "+#SBATCH --account=research" in impact
    plan = admin.runs("plan users/user3/exp0.yaml")
    assert "our-site/defaults.yaml:2" in plan
    admin.releases()
    admin.sees_impact("30 specs rendered: 30 unchanged")


def test_a_queue_that_is_forbidden_to_one_group(admin: Admin) -> None:
    (SITE / "policy.yaml").write_text(POLICY)
    student = SITE / "tests" / "student"
    student.mkdir()
    (student / "spec.yaml").write_text(SPEC.format(name="student", cluster="p4d-a100"))
    (student / "rules.yaml").write_text("groups: [students]\nrules: [no-students-on-p4d]\n")
    assert "student" in admin.runs("policy test")
    assert "our-site/tests/student: refused: " in admin.runs("templates test")
    admin.sees_impact("30 specs rendered: 30 unchanged")  # their owner is no student
    admin.runs("plan users/user3/exp1.yaml --group staff")
    admin.runs("plan users/user3/exp0.yaml --group students")
    refused = admin.runs("plan users/user3/exp1.yaml --group students", code=1)
    for text in (
        "The p4d queue is for funded projects; students use the cluster small.",
        "https://wiki.example.org/queues",
        "our-site/policy.yaml:2",
    ):
        assert text in refused


def test_a_block_that_is_overridden_checked_tested_and_merged_after_an_upgrade(
    admin: Admin, upgrade
) -> None:
    admin.runs("templates override launch")
    edit(LAUNCH, "  command=(\n", '  command=( nice -n "$niceness"\n')
    refused = admin.runs("templates check", code=1)
    assert "niceness" in refused  # ShellCheck: it is never assigned
    edit(LAUNCH, '"$niceness"', "10")
    admin.runs("templates check")
    assert "+  command=( nice -n 10" in admin.runs("templates test", code=1)
    admin.runs("templates test --update")
    admin.sees_impact("changed: 30 specs", "+  command=( nice -n 10")
    admin.releases()

    upgrade("0.2.0", ("{{ launch.title }}\n", "{{ launch.title }}\n  date # launched\n"))
    assert "+  date # launched" in admin.runs("templates update --dry-run")
    merged = admin.runs("templates update")
    assert f"{LAUNCH}: merged into yours:" in merged
    admin.runs("templates check")
    assert "+  date # launched" in admin.runs("templates test", code=1)
    admin.runs("templates test --update")
    admin.sees_impact("changed: 30 specs", "+  date # launched")

    upgrade("0.3.0", ("  command=(\n", "  command=( env\n"))
    conflict = admin.runs("templates update", code=1)
    assert "a conflict of a merge is not resolved" in conflict
    admin.runs("templates check", code=1)
    text = LAUNCH.read_text()
    start, end = text.index("<<<<<<<"), text.index(">>>>>>> clusterjobs 0.3.0\n")
    LAUNCH.write_text(text[:start] + "  command=( env nice -n 10\n" + text[end:].partition("\n")[2])
    assert "are resolved" in admin.runs("templates update")
    admin.runs("templates check")


def test_a_page_for_the_wiki(admin: Admin) -> None:
    (SITE / "defaults.yaml").write_text(DEFAULTS)
    (SITE / "policy.yaml").write_text(POLICY)
    admin.runs("templates override --insert before_launch")
    admin.runs("templates docs -o wiki.md")
    page = pathlib.Path("wiki.md").read_text()
    for text in ("sbatch.account", "no-students-on-p4d", "our-site/templates/before_launch.sh"):
        assert text in page


def test_a_line_that_breaks_jobs_is_refused_for_the_admin_and_for_users(admin: Admin) -> None:
    (SITE / "templates").mkdir(exist_ok=True)
    inserted = SITE / "templates/before_launch.sh"
    inserted.write_text('eval "set +e"\nnvidia-smi -L\n')
    for command in ("templates check", "render users/user0/exp0.yaml -o out"):
        assert "`set +e` ends the strict mode" in admin.runs(command, code=1)
    assert not pathlib.Path("out").exists()
    inserted.write_text("srun() { true; }\n")  # which `run_ranks srun` would call
    assert "this line replaces srun" in admin.runs("render users/user0/exp0.yaml -o out", code=1)
    inserted.write_text("nvidia-smi -L || true\n")
    admin.runs("templates check")
    admin.runs("render users/user0/exp0.yaml -o out")


def test_a_rule_that_starts_later_is_explained_and_reported_to_ci(admin: Admin) -> None:
    (SITE / "policy.yaml").write_text(f"{POLICY}    from: 2999-01-01\n")
    explain = "policy explain users/user0/exp1.yaml --group students"
    assert "not in force" in admin.runs(explain)
    (SITE / "policy.yaml").write_text(POLICY)
    assert "broken" in admin.runs(explain, code=1)
    for user in range(10):
        spec = pathlib.Path(f"users/user{user}/exp1.yaml")
        spec.write_text(spec.read_text().replace("time_limit: 60", "time_limit: 600"))
    (SITE / "policy.yaml").write_text("rules:\n- {name: short, message: m, limits: {time: 120}}\n")
    reports = "--json --junit impact.xml --sarif impact.sarif"
    line = f"impact users --before {RELEASED} --jobs 2 {reports}"
    (group,) = json.loads(admin.runs(line, code=1))["groups"]
    (paths,) = group["owners"].values()
    assert len(paths) == len(group["specs"]) == group["count"] == 10
    report = pathlib.Path("impact.xml").read_text()
    assert 'failures="10"' in report
    assert '<testcase name="users/user0/exp1.yaml"' in report
    (run,) = json.loads(pathlib.Path("impact.sarif").read_text())["runs"]
    places = [one["locations"][0]["physicalLocation"] for one in run["results"]]
    assert {one["artifactLocation"]["uri"] for one in places} == {
        f"users/user{user}/exp1.yaml" for user in range(10)
    }


def test_a_group_is_exempt_for_some_weeks(admin: Admin) -> None:
    rule = (
        "rules:\n- {name: small, message: m, limits: {nodes: 2}, "
        "unless: [{groups: [ops]}, {groups: [nlp], until: DAY}]}\n"
    )
    line = "plan users/user0/exp1.yaml --set nodes=4 --group"
    for day, code in (("2999-01-31", 0), ("2020-01-31", 1)):
        (SITE / "policy.yaml").write_text(rule.replace("DAY", day))
        admin.runs(f"{line} ops")
        admin.runs(f"{line} nlp", code=code)
        admin.runs(f"{line} bio", code=1)
        assert f"until {day}" in admin.runs("policy list")


def test_a_site_names_the_release_of_its_clusters(admin: Admin) -> None:
    (SITE / "site.yaml").write_text("parallelcluster: 3.15.9\n")
    assert "there is no ParallelCluster 3.15.9" in admin.runs("site", code=1)
    (SITE / "site.yaml").write_text("parallelcluster: 3.99.0\n")
    admin.runs("site")
    (SITE / "site.yaml").write_text('requires: ">=99.1"\n')
    said = admin.runs("plan users/user0/exp0.yaml", code=1)
    assert "this site folder needs clusterjobs >=99.1, and this is 0" in said
    (SITE / "site.yaml").write_text('requires: ">=0.1, <99"\nparallelcluster: 3.13.2\n')
    admin.runs("plan users/user0/exp0.yaml")
    admin.runs("site")


def test_prices_of_the_site_are_listed_and_those_of_no_nodes_are_named(admin: Admin) -> None:
    price = "{{instance_type: {}, cluster: {}, usd_per_hour: 10, date: 2026-11, source: ours}}"
    prices = ", ".join(price.format(*one) for one in (("dgx", "own"), ("p4d.24xlarge", "p4d-a100")))
    (SITE / "site.yaml").write_text(f"region: us-east-1\nprices: [{prices}]\n")
    shown = admin.runs("site")
    assert "prices[0]: the price is for no nodes: there is no cluster own" in shown
    assert "prices[1]" not in shown
    (SITE / "clusters").mkdir(exist_ok=True)
    (SITE / "clusters/own.yaml").write_text(
        "kind: slurm\n"
        "node_types: {dgx: {cpus: 96, memory_mib: 500000, gpus: 8, fabric: ethernet}}\n"
        "partitions: {main: {nodes: {dgx: 64}}}\n"
    )
    assert "warning" not in admin.runs("site")
    shown = admin.runs("clusters list")
    for text in ("  640.00  ", "  160.00  ", "price of dgx: ours, 2026-11"):
        assert text in shown


def test_rules_reach_slurm_no_looser_than_the_plan(admin: Admin) -> None:
    (SITE / "policy.yaml").write_text(
        "rules:\n"
        "- {name: everyone, message: At most 8 nodes., limits: {nodes: 8}}\n"
        "- {name: nlp, message: m, when: {groups: [nlp]}, limits: {nodes: 16}}\n"
        "- {name: paid, message: Say who pays., require: [sbatch.comment], until: 2999-01-31}\n"
    )
    refused = admin.runs("plan users/user0/exp1.yaml --group nlp --set nodes=12", code=1)
    assert "nodes: 12 is more than 8" in refused
    pathlib.Path("users.list").write_text("ann|research|nlp\nbob|research|nlp,vision\n")
    exported = admin.runs("policy export --slurm --cluster p4d-a100 --users users.list")
    assert "node=16" not in exported  # Slurm would take it in place of 8
    for text in ("MaxTRESPerJob=node=8", "no setting of Slurm is about --comment"):
        assert text in exported
    assert "Right until 2999-01-31" in exported
    assert "\nuser|ann|research||\n" in exported  # what clusterjobs-undo.sh gives back
    plugin = admin.runs("policy export --lua --cluster p4d-a100")
    assert "Say who pays." in plugin
    assert "Right until 2999-01-31" in plugin
    assert "not enforced" not in plugin


def test_variables_of_the_shell_that_would_beat_the_rules_are_named(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SBATCH_TIMELIMIT", "30-0")
    assert "sbatch takes SBATCH_TIMELIMIT of this shell" in admin.runs(
        "render users/user0/exp0.yaml"
    )


def test_values_that_slurm_refuses_are_refused_before(admin: Admin) -> None:
    shown = admin.runs("plan users/user0/exp1.yaml --set sbatch.mem=64GiB", code=1)
    assert "64GiB" in shown
    cluster = SITE / "clusters/own.yaml"
    cluster.parent.mkdir(exist_ok=True)
    text = (resources.cluster_configs_dir() / "small.yaml").read_text()
    settings = "  SlurmSettings:\n    CustomSlurmSettings: [{MaxArraySize: many}]\n"
    cluster.write_text(text.replace("  SlurmSettings:\n", settings))
    assert "'many' is not a number" in admin.runs("validate own", code=1)


def test_keys_that_were_renamed_are_changed_for_all_users(admin: Admin) -> None:
    spec = pathlib.Path("users/user4/exp0.yaml")
    spec.write_text(f"{spec.read_text()}logs_export: /archive  # ten years\n")
    assert "logs_export is now logs.export" in admin.runs(f"plan {spec}", code=1)
    defaults = SITE / "defaults.yaml"
    defaults.write_text("all: {logs_export: /archive}\n")
    assert "logs_export is now logs.export" in admin.runs("plan users/user5/exp0.yaml", code=1)
    defaults.unlink()
    admin.runs("migrate users --write")
    assert spec.read_text().endswith("logs: {export: /archive}  # ten years\n")
    admin.runs(f"plan {spec}")
    assert "30 specs, 0 with old names of keys" in admin.runs("migrate users")


FOUND = """\
Region: us-east-1
Image: {Os: alinux2023}
HeadNode:
  InstanceType: m6i.xlarge
  Networking: {SubnetId: SUBNET}
  Ssh: {KeyName: lab}
Scheduling:
  Scheduler: slurm
  SlurmQueues:
    - Name: q
      Networking: {SubnetIds: [subnet-0123456789abcdef0]}
      ComputeResources: [{Name: c, InstanceType: TYPE, MaxCount: 4}]
"""


def test_an_old_config_is_upgraded_to_the_release_of_its_cluster(admin: Admin) -> None:
    text = FOUND.replace("SUBNET", "subnet-0123456789abcdef0").replace("TYPE", "c5.xlarge")
    pathlib.Path("found.yaml").write_text(text.replace("alinux2023", "alinux2"))
    assert "nothing to change" in admin.runs("clusters upgrade found.yaml --to 3.15.0")
    shown = admin.runs("clusters upgrade found.yaml --write")
    assert "a cluster that exists keeps its operating system" in shown
    assert "Image: {Os: alinux2023}" in pathlib.Path("found.yaml").read_text()
    assert "banana" in admin.runs("clusters upgrade found.yaml --to banana", code=1)


@pytest.mark.parametrize(
    ("subnet", "kind", "code", "said"),
    [
        ("!FindInMap [Zones, a, Subnet]", "c5.xlarge", 1, "FindInMap was not filled in"),
        ("'{{resolve:ssm:/subnets/a}}'", "c5.xlarge", 0, "is replaced by CloudFormation"),
        ("subnet-0123456789abcdef0\n${MORE}", "c5.xlarge", 1, "envsubst < found.yaml"),
        ("subnet-0123456789abcdef0", "c5.xlrge", 1, "did you mean c5.xlarge?"),
        ("subnet-0123456789abcdef0", "c5.xlrge", 1, "ParallelCluster's validators were not asked"),
    ],
)
def test_configs_of_colleagues_are_read_as_they_are(
    admin: Admin, subnet: str, kind: str, code: int, said: str
) -> None:
    text = FOUND.replace("SUBNET}", f"{subnet}}}" if "\n" not in subnet else f"{subnet}\n  }}")
    pathlib.Path("found.yaml").write_text(text.replace("TYPE", kind))
    assert said in admin.runs("validate found.yaml", code=code)


def test_a_message_in_the_header_of_all_scripts(admin: Admin) -> None:
    admin.runs("templates override header")
    edit(SITE / "templates/blocks/header.sh.j2", "# {{ job.title }}\n", "# Ask: help@example.org\n")
    admin.sees_impact("changed: 30 specs", "+# Ask: help@example.org")


def test_a_cluster_that_is_described_by_its_slurm_conf(admin: Admin) -> None:
    pathlib.Path("slurm.conf").write_text(
        "ClusterName=condo\nNodeName=g[1-4] CPUs=32 RealMemory=512000\n"
        "PartitionName=a Nodes=g[1-4] Default=YES AllowAccounts=chem MaxTime=1-0\n"
        "PartitionName=b Nodes=g[1-4] Default=YES AllowQos=long DefaultTime=60\n"
        "PartitionName=c Nodes=g[1-4] DenyAccounts=bio\n"
    )
    described = admin.runs("clusters import --from-files slurm.conf")
    assert "warning: " not in described
    (SITE / "clusters").mkdir(exist_ok=True)
    (SITE / "clusters/condo.yaml").write_text(described)
    line = "plan users/user0/exp0.yaml --set cluster=condo --set sbatch.account=bio"
    shown = admin.runs(line)
    assert "the default partition of condo" in shown  # b, the last one, which takes all accounts
    assert "description of partition" not in shown
    assert "bio is not in the description of partition a" in admin.runs(f"{line} --set queue=a")
    assert "partition c of condo refuses bio" in admin.runs(f"{line} --set queue=c", code=1)
    conf = pathlib.Path("slurm.conf")
    conf.write_text(f"{conf.read_text()}MaxArraySize=many\nSelectTypeParameters=CR_Corr_Memory\n")
    said = admin.runs("clusters import --from-files slurm.conf")
    assert "slurm.conf:6:14 warning: MaxArraySize: 'many' is not a number" in said
    assert "did you mean CR_Core_Memory?" in said

"""Values of slurm.conf and of sbatch: real Slurm and the tables agree about each."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import pytest

from clusterjobs.lab.slurm import Slurm
from clusterjobs.slurm.values import (
    conf_parameters,
    versions_of_value,
    wrong_conf_value,
    wrong_option_value,
    wrong_together,
)

pytestmark = [pytest.mark.lab, pytest.mark.slow]

# Level, parameter, value.
WRONG_CONF = [
    ("cluster", "SelectTypeParameters", "CR_Corr_Memory"),
    ("cluster", "MaxArraySize", "many"),
    ("cluster", "MaxArraySize", "-5"),
    ("cluster", "UnkillableStepTimeout", "5m"),
    ("cluster", "UnkillableStepTimeout", "70000"),
    ("cluster", "PriorityType", "priority/multifactr"),
    ("cluster", "TopologyPlugin", "topology/tre"),
    ("cluster", "SelectType", "select/cons_trees"),
    ("cluster", "PreemptType", "preempt/partition"),
    ("cluster", "SchedulerType", "sched/backfil"),
    ("cluster", "MaxJobCount", "0"),
    ("cluster", "MaxJobCount", "10m"),
    ("cluster", "KillWait", "30s"),
    ("cluster", "InactiveLimit", "1:00"),
    ("cluster", "MessageTimeout", "ten"),
    ("cluster", "SlurmdTimeout", "5 minutes"),
    ("cluster", "ReturnToService", "yes"),
    ("cluster", "JobRequeue", "true"),
    ("cluster", "DefMemPerCPU", "4G"),
    ("cluster", "MaxMemPerNode", "64GB"),
    ("cluster", "FirstJobId", "0"),
    ("cluster", "PriorityWeightFairshare", "1e6"),
    ("cluster", "PriorityDecayHalfLife", "7 days"),
    ("cluster", "PriorityUsageResetPeriod", "EACH_WEEK"),
    ("cluster", "EnforcePartLimits", "SOME"),
    ("cluster", "PrologFlags", "Alloc,Contains"),
    ("cluster", "AccountingStorageEnforce", "limit"),
    ("cluster", "PropagateResourceLimits", "MEMLOK"),
    ("cluster", "DebugFlags", "Backfil"),
    ("cluster", "PropagateResourceLimits", "core"),
    ("cluster", "PropagateResourceLimitsExcept", "ALL,AS"),
    ("cluster", "PriorityCalcPeriod", "UNLIMITED"),
    ("cluster", "ResumeRate", "09"),
    ("cluster", "PriorityCalcPeriod", "0"),
    ("cluster", "PrologFlags", "Contain,NoHold"),
    ("cluster", "PrologFlags", "x11,alloc,nohold"),
    ("cluster", "SelectTypeParameters", "CR_Core_Memory,CR_CPU"),
    ("cluster", "SelectTypeParameters", "CR_CPU,CR_ONE_TASK_PER_CORE"),
    ("cluster", "PreemptMode", "CANCEL,REQUEUE"),
    ("cluster", "PreemptMode", "OFF,CANCEL"),
    ("cluster", "PreemptMode", "SUSPEND"),
    ("partition", "MaxTime", "36 hours"),
    ("partition", "DefaultTime", "1d"),
    ("partition", "MaxNodes", "all"),
    ("partition", "MaxNodes", "-1"),
    ("partition", "OverSubscribe", "EXCLUSIV"),
    ("partition", "State", "ON"),
    ("partition", "GraceTime", "1m"),
    ("partition", "PriorityTier", "70000"),
    ("partition", "DefMemPerGPU", "8G"),
    ("partition", "Hidden", "maybe"),
    ("node", "Weight", "heavy"),
    ("node", "RealMemory", "64G"),
    ("node", "CPUs", "96c"),
    ("node", "ThreadsPerCore", "two"),
    ("node", "CoresPerSocket", "65533"),
    ("node", "Sockets", "INFINITE"),
    ("node", "SocketsPerBoard", "65535"),
    ("node", "ThreadsPerCore", "1k"),
    ("cluster", "AccountingStorageTRES", "gres/gpu,foo"),
    ("cluster", "AccountingStorageTRES", "cpu, mem"),
    ("partition", "TRESBillingWeights", "CPU=x"),
    ("partition", "TRESBillingWeights", "gpu=2"),
    ("partition", "TRESBillingWeights", "CPU:1.0"),
    ("node", "TRESWeights", "foo=1"),
    ("cluster", "Licenses", "matlab:x"),
    ("cluster", "Licenses", "matlab:10k"),
    ("cluster", "Licenses", "a:1 b:2"),
    ("cluster", "MaxDBDMsgs", "100"),
    ("cluster", "SlurmSchedLogLevel", "debug"),
    ("cluster", "BcastExclude", "/lib,usr"),
    ("cluster", "TaskPluginParam", "cores,threads"),
    ("cluster", "TaskPluginParam", "autobind=x"),
    ("cluster", "AuthAltTypes", "auth/jwtt"),
    ("cluster", "AcctGatherInfinibandType", "acct_gather_interconnect/ofde"),
    ("node", "Port", "70000"),
    ("node", "State", "UP"),
]
# slurmctld starts with these. slurmd does not, or nothing records the jobs.
NO_SUCH_PLUGINS = [
    ("TaskPlugin", "task/affinty"),
    ("TaskPlugin", "task/cgroup,task/afinity"),
    ("ProctrackType", "proctrack/cgrup"),
    ("JobCompType", "jobcomp/file"),
]
RIGHT_CONF = [
    ("cluster", "MaxJobCount", "20k"),
    ("cluster", "PriorityWeightAge", "0x10"),
    ("cluster", "SelectTypeParameters", "CR_Core_Memory,CR_LLN"),
    ("cluster", "SelectTypeParameters", "cr_cpu"),
    ("cluster", "MaxArraySize", "4000001"),
    ("cluster", "PriorityType", "priority/multifactor"),
    ("cluster", "TaskPlugin", "affinity,none"),
    ("cluster", "PriorityDecayHalfLife", "14-0"),
    ("cluster", "PriorityMaxAge", "7-12:30"),
    ("cluster", "PrologFlags", "alloc,Contain"),
    ("cluster", "AccountingStorageEnforce", "associations,limits,qos,safe"),
    ("cluster", "EnforcePartLimits", "any"),
    ("cluster", "UnkillableStepTimeout", "300"),
    ("cluster", "InactiveLimit", "INFINITE"),
    ("cluster", "SlurmctldDebug", "debug3"),
    ("cluster", "SchedulerParameters", "bf_window=4320,bf_continue"),
    ("cluster", "PropagateResourceLimits", "NONE"),
    ("cluster", "PropagateResourceLimits", "CORE,STACK,"),
    ("cluster", "DefCPUPerGPU", "0X1F"),
    ("cluster", "MinJobAge", "0454"),
    ("partition", "MaxTime", "UNLIMITED"),
    ("partition", "MaxTime", "-1"),
    ("partition", "MaxTime", "1-12"),
    ("partition", "MaxNodes", "INFINITE"),
    ("partition", "OverSubscribe", "FORCE:4"),
    ("partition", "State", "drain"),
    ("partition", "DefCpuPerGPU", "6"),
    ("partition", "DefMemPerGPU", "9000"),
    ("node", "Weight", "1000"),
    ("cluster", "PriorityWeightTRES", "CPU=-1.5,mem=0.25GiB,"),
    ("partition", "TRESBillingWeights", "cpu=.5,Energy=1e3"),
    ("cluster", "Licenses", "matlab*3;fluent@srv: 10,a"),
    ("cluster", "MaxDBDMsgs", "10k"),
    ("cluster", "BcastExclude", "NONE"),
    ("cluster", "TaskPluginParam", "Verbose,autobind=Threads"),
    ("node", "Port", "[7000-7007]"),
    ("node", "State", "cloud+drain"),
]
# Parameters with a form of their own, and bases from which other values are made.
FORMS = [
    ("cluster", "AccountingStorageTRES", ["cpu,mem", "Billing"]),
    ("partition", "TRESBillingWeights", ["CPU=1.5,Mem=0.25G", "cpu=1e3"]),
    ("cluster", "Licenses", ["matlab:10,fluent:3", "a*3;b=2"]),
    ("cluster", "BcastExclude", ["/lib,/usr", "none"]),
    ("cluster", "TaskPluginParam", ["cores,verbose", "autobind=threads"]),
    ("node", "Port", ["7000", "[7000-7007]"]),
    ("node", "State", ["CLOUD", "CLOUD+DRAIN"]),
]
WRONG_OPTIONS = [
    *[("mem", one) for one in ("64GiB", "64 G", "half", "-1", "1.5G", "64GBs")],
    *[("begin", one) for one in ("tomorow", "12", "2027-13-01", "now+1hr", "monday", "25")],
    *[("deadline", one) for one in ("next week", "2027-02-41")],
    *[("mail-type", one) for one in ("END FAIL", "DONE", "end;fail")],
    *[("dependency", one) for one in ("afterok", "afterfoo:12", "afterok:x", "after ok:12")],
    *[("signal", one) for one in ("USR9@60", "USR1@1m", "X:USR1@60")],
    *[("time-min", one) for one in ("36 hours", "1h", "1d")],
    *[("exclusive", "yes"), ("kill-on-invalid-dep", "maybe"), ("open-mode", "overwrite")],
    *[("switches", "0"), ("switches", "few"), ("wait-all-nodes", "yes"), ("core-spec", "two")],
    *[("sockets-per-node", "0"), ("thread-spec", "all"), ("tmp", "100GiB"), ("mincpus", "0")],
    *[("distribution", one) for one in ("cycle", "block:foo", "plane", "block,pak")],
    *[
        ("gres-flags", "foo"),
        ("gres-flags", "allow-task-sharing"),
        ("gres-flags", "enforce binding"),
        ("profile", "cpu"),
    ],
    *[("propagate", "MEMLOK"), ("acctg-freq", "task:30")],
    *[("cpu-freq", "fast"), ("cpu-freq", "high:turbo"), ("acctg-freq", "4294967295")],
    *[("cpu-freq", one) for one in ("high-low", "highm1-high", "low-1000", "2000-1000")],
    *[("exclude", "n[1-"), ("exclude", "n[1-x]")],
    *[("gpu-bind", one) for one in ("first", "single", "map_gpu:x", "mask_gpu:zz", "verbose")],
    *[("gpu-freq", one) for one in ("fast", "High", "1.5", "low,mem=high", "memory=x")],
    *[("mem-bind", one) for one in ("socket", "map_mem:x", "mask_mem:zz", "map_cpu:0", "l")],
    *[("priority", one) for one in ("-1", "4294967294")],
    *[("nice", "2147483646"), ("no-kill", "yes"), ("thread-spec", "0"), ("get-user-env", "5X")],
    *[("extra-node-info", "x"), ("extra-node-info", "2:x"), ("cpu-freq", "0")],
    *[("signal", "0"), ("signal", "65536"), ("signal", "USR1@65536"), ("signal", "B:")],
    *[("mem-per-cpu", "4 GB"), ("threads-per-core", "x"), ("delay-boot", "5 min")],
    *[("begin", one) for one in ("TODAY", "16:60", "now+1min", "4pm", "13:00pm", "2036-1-10")],
    *[("begin", one) for one in ("12/31/2036", "2036-01-20t12:34", "1:00:00.5", "24:00")],
    *[("extra-node-info", one) for one in ("1-0", "2:8:0-0", "2147483648", "1:2-99999999999")],
    *[("time-min", one) for one in ("0", "0:00", "0-0")],
    *[("mem", "1G "), ("tmp", "1PB"), ("no-kill", " off"), ("gpu-bind", "mask_gpu:0X1")],
    *[("cpu-freq", one) for one in ("me", "on", "low-high:po", "1000:performance")],
    *[("distribution", "plane=0"), ("distribution", "arbitrary:block"), ("exclusive", "u")],
    *[("ntasks-per-tres", "0"), ("requeue", "yes"), ("oom-kill-step", "2"), ("resv-ports", "x")],
    *[("constraint", one) for one in ("a&&b", "[a|b", "a|b]", "&a", "a*x", "a*0", "a b", "(a|b")],
    *[("licenses", one) for one in ("a:x", "a:-1", "a:10k", "a:1 a:2", "a:1.5", ":2")],
    *[("tres-bind", "gpu:closest"), ("tres-bind", "gres/gpu:close"), ("mem-update", "10%@30")],
]
RIGHT_OPTIONS = [
    *[("mem", "64GB"), ("mem", "0"), ("mem", "500000k"), ("tmp", "10t")],
    *[
        ("begin", "now+2days"),
        ("begin", "16:00"),
        ("begin", "2036-01-20T12:34:00"),
        ("begin", "noon"),
    ],
    *[("begin", "tomorrow"), ("begin", "now"), ("begin", "010130"), ("begin", "01/20/36")],
    *[("mail-type", "end,Fail"), ("mail-type", "TIME_LIMIT_80,ARRAY_TASKS")],
    *[("signal", "B:TERM@300"), ("signal", "10@60")],
    *[("dependency", "singleton"), ("time-min", "1-0"), ("time-min", "30:00")],
    *[
        ("distribution", "*:cyclic:fcyclic,NoPack"),
        ("distribution", "plane=4"),
    ],
    *[
        ("gres-flags", "Enforce-Binding"),
        ("profile", "Task,energy"),
        ("propagate", "STACK,RLIMIT_NPROC"),
    ],
    *[("exclude", "n[1-2,5],n[8]"), ("cpu-freq", "1000-low"), ("cpu-freq", "high-high")],
    *[
        ("acctg-freq", "4294967294"),
        ("cpu-freq", "low-highm1:OnDemand"),
        ("cpu-freq", "Performance"),
        ("acctg-freq", "task=30"),
    ],
    *[
        ("acctg-freq", "0"),
        ("propagate", "STACK CORE"),
        ("propagate", "NONE"),
        ("cpu-freq", "2400000"),
    ],
    *[
        ("gpu-bind", one)
        for one in ("closest", "Single:2", "verbose,map_gpu:0,1", "mask_gpu:0x1,3")
    ],
    *[
        ("gpu-bind", "per_task:2"),
        ("gpu-freq", "medium,memory=highm1"),
        ("gpu-freq", "1200,verbose"),
    ],
    *[("mem-bind", one) for one in ("Local,prefer", "quiet,map_mem:0,1", "mask_mem:0x1,0x3", "no")],
    *[("priority", "Top"), ("priority", "4294967293"), ("nice", "-2147483645"), ("no-kill", "Off")],
    *[
        ("extra-node-info", "1:*:1-2"),
        ("get-user-env", "5L"),
        ("signal", "65535"),
        ("array", "[0-3]"),
    ],
    *[("begin", one) for one in ("NOW", "now + 1 hour", "9:05  pm", "0231", "tomorrow-16:00")],
    *[("signal", "B:XCPU@60"), ("mincpus", "+01"), ("mem", "+1G"), ("open-mode", "a")],
    *[("extra-node-info", "*-1"), ("exclusive", "exclusive"), ("no-kill", "set")],
    *[("distribution", "NoPack"), ("switches", "1@UNLIMITED"), ("wait-all-nodes", "01")],
    *[("constraint", "[a|b]&a"), ("constraint", "(a|b)&a"), ("constraint", "[a*1&b*3]")],
    *[("licenses", "a:2;a"), ("licenses", "a: 2"), ("licenses", "a:2,")],
    *[("exclusive", "user"), ("switches", "2@10:00"), ("nice", "-5"), ("open-mode", "append")],
]


class Controller:
    """slurmctld that knows nodes of which none runs; `read` is asked for each configuration."""

    def __init__(self, slurm: Slurm, folder: Path) -> None:
        self.slurm, self.folder = slurm, folder
        self._file = folder / "slurm.conf"
        self._process: subprocess.Popen[bytes] | None = None

    def lines(self, level: str = "", name: str = "", value: str = "") -> str:
        conf = {
            "ClusterName": "lab",
            "SlurmctldHost": f"{os.uname().nodename.partition('.')[0]}(127.0.0.1)",
            "SlurmctldPort": "17917",
            "SlurmUser": "root",
            "AuthType": "auth/none",
            "CredType": "cred/none",
            "StateSaveLocation": str(self.folder / "state"),
            "SlurmctldPidFile": str(self.folder / "pid"),
            "SuspendProgram": "/bin/true",
            "ResumeProgram": "/bin/true",
            "SuspendTime": "300",
            "SelectType": "select/cons_tres",
            "SelectTypeParameters": "CR_Core_Memory",
            "GresTypes": "gpu",
            "Licenses": "a:9",
            "ProctrackType": "proctrack/linuxproc",
            "TaskPlugin": "task/none",
        }
        if self.slurm.plugin_dir:
            conf["PluginDir"] = str(self.slurm.plugin_dir)
        node = {"NodeName": "n[1-8]", "CPUs": "96", "RealMemory": "500000", "State": "CLOUD"}
        node |= {"Sockets": "2", "CoresPerSocket": "24", "ThreadsPerCore": "2"}
        node |= {"Gres": "gpu:8", "Feature": "a,b"}
        partition = {"PartitionName": "main", "Nodes": "ALL", "Default": "YES", "State": "UP"}
        level_of = {"cluster": conf, "node": node, "partition": partition}
        if level:
            level_of[level][name] = f'"{value}"'
        lines = [f"{key}={text}" for key, text in conf.items()]
        lines += [
            " ".join(f"{key}={text}" for key, text in one.items()) for one in (node, partition)
        ]
        return "\n".join(lines) + "\n"

    def _env(self) -> dict[str, str]:
        libraries = ":".join(map(str, self.slurm.library_dirs))
        return {
            "SLURM_CONF": str(self._file),
            "PATH": "/usr/bin:/bin",
            **({} if self.slurm.loader else {"LD_LIBRARY_PATH": libraries}),
        }

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [*self.slurm.command(words[0]), *words[1:]]
        return subprocess.run(command, env=self._env(), capture_output=True, text=True, timeout=60)

    def _slurmctld(self) -> Path:
        """It starts itself again by the name that it has, which must not be the loader."""
        file = self.folder / "slurmctld"
        command = self.slurm.command("slurmctld", argv0=str(file))
        file.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        file.chmod(0o755)
        return file

    def complaint(self, level: str, name: str, value: str) -> str:
        """What Slurm says of a slurm.conf with this value; "" if slurmctld starts with it."""
        return self._complaint(self.lines(level, name, value))

    def complaint_of(self, settings: Mapping[str, str]) -> str:
        """The same for several parameters of the cluster, in place of those of the lab."""
        own = [f"{name}={value}" for name, value in settings.items()]
        lines = self.lines().splitlines()
        rest = [line for line in lines if line.partition("=")[0] not in settings]
        return self._complaint("\n".join((*own, *rest)) + "\n")

    def _complaint(self, text: str) -> str:
        self._file.write_text(text)
        read = self._run("scontrol", "show", "hostnames", "n1")
        if read.returncode:
            return read.stderr
        (self.folder / "state").mkdir(exist_ok=True)
        log = self.start()
        return "" if log is None else log

    def start(self) -> str | None:
        """Start it; returns what it said if it ended. A started one is ended by `stop`."""
        output = self.folder / "log"
        with output.open("wb") as log:
            process = subprocess.Popen(
                [self._slurmctld(), "-D", "-c"],
                env=self._env(),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._process = process
        end = time.monotonic() + 30
        while time.monotonic() < end:
            said = output.read_text()
            if "fatal" in said or process.poll() is not None:
                self.stop()
                return said
            # It may still find an error after it has said that it runs, but not once it answers.
            if "Running as primary" in said and "UP" in self._run("scontrol", "ping").stdout:
                return None
            time.sleep(0.02)
        raise AssertionError(output.read_text())

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def sbatch(self, name: str, value: str) -> str:
        """What sbatch says of an option; "" if it accepts the job."""
        options = ["--test-only", f"--{name}={value}", "--wrap=true"]
        done = self._run("sbatch", *options)
        return done.stderr if done.returncode else ""


@pytest.fixture
def controller(slurm: Slurm) -> Iterator[Controller]:
    if os.geteuid() != 0:
        pytest.skip("slurmctld runs as root here")
    with tempfile.TemporaryDirectory() as folder:
        found = Controller(slurm, Path(folder))
        try:
            yield found
        finally:
            found.stop()


def test_slurmctld_refuses_the_values_of_slurm_conf_that_the_table_refuses(
    controller: Controller,
) -> None:
    different = []
    for level, name, value in WRONG_CONF:
        said = controller.complaint(level, name, value)
        controller.stop()
        wrong = wrong_conf_value(level, name, value)
        print(f"{level} {name}={value}\n  Slurm: {_last(said)}\n  we:    {wrong and wrong.what}")
        if not (said and wrong):
            different.append((level, name, value, said, wrong))
    print(f"{len(WRONG_CONF)} wrong values of slurm.conf, {len(different)} not refused by both")
    assert different == []


_TOGETHER = [
    {"PreemptMode": "GANG,OFF"},
    {"PreemptMode": "REQUEUE"},
    {"PreemptType": "preempt/qos"},
    {"PreemptType": "preempt/none", "PreemptMode": "CANCEL,WITHIN"},
    {"PriorityDecayHalfLife": "0"},
    {"PriorityDecayHalfLife": "0", "PriorityUsageResetPeriod": "WEEKLY"},
    {"MCSPlugin": "mcs/group"},
    {"FirstJobId": "70000000"},
    {"FirstJobId": "700", "MaxJobId": "600"},
    {"FirstJobId": "67043328"},
    {"MCSParameters": "group"},
    {"SlurmSchedLogLevel": "1"},
    {"JobContainerType": "job_container/tmpfs"},
    {"JobContainerType": "job_container/tmpfs", "PrologFlags": "Alloc"},
    {"JobContainerType": "job_container/none"},
    {"SelectTypeParameters": "CR_LLN"},
    {"SelectTypeParameters": "CR_Memory,CR_Pack_Nodes"},
    {"SelectTypeParameters": "CR_Socket,CR_Pack_Nodes"},
]


def test_slurmctld_and_the_table_agree_about_parameters_together(controller: Controller) -> None:
    modes = [one for n in (1, 2) for one in combinations(_words_of("PreemptMode"), n)]
    pairs = combinations(_words_of("PrologFlags"), 2)
    settings = [
        *_TOGETHER,
        *[{"PreemptType": "preempt/qos", "PreemptMode": ",".join(one)} for one in modes],
        *[{"ProctrackType": "proctrack/cgroup", "PrologFlags": ",".join(one)} for one in pairs],
    ]
    different, refused = [], 0
    for one in settings:
        said = controller.complaint_of(one)
        controller.stop()
        if re.search("Invalid PrologFlag: |PreemptMode=.*PRIORITY.* invalid", said):
            continue  # a word that this version does not know
        wrong = [wrong_conf_value("cluster", name, value) for name, value in one.items()]
        lower = {name.lower(): value for name, value in one.items()}
        found = [*filter(None, wrong), *(wrong for _, wrong in wrong_together(lower))]
        refused += bool(said)
        if bool(said) != bool(found):
            different.append((one, _last(said), found))
    print(f"{len(settings)} settings, {refused} refused, {len(different)} different")
    assert refused > 20
    assert different == []


def _words_of(name: str) -> list[str]:
    found: list[str] = conf_parameters("cluster")[name]["values"]
    return found


# Not of this version, or not of this lab: other plugins, files, ports, what several values decide.
_NOT_ALONE = re.compile(
    "unrecognized key|has been removed|Invalid (DebugFlag|PrologFlag)|proctrack/linuxproc"
    "|Couldn't find the specified plugin|plugin_load_from_file|Bad SelectTypeParameter: \\w+$"
    "|doesn't match neither Sockets"  # the product with the lab's own sockets, cores and threads
    "|for select/cray_aries|PrologFlags=Contain is required|node_features|helpers.conf"
)
# slurmctld cannot talk to anybody, or loses what it would say.
_SILENT = {("MessageTimeout", "0"), ("TCPTimeout", "0"), ("SlurmctldDebug", "quiet")}


def _right_values(random: Random, known: Mapping[str, Any]) -> list[str]:
    """Values of a parameter's type that the table takes: the ends, and some in between."""
    match known["type"]:
        case "number":
            least, most = known["least"], known["most"] or 2**32 - 1
            return [str(least), str(most), str(random.randint(least, most)), *known["words"][:1]]
        case "time":
            return ["0", "-1", "90:00", f"{random.randrange(400)}-{random.randrange(24)}"]
        case "one" | "some" | "flag":
            return [*known["values"]]
    return []


@pytest.mark.faults  # minutes
def test_slurmctld_takes_generated_values_of_each_type(controller: Controller) -> None:
    random, asked, different = Random(20261129), 0, []
    for level in ("cluster", "partition", "node"):
        for name, known in conf_parameters(level).items():
            if name in ("SlurmctldPort", "SlurmdPort", "SlurmctldDebug"):
                continue
            for value in _right_values(random, known):
                together = wrong_together({name.lower(): value})
                if wrong_conf_value(level, name, value) or any(together):
                    continue
                if (name, value) in _SILENT:
                    continue
                asked += 1
                said = controller.complaint(level, name, value)
                controller.stop()
                if said and not _NOT_ALONE.search(said):
                    different.append((level, name, value, _last(said)))
    print(*different, sep="\n")
    print(f"{asked} values that a slurm.conf may have, {len(different)} refused")
    assert asked > 200
    assert different == []


# The lab has no slurmdbd, 8 nodes, and these CPUs.
_OF_THE_LAB = "slurmdbd is required|must equal that of NodeName|failed to parse tres weights.*/"


def test_slurmctld_takes_each_generated_value_of_a_form_that_the_table_takes(
    controller: Controller,
) -> None:
    random, asked, refused, different = Random(31), 0, 0, []
    for level, name, bases in FORMS:
        for value in _generated(random, bases, 30):
            if value != value.strip():
                continue  # ParallelCluster writes no quotes
            wrong = wrong_conf_value(level, name, value)
            said = controller.complaint(level, name, value)
            controller.stop()
            asked, refused = asked + 1, refused + bool(said)
            if said and not wrong and not re.search(_OF_THE_LAB, said):
                different.append((level, name, value, _last(said)))
            if wrong and not said:
                print(f"refused here alone: {level} {name}={value!r}")
    print(*different, sep="\n")
    print(f"{asked} values, {refused} refused by Slurm, {len(different)} of these taken here")
    assert refused > 50
    assert different == []


def test_plugins_without_a_file_are_refused(slurm: Slurm) -> None:
    folder = slurm.plugin_dir
    assert folder
    for name, value in NO_SUCH_PLUGINS:
        last = value.split(",")[-1]
        assert not (folder / f"{last.replace('/', '_')}.so").exists()
        wrong = wrong_conf_value("cluster", name, value)
        assert wrong
        assert wrong.is_sure


def test_slurmctld_takes_unusual_values_of_slurm_conf_that_the_table_takes(
    controller: Controller,
) -> None:
    different = []
    for level, name, value in RIGHT_CONF:
        said = controller.complaint(level, name, value)
        controller.stop()
        if said or wrong_conf_value(level, name, value):
            different.append((level, name, value, said, wrong_conf_value(level, name, value)))
    assert different == []


def test_sbatch_refuses_the_values_that_a_spec_may_not_have(controller: Controller) -> None:
    _start(controller)
    different = []
    for name, value in WRONG_OPTIONS:
        said, wrong = controller.sbatch(name, value), wrong_option_value(name, value)
        print(f"--{name}={value}\n  Slurm: {_last(said)}\n  we:    {wrong and wrong.what}")
        if not (said and wrong):
            different.append((name, value, said, wrong))
    print(f"{len(WRONG_OPTIONS)} wrong values of sbatch, {len(different)} not refused by both")
    assert different == []


def test_sbatch_takes_unusual_values_that_a_spec_may_have(controller: Controller) -> None:
    _start(controller)
    different = []
    for name, value in RIGHT_OPTIONS:
        said, wrong = controller.sbatch(name, value), wrong_option_value(name, value)
        if wrong or re.search(r"Invalid|unrecognized|not a valid|Bad", said):
            different.append((name, value, said, wrong))
    assert different == []


# What sbatch says of these options where the value is right: what else the job needs.
_NODE = "Requested node configuration is not available"
_NOT_THE_VALUE = {
    **dict.fromkeys(
        ["extra-node-info", "mem", "mem-per-cpu", "mincpus", "sockets-per-node"], _NODE
    ),
    **dict.fromkeys(("threads-per-core", "tmp", "core-spec", "thread-spec"), _NODE),
    "ntasks-per-tres": "needs either a GRES",
    **dict.fromkeys(("mem-update", "oom-kill-step"), "unrecognized option"),
    "resv-ports": "unrecognized option|step management must be enabled",
    # Names that the lab's nodes lack, or too many nodes.
    "constraint": f"{_NODE}|Invalid feature specification",
    "licenses": "Invalid license specification|not available",
}
_ALPHABET = "0129-:,.=@* xkGB+%/[]_T"
_PLAIN = "0 -1 1 01 1x 1.5 1-0 - * 1,2 1:60 2147483647 65535 yes no none".split()  # noqa: SIM905


def _generated(random: Random, bases: list[str], count: int) -> list[str]:
    """Right and wrong values of one option, with one or two characters changed."""
    found = dict.fromkeys((*bases, *_PLAIN))
    for _ in range(count):
        text = random.choice(bases)
        for _ in range(random.choice((1, 1, 2))):
            at, new = random.randrange(len(text) + 1), random.choice(_ALPHABET)
            ways = (text[at + 1 :], new + text[at:], new + text[at + 1 :])
            text = random.choice((text[:at] + random.choice(ways), text.swapcase()))
        found[text] = None
    return list(found)


def test_sbatch_takes_each_generated_value_that_a_spec_may_have(
    controller: Controller, slurm: Slurm
) -> None:
    _start(controller)
    options: dict[str, list[str]] = {}
    for name, value in (*RIGHT_OPTIONS, *WRONG_OPTIONS):
        options.setdefault(name, []).append(value)
    random, version, asked, different = Random(31), "{}.{:02}".format(*slurm.version), 0, []
    del options["array"], options["exclude"]  # indices are checked elsewhere, and nodes must exist
    for name, bases in sorted(options.items()):
        for value in _generated(random, bases, 40):
            has = versions_of_value(name, value)
            if wrong_option_value(name, value) is None and version in (has or version):
                asked += 1
                said = controller.sbatch(name, value)
                if said and not re.search(_NOT_THE_VALUE.get(name, "$^"), said):
                    different.append((name, value, said))
    print(*different, sep="\n")
    print(f"Slurm {version}: {asked} values that a spec may have, {len(different)} refused")
    assert asked > 250
    assert different == []


def test_sbatch_ignores_a_type_of_mail_that_it_does_not_know(controller: Controller) -> None:
    _start(controller)
    wrong = wrong_option_value("mail-type", "END,FAILED")
    assert controller.sbatch("mail-type", "END,FAILED") == ""
    assert wrong
    assert not wrong.is_sure


def _start(controller: Controller) -> None:
    (controller.folder / "slurm.conf").write_text(controller.lines())
    (controller.folder / "state").mkdir()
    assert controller.start() is None


def _last(said: str) -> str:
    said = "\n".join(line for line in said.splitlines() if "MailProg" not in line)
    lines = [line for line in said.splitlines() if re.search("error|fatal|nvalid", line)]
    return (lines or said.splitlines() or [""])[0].strip()

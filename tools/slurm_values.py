#!/usr/bin/env python3
"""Writes clusterjobs/slurm/slurm_conf.json: which values slurm.conf's parameters take.

Slurm itself is asked, in each version that the lab can have: `scontrol` reads a slurm.conf with
one parameter and one value, and says what is wrong with it. Words that a parameter may take, and
names of plugins, are found in the manual and in the folder of plugins, and asked in the same way.

    .venv/bin/python tools/slurm_values.py      # 20 minutes; reads and keeps the names of the file
"""

from __future__ import annotations

import concurrent.futures
import gzip
import itertools
import json
import pathlib
import re
import subprocess
import sys
import tempfile
from typing import Any

from clusterjobs.lab.slurm import SUITES, Slurm, cache_dir, slurm_of
from clusterjobs.slurm.values import CONF_FILE, conf_parameters

LEVELS = ("cluster", "partition", "node")
NUMBERS = ("0", "1", "12", "70000", "99999999999")
WORDS = ("UNLIMITED", "INFINITE")
FLAGS = ("YES", "NO", "TRUE", "FALSE", "0", "1")
# Not a number, a time, a flag or a name of anything: who takes it takes any text.
ANY = "banana"
PROBES = (*NUMBERS, "-1", *WORDS, "12:00:00", "1-00:00:00", "yes", "5m", "/x", ANY)
LARGEST = {"70000": 65535, "99999999999": 4294967295}

# Parameters that name plugins -> the type that begins the file's name and, before a slash, the
# value. Several of `own` are often an admin's own.
PLUGINS = {
    "AccountingStorageType": "accounting_storage",
    "AcctGatherEnergyType": "acct_gather_energy",
    "AcctGatherFilesystemType": "acct_gather_filesystem",
    "AcctGatherInterconnectType": "acct_gather_interconnect",
    "AcctGatherInfinibandType": "acct_gather_interconnect",
    "AcctGatherProfileType": "acct_gather_profile",
    "AuthAltTypes": "auth",
    "AuthType": "auth",
    "BurstBufferType": "burst_buffer",
    "CertgenType": "certgen",
    "CertmgrType": "certmgr",
    "CliFilterPlugins": "cli_filter",
    "CredType": "cred",
    "HashPlugin": "hash",
    "JobAcctGatherType": "jobacct_gather",
    "JobCompType": "jobcomp",
    "JobContainerType": "job_container",
    "JobSubmitPlugins": "job_submit",
    "MCSPlugin": "mcs",
    "MetricsType": "metrics",
    "MpiDefault": "mpi",
    "NamespaceType": "namespace",
    "NodeFeaturesPlugins": "node_features",
    "PrEpPlugins": "prep",
    "PreemptType": "preempt",
    "PrioritySiteFactorPlugin": "site_factor",
    "PriorityType": "priority",
    "ProctrackType": "proctrack",
    "SchedulerType": "sched",
    "SelectType": "select",
    "SwitchType": "switch",
    "TaskPlugin": "task",
    "TLSType": "tls",
    "TopologyPlugin": "topology",
}
SEVERAL = (
    "AuthAltTypes",
    "CliFilterPlugins",
    "JobSubmitPlugins",
    "NodeFeaturesPlugins",
    "PrEpPlugins",
    "TaskPlugin",
)
SEVERAL += ("AcctGatherEnergyType",)

_TEXT: dict[str, Any] = {"type": "text"}
_DEBUG = [
    "quiet",
    "fatal",
    "error",
    "info",
    "verbose",
    "debug",
    *(f"debug{i}" for i in range(2, 6)),
]
_LEVELS = {"type": "one", "values": [*_DEBUG, *map(str, range(10))]}
# What cannot be asked one value at a time. Source: slurm.conf(5) of the three versions.
FIXED: dict[str, dict[str, Any]] = {
    # Users of the system, paths, ranges of ports, values with a part of their own.
    **dict.fromkeys(("SlurmUser", "SlurmdUser", "SlurmctldPort"), _TEXT),
    "MaxDBDMsgs": {"type": "number", "least": 10000, "most": 4294967295, "words": []},
    "SlurmSchedLogLevel": {"type": "number", "least": 0, "most": 65535, "words": []},
    # Values with a form of their own, which only slurmctld reads: written by hand, and compared
    # with it by tests/slurm/test_values_in_slurm.py.
    **{
        name: dict(known)
        for level in LEVELS
        for name, known in conf_parameters(level).items()
        if known["type"] == "form"
    },
    **dict.fromkeys(("SlurmctldDebug", "SlurmdDebug"), _LEVELS),
    **dict.fromkeys(("SlurmctldSyslogDebug", "SlurmdSyslogDebug"), _LEVELS),
    # Some need GANG beside them, others no PreemptType.
    "PreemptMode": {
        "type": "some",
        "values": ["CANCEL", "GANG", "OFF", "PRIORITY", "REQUEUE", "SUSPEND", "WITHIN"],
    },
}
# Parameters whose words are in the section of another one.
SAME = {"Shared": "OverSubscribe", "PropagateResourceLimitsExcept": "PropagateResourceLimits"}
# Of other versions of PMIx than those of Debian.
MORE_PLUGINS = {"MpiDefault": {"pmix_v2", "pmix_v3"}}


class Version:
    """scontrol and the manual of one version."""

    def __init__(self, name: str, folder: pathlib.Path) -> None:
        self.slurm: Slurm = slurm_of(cache_dir(), name, print)
        self.folder = folder / name
        self.folder.mkdir()
        self._count = itertools.count()
        assert self.slurm.root
        (manual,) = self.slurm.root.glob("usr/share/man/man5/slurm.conf.5.gz")
        self.manual = gzip.decompress(manual.read_bytes()).decode()
        self.plain = re.sub(r"\\f[BIRP]", "", self.manual).replace("\\", "")

    def takes(self, level: str, key: str, value: str) -> bool:
        """Whether scontrol reads a file with that value."""
        conf = {"ClusterName": "lab", "SlurmctldHost": "ctl(127.0.0.1)"}
        conf |= {"AuthType": "auth/none", "CredType": "cred/none"}
        conf["PluginDir"] = str(self.slurm.plugin_dir)
        added = {level: f'{key}="{value}"'}
        if level == "cluster":
            conf.pop(key, None)
        node = "" if key == "CPUs" else "CPUs=2"
        nodes = "" if key == "Nodes" else "Nodes=n1"
        lines = [f"{name}={text}" for name, text in conf.items()]
        lines += [added.get("cluster", "")]
        lines += [f"NodeName=n1 {node} {added.get('node', '')}"]
        lines += [f"PartitionName=p {nodes} {added.get('partition', '')}"]
        file = self.folder / f"{next(self._count)}.conf"
        file.write_text("\n".join(lines) + "\n")
        libraries = ":".join(map(str, self.slurm.library_dirs))
        env = {"SLURM_CONF": str(file), "PATH": "/usr/bin:/bin"}
        env |= {} if self.slurm.loader else {"LD_LIBRARY_PATH": libraries}
        command = [*self.slurm.command("scontrol"), "show", "hostnames", "n1"]
        done = subprocess.run(command, env=env, capture_output=True, timeout=60)
        file.unlink()
        return done.returncode == 0

    def words_of(self, key: str) -> set[str]:
        """Bold or quoted words in the manual's section of a parameter."""
        sections = re.split(r"(?m)^\.TP\n(?=\\fB\w+\\fR\n)", self.manual)
        own = [one for one in sections if one.startswith(f"\\fB{key}\\fR\n")]
        # Words that a parameter may have are sections of their own, below it.
        texts = [t for one in own for t in self.manual.split(one, 1)[1][:6000].split("\n\n\n")[:1]]
        found = re.findall(
            r'\\fB([A-Za-z0-9_\-\\]+)\\fR|"([A-Za-z0-9_\-\\]+)"', " ".join(own + texts)
        )
        return {(bold or quoted).replace("\\", "") for bold, quoted in found}

    def plugins(self, kind: str) -> set[str]:
        """Names of a type of plugin, in the folder of plugins and in the manual."""
        assert self.slurm.plugin_dir
        files = {
            f.stem.removeprefix(f"{kind}_") for f in self.slurm.plugin_dir.glob(f"{kind}_*.so")
        }
        return files | set(re.findall(rf"\b{kind}/([a-z0-9_]+)", self.plain))


class Table:
    """Asks all versions, several at a time."""

    def __init__(self, versions: list[Version]) -> None:
        self.versions = versions

    def accepted(self, level: str, key: str, values: list[str]) -> set[str]:
        """The values that some version takes."""
        return {v for v in values if any(one.takes(level, key, v) for one in self.versions)}

    def value_of(self, level: str, key: str) -> dict[str, Any]:
        """What the parameter takes."""
        if key in FIXED:
            return FIXED[key]
        if key in PLUGINS and level == "cluster":
            names = MORE_PLUGINS.get(key, set()).union(
                *(one.plugins(PLUGINS[key]) for one in self.versions)
            )
            kind = "plugins" if key in SEVERAL else "plugin"
            return {"type": kind, "kind": PLUGINS[key], "values": sorted(names)}
        taken = self.accepted(level, key, list(PROBES))
        if ANY in taken:
            return {"type": "text"}
        if "12:00:00" in taken:
            return {"type": "time", "words": sorted(taken & {*WORDS})}
        if "12" in taken:
            return self._number(taken)
        if "yes" in taken and not {"12"} & taken:
            return self._words(level, key) | (
                {"type": "flag"} if not self._more(level, key) else {}
            )
        return self._words(level, key)

    def _number(self, taken: set[str]) -> dict[str, Any]:
        least = -1 if "-1" in taken else 0 if "0" in taken else 1
        most = next((LARGEST[one] for one in LARGEST if one not in taken), 0)
        return {"type": "number", "least": least, "most": most, "words": sorted(taken & {*WORDS})}

    def _more(self, level: str, key: str) -> set[str]:
        flags = {*FLAGS, *(f.lower() for f in FLAGS), "UP", "DOWN"}
        return {w for w in self._words(level, key)["values"] if w.upper() not in flags}

    def _words(self, level: str, key: str) -> dict[str, Any]:
        candidates = set().union(*(one.words_of(SAME.get(key, key)) for one in self.versions))
        candidates |= {*FLAGS, "ALL", "ANY", "NONE", "OFF", "UP", "DOWN", "DRAIN", "INACTIVE"}
        found = sorted(self.accepted(level, key, sorted(candidates)))
        if not found:
            return {"type": "text"}  # no version reads it, or its manual does not name its words
        pairs = [f"{a},{b}" for a, b in itertools.islice(itertools.combinations(found, 2), 30)]
        several = bool(self.accepted(level, key, pairs))
        return {"type": "some" if several else "one", "values": found}


def main() -> None:
    known = json.loads(CONF_FILE.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        table = Table([Version(name, pathlib.Path(folder)) for name in SUITES])
        found: dict[str, Any] = {}
        wanted = [(level, key) for level in LEVELS for key in names_in(known[level])]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            values = pool.map(lambda one: table.value_of(*one), wanted)
            for (level, key), value in zip(wanted, values, strict=True):
                found.setdefault(level, {})[key] = value
                print(level, key, value, file=sys.stderr, flush=True)
        versions = ", ".join(one.slurm.name for one in table.versions)
    source = (
        f"scontrol and slurm.conf(5) of Slurm {versions} (Debian's packages), tools/slurm_values.py"
    )
    CONF_FILE.write_text(written({"source": source, **found}), encoding="utf-8")


def names_in(level: Any) -> list[str]:
    return sorted(level, key=str.lower)


def written(data: dict[str, Any]) -> str:
    """JSON with one parameter in a line."""
    parts = []
    for name, value in data.items():
        if isinstance(value, dict):
            rows = [f"    {json.dumps(key)}: {json.dumps(one)}" for key, one in value.items()]
            parts.append(f"  {json.dumps(name)}: {{\n" + ",\n".join(rows) + "\n  }")
        else:
            parts.append(f"  {json.dumps(name)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    main()

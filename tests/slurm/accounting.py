"""A real slurmctld with slurmdbd and MariaDB, and users of its own: what Slurm refuses, and why.

It knows nodes, and none of them runs, so jobs wait. root alone can submit as another user
(`sbatch --uid`), so it needs root. Everything is in namespaces: no port, user or process of
this machine is touched.
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from clusterjobs.lab.slurm import cache_dir, find_program, find_slurm, library_dirs_of

GPUS_PER_NODE = 8
NODES = 64
SCRIPT = "#!/bin/bash\nsleep 1\n"


class Answer(NamedTuple):
    """Of sbatch: the job's number if it was accepted, else what Slurm said."""

    job: str
    said: str


class Accounting:
    """One running slurmctld. `groups`: the Unix groups of each user; the first account is the
    default one of all."""

    def __init__(
        self,
        folder: Path,
        groups: Mapping[str, Sequence[str]],
        queues: Sequence[str],
        accounts: Sequence[str],
    ):
        self.folder, self.groups, self.queues, self.accounts = folder, groups, queues, accounts
        self.slurm = find_slurm(cache_dir())
        self._dbd = find_program("slurmdbd", "slurmdbd", cache_dir())
        self._maria = find_program("mariadbd", "mariadb-server-core", cache_dir())
        self._init: subprocess.Popen[bytes] | None = None
        self._controller: subprocess.Popen[bytes] | None = None
        self._started: list[subprocess.Popen[bytes]] = []

    # ------------------------------------------------------------------ life

    def start(self) -> None:
        self._write_files()
        mounts = "; ".join(
            f"mount --bind {shlex.quote(str(self.folder / name))} /etc/{name}"
            for name in ("passwd", "group", "hosts")
        )
        # slurmdbd binds to no address if the network has none but 127.0.0.1.
        network = "ip link set lo up; ip addr add 10.77.0.1/24 dev lo"
        code = f"{mounts}; {network}; echo ready; exec sleep infinity"
        self._init = subprocess.Popen(
            ["unshare", "--mount", "--net", "--uts", "bash", "-ec", f"hostname ctl; {code}"],
            stdout=subprocess.PIPE,
        )
        assert self._init.stdout
        assert self._init.stdout.readline() == b"ready\n"
        self._start_database()
        self.start_controller()
        self.sacctmgr("add", "cluster", "lab", code=None)
        self._add_users()

    def stop(self) -> None:
        for process in (self._controller, *reversed(self._started), self._init):
            if process is not None:
                process.kill()
                process.communicate()

    def start_controller(
        self, extra: str = "", partitions: Mapping[str, str] | None = None, plugin: str = ""
    ) -> None:
        """(Re)start slurmctld with these lines too, and these settings of its partitions.

        `plugin`: the code of its job_submit plugin, in Lua.
        """
        (self.folder / "job_submit.lua").write_text(plugin)
        if self._controller is not None:
            self._controller.terminate()
            ended = self._controller.wait()
            if ended < 0 and ended != -15:
                print(f"slurmctld ended by signal {-ended}")
        (self.folder / "slurm.conf").write_text(self._slurm_conf(extra, partitions or {}))
        self._controller = self._daemon([*self.slurm.command("slurmctld"), "-D"], "slurmctld")
        self._poll(
            lambda: self.run("scontrol", "ping").stdout.startswith(
                "Slurmctld(primary) at ctl is UP"
            )
        )
        self._poll(lambda: self.run("sinfo", "-h").returncode == 0)

    # ------------------------------------------------------------------ commands

    def run(self, *words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a program in the namespaces; Slurm's commands are those of this slurmctld."""
        assert self._init
        if self.slurm.find(words[0]):
            words = (*self.slurm.command(words[0]), *words[1:])
        enter = ["nsenter", f"--target={self._init.pid}", "--mount", "--net", "--uts"]
        return subprocess.run(
            [*enter, "--", *words], env=self._env, input=stdin, capture_output=True, text=True
        )

    def shell(self, script: str) -> str:
        """Run a shell script in the folder. It must succeed; its sacctmgr is Slurm's."""
        done = self.run("bash", "-eu", stdin=f"cd {self.folder}\n{script}")
        assert done.returncode == 0, (script, done.stdout, done.stderr)
        return done.stdout

    def sacctmgr(self, *words: str, code: int | None = 0) -> str:
        done = self.run("sacctmgr", "-i", *words)
        assert code is None or done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout

    def reset(self) -> None:
        """Users, accounts and QOS as at the start, without any limit."""
        self.sacctmgr("delete", "user", ",".join(self.groups))
        self.sacctmgr("delete", "account", ",".join(self.accounts))
        qos = self.run("sacctmgr", "-nP", "show", "qos", "format=name").stdout.split()
        if mine := [name for name in qos if name.startswith("clusterjobs")]:
            self.sacctmgr("delete", "qos", ",".join(mine))
        limits = "MaxTRESPerJob=cpu=-1,node=-1,gres/gpu=-1 MaxTRESPerNode=gres/gpu=-1 MaxWall=-1"
        totals = "MaxTRESMinsPerJob=gres/gpu=-1 GrpTRES=cpu=-1,node=-1,gres/gpu=-1"
        self.sacctmgr("modify", "cluster", "set", *limits.split(), *totals.split())
        self._add_users()

    def _add_users(self) -> None:
        default, users = self.accounts[0], ",".join(self.groups)
        for account in self.accounts:
            self.sacctmgr("add", "account", account)
        names = ",".join(self.accounts)
        self.sacctmgr("add", "user", users, f"account={names}", f"defaultaccount={default}")

    def sbatch(self, user: str, *options: str, script: str = SCRIPT) -> Answer:
        """Submit a held job as a user. The job is cancelled again."""
        done = self.run(
            *("sbatch", "--parsable", "--hold", f"--uid={user}", "--chdir=/tmp", "--export=NONE"),
            *options,
            stdin=script,
        )
        if done.returncode:
            return Answer("", done.stderr.strip())
        job = done.stdout.strip()
        shown = self.run("scontrol", "--oneliner", "show", "job", job).stdout
        self.run("scancel", job)
        return Answer(job, shown)

    # ------------------------------------------------------------------ files

    @property
    def _env(self) -> dict[str, str]:
        libraries = [*self.slurm.library_dirs, *library_dirs_of(self._dbd)]
        libraries += library_dirs_of(self._maria)
        return {
            "PATH": ":".join(map(str, self.slurm.folders)),
            "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            "LC_ALL": "C.UTF-8",
        }

    def _plugin_dir(self) -> str:
        return f"PluginDir={self.slurm.plugin_dir}" if self.slurm.plugin_dir else ""

    def _write_files(self) -> None:
        names = sorted({name for groups in self.groups.values() for name in groups})
        group = ["root:x:0:", "nogroup:x:65534:"]
        group += [
            f"{name}:x:{3000 + i}:{','.join(u for u in self.groups if name in self.groups[u])}"
            for i, name in enumerate(names)
        ]
        passwd = ["root:x:0:0::/root:/bin/bash", "nobody:x:65534:65534::/:/bin/false"]
        for i, user in enumerate(self.groups):
            group.append(f"{user}:x:{2000 + i}:")
            passwd.append(f"{user}:x:{2000 + i}:{2000 + i}::/tmp:/bin/bash")
        files = {"group": group, "passwd": passwd, "hosts": ["127.0.0.1 localhost ctl"]}
        for name, lines in files.items():
            (self.folder / name).write_text("\n".join(lines) + "\n")
        for i in range(GPUS_PER_NODE):
            (self.folder / f"nvidia{i}").symlink_to("/dev/null")
        (self.folder / "gres.conf").write_text(f"Name=gpu File={self.folder}/nvidia[0-7]\n")
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        (self.folder / "slurmdbd.conf").write_text(
            "AuthType=auth/none\nDbdHost=ctl\nSlurmUser=root\n"
            f"StorageType=accounting_storage/mysql\nStorageHost=localhost\nStorageUser=root\n"
            f"StorageLoc=slurm_acct_db\nPidFile={self.folder}/slurmdbd.pid\n{self._dbd_plugins()}\n"
        )
        (self.folder / "slurmdbd.conf").chmod(0o600)

    def _dbd_plugins(self) -> str:
        folders = library_dirs_of(self._dbd)
        found = [one for one in folders if one.name.startswith("slurm")]
        return f"PluginDir={found[0]}" if found else ""

    def _slurm_conf(self, extra: str, partitions: Mapping[str, str]) -> str:
        state = self.folder / "state"
        state.mkdir(exist_ok=True)
        lines = [
            "ClusterName=lab",
            "SlurmctldHost=ctl(127.0.0.1)",
            "SlurmUser=root",
            *("AuthType=auth/none", "CredType=cred/none", self._plugin_dir()),
            f"StateSaveLocation={state}",
            f"SlurmctldPidFile={self.folder}/slurmctld.pid",
            *("ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "MpiDefault=none"),
            *("SelectType=select/cons_tres", "SelectTypeParameters=CR_CPU", "GresTypes=gpu"),
            *("SuspendProgram=/bin/true", "ResumeProgram=/bin/true", "SuspendTime=300"),
            *("AccountingStorageType=accounting_storage/slurmdbd", "AccountingStorageHost=ctl"),
            "AccountingStorageTRES=gres/gpu",
            extra,
            f"NodeName=n[1-{NODES}] CPUs=96 RealMemory=500000 Gres=gpu:{GPUS_PER_NODE} State=CLOUD",
            *(
                f"PartitionName={name} Nodes=ALL State=UP {'Default=YES' if not i else ''} "
                f"{partitions.get(name, '')}"
                for i, name in enumerate(self.queues)
            ),
        ]
        return "\n".join(filter(None, lines)) + "\n"

    # ------------------------------------------------------------------ daemons

    def _daemon(self, words: list[str], name: str) -> subprocess.Popen[bytes]:
        assert self._init
        enter = ["nsenter", f"--target={self._init.pid}", "--mount", "--net", "--uts", "--"]
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [*enter, "prlimit", "--core=0", *words],
                env=self._env,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _start_database(self) -> None:
        share = self._maria.parents[1] / "share/mysql"
        data = self.folder / "data"
        (data / "mysql").mkdir(parents=True)
        common = [
            str(self._maria),
            "--no-defaults",
            "--user=root",
            f"--datadir={data}",
            f"--lc-messages-dir={share}",
            f"--character-sets-dir={share}/charsets",
            "--innodb-buffer-pool-size=16M",
            "--innodb-log-file-size=8M",
            "--loose-skip-performance-schema",
        ]
        tables = ("mysql_system_tables.sql", "mysql_system_tables_data.sql")
        code = "use mysql;\n" + "".join((share / name).read_text() for name in tables)
        done = subprocess.run(
            [*common, "--bootstrap"], env=self._env, input=code, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        # slurmdbd connects to the path that the client's library has for "localhost".
        socket = self.folder / "mysql.sock"
        options = [
            "--skip-grant-tables",
            "--skip-networking=0",
            "--port=3306",
            f"--socket={socket}",
        ]
        self._started.append(self._daemon([*common, *options, "--bind-address=127.0.0.1"], "maria"))
        self._poll(socket.exists)
        conf = self.folder / "slurmdbd.conf"
        conf.write_text(conf.read_text().replace("StorageHost=localhost", "StorageHost=127.0.0.1"))
        self._started.append(self._daemon([str(self._dbd), "-D"], "slurmdbd"))
        self._poll(lambda: self._listens(6819))

    def _listens(self, port: int) -> bool:
        return self.run("bash", "-c", f"echo > /dev/tcp/127.0.0.1/{port}").returncode == 0

    def _poll(self, is_ready: Callable[[], bool], seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not is_ready():
            if time.monotonic() > end:
                logs = {p.name: p.read_text()[-2000:] for p in self.folder.glob("*.log")}
                raise AssertionError(logs)
            time.sleep(0.05)


@contextlib.contextmanager
def accounting(
    groups: Mapping[str, Sequence[str]],
    queues: Sequence[str] = ("main", "p5", "debug"),
    accounts: Sequence[str] = ("research",),
) -> Iterator[Accounting]:
    """A running slurmctld with accounting."""
    # Not pytest's folder: its path may be longer than a socket's may be.
    folder = Path(tempfile.mkdtemp(prefix="acct"))
    found = Accounting(folder, groups, queues, accounts)
    try:
        found.start()
        yield found
    finally:
        found.stop()
        shutil.rmtree(folder)

"""A lab: start and stop it, run commands in it, submit jobs."""

import contextlib
import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from clusterjobs.errors import counted, one_problem
from clusterjobs.files import GrowingFile
from clusterjobs.lab.apt import Say
from clusterjobs.lab.folder import LabFacts, LabFolder, without_slurm
from clusterjobs.lab.namespaces import InitProcess, check_namespaces, enter_command, unshare_command
from clusterjobs.lab.shape import LabSpec
from clusterjobs.lab.slurm import OWN, Slurm, cache_dir, choose_slurm
from clusterjobs.lab.tools import check_tools
from clusterjobs.slurm.jobs import Job, JobEnd, parse_job

# ------------------------------------------------------------------ polling


T = TypeVar("T")

POLL_SECONDS = 0.1


def until(poll: Callable[[], T | None], timeout: float, message: Callable[[], str]) -> T:
    """Call `poll` ten times per second until its result is true, and return that result.

    Raises TimeoutError(message()) after `timeout` seconds.
    """
    end = time.monotonic() + timeout
    while not (result := poll()):
        if time.monotonic() > end:
            raise TimeoutError(message())
        time.sleep(POLL_SECONDS)
    return result


# ------------------------------------------------------------------ start


Sinfo = Callable[[], "subprocess.CompletedProcess[str]"]


def start(folder: LabFolder, nodes: Sequence[str], idle_nodes: Sinfo, say: Say) -> None:
    """Return when all of `nodes` are idle. After any failure, and Ctrl-C, no process is left.

    `idle_nodes` runs the lab's sinfo, which prints the names of idle nodes.
    """
    process = _start_init(folder)
    try:
        until(lambda: _is_running(folder, process), 60, lambda: "the lab's init does not start")
        say(f"controller is started, {counted(len(nodes), 'node')} to follow")
        _await_idle(folder, nodes, idle_nodes, say)
        # It runs as long as the lab, and InitProcess.kill waits for it, so Popen must not.
        process.returncode = 0
    except TimeoutError as error:
        _end(folder, process)
        raise one_problem(str(error), hint=f"the logs are in {folder / 'log'}") from None
    except BaseException:
        _end(folder, process)
        raise


def _end(folder: LabFolder, process: subprocess.Popen[bytes]) -> None:
    process.kill()  # --kill-child then ends init, even before it has written its pid
    process.wait()
    if init := InitProcess.read(folder / "init"):
        init.kill()
    (folder / "init").unlink(missing_ok=True)


def _start_init(folder: LabFolder) -> subprocess.Popen[bytes]:
    with (folder / "log/init.log").open("w") as log:
        return subprocess.Popen(
            [*unshare_command(), "bash", str(folder / "init.sh"), str(folder.path)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C in the user's shell must not reach the lab
            env=without_slurm(os.environ),
            cwd="/",
        )


def _is_running(folder: LabFolder, process: subprocess.Popen[bytes]) -> bool:
    if process.poll() is not None:
        raise one_problem(
            f"the lab's init ended: {last_lines(folder / 'log/init.log')}",
            hint=f"the logs are in {folder / 'log'}",
        )
    return InitProcess.read(folder / "init") is not None


def _await_idle(folder: LabFolder, nodes: Sequence[str], idle_nodes: Sinfo, say: Say) -> None:
    missing = set(nodes)

    def all_idle() -> bool:
        nonlocal missing
        if (folder / "state/exited").exists():
            raise one_problem(
                f"slurmctld ended: {last_lines(folder / 'log/slurmctld.out')}",
                hint=f"the logs are in {folder / 'log'}",
            )
        sinfo = idle_nodes()
        still_missing = set(nodes) - set(sinfo.stdout.split())
        if len(still_missing) < len(missing):
            say(f"idle nodes: {len(nodes) - len(still_missing)} of {len(nodes)}")
        missing = still_missing
        return sinfo.returncode == 0 and not missing

    until(all_idle, 60 + len(nodes), lambda: _why_missing(folder, missing))


def _why_missing(folder: LabFolder, missing: set[str]) -> str:
    if not missing:
        return "slurmctld does not respond"
    first = min(missing)
    log = last_lines(folder / f"log/{first}.log")
    return f"{counted(len(missing), 'node')} did not start; {first}: {log}"


def last_lines(file: Path, count: int = 3) -> str:
    """The end of a log on one line, for an error message."""
    try:
        return " | ".join(file.read_text(errors="replace").splitlines()[-count:])
    except OSError:
        return ""


class Lab:
    """The lab in one folder, running or not. Labs in different folders are independent."""

    def __init__(self, folder: Path) -> None:
        self.folder = LabFolder(folder.absolute())

    # --- start and stop

    @property
    def init(self) -> InitProcess | None:
        return InitProcess.read(self.folder / "init")

    @property
    def facts(self) -> LabFacts:
        self._running_init()
        return self.folder.facts

    def up(
        self,
        spec: LabSpec,
        slurm: Slurm | None = None,
        say: Say = lambda _: None,
        version: str | None = OWN,
    ) -> None:
        """Start the lab and return when every node is idle; after a failure nothing keeps running.

        Without `slurm`, `version` is chosen; None is the nearest to the cluster's. Raises
        InputError (this machine cannot run a lab, or one is running here) and TimeoutError.
        """
        with self._locked():
            if self.init:
                option = self.folder.name_option
                raise one_problem(
                    f"a lab is already running in {self.folder.path}",
                    hint=f"clusterjobs lab down{option} stops it, "
                    f"clusterjobs lab up CLUSTER{option} --replace replaces it",
                )
            check_tools()
            check_namespaces()
            slurm = slurm or choose_slurm(cache_dir(), version, spec.slurm_version, say)
            self.folder.write(spec, slurm)
            start(self.folder, [node.name for node in spec.nodes], self._idle_nodes, say)

    def _idle_nodes(self) -> subprocess.CompletedProcess[str]:
        return self.run(["sinfo", "--noheader", "--Node", "--states=idle", "--format=%N"])

    def down(self) -> bool:
        """Stop the lab; False if none was running. Shared folders and logs are kept."""
        with self._locked():
            init = self.init
            if init:
                init.kill()
            (self.folder / "init").unlink(missing_ok=True)
        return init is not None

    def delete(self) -> bool:
        """Stop the lab and remove its folder, including the shared folders."""
        was_up = self.down()
        shutil.rmtree(self.folder.path)
        return was_up

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self.folder.path.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise one_problem(
                    f"another process is starting or stopping the lab in {self.folder.path}"
                ) from None
            yield

    # --- commands in the lab

    def environment(self, env: Mapping[str, str] | None = None) -> dict[str, str]:
        """`env`, or this process's, without other clusters' variables, and with sbatch on PATH."""
        base = without_slurm(os.environ if env is None else env)
        path = base.get("PATH", "/usr/local/bin:/usr/bin:/bin")
        return {**base, "PATH": f"{self.folder / 'bin'}:{path}"}

    def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the head node; its output is captured as text."""
        return self._captured(self._running_init().pid, argv, env, cwd, stdin)

    def node_run(
        self,
        node: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on a node, outside any job."""
        return self._captured(self._node_pid(node), argv, env, cwd, None)

    def shell(self, argv: Sequence[str], name: str, node: str | None = None) -> int:
        """Run a command with this process's terminal; its exit code.

        `name` is what selects this lab in the command's own clusterjobs.
        """
        pid = self._node_pid(node) if node else self._running_init().pid
        env = {**self.environment(), "CLUSTERJOBS_LAB": name}
        code = subprocess.run(enter_command(pid, argv, Path.cwd()), env=env).returncode
        return code if code >= 0 else 128 - code

    def _captured(
        self,
        pid: int,
        argv: Sequence[str],
        env: Mapping[str, str] | None,
        cwd: Path | None,
        stdin: str | None,
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            enter_command(pid, argv, cwd or Path.cwd()),
            env=self.environment(env),
            input=stdin or "",
            capture_output=True,
            text=True,
            errors="replace",
        )

    def _running_init(self) -> InitProcess:
        if (init := self.init) is None:
            raise one_problem(
                f"no lab is running in {self.folder.path}",
                hint=f"clusterjobs lab up CLUSTER{self.folder.name_option}",
            )
        return init

    def _node_pid(self, node: str) -> int:
        self.check_node(node)
        with contextlib.suppress(OSError, ValueError):
            inner = int((self.folder / f"nodes/{node}/pid").read_text())
            if (outer := self._running_init().outer_pid(inner)) is not None:
                return outer
        hint = f"clusterjobs lab start-node {node}{self.folder.name_option}"
        raise one_problem(f"node {node} is not running", hint=hint)

    # --- jobs

    def sbatch(
        self,
        script: str | Path,
        *options: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> str:
        """Submit a script and return the job's id. InputError with sbatch's own message."""
        done = self.run(["sbatch", "--parsable", *options, str(script)], env=env, cwd=cwd)
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or ["sbatch failed without a message"]
            raise one_problem("; ".join(lines))
        return done.stdout.strip().partition(";")[0]

    def job(self, job_id: str) -> Job:
        """The current state of a job."""
        shown = self.run(["scontrol", "--oneliner", "show", "job", job_id])
        if shown.returncode != 0:
            raise one_problem(f"job {job_id}: {shown.stderr.strip()}")
        return parse_job(shown.stdout)

    def wait(self, job_id: str, timeout: float = 60) -> JobEnd:
        """Wait until a job ends; after `timeout` seconds, a TimeoutError with its state."""
        job = self.job(job_id)

        def ended() -> JobEnd | None:
            nonlocal job
            job = self.job(job_id)
            return job.end

        return until(ended, timeout, lambda: f"job {job_id} is {job.state} ({job.reason})")

    # --- nodes

    def node_states(self) -> dict[str, str]:
        """The state of every node, in Slurm's long form: idle, allocated, down*, ..."""
        listed = self.run(["sinfo", "--noheader", "--Node", "--format=%N %T"])
        return dict(line.split(maxsplit=1) for line in listed.stdout.splitlines())

    def check_node(self, node: str) -> None:
        """Raise InputError if this lab has no node of this name."""
        if node not in self.facts.nodes:
            few = ", ".join(self.facts.nodes[:8]) + (", ..." if len(self.facts.nodes) > 8 else "")
            raise one_problem(f"no node {node} in this lab", hint=f"its nodes: {few}")


@contextlib.contextmanager
def running_lab(
    spec: LabSpec, folder: Path, slurm: Slurm | None = None, say: Say = lambda _: None
) -> Iterator[Lab]:
    """A lab that runs during a `with` block."""
    lab = Lab(folder)
    lab.up(spec, slurm, say)
    try:
        yield lab
    finally:
        lab.down()


# ------------------------------------------------------------------ follow a job


def follow(
    lab: Lab, job_id: str, write: Callable[[str], None], say: Callable[[str], None]
) -> JobEnd:
    """Pass the log's text to `write`, and a line for every change of the job's state to `say`."""
    log = GrowingFile(lab.folder.host_path(lab.job(job_id).stdout))
    last_line = ""
    while True:
        job = lab.job(job_id)
        text = log.new_text()  # read after the state, so that the log of an ended job is complete
        if text and job.end:
            write(text)
        if (line := _line(job)) != last_line:
            last_line = line
            say(line)
        if job.end:
            return job.end
        if text:
            write(text)
        time.sleep(POLL_SECONDS)


def _line(job: Job) -> str:
    where = f" on {job.nodes}" if job.nodes not in ("", "(null)") else ""
    why = f" ({job.reason})" if job.state == "PENDING" and job.reason != "None" else ""
    again = f", restart {job.restarts}" if job.restarts else ""
    return f"job {job.job_id} is {job.state}{where}{why}{again}"

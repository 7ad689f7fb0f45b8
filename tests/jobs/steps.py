"""A training without mathematics: steps that take time, checkpoints that take time and space.

Once all ranks have come, rank 0 counts and saves, and the others wait for it. A checkpoint is
written beside its name and then renamed; `latest` is written after it. Every step that is done is a
line of trace, so that a test can count what was done twice. Told by CLUSTERJOBS_STOP_FILE, all save
and end.
"""

import argparse
import os
import pathlib
import sys
import time

# Each launcher's own names.
RANKS = ("RANK", "HOROVOD_RANK", "OMPI_COMM_WORLD_RANK")
SIZES = ("WORLD_SIZE", "HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE")
STOP = os.environ.get("CLUSTERJOBS_STOP_FILE", "")


def is_told() -> bool:
    return bool(STOP) and pathlib.Path(STOP).exists()


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--save-every", type=int, default=10)
    parser.add_argument("--save-seconds", type=float, default=0.5)
    parser.add_argument("--save-bytes", type=int, default=1000)
    parser.add_argument("--fail-at", type=int, help="exit 7 at this step, always")
    parser.add_argument("--loop-at", type=int, help="an endless loop, in the first attempt")
    parser.add_argument("--hold-at", type=int, help="wait before this step for the file `go`")
    parser.add_argument("--timed", action="store_true", help="log steps; write `times`")
    parser.add_argument("--deaf", action="store_true", help="hear of no time limit")
    return parser.parse_known_args()[0]  # not --deepspeed_config


def write_whole(path: pathlib.Path, content: bytes, seconds: float = 0) -> None:
    draft = path.with_name(f"{path.name}.draft")
    with draft.open("wb") as file:
        for _ in range(10):
            file.write(content[: len(content) // 10 + 1])
            file.flush()
            time.sleep(seconds / 10)
        os.fsync(file.fileno())
    draft.replace(path)


def write_at_once(path: pathlib.Path, text: str) -> None:
    draft = path.with_name(f"{path.name}.draft")
    draft.write_text(text)
    draft.replace(path)


def newest(folder: pathlib.Path) -> int:
    latest = folder / "checkpoints" / "latest"
    return int(latest.read_text().partition("-")[2]) if latest.exists() else 0


def save(args: argparse.Namespace, step: int) -> None:
    checkpoints = args.folder / "checkpoints"
    (args.folder / "saving").touch()
    write_whole(checkpoints / f"step-{step}", b"x" * args.save_bytes, args.save_seconds)
    write_at_once(checkpoints / "latest", f"step-{step}")
    (args.folder / "saving").unlink(missing_ok=True)


def train(args: argparse.Namespace) -> int:
    first = newest(args.folder)
    with (args.folder / "trace").open("a") as trace:
        print(f"start {first}", file=trace, flush=True)
        for step in range(first + 1, args.steps + 1):
            began = time.monotonic()
            time.sleep(args.seconds)
            while step == args.hold_at and not (args.folder / "go").exists():
                time.sleep(0.05)
            if step == args.fail_at:
                return 7
            while step == args.loop_at and first == 0:
                pass
            print(step, file=trace, flush=True)
            if args.timed:
                log_step(args, step, time.monotonic() - began)
            told = is_told() and not args.deaf
            if told or step % args.save_every == 0 or step == args.steps:
                save(args, step)
            if told:
                return 0
    return 0


def log_step(args: argparse.Namespace, step: int, seconds: float) -> None:
    """A line for the job's log, and one for a test that compares both."""
    print(f"step {step}/{args.steps} loss {1 / step:.4f} step time: {seconds:.6f} s", flush=True)
    with (args.folder / "times").open("a") as file:
        print(step, seconds, file=file, flush=True)


def told_by_the_launcher(names: tuple[str, ...]) -> int:
    return int(next(os.environ[name] for name in names if name in os.environ))


def wait_for_all(args: argparse.Namespace, pids: list[pathlib.Path]) -> None:
    while not all(pid.exists() for pid in pids) and (args.deaf or not is_told()):
        time.sleep(0.05)


def wait_for_rank_0(args: argparse.Namespace, end: pathlib.Path) -> int:
    while not end.exists() and (args.deaf or not is_told()):
        time.sleep(0.1)
    return 0


def main() -> int:
    args = parse_args()
    rank, size = told_by_the_launcher(RANKS), told_by_the_launcher(SIZES)
    restarts = os.environ.get("SLURM_RESTART_COUNT", "0")
    args.folder.joinpath("checkpoints").mkdir(parents=True, exist_ok=True)
    pids = [args.folder / f"pid.{restarts}.{one}" for one in range(size)]
    write_at_once(pids[rank], f"{os.getpid()}")
    end = args.folder / f"end.{restarts}"
    if rank != 0:
        return wait_for_rank_0(args, end)
    wait_for_all(args, pids)
    code = train(args)
    end.touch()
    return code


if __name__ == "__main__":
    sys.exit(main())

"""Times the commands that a person waits for, each as a process of its own, on every example."""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = 7
EXAMPLES = sorted(Path("examples").glob("*.yaml"))
COMMANDS = ("render", "plan")


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    clusterjobs = str(Path(sys.executable).with_name("clusterjobs"))
    print(f"{'example':24}{'command':12}{'median':>8}{'slowest':>9}   ({RUNS} runs)")
    with tempfile.TemporaryDirectory() as folder:
        for example in EXAMPLES:
            if example.name == "site.yaml":
                continue
            for command in COMMANDS:
                line = [clusterjobs, command, str(example)]
                line += ["-o", folder] if command == "render" else []
                times = [seconds(line) for _ in range(RUNS)]
                median, slowest = statistics.median(times), max(times)
                print(f"{example.stem:24}{command:12}{median:6.2f} s{slowest:7.2f} s")


if __name__ == "__main__":
    main()

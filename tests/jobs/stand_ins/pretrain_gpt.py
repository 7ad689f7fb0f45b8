"""In place of Megatron-DeepSpeed's script: writes down what a rank was given, and meets the others.

The records go where --tensorboard-dir points.
"""

import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import record_rank


def value_of(flag: str) -> str:
    return sys.argv[sys.argv.index(flag) + 1]


def main() -> None:
    folder = value_of("--tensorboard-dir")
    arguments = sys.argv[1:]
    sys.argv = [sys.argv[0], folder, *arguments]
    record_rank.main()
    file = pathlib.Path(folder) / f"{os.environ['RANK']}.json"
    record = json.loads(file.read_text())
    config = pathlib.Path(arguments[arguments.index("--deepspeed_config") + 1])
    record["config"] = json.loads(config.read_text())
    file.write_text(json.dumps(record))


if __name__ == "__main__":
    main()

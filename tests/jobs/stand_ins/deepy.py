"""In place of GPT-NeoX's deepy.py: composes the YAML files, then calls DeepSpeed's real launcher.

As the original does: duplicate keys are refused, SLURM_PROCID and SLURM_LOCALID are read before
there is a rank, the runner's own keys become its arguments, and the rest goes along in a file.
"""

import argparse
import json
import os
import pathlib

import yaml
from deepspeed.launcher import runner


def composed(files: list[str]) -> dict[str, object]:
    config: dict[str, object] = {}
    for file in files:
        for key, value in yaml.load(pathlib.Path(file).read_text(), Loader=yaml.FullLoader).items():
            if key in config:
                raise ValueError(f"{file}: duplicate key {key}")
            config[key.replace("-", "_")] = value
    return config


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("user_script")
    parser.add_argument("-d", "--conf_dir", default="")
    parser.add_argument("conf_file", nargs="+")
    asked = parser.parse_args()
    config = composed([os.path.join(asked.conf_dir, file) for file in asked.conf_file])  # noqa: PTH118
    folder = pathlib.Path(str(config["tensorboard_dir"]))
    folder.mkdir(parents=True, exist_ok=True)
    before = {name: os.environ[name] for name in ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS")}
    (folder / "composed.txt").write_text(json.dumps({"config": config, "before": before}))
    words = [f"--{key}={config[key]}" for key in ("launcher", "master_addr", "master_port")]
    words += [f"--{key}" for key in ("no_ssh_check", "force_multi") if config.get(key)]
    words.append(f"--hostfile={os.environ['DLTS_HOSTFILE']}")
    runner.main([*words, asked.user_script, str(folder)])


if __name__ == "__main__":
    main()

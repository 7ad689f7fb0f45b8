"""In place of GPT-NeoX's deepy.py in a container: DeepSpeed's real launcher goes over ssh."""

import os
import pathlib
import sys

import yaml
from deepspeed.launcher import runner

config: dict[str, object] = {}
for file in sys.argv[2:]:
    config.update(yaml.safe_load(pathlib.Path(file).read_text()))
words = [f"--{key}={config[key]}" for key in ("launcher", "master_addr", "master_port")]
words += ["--no_ssh_check", f"--hostfile={os.environ['DLTS_HOSTFILE']}"]
runner.main([*words, sys.argv[1], str(config["tensorboard_dir"]), str(config["does"])])

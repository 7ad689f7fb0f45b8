"""What single values may be: each kind of text, by what it takes and what it refuses."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from clusterjobs.spec import field_types, reserved_names
from clusterjobs.spec import field_types as commands
from clusterjobs.spec.keys import container as images
from clusterjobs.spec.keys import staging as storage_types
from clusterjobs.spec.keys.environment import module_item
from clusterjobs.text import joined, variable

P = variable("LR")


@pytest.mark.parametrize(
    ("read", "value", "result"),
    [
        (field_types.scalar_text, "a b", "a b"),
        (field_types.scalar_text, "", ""),
        (field_types.scalar_text, 7, "7"),
        (
            commands.command,
            "./run --name 'a b' \"c\" d\\ e",
            ("./run", "--name", "a b", "c", "d e"),
        ),
        (commands.command, ["prog", "a;b", "$(id)", 3], ("prog", "a;b", "$(id)", "3")),
        (commands.command, "echo '$(id) | x' \"a;b\"", ("echo", "$(id) | x", "a;b")),
        (commands.command, "echo $HOME", ("echo", "$HOME")),
        (commands.command, "run cd A=b", ("run", "cd", "A=b")),
        (commands.lines_of_code, "a\nb\n", ("a", "b")),
        (commands.lines_of_code, ["a | b", "c"], ("a | b", "c")),
        (field_types.path, "/fsx/a b", "/fsx/a b"),
        (field_types.path, "${HOME}/x", "${HOME}/x"),
        (field_types.path, joined("/fsx/", P), joined("/fsx/", P)),
        (field_types.job_name, "übung 1", "übung 1"),
        (field_types.time_limit, 90, "90"),
        (field_types.time_limit, "12:00:00", "12:00:00"),
        (field_types.time_limit, "2-00", "2-00"),
        (field_types.time_limit, "2-00:00:00", "2-00:00:00"),
        (field_types.time_limit, "UNLIMITED", "UNLIMITED"),
        (field_types.option_value, True, True),
        (field_types.option_value, 4, "4"),
        (field_types.argument, [1, "a"], ("1", "a")),
        (field_types.argument, False, False),
        (reserved_names.environment_name, "_A1", "_A1"),
        (reserved_names.parameter_name, "LR_2", "LR_2"),
        (field_types.directive_name, "mail-type", "mail-type"),
        (field_types.search_path, "/a", "/a"),
        (module_item, "gcc/12.2~x(a)", "gcc/12.2~x(a)"),
        (module_item, "swap gcc/12 gcc/13", "swap gcc/12 gcc/13"),
        (module_item, "--force purge", "--force purge"),
        (field_types.package_name, "flash_attn-2.x", "flash_attn-2.x"),
        (field_types.package_version, 2.5, "2.5"),
        (field_types.package_version, "2.6.0rc1", "2.6.0rc1"),
        (storage_types.repository, "s3://my-bucket/a/b", "s3://my-bucket/a/b"),
        (storage_types.repository, "/a", "/a"),
        (field_types.flag, True, True),
        (field_types.time_limit, "0:01", "0:01"),
        (images.image, "docker://me@registry/a:tag@sha256", "docker://me@registry/a:tag@sha256"),
        (images.mount, "/a:/b", {"source": "/a", "target": "/b"}),
        (images.mount, "/a:/b:ro", {"source": "/a", "target": "/b", "read_only": True}),
        (images.mount, "/a:/b:rw", {"source": "/a", "target": "/b", "read_only": False}),
        (images.mount_path, "${HOME}/a", "${HOME}/a"),
        (images.mount_target, "/usr/local/a", "/usr/local/a"),
        (images.size, "16G", "16g"),
    ],
)
def test_takes(read: Callable[[Any], Any], value: object, result: object) -> None:
    assert read(value) == result


@pytest.mark.parametrize(
    ("read", "value", "says"),
    [
        (field_types.scalar_text, True, "quote it"),
        (field_types.scalar_text, None, '""'),
        (field_types.scalar_text, [], "single value"),
        (field_types.scalar_text, "x" * 131_072, "longer than Linux"),
        (field_types.scalar_text, "ü" * 65_536, "longer than Linux"),
        (commands.command, "a | b", "'|'"),
        (commands.command, "a && b", "'&'"),
        (commands.command, "a > f", "'>'"),
        (commands.command, "a `id`", "'`'"),
        (commands.command, "a $(id)", "'$('"),
        (commands.command, "a 'b", "quote"),
        (commands.command, "", "empty"),
        (commands.command, [], "empty"),
        (commands.command, ["", "a"], "empty"),
        (commands.command, "cd /x", "shell builtin"),
        (commands.command, ["source", "x"], "shell builtin"),
        (commands.command, "A=b ./run", "[env, A=b, prog]"),
        (commands.lines_of_code, 5, "line of bash"),
        (commands.lines_of_code, joined("echo ", P), "$NAME"),
        (commands.lines_of_code, "a\r\nb", "carriage return"),
        (field_types.path, "", "empty"),
        (field_types.path, "$HOME/x", "${HOME}"),
        (field_types.path, "a\nb", "line break"),
        (field_types.path, "a\u2028b", "U+2028"),
        (field_types.job_name, "a/b", "/"),
        (field_types.job_name, "-a", "-"),
        (field_types.job_name, " a", "space"),
        (field_types.job_name, "..", "empty"),
        (field_types.job_name, "a\x1bb", "U+001B"),
        (field_types.job_name, "é" * 101, "200 bytes"),
        (field_types.job_name, joined("a", P), "running job"),
        (field_types.time_limit, "1h", "write 01:00:00"),
        (field_types.time_limit, "36 hours", "write 1-12:00:00"),
        (field_types.time_limit, "1.5h", "write 01:30:00"),
        (field_types.time_limit, "soon", "12:00:00"),
        (field_types.time_limit, "1-", "Slurm time"),
        (field_types.time_limit, "1:2:3:4", "Slurm time"),
        (field_types.time_limit, "12:00:00\n", "Slurm time"),
        (field_types.time_limit, 1.5, "Slurm time"),
        (field_types.option_value, "a\n#SBATCH --x", "line break"),
        (field_types.option_value, P, "running job"),
        (field_types.argument, None, "true for a bare flag"),
        (field_types.argument, {"a": 1}, "single value"),
        (reserved_names.environment_name, "A B", "letters, digits"),
        (reserved_names.environment_name, "A\n", "letters, digits"),
        (reserved_names.environment_name, "ÄB", "letters, digits"),
        (reserved_names.environment_name, "", "letters, digits"),
        (reserved_names.environment_name, "RANK", "launcher"),
        (reserved_names.environment_name, "LD_PRELOAD", "reserved"),
        (reserved_names.environment_name, "SLURM_X", "reserved"),
        (reserved_names.environment_name, "BASH_FUNC_x", "reserved"),
        (reserved_names.environment_name, "command", "the script uses it"),
        (reserved_names.environment_name, "VIRTUAL_ENV", "software.venv"),
        (reserved_names.parameter_name, "lr", "capitals"),
        (reserved_names.parameter_name, "MASTER_PORT", "reserved"),
        (field_types.directive_name, "--nodes", "write nodes"),
        (field_types.directive_name, "mail_type", "write mail-type"),
        (field_types.directive_name, "a b", "long name"),
        (field_types.directive_name, "a\n", "long name"),
        (field_types.plain, "", "before the job runs"),
        (field_types.plain, P, "before the job runs"),
        (field_types.argument_name, "", "needs a name"),
        (field_types.argument_name, "w d", "has no blanks: write w: d"),
        (field_types.argument_name, "lr ", "has no blanks: write lr"),
        (field_types.path, "-x", "write ./ before it"),
        (field_types.path, "a\0b\nc", "U+0000"),
        (field_types.search_path, "/a:b", "rename the folder"),
        (field_types.search_path, "/a/$(pwd)", "${PWD}"),
        (module_item, "a b", "not a module name"),
        (module_item, "use", "for example use /opt/modulefiles"),
        (module_item, "purge all", "for example purge"),
        (module_item, "module load gcc", "write gcc"),
        (module_item, "load gcc", "write gcc"),
        (module_item, "use /a b;c", "not a module name"),
        (module_item, "-a", "not a module name"),
        (module_item, "a;b", "not a module name"),
        (module_item, "", "before the job runs"),
        (field_types.package_name, "-r", "a package name"),
        (field_types.package_name, "a b", "a package name"),
        (field_types.package_version, ">=2", "its beginning"),
        (field_types.package_version, "2.", "its beginning"),
        (field_types.interface, "e/5", "ip link"),
        (storage_types.bucket, "s3://ab", "3 to 63 characters"),
        (storage_types.bucket, "s3://my-bucket/a b", "only letters, digits"),
        (storage_types.repository, "gs://my-bucket", "s3://my-bucket/folder"),
        (storage_types.repository, "S3:/x", "s3://my-bucket/folder"),
        (storage_types.repository, "/a/${X:+y}", "${X:-}"),
        (field_types.flag, "true", "without quotes"),
        (field_types.flag, 1, "true or false"),
        (field_types.time_limit, 0, "no limit"),
        (field_types.time_limit, "0-00:00", "no limit"),
        (images.image, P, "only when the job runs"),
        (images.image, "a\tb", "a tab"),
        (images.image, "-a", "as an option"),
        (images.image, "a b", "a space"),
        (images.image, "docker://me:pw@registry/a", "a password"),
        (images.mount, "/a", "not a mount"),
        (images.mount, "/a:/b:rx", "not a mount"),
        (images.mount, "/a:/b:ro:x", "not a mount"),
        (images.mount_path, "a/b", "relative"),
        (images.mount_path, "/a,b", "a separator"),
        (images.mount_target, "/a/../usr", "'..'"),
        (images.mount_target, "//usr/", "hide the image's own"),
        (images.mount_target, "/", "hide the image's own"),
        (images.mount_target, "/proc/x", "hide the image's own"),
        (images.size, "0g", "16g"),
        (images.size, "16", "16g"),
    ],
)
def test_refuses_and_says_what_to_write(
    read: Callable[[Any], Any], value: object, says: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        read(value)


@pytest.mark.parametrize(
    ("read", "longest"),
    [
        (field_types.scalar_text, "x" * 131_071),
        (field_types.path, "/" + "x" * 255),
        (field_types.path, "ab/" * 1333 + "x"),
        (field_types.job_name, "x" * 200),
        (field_types.option_value, "x" * 1000),
        (field_types.interface, "x" * 15),
        (storage_types.bucket, "s3://" + "x" * 63),
    ],
)
def test_takes_the_longest_text_and_no_longer_one(read: Callable[[Any], Any], longest: str) -> None:
    assert read(longest) == longest
    with pytest.raises(ValueError, match=r"more than|longer than|is not (a|the)"):
        read(longest + "x")


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [
        (field_types.Count, 1, 1_000_000),
        (field_types.Budget, 0, 1_000_000),
        (field_types.Port, 1, 65_535),
        (field_types.Stage, 0, 3),
    ],
)
def test_numbers_have_bounds(kind: Any, least: int, most: int) -> None:
    read = TypeAdapter(kind).validate_python
    assert (read(least), read(most)) == (least, most)
    for beyond in (least - 1, most + 1):
        with pytest.raises(ValidationError, match="equal to"):
            read(beyond)


@pytest.mark.parametrize("value", [1.0, True, "1", "x", None, [1], P])
def test_a_number_is_an_integer_without_quotes(value: object) -> None:
    with pytest.raises(ValidationError, match=r"expected an integer|must be known before"):
        TypeAdapter(field_types.Count).validate_python(value)


@pytest.mark.parametrize(
    "name",
    [
        *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK"),
        *(
            "MASTER_ADDR",
            "MASTER_PORT",
            "LD_PRELOAD",
            "BASH_ENV",
            "ENV",
            "IFS",
            "PS4",
            "DLTS_HOSTFILE",
        ),
        *("POSIXLY_CORRECT", "GLOBIGNORE", "TMOUT", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
    ],
)
def test_variables_of_launchers_bash_and_slurm_are_reserved(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is reserved"):
        reserved_names.environment_name(name)


def test_variables_that_bash_sets_itself_are_reserved() -> None:
    """Those that a fresh bash lists, except the ones it takes from its environment."""
    listed = subprocess.run(
        ["env", "-i", "bash", "--norc", "-c", "compgen -v"], capture_output=True, text=True
    )
    free = {"HOME", "HOSTNAME", "HOSTTYPE", "MACHTYPE", "OSTYPE", "PATH", "SHELL", "TERM"}
    names = set(listed.stdout.split()) - free
    assert {"EUID", "PPID", "RANDOM"} < names
    for name in (*names, "SRANDOM", "FUNCNAME", "PIPESTATUS", "OLDPWD", "PS1", "PS4"):
        with pytest.raises(ValueError, match="is reserved"):
            reserved_names.environment_name(name)

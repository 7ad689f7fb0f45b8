"""Hostile text, and whole specs made of it.

A `HostileSpec` holds the values as they shall arrive; `as_data` writes them down as the rules of
each place demand (`{{` and, where variables expand, `${` are escaped), so that a test knows the
bytes that must come out without asking the code under test.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

import yaml
from hypothesis import strategies as st

Path = tuple[str | int, ...]
MIXED = "H__MIXED"
BREAKS = re.compile("\r(?!\n)|[\x85\u2028\u2029]")

# Every one of these calls a stand-in that leaves a trace if a shell ever runs it.
ATTACKS = (
    "'; touch CANARY; '",
    '"; touch CANARY; "',
    "$(touch CANARY)",
    "`touch CANARY`",
    "it's `touch CANARY`",
    "it's $(touch CANARY)",
    "it's \\`touch CANARY\\`",
    'it\'s "; touch CANARY; "',
    "it's\n`touch CANARY`",
    '`touch CANARY`\n"$(touch CANARY)"',
    "${x:-$(touch CANARY)}",
    "$((a[$(touch CANARY)]))",
    "| touch CANARY",
    "& touch CANARY &",
    "; touch CANARY",
    "\ntouch CANARY\n",
    "\r\ntouch CANARY\r\n",
    "\\'; touch CANARY #",
    "')\ntouch CANARY\n#",
    ") ; touch CANARY ; (",
    "}; touch CANARY; {",
    "]]; touch CANARY; [[",
    ";; esac; touch CANARY",
    "<(touch CANARY)",
    "> CANARY",
    "EOF\ntouch CANARY\n",
    "END\ntouch CANARY\n",
    "\n#SBATCH --nodes=99\n",
    "\n#SBATCH --comment=CANARY",
    "' --nodes=99 '",
    '" --nodes=99 "',
    "x --nodes=99",
    "\\",
    "\\\\",
    "\\n",
    "a\\b",
    "'",
    '"',
    "'\\''",
    '"\'"',
    "$'\\x41'",
    "$",
    "$$",
    "$HOME",
    "${HOME}",
    "$${HOME}",
    "$1",
    "$@",
    "$?",
    "!!",
    "!x",
    "~",
    "~root",
    "*",
    "?",
    "[a-z]*",
    "{a,b}",
    "{1..9}",
    "#",
    " # x",
    "a#b",
    "%j",
    "%x-%j",
    "100%",
    "%s%n%d",
    ",",
    "a,b=c,d",
    "^docker,lo",
    "ALL,NONE",
    "=",
    "a=b",
    ":",
    "-",
    "--",
    "-c",
    "-rf",
    "--nodes=99",
    "--help",
    "END",
    "END_",
    "EOF",
    "esac",
    "done",
    "fi",
    "if",
    "time",
    "{",
    "}",
    "{{",
    "}}",
    "{{ name }}",
    "{{ '{{' }}",
    "{% raw %}",
    "{## x ##}",
    "{##",
    "\\0job_dir\\0",
    "\x00"[:0],
    "\t",
    "\n",
    "\r",
    " ",
    "  ",
    " a ",
    "\x01\x02\x7f",
    "\x1b[31m",
    "\x85",
    "\xa0",
    "\u2028",
    "\u2029",
    "\u202e",
    "\u200b",
    "e\u0301",
    "\u05d0\u05d1",
    "\ufeff",
    "é",
    "日本語",
    "🙂",
    "null",
    "true",
    "yes",
    "1e-4",
    "0x10",
    "007",
    "12:30:00",
    "1_000",
    ".inf",
    "<<",
    "- a",
    "a: b",
    "&a",
    "*a",
    "!!str",
    "@x",
    "|",
    ">",
    "packjob",
    "hetjob",
    "(null)",
    "[0]=x",
    "+=",
)
SPECIALS = "'\"\\$`;&|<>()[]{}*?~!#%^,=:-+@ \t\n\r\x01\x7f\x85\u2028éß日🙂\u202e\u0301aA0._/"

characters = st.one_of(
    st.sampled_from(SPECIALS),
    st.characters(codec="utf-8", exclude_characters="\0"),
)
pieces = st.one_of(
    st.sampled_from(ATTACKS),
    st.text(characters, max_size=6),
    st.sampled_from(("word", "a b", "x" * 300)),
)
texts = st.one_of(
    st.sampled_from(ATTACKS),
    st.lists(pieces, max_size=3).map("".join),
)
# At the start, `~` and `~/` are expanded, and nothing else stands for them.
texts_of_nodes = texts.map(lambda text: re.sub(r"^~(?=/|$)", "x~", text))
names = st.one_of(st.sampled_from(("n", "gpt", "lr")), texts)
environment_names = st.from_regex(r"H_[A-Za-z0-9_]{0,8}", fullmatch=True)
parameter_names = st.from_regex(r"P_[A-Z0-9_]{0,6}", fullmatch=True)
components = texts.map(lambda text: text.replace("/", "∕"))

_OPTIONS = ("comment", "account", "reservation", "mail-user", "wckey", "qos")


@dataclass(frozen=True)
class HostileSpec:
    """The values of one spec, as the rank shall get them."""

    name: str = "n"
    workdir: str = "w"
    logs: str = "l"
    checkpoints: str = "c"
    venv: str | None = None
    script: str = "train.py"
    args: dict[str, str | tuple[str, ...]] | tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    sbatch: dict[str, str] = field(default_factory=dict)
    srun: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    choices: tuple[str, ...] = ()
    submitted: dict[str, str] = field(default_factory=dict)
    before: tuple[tuple[str, ...], ...] = ()
    before_on_nodes: tuple[tuple[str, ...], ...] = ()
    after: tuple[tuple[str, ...], ...] = ()
    sidecars: tuple[tuple[str, ...], ...] = ()
    prefix: tuple[str, ...] = ()
    ds_config: dict[str, Any] = field(default_factory=dict)
    modules: tuple[str, ...] = ()
    conda: str | None = None
    secret_words: tuple[str, ...] = ()
    launcher: str = "srun"
    around: tuple[str, str] = ("", "")  # what stands before and behind a variable
    outer: str = ""  # the value of ${H_OUTER} where the job is submitted

    def without(self, path: Path) -> HostileSpec:
        """The spec without the value at `path` of its data."""
        head, rest = str(path[0]), path[1:]
        if head == "software":
            return replace(self, **{str(rest[0]): () if rest[0] == "modules" else None})
        if head in ("before", "after", "sidecars"):
            return replace(
                self, **{head: (), **({"before_on_nodes": ()} if head == "before" else {})}
            )
        if head == "checkpoints":
            return replace(self, checkpoints="c")
        if head == "secrets":
            return replace(self, secret_words=())
        if head == "ds_config":
            return replace(self, ds_config={})
        if head == "parameters":
            return replace(self, parameters={}, choices=(), submitted={})
        if head in ("name", "workdir", "logs", "script"):
            return replace(self, **{head: HostileSpec().__dict__[head]})
        if head == "args" and isinstance(self.args, tuple):
            if not rest:
                return replace(self, args=())
            return replace(self, args=tuple(v for i, v in enumerate(self.args) if i != rest[0]))
        if head in ("args", "env", "sbatch", "srun"):
            held = getattr(self, head)
            if not rest:
                return replace(self, **{head: {}})
            return replace(self, **{head: {k: v for k, v in held.items() if k != rest[0]}})
        if path == ("env", MIXED):
            return replace(self, around=("", ""))
        if head == "prefix":
            return replace(self, prefix=())
        raise AssertionError(f"no hostile value stands at {path}")


def literal(text: str) -> str:
    """How a spec says exactly `text` where nothing but references are read."""
    return text.replace("{{", "{{ '{{' }}")


def literal_path(text: str) -> str:
    """How a spec says exactly `text` where `${NAME}` is expanded; a `~` at its start would be."""
    return literal(re.sub(r"\$(?=[{(]|[A-Z_][A-Z0-9_]+\b)", "$$", text))


def as_data(spec: HostileSpec, stage: str, cluster: str = "small") -> dict[str, Any]:
    """The spec's data: what a person would write to get these values."""

    def below(folder: str, text: str) -> str:
        return literal_path(f"{stage}/{folder}/{text}")

    def words(*given: str) -> list[str]:
        return [literal(word) for word in given]

    software: dict[str, Any] = {}
    if spec.venv is not None:
        software["venv"] = below("v", spec.venv)
    if spec.conda is not None:
        software["conda"] = literal_path(spec.conda)
    if spec.modules:
        software["modules"] = words(*spec.modules)
    args: Any
    if isinstance(spec.args, tuple):
        args = words(*spec.args) + [_reference(name, spec.around) for name in spec.parameters]
    else:
        args = {
            key: words(*value) if isinstance(value, tuple) else literal(value)
            for key, value in spec.args.items()
        } | {f"p{i}": _reference(name, spec.around) for i, name in enumerate(spec.parameters)}
    parameters: dict[str, Any] = {
        name: {"default": literal(value), "type": "text"} for name, value in spec.parameters.items()
    }
    if spec.choices and parameters:
        first = next(iter(parameters))
        parameters[first]["choices"] = words(*spec.choices, spec.parameters[first])
    data = {
        "name": literal(spec.name),
        "cluster": cluster,
        "nodes": 2,
        "framework": "deepspeed",
        "launcher": spec.launcher,
        "batch": {"micro": 1, "global": 8},
        "ranks_per_node": 1,
        "script": literal_path(spec.script),
        "workdir": below("w", spec.workdir),
        "logs": below("l", spec.logs),
        "checkpoints": {"path": below("c", spec.checkpoints)},
        "software": software,
        "args": args,
        "env": {name: literal_path(value) for name, value in spec.env.items()}
        | {MIXED: "${H_OUTER}".join(map(literal_path, spec.around))},
        "sbatch": {name: literal(value) for name, value in spec.sbatch.items()},
        "srun": {name: literal(value) for name, value in spec.srun.items()},
        "parameters": parameters,
        "before": [words("step", *step) for step in spec.before]
        + [{"command": words("step", *step), "per": "node"} for step in spec.before_on_nodes],
        "after": [words("step", *step) for step in spec.after],
        "sidecars": [words("sidecar", *step) for step in spec.sidecars],
        "ds_config": _escaped(spec.ds_config),
    }
    if spec.prefix:
        data["prefix"] = words("wrap", *spec.prefix)
    if spec.secret_words:
        data["secrets"] = {"H_SECRET": {"command": words("secret", *spec.secret_words)}}
    return {key: value for key, value in data.items() if value not in ({}, [])}


def _reference(name: str, around: tuple[str, str]) -> str:
    return f"{{{{ parameters.{name} }}}}".join(map(literal, around))


def _escaped(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _escaped(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_escaped(item) for item in value]
    return Quoted(literal(value))


class Quoted(str):
    """Text where a number would be another value: PyYAML's `1e-4` without quotes is one to us."""


def dump(data: Any, style: str | None = None, allow_unicode: bool = True) -> str:
    """YAML that carries every text exactly."""
    text = str(
        yaml.dump(
            data,
            Dumper=_Dumper,
            default_style=style,
            allow_unicode=allow_unicode,
            sort_keys=False,
            width=4000,
        )
    )
    if BREAKS.search(text):  # PyYAML writes these so that it does not read them back itself
        return dump(data, '"', allow_unicode=False)
    return text


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(
    Quoted, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", str(text), '"')
)


step = st.lists(texts, max_size=4).map(tuple)
steps = st.lists(step, max_size=2).map(tuple)

arguments = st.one_of(
    st.lists(texts, max_size=14).map(tuple),
    st.dictionaries(names, st.one_of(texts, st.lists(texts, max_size=3).map(tuple)), max_size=10),
)

json_values = st.one_of(
    texts, st.lists(texts, max_size=2), st.dictionaries(texts, texts, max_size=2)
)


@st.composite
def hostile_specs(draw: st.DrawFn) -> HostileSpec:
    """A spec with hostile text in every place."""
    parameters = draw(st.dictionaries(parameter_names, texts, max_size=3))
    submitted = {
        name: draw(texts) for name in list(parameters)[1:]
    }  # the first one may have choices, and keeps its default
    maybe = st.booleans()
    return HostileSpec(
        name=draw(st.one_of(components, texts)),
        workdir=draw(components),
        logs=draw(components),
        checkpoints=draw(components),
        venv=draw(components) if draw(maybe) else None,
        script=draw(texts).lstrip("/").replace("~", "-~"),  # it is made, below the stage
        args=draw(arguments),
        env=draw(st.dictionaries(environment_names, texts_of_nodes, max_size=8)),
        sbatch=draw(st.dictionaries(st.sampled_from(_OPTIONS), texts, max_size=4)),
        srun=draw(st.dictionaries(st.sampled_from(_OPTIONS), texts, max_size=3)),
        parameters=parameters,
        choices=draw(st.lists(texts, max_size=3).map(tuple)),
        submitted=submitted,
        before=draw(steps),
        before_on_nodes=draw(steps),
        after=draw(steps),
        sidecars=draw(steps),
        prefix=draw(step),
        ds_config=draw(st.dictionaries(texts, json_values, max_size=3)),
        modules=draw(st.lists(texts, max_size=2).map(tuple)) if draw(maybe) else (),
        conda=draw(texts_of_nodes) if draw(maybe) else None,
        secret_words=draw(step),
        # A $ or { that touches a variable would belong to it.
        around=(draw(texts_of_nodes).rstrip("${"), draw(texts)),
        outer=draw(texts),
        launcher=draw(st.sampled_from(("srun", "srun", "torchrun", "deepspeed"))),
    )

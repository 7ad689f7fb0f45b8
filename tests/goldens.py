"""The cases of cases/good, and the parts of their rendered files that cases/goldens stores.

A case has a spec, or the path of an example, and the parts that it is about. case_files.py explains
the format:

    === fabric-tcpx ===
    shows: environment container
    --- spec.yaml ---
    name: a
    cluster: ./cluster.yaml
    --- cluster.yaml ---
    ...
    $ clusterjobs render spec.yaml

A part is a section of `main` (the first word of its heading), a function (`finish()`) or a file
(`points.csv`). All parts of one kind are in one golden, whatever their case; directives.sh has the
title, the directives and the record of every script. `shows: whole` instead stores all files of a
case, in a folder. So another wording of one line changes one golden and the whole scripts with that
line, at most five files.
"""

from __future__ import annotations

import fcntl
import functools
import pathlib
import re
import shutil

from case_files import Case, read_cases

ROOT = pathlib.Path(__file__).parents[1]
FOLDER = ROOT / "tests" / "cases" / "goldens"
STORED_IN = {  # the others are functions, in functions.sh, and files, in files.txt
    **dict.fromkeys(("title", "directives", "record"), "directives.sh"),
    **dict.fromkeys(
        ("main", "parameters", "rendezvous", "environment", "secrets", "limits", "values"),
        "environment.sh",
    ),
    **dict.fromkeys(("files", "export", "inputs", "stage"), "files.sh"),
    "container": "container.sh",
    # One golden for all that srun starts, since its options have the same reasons everywhere.
    **dict.fromkeys(("preflight", "before", "beside", "roles", "launch", "after"), "launch.sh"),
    "check_arguments()": "launch.sh",  # it starts a container as the launch does
    "programs": "functions.sh",
}
# What a script carries that is made for its spec.
_OWN = re.compile(r"(?ms)^: <<'end of (plan\.json|start_again\.sh)'\n(.*?)\nend of \1\n")
_BLOCK = re.compile(r"(?ms)^# ======== (\S+)\n(.*?)(?=\n# ======== |\Z)")


@functools.cache
def cases() -> dict[str, Case]:
    """All cases by name, in the order in which the goldens have them."""
    return {case.name: case for case in read_cases("good/*.txt")}


def spec(case: Case, folder: pathlib.Path) -> pathlib.Path:
    """The path of the spec, after writing the files of the case to this folder."""
    case.write(folder)
    if case.files:
        return folder / case.arguments[1]
    example = ROOT / case.arguments[1]
    if example.suffix == ".yaml":
        return example
    page = example.read_text(encoding="utf-8")
    (folder / "spec.yaml").write_text(page.split("```yaml\n", 1)[1].split("```", 1)[0])
    return folder / "spec.yaml"


def _shows(case: Case) -> list[str]:
    line = re.search(r"(?m)^shows:(.*)$", case.remarks)
    return line[1].split() if line else []


def parts(script: str) -> dict[str, str]:
    """The parts of a script by name, in their order."""
    found: dict[str, list[str]] = {}
    name = "title"
    script = script.replace("\n#SBATCH", "\n\n#SBATCH", 1)
    own = dict(_OWN.findall(script))
    record = re.search(r"(?m)^\{\"name\": .*", own.get("plan.json", script))
    assert record
    script = _OWN.sub("", script)
    for paragraph in re.split(r"\n\n+", script):
        if function := re.search(r"(?m)^(\w+)\(\) [{(]", paragraph):
            name = "main" if function[1] == "main" else f"{function[1]}()"
        elif heading := re.match(r"  # ---- (\w+)", paragraph):
            name = heading[1] if heading[1] in STORED_IN else "roles"  # each role has a heading
        elif paragraph.startswith("# ==== housekeeping"):
            continue
        elif paragraph.startswith("# ==== "):
            name = "read_point()"
        elif paragraph.startswith("#SBATCH"):
            name = "directives"
        elif paragraph.startswith(': "${SLURMD_NODENAME'):
            name = "programs"
        found.setdefault(name, []).append(paragraph)
    title = found["title"][0].splitlines()[1]
    return {
        **{name: "\n\n".join(one) for name, one in found.items()},
        "start_again()": own["start_again.sh"],
        "title": title,
        "record": record[0],
    }


def shown(case: Case, files: dict[str, str]) -> dict[str, str]:
    """What the goldens have to store of a case that renders these files, by the golden's name."""
    if _shows(case) == ["whole"]:
        return {f"{case.name}/{name}": text for name, text in files.items()}
    scripts = {name: parts(text) for name, text in sorted(files.items()) if name.endswith(".sh")}
    found: dict[str, list[str]] = {}
    for name in ("title", "directives", "record", *_shows(case)):
        if name in files:
            found.setdefault("files.txt", []).append(f"# ---- {name}\n{files[name].rstrip()}")
            continue
        whose: dict[str, list[str]] = {}
        for script, its_parts in scripts.items():
            if name in its_parts:
                whose.setdefault(its_parts[name], []).append(script)
        assert whose, f"{case.name} renders no `{name}`"
        for text, those in whose.items():
            found.setdefault(STORED_IN.get(name, "functions.sh"), []).append(
                f"# {', '.join(those)}:\n{text}" if len(scripts) > 1 else text
            )
    return {golden: "\n\n".join(texts) + "\n" for golden, texts in found.items()}


def read() -> dict[str, dict[str, str]]:
    """What the goldens store of each case, by the golden's name."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted(FOLDER.rglob("*.*")):
        text, golden = path.read_text(encoding="utf-8"), str(path.relative_to(FOLDER))
        for name, block in (
            _BLOCK.findall(text) if path.parent == FOLDER else [(path.parent.name, text)]
        ):
            found.setdefault(name, {})[golden] = block
    return found


def write(name: str, shown: dict[str, str]) -> None:
    """Stores these parts of a case, and removes those of cases that no longer exist."""
    FOLDER.mkdir(exist_ok=True)
    with pathlib.Path(__file__).open() as lock:  # other workers of pytest write the same files
        fcntl.flock(lock, fcntl.LOCK_EX)
        stored = {**read(), name: shown}
        shutil.rmtree(FOLDER)
        for case in cases():
            for golden, text in stored.get(case, {}).items():
                path = FOLDER / golden
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("a", encoding="utf-8") as file:
                    if path.parent == FOLDER:
                        file.write("\n" * bool(file.tell()) + f"# ======== {case}\n")
                    file.write(text)

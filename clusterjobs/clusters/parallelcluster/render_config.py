"""The text of `cluster.yaml`: an admin's config with the site's values and what a job needs.

Only scalars with references are replaced, and entries are added with a comment that gives the
reason, so the admin's comments and order are kept.
"""

import copy
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import yaml

from clusterjobs.clusters.facts import BucketLink
from clusterjobs.clusters.parallelcluster.detect import (
    at,
    bare_placeholders,
    items,
    shell_lines,
    text,
)
from clusterjobs.clusters.parallelcluster.site_values import (
    MissingValuesError,
    Substitution,
    missing_values,
    substitute,
    unresolved_problems,
)
from clusterjobs.errors import InputError, Problem, one_problem
from clusterjobs.spec.references import Scalar
from clusterjobs.yaml.document import Document, Path, dotted, load

# ------------------------------------------------------------------ associations
# Links of folders to buckets as data repository associations of the cluster's file systems.


SETTINGS = "FsxLustreSettings"
ASSOCIATIONS = "DataRepositoryAssociations"
MOST = 8  # of one file system: FsxDraValidator of ParallelCluster 3.16


class Addition(NamedTuple):
    """An entry to add below `settings`, the path of a file system's settings."""

    settings: Path
    entry: dict[str, Any]
    reason: str


def plan_additions(
    data: dict[str, Any], wanted: Sequence[BucketLink]
) -> tuple[list[Addition], list[Problem]]:
    """The entries to add to a config, and the problems that prevent others."""
    additions: list[Addition] = []
    problems: list[Problem] = []
    for association in wanted:
        outcome = _plan(data, association, additions)
        if isinstance(outcome, Addition):
            additions.append(outcome)
        elif outcome:
            problems.append(outcome)
    return additions, problems


def _plan(
    data: dict[str, Any], wanted: BucketLink, additions: Sequence[Addition]
) -> Addition | Problem | None:
    """The addition, or the problem, or None if nothing has to be added."""
    found = _storage_of(data, wanted.folder)
    if found is None:
        return Problem(
            f"{wanted.folder} lies on no Lustre file system of the cluster",
            wanted.where,
            hint=f"{wanted.bucket_path} has to be copied there by the job",
            warning=True,
        )
    path, storage, inside = found
    settings = at(storage, SETTINGS)
    if existing := text(at(settings, "FileSystemId")):
        return _of_its_owner(existing, inside, wanted)
    others = [*_entries(settings), *(a.entry for a in additions if a.settings == path)]
    if any(_covers(other, inside, wanted.bucket_path) for other in others):
        return None
    if problem := _refusal(settings, others, inside, wanted):
        return problem
    return Addition(path, _entry(inside, wanted, others), wanted.reason)


def _storage_of(data: dict[str, Any], folder: str) -> tuple[Path, dict[str, Any], str] | None:
    """The settings of the folder's file system, and the folder's path in it."""
    found: list[tuple[int, Path, dict[str, Any], str]] = []
    for index, storage in enumerate(items(at(data, "SharedStorage"))):
        mount = "/" + (text(at(storage, "MountDir")) or "").strip("/")
        if text(at(storage, "StorageType")) == "FsxLustre" and _within(folder, mount):
            inside = "/" + folder[len(mount) :].strip("/")
            found.append((len(mount), ("SharedStorage", index, SETTINGS), storage, inside))
    return max(found, key=lambda one: one[0])[1:] if found else None


def _within(path: str, outer: str) -> bool:
    return path == outer or path.startswith(outer.rstrip("/") + "/")


def _entries(settings: Any) -> Iterator[dict[str, Any]]:
    return (entry for entry in items(at(settings, ASSOCIATIONS)) if isinstance(entry, dict))


def _covers(entry: dict[str, Any], inside: str, bucket_path: str) -> bool:
    """Whether an association already links exactly this prefix to this folder."""
    folder, prefix = text(at(entry, "FileSystemPath")), text(at(entry, "DataRepositoryPath"))
    if folder is None or prefix is None or not _within(inside, folder):
        return False
    folder, prefix = folder.rstrip("/"), prefix.rstrip("/")
    return bucket_path.rstrip("/") == prefix + inside[len(folder) :].rstrip("/")


def _refusal(
    settings: Any,
    others: Sequence[dict[str, Any]],
    inside: str,
    wanted: BucketLink,
) -> Problem | None:
    what = hint = ""
    clash = next((o for o in others if _overlaps(o, inside, wanted.bucket_path)), None)
    if text(at(settings, "DeploymentType")) in (None, "SCRATCH_1"):
        what, hint = "a SCRATCH_1 file system takes no associations", "DeploymentType: SCRATCH_2"
    elif at(settings, "ImportPath") is not None or at(settings, "ExportPath") is not None:
        what, hint = "beside ImportPath or ExportPath FSx takes no associations", "remove them"
    elif clash:
        what = f"{wanted.bucket_path} overlaps the association {text(at(clash, 'Name'))}"
        hint = f"it shows {at(clash, 'DataRepositoryPath')} at {at(clash, 'FileSystemPath')}"
    elif len(others) >= MOST:
        what, hint = f"the file system has {MOST} associations, and takes no more", "join some"
    return Problem(what, wanted.where, hint=hint) if what else None


def _overlaps(entry: dict[str, Any], inside: str, bucket_path: str) -> bool:
    for key, path in (("FileSystemPath", inside), ("DataRepositoryPath", bucket_path)):
        other = (text(at(entry, key)) or "?").rstrip("/")
        if _within(path.rstrip("/"), other) or _within(other, path.rstrip("/")):
            return True
    return False


def _entry(inside: str, wanted: BucketLink, others: Sequence[dict[str, Any]]) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "Name": _free_name(inside, [str(at(other, "Name")) for other in others]),
        "FileSystemPath": inside,
        "DataRepositoryPath": wanted.bucket_path,
        "BatchImportMetaDataOnCreate": True,
    }
    policy = "AutoExportPolicy" if wanted.export else "AutoImportPolicy"
    return {**entry, policy: ["NEW", "CHANGED"]}


def _free_name(inside: str, taken: Sequence[str]) -> str:
    """A new name from the folder's last part; at most 30 letters, digits, `-` and `_`."""
    last = inside.rstrip("/").rpartition("/")[2] or "root"
    base = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in last)[:24]
    names = [base, *(f"{base}-{number}" for number in range(2, MOST + 2))]
    return next(name for name in names if name not in taken)


def _of_its_owner(name: str, inside: str, wanted: BucketLink) -> Problem:
    """A warning that says what an existing file system needs: only its owner can change it."""
    return Problem(
        f"{name} is left as it is, and may lack the association of {inside} "
        f"with {wanted.bucket_path}",
        wanted.where,
        hint=f"aws fsx create-data-repository-association --file-system-id {name} "
        f"--file-system-path {inside} --data-repository-path {wanted.bucket_path}",
        warning=True,
    )


# ------------------------------------------------------------------ edit yaml
# Inserts entries into YAML text, each with a comment above it; all other text is kept.


def insert_entry(
    document: Document, parent: Path, key: str, entry: Mapping[str, Any], comment: str
) -> str:
    """The text with `entry` as the last item of the list `key` below the map at `parent`."""
    holder = _value(document.value, parent)
    if key not in holder:
        return _new_key(document, parent, key, entry, comment)
    if not holder[key]:
        start, end = document.span((*parent, key))
        text = document.text[:start] + f" [{_flow(entry)}]" + document.text[end:]
        return _with_comment(text, start, comment)
    return _new_item(document, (*parent, key), entry, comment)


def _new_key(
    document: Document, parent: Path, key: str, entry: Mapping[str, Any], comment: str
) -> str:
    start, end = document.span(parent)
    if _opens(document.text, start, "{"):
        text = _before_bracket(document.text, end, f"{key}: [{_flow(entry)}]")
        return _with_comment(text, start, comment)
    indent = " " * (start - (document.text.rfind("\n", 0, start) + 1))
    lines = [f"{indent}{key}:", *_block(entry, indent + "  ")]
    return _after_line(document.text, _end_of_last(document, parent), indent, comment, lines)


def _new_item(document: Document, path: Path, entry: Mapping[str, Any], comment: str) -> str:
    start, end = document.span(path)
    if _opens(document.text, start, "["):
        return _with_comment(_before_bracket(document.text, end, _flow(entry)), start, comment)
    indent = " " * (start - (document.text.rfind("\n", 0, start) + 1))
    lines = _block(entry, indent)
    return _after_line(document.text, _end_of_last(document, path), indent, comment, lines)


# ------------------------------------------------------------------ places in the text


def _value(data: Any, path: Path) -> Any:
    for step in path:
        data = data[step]
    return data


_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")


def _opens(text: str, start: int, brackets: str) -> bool:
    """Whether a flow collection starts there, after its anchor and tag."""
    found = _PROPERTIES.match(text, start)
    return text[found.end() if found else start] in brackets


def _end_of_last(document: Document, path: Path) -> int:
    """The end of the last scalar or flow below `path`: a block's own end is after its comments."""
    value = _value(document.value, path)
    start, end = document.span(path)
    if _opens(document.text, start, "[{") or not isinstance(value, (dict, list)) or not value:
        return end
    last = len(value) - 1 if isinstance(value, list) else list(value)[-1]
    return _end_of_last(document, (*path, last))


def _after_line(text: str, index: int, indent: str, comment: str, lines: list[str]) -> str:
    end = text.find("\n", index)
    head, tail = (text, "") if end < 0 else (text[:end], text[end:])
    return "\n".join([head.rstrip("\n"), f"{indent}# {comment}", *lines]) + (tail or "\n")


def _with_comment(text: str, index: int, comment: str) -> str:
    """The text with the comment on a line above the line of `index`."""
    start = text.rfind("\n", 0, index) + 1
    line = text[start:]
    indent = line[: len(line) - len(line.lstrip(" "))]
    return f"{text[:start]}{indent}# {comment}\n{line}"


def _before_bracket(text: str, end: int, new: str) -> str:
    """The text with `new` as the last entry of the flow that ends at `end`."""
    inner = text[: end - 1].rstrip()
    separator = "" if inner[-1] in "[{" else " " if inner[-1] == "," else ", "
    return f"{inner}{separator}{new}{text[end - 1 :]}"


# ------------------------------------------------------------------ entries as text


def _block(entry: Mapping[str, Any], indent: str) -> list[str]:
    dumped = yaml.safe_dump([dict(entry)], sort_keys=False, default_flow_style=None, width=1000)
    return [f"{indent}{line}" for line in dumped.rstrip("\n").split("\n")]


def _flow(entry: Mapping[str, Any]) -> str:
    dumped: str = yaml.safe_dump(
        dict(entry), sort_keys=False, default_flow_style=True, width=10_000
    )
    return dumped.rstrip("\n")


# Text that needs no quotes, neither in block nor in flow style.
_PLAIN = re.compile(r"[A-Za-z](?:[\w/-]|\.(?=\w))*(?:://[\w./-]*[\w/])?", re.ASCII)
_ANCHOR = re.compile(r"(?:![^\s]*\s+)?(&[^\s]+\s+)")


class FitChange(NamedTuple):
    """One change beyond the site's values: what was done at `path`, and why."""

    path: str
    what: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what} ({self.reason})"


class Fitted(NamedTuple):
    """`cluster.yaml`, the changes for the job, and the problems.

    `data` is the content of the text; `problems` include warnings.
    """

    text: str
    data: dict[str, Any]
    changes: tuple[FitChange, ...]
    problems: tuple[Problem, ...]


def fit(
    document: Document,
    site: Mapping[str, object],
    site_files: Sequence[str] = (),
    wanted: Sequence[BucketLink] = (),
) -> Fitted:
    """The document with every reference replaced, a header, and the links to buckets of a job.

    Raises MissingValuesError for missing site values (`site_files` are those searched),
    and InputError for bad references and where unquoted placeholders make the config no YAML.
    """
    if "Scheduling" not in (document.value or {}):
        raise UnwritableError(
            [Problem("the config is inside another file", document.locate(()), hint=_HOW_TO_SAVE)]
        )
    _check_bare_placeholders(document)
    substitution = substitute(document, site)
    if unresolved := unresolved_problems(document, substitution, site, site_files):
        only_missing = len(unresolved) == 1 and missing_values(substitution)
        raise (MissingValuesError if only_missing else InputError)(unresolved)
    text = _replace_scalars(document, substitution)
    _assert_same_data(text, document.file, substitution.value)
    additions, problems = plan_additions(substitution.value, wanted)
    current = load(text, document.file, rules="1.1")
    for addition in additions:
        current = _add(current, addition)
    changes = tuple(_change(addition) for addition in additions)
    text = _header(document.file) + current.text
    return Fitted(text, current.value, changes, tuple(problems))


_HOW_TO_SAVE = "save what stands under ClusterConfiguration in a file of its own"


class UnwritableError(InputError):
    """The config can be read, but with its placeholders or commands it is not valid YAML."""


def _check_bare_placeholders(document: Document) -> None:
    """Raise UnwritableError if placeholders or shell commands make the config invalid YAML."""
    try:
        load(document.text, document.file, rules="1.1")
    except InputError as error:
        found, commands = bare_placeholders(document.text), shell_lines(document.text)
        if not (found or commands):
            raise
        index, written = (found or commands)[0]
        line = document.text.count("\n", 0, index) + 1
        what, hint = "was not filled in", "fill the template in"
        if not found:
            what, hint = "is a shell command, not part of the config", "remove the line"
        more = f", and {len(found or commands) - 1} more" if len(found or commands) > 1 else ""
        what = f"{written.strip()} {what} ({document.file}:{line}{more})"
        raise UnwritableError([Problem(what, error.problems[0].where, hint=hint)]) from None


def _add(document: Document, addition: Addition) -> Document:
    """The document with the entry. Raises InputError if a YAML anchor prevents it."""
    expected = copy.deepcopy(document.value)
    settings = expected
    for step in addition.settings:
        settings = settings[step]
    settings[ASSOCIATIONS] = [*(settings.get(ASSOCIATIONS) or []), addition.entry]
    comment = f"Added by clusterjobs: {_printable(addition.reason)}"
    text = insert_entry(document, addition.settings, ASSOCIATIONS, addition.entry, comment)
    result = load(text, document.file, rules="1.1")
    if result.value != expected:
        where = document.locate_key(addition.settings)
        raise one_problem("an association cannot be added here", where, hint=_ANCHOR_HINT)
    return result


_ANCHOR_HINT = "write the settings of this file system out, without anchors and aliases"


def _change(addition: Addition) -> FitChange:
    entry = addition.entry
    what = f"added {entry['Name']}, {entry['FileSystemPath']} with {entry['DataRepositoryPath']}"
    return FitChange(dotted((*addition.settings, ASSOCIATIONS)), what, addition.reason)


def _replace_scalars(document: Document, substitution: Substitution) -> str:
    """Replace each span of text once: an alias is a second path to the same span."""
    spans = {document.span(path): value for path, value in substitution.replaced.items()}
    text = document.text
    for (start, end), value in sorted(spans.items(), reverse=True):
        text = text[:start] + _replacement(text[start:end], value) + text[end:]
    return text


def _replacement(written: str, value: Scalar) -> str:
    """The text that replaces `written`, which may start with an anchor and end with line breaks."""
    anchor = _ANCHOR.match(written)
    behind = written[len(written.rstrip()) :]
    return (anchor[1] if anchor else "") + dump_scalar(value) + behind


def dump_scalar(value: Scalar) -> str:
    """One line of YAML 1.1 that is read back as exactly this value, in block and flow style."""
    if isinstance(value, str):
        if _needs_no_quotes(value):
            return value
        dumped: str = yaml.dump(value, default_style='"', width=float("inf"), allow_unicode=True)
        return dumped.rstrip("\n")
    if isinstance(value, float):
        return yaml.safe_dump(float(value)).split("\n")[0]
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(int(value))


def _needs_no_quotes(text: str) -> bool:
    """Words such as `yes` and `null` look plain, but are not text in YAML 1.1."""
    return bool(_PLAIN.fullmatch(text)) and load(text, "", rules="1.1").value == text


def _assert_same_data(text: str, file: str, expected: Any) -> None:
    """Assert that the text is read back as the same data and types; a failure is a bug."""
    if repr(load(text, file, rules="1.1").value) != repr(expected):
        raise AssertionError(f"{file}: the fitted text does not hold the substituted data")


def _header(file: str) -> str:
    name = _printable(pathlib.PurePath(file).name)
    return (
        f"# Written by clusterjobs from {name} and the values of the site.\n"
        "# Do not edit: change those, and render again.\n\n"
    )


def _printable(name: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in name)

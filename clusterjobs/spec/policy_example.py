"""rules.yaml beside an example spec: the rules of the policy that the example must break.

It knows the file's keys; it must not know how a rule is checked.
"""

# No `from __future__ import annotations`: pydantic would have to parse each annotation at start.
import json
from collections.abc import Collection

from clusterjobs.errors import InputError, Problem, did_you_mean, in_order, one_problem
from clusterjobs.spec.field_types import Text
from clusterjobs.spec.model import SpecModel
from clusterjobs.spec.validate import check_model
from clusterjobs.yaml import document as yaml_document
from clusterjobs.yaml.document import dotted


class Example(SpecModel):
    """The rules that a spec must break, if `user` in `groups` submits it."""

    user: Text = ""
    groups: tuple[Text, ...] = ()
    rules: tuple[Text, ...] = ()


def load_example(text: str, file: str, names: Collection[str]) -> Example:
    """Read a rules.yaml. `names` are those of all rules. Raises InputError."""
    document = yaml_document.load(text, file)
    if document.value is None:
        return Example()
    if not isinstance(document.value, dict):
        hint = "write rules: [name], and if it matters user: and groups:"
        raise one_problem("expected a mapping", document.locate(()), hint=hint)
    problems: list[Problem] = []
    example: Example | None = check_model(Example, document.value, document, problems)
    for index, name in enumerate(example.rules if example else ()):
        if name not in names:
            path = ("rules", index)
            hint = did_you_mean(name, sorted(names))
            where = document.locate(path)
            problems.append(Problem(f"no rule {name!r}", where, dotted(path), hint))
    if example is None or problems:
        raise InputError(in_order(problems))
    return example


def with_rules(text: str, example: Example, rules: Collection[str]) -> str:
    """The text of a rules.yaml with other rules; comments are kept where that is possible."""
    wanted = example.model_copy(update={"rules": tuple(sorted(rules))})
    candidates = (_replaced(text, wanted.rules), _written(wanted))
    return next(one for one in candidates if _read(one) == wanted)


def _replaced(text: str, rules: Collection[str]) -> str:
    """The text with the list after `rules:` replaced, or with the key added."""
    shown = f"[{', '.join(rules)}]"
    document = yaml_document.load(text, "rules.yaml")
    if not isinstance(document.value, dict) or not document.value.get("rules"):
        return f"{text}{'' if text.endswith(chr(10)) or not text else chr(10)}rules: {shown}\n"
    start, end = document.span(("rules",))
    if text[start] == "[":
        return text[:start] + shown + text[end:]
    last = len(document.value["rules"]) - 1
    return f"{text[:start].rstrip()} {shown}{text[document.span(('rules', last))[1] :]}"


def _written(example: Example) -> str:
    keys = example.model_dump(exclude_unset=True)
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in keys.items())


def _read(text: str) -> Example | None:
    try:
        return Example.model_validate(yaml_document.load(text, "rules.yaml").value)
    except (ValueError, InputError):  # the replaced text is no such file
        return None

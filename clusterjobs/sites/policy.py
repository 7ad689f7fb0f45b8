"""A site's policy.yaml: rules for jobs, declared as data."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from clusterjobs.errors import (
    InputError,
    Location,
    Problem,
    did_you_mean,
    in_order,
    nearest,
    one_problem,
)
from clusterjobs.slurm.options import is_slurm_time, seconds_of
from clusterjobs.spec.field_types import (
    Count,
    CountOrNone,
    LiteralText,
    first_control_character,
    literal_text,
)
from clusterjobs.spec.key_names import UnknownKeyError, check_key
from clusterjobs.spec.keys.preflight import PreflightCheck
from clusterjobs.spec.model import FLAG, NULL, TEXT, Also, Key, OptionModels, SpecModel
from clusterjobs.spec.validate import check_model
from clusterjobs.yaml import document as yaml_document
from clusterjobs.yaml.document import Document, Path, dotted

# ------------------------------------------------------------------ policy types
# The types of single values in a policy.yaml: names, messages, links, lists, times.
# Each function takes a value that YAML gave and returns the checked one, or raises ValueError:
# what is wrong and, after a colon, what to write instead.


# No `from __future__ import annotations`: pydantic would have to parse each annotation at start.


MAX_MESSAGE = 1_000
MAX_TEXT = 500
MAX_VALUES = 1_000  # of one list: each is compared with each value of a job

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)
_LINK = re.compile(r"(?:https?://|mailto:)[^\s<>\"'`]{1,500}")


def _name(value: Any) -> str:
    text = literal_text(value)
    if not _NAME.fullmatch(text):
        raise ValueError(
            "not a name of a rule: only letters, digits, '.', '_' and '-', at most 64, "
            "for example account-required"
        )
    return text


def _message(value: Any) -> str:
    """The message in one line. An admin may write it in several."""
    if isinstance(value, str) and len(value) > MAX_MESSAGE:
        raise ValueError(f"longer than {MAX_MESSAGE:,} characters: shorten it, and add a link")
    text = " ".join(literal_text(value).split())
    if not text:
        raise ValueError("the message is empty: say what the user must do")
    if bad := first_control_character(text):
        raise ValueError(f"the message contains {bad}: remove it")
    return text


def _link(value: Any) -> str:
    text = literal_text(value)
    if not _LINK.fullmatch(text):
        raise ValueError("not a link: write one that starts with https:// and has no spaces")
    return text


def _one_value(value: Any) -> str:
    if isinstance(value, str) and len(value) > MAX_TEXT:
        raise ValueError(f"longer than {MAX_TEXT} characters: shorten it, a * stands for any text")
    text = literal_text(value)
    if not text:
        raise ValueError("the value is empty: write one, or * for any")
    if bad := first_control_character(text):
        raise ValueError(f"the value contains {bad}: remove it")
    return text


def _list(value: Any) -> Any:
    """A list; a single value is a list of one."""
    if isinstance(value, list):
        if not value:
            raise ValueError("the list is empty: write at least one value, or remove the key")
        return tuple(value)
    if value is None:
        raise ValueError("the value is missing: write a list, [a, b]")
    return value if isinstance(value, dict) else (value,)


def _time(value: Any) -> str:
    """A time that limits: `12:00` is refused, because few read it as minutes and seconds."""
    text = literal_text(value)
    if re.fullmatch(r"[0-9]+:[0-9]+", text):
        raise ValueError(f"Slurm reads {text} as minutes and seconds: for hours write {text}:00")
    if not is_slurm_time(text) or not seconds_of(text):
        raise ValueError(
            f"{text!r} is not a time limit: write 90 (minutes), 12:00:00 or 2-00:00:00"
        )
    return text


def _hours(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e12:
        raise ValueError("expected a number of hours above 0: for example 512")
    return value


def _day(value: Any) -> str:
    """A day as year-month-day, whose order is that of its text."""
    text = literal_text(value)
    try:
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
            return datetime.date.fromisoformat(text).isoformat()
    except ValueError:
        pass
    raise ValueError(f"{text!r} is not a day: write year-month-day, for example 2027-01-31")


def _checks(value: Any) -> Any:
    """`true` means any preflight, a list the checks that it must have."""
    if value is True:
        return ()
    if value is False:
        raise ValueError("false requires nothing: write true, or a list of checks")
    return _list(value)


RuleName = Annotated[str, BeforeValidator(_name)]
Message = Annotated[str, BeforeValidator(_message)]
Link = Annotated[str, BeforeValidator(_link)]
Day = Annotated[str, BeforeValidator(_day)]
Time = Annotated[str, BeforeValidator(_time)]
Hours = Annotated[float, BeforeValidator(_hours)]
Checks = Annotated[tuple[PreflightCheck, ...], BeforeValidator(_checks), Also(TEXT, FLAG)]
Texts = Annotated[
    tuple[Annotated[str, BeforeValidator(_one_value)], ...],
    Field(max_length=MAX_VALUES),
    BeforeValidator(_list),
    Also(TEXT),
]
TextsOfKeys = dict[Annotated[str, AfterValidator(_one_value)], Texts]


# No `from __future__ import annotations`: pydantic would have to parse each annotation at start.


class _NotEmpty(SpecModel):
    @model_validator(mode="after")
    def _says_something(self) -> _NotEmpty:
        if not self.model_fields_set:
            known = ", ".join(type(self).model_fields)
            raise ValueError(f"nothing is written here: remove it, or add one of {known}")
        return self


class _Dated(SpecModel):
    """What is in force on some days alone: `from` the first one, `until` the last."""

    from_: Annotated[
        Day | None,
        Key("the first day: before it, nothing checks the rule", "2027-01-01"),
    ] = Field(None, alias="from")
    until: Annotated[Day | None, Key("the last day", "2027-01-31")] = None

    @model_validator(mode="after")
    def _has_a_day(self) -> _Dated:
        if self.from_ and self.until and self.until < self.from_:
            raise ValueError(f"it is never in force: {self.until} is before {self.from_}")
        return self

    def is_in_force(self, day: str) -> bool:
        return (self.from_ or day) <= day <= (self.until or day)


class Selection(_NotEmpty):
    """The jobs that fit every list. A list fits if one of its values does; `*` is any text."""

    clusters: Annotated[Texts, Key("names of clusters; `*` is any text", "[p4d-a100]")] = ()
    queues: Annotated[Texts, Key("queues; `*` is any text", "[gpu]")] = ()
    groups: Annotated[Texts, Key("groups of the user; `*` is any text", "[students]")] = ()
    users: Annotated[Texts, Key("users; `*` is any text", "[ada]")] = ()
    accounts: Annotated[Texts, Key("Slurm's accounts; `*` is any text", "[nlp]")] = ()
    frameworks: Annotated[Texts, Key("frameworks of the spec; `*` is any text", "[deepspeed]")] = ()

    @property
    def kinds(self) -> set[str]:
        """The lists that are written."""
        return self.model_fields_set & {*Selection.model_fields}


class Exemption(_Dated, Selection):
    """Jobs that a rule is not for, on some days alone if it has days."""

    from_: Annotated[
        Day | None,
        Key("the first day: before it, the rule is for these jobs, too", "2027-01-01"),
    ] = Field(None, alias="from")
    until: Annotated[
        Day | None, Key("the last day: after it, the rule is for these jobs again", "2027-01-31")
    ] = None

    @model_validator(mode="after")
    def _is_of_some_jobs(self) -> Exemption:
        if not self.kinds:
            raise ValueError(
                "it exempts no jobs: add groups, users or accounts; an end of the rule itself is "
                "written beside unless"
            )
        return self


class Limits(_NotEmpty):
    """The most that one job may use. `gpus` and `gpu_hours` are of all its nodes.

    `team_`: the most that all jobs of the selection may use at the same time.
    """

    nodes: Annotated[Count | None, Key("nodes of one job", "2")] = None
    gpus: Annotated[CountOrNone | None, Key("GPUs of one job, on all its nodes", "16")] = None
    gpus_per_node: Annotated[CountOrNone | None, Key("GPUs on a node", "8")] = None
    time: Annotated[Time | None, Key("the time limit, as Slurm writes it", "1-00:00:00")] = None
    gpu_hours: Annotated[Hours | None, Key("`gpus` times `time_limit`, in hours", "100")] = None
    team_nodes: Annotated[
        Count | None, Key("nodes of all jobs of the selection at the same time", "16")
    ] = None
    team_gpus: Annotated[
        CountOrNone | None, Key("GPUs of all jobs of the selection at the same time", "128")
    ] = None


class Images(_NotEmpty):
    """Names of container images; every spelling of a name is compared."""

    allow: Annotated[
        Texts, Key("the only ones, in any spelling", '["registry.example.org/*"]')
    ] = ()
    forbid: Annotated[Texts, Key("those that no job may use, in any spelling", '["*:latest"]')] = ()


_ASKS = ("require", "allow", "forbid", "limits", "images", "preflight")


class Rule(_Dated):
    """One rule: which jobs it is for (`when`, `unless`), and what they must or must not have."""

    name: Annotated[
        RuleName, Key("letters, digits, `.`, `_` and `-`; unique in the file", "account-required")
    ]
    message: Annotated[
        Message, Key("what the user must do, in your words", "write an account under sbatch")
    ]
    link: Annotated[Link | None, Key("a page with more", "https://wiki.example.org/accounts")] = (
        None
    )
    action: Annotated[Literal["refuse", "warn"], Key("`refuse` or `warn`", "warn")] = "refuse"
    when: Annotated[
        Selection | None,
        Key("the jobs that the rule is for. All that is written must fit", "{queues: [gpu]}"),
    ] = None
    unless: Annotated[
        Annotated[Exemption, Tag("map")] | Annotated[tuple[Exemption, ...], Tag("list")],
        Discriminator(lambda value: "list" if isinstance(value, (list, tuple)) else "map"),
        Key(
            "the jobs that the rule is not for, with the same keys, and days of its own; or a "
            "list of such",
            "{groups: [admins]}",
        ),
    ] = ()
    require: Annotated[
        Texts,
        Key(
            "keys that must be written in the spec, or in a default",
            "[sbatch.account, checkpoints]",
        ),
    ] = ()
    allow: Annotated[
        TextsOfKeys,
        Key(
            "the only values of keys. A key without a value breaks no rule: add `require`",
            "{sbatch.account: [bio-*, chem]}",
        ),
    ] = {}
    forbid: Annotated[
        Annotated[TextsOfKeys, Tag("map")] | Annotated[Texts, Tag("list")],
        Discriminator(lambda value: "map" if isinstance(value, dict) else "list"),
        Key(
            "values that keys must not have, or a list of keys that must not be written",
            "{queue: [p5]}",
        ),
    ] = ()
    limits: Annotated[
        Limits | None, Key("the most that one job may use", "{nodes: 2, time: 1-00:00:00}")
    ] = None
    images: Annotated[
        Images | None, Key("container images. All spellings are compared", '{forbid: ["*:latest"]}')
    ] = None
    preflight: Annotated[
        Checks | None,
        Key(
            "the job must have a [preflight](preflight.md): `true`, or a list of checks",
            "[gpus, nccl]",
        ),
    ] = None

    @model_validator(mode="after")
    def _asks_for_something(self) -> Rule:
        if not any(getattr(self, name) for name in _ASKS) and self.preflight is None:
            raise ValueError(f"the rule asks for nothing: add one of {', '.join(_ASKS)}")
        return self

    @property
    def exemptions(self) -> tuple[Exemption, ...]:
        """The selections of `unless`: a job of any of them is exempt."""
        return self.unless if isinstance(self.unless, tuple) else (self.unless,)

    @property
    def selections(self) -> tuple[Selection, ...]:
        return (*((self.when,) if self.when else ()), *self.exemptions)

    def on(self, day: str) -> Rule | None:
        """The rule on a day, 2027-01-31, with the exemptions of that day; None if there is none."""
        if not self.is_in_force(day):
            return None
        left = tuple(one for one in self.exemptions if one.is_in_force(day))
        return self if left == self.exemptions else self.model_copy(update={"unless": left})


class Policy(SpecModel):
    """All of a policy.yaml."""

    rules: Annotated[
        tuple[Rule, ...],
        Also(NULL),
        Key(
            "a list of rules",
            "[{name: account, message: write an account, require: [sbatch.account]}]",
        ),
    ] = ()  # all rules are commented out


class SiteRule(NamedTuple):
    """A rule, and where its name is written."""

    rule: Rule
    where: Location


def load_policy(text: str, file: str, option_models: OptionModels) -> tuple[SiteRule, ...]:
    """The rules of a policy.yaml. `option_models` has the keys of each framework.

    Raises InputError with all problems.
    """
    document = yaml_document.load(text, file)
    if document.value in (None, {"rules": None}):  # all rules are commented out
        return ()
    if not isinstance(document.value, dict):
        hint = "write `rules:`, and below it a list of rules"
        raise one_problem("expected a mapping", document.locate(()), hint=hint)
    problems: list[Problem] = []
    policy: Policy | None = check_model(Policy, document.value, document, problems)
    if policy is None or problems:
        raise InputError(in_order(problems))
    found = tuple(
        SiteRule(rule, document.locate(("rules", index, "name")))
        for index, rule in enumerate(policy.rules)
    )
    problems += [*_same_names(found), *_unknown_keys(policy, document, option_models)]
    problems += _misspelt_frameworks(policy, document, [*option_models.frameworks])
    if problems:
        raise InputError(in_order(problems))
    return found


def _same_names(rules: tuple[SiteRule, ...]) -> Iterator[Problem]:
    first: dict[str, Location] = {}
    for rule, where in rules:
        if rule.name in first:
            hint = f"choose another; the first is on line {first[rule.name].line}"
            yield Problem(f"two rules have the name {rule.name}", where, hint=hint)
        first.setdefault(rule.name, where)


_IMAGE = "software.container.image"


def _unknown_keys(
    policy: Policy, document: Document, option_models: OptionModels
) -> Iterator[Problem]:
    for index, rule in enumerate(policy.rules):
        for path, key in _named_keys(rule):
            path = ("rules", index, *path)
            where = document.locate_key(path)
            if key == _IMAGE and path[2] != "require":
                hint = f"write images: {{{path[2]}: [...]}}, which knows all spellings of a name"
                yield Problem(f"{key} is compared as text alone", where, dotted(path), hint)
            try:
                check_key(key, option_models)
            except UnknownKeyError as error:
                yield Problem(str(error), where, dotted(path), error.hint)


def _misspelt_frameworks(policy: Policy, document: Document, known: list[str]) -> Iterator[Problem]:
    """Names that are similar to a framework's. Others may be of one that is not installed here."""
    for index, rule in enumerate(policy.rules):
        for part, selection in _placed_selections(rule):
            for item, name in enumerate(selection.frameworks):
                if name not in known and (meant := nearest(name, known, cutoff=0.85)):
                    path = ("rules", index, *part, "frameworks", item)
                    what = f"there is no framework {name}"
                    where = document.locate(path)
                    yield Problem(what, where, dotted(path), f"did you mean {meant}?", meant=meant)


def _placed_selections(rule: Rule) -> Iterator[tuple[Path, Selection]]:
    """The selections of a rule, with their paths in it."""
    if rule.when:
        yield ("when",), rule.when
    for index, one in enumerate(rule.exemptions):
        yield ("unless", index) if isinstance(rule.unless, tuple) else ("unless",), one


def _named_keys(rule: Rule) -> Iterator[tuple[Path, str]]:
    """Each key of a spec that the rule names, with its path in the rule."""
    for name, keys in (("require", rule.require), ("allow", rule.allow), ("forbid", rule.forbid)):
        for index, key in enumerate(keys):
            yield (name, key if isinstance(keys, dict) else index), key


# ------------------------------------------------------------------ policy text
# Rules of a policy in a few words, for tables and pages.


def selection_text(rule: Rule) -> str:
    """`queues p5*; not groups staff`, or `all jobs`."""
    parts = [*_selection(rule.when)] if rule.when else []
    parts += [f"not {text}{_days(one)}" for one in rule.exemptions for text in _selection(one)]
    return "; ".join(parts) + _days(rule) if parts else f"all jobs{_days(rule)}"


def _days(one: _Dated) -> str:
    days = (("from", one.from_), ("until", one.until))
    return "".join(f" {word} {day}" for word, day in days if day)


def demand_text(rule: Rule) -> str:
    """`require sbatch.account; at most 8 nodes`."""
    return "; ".join(_demands(rule))


def _selection(selection: Selection) -> Iterator[str]:
    for kind in Selection.model_fields:
        if names := getattr(selection, kind):
            yield f"{kind} {', '.join(names)}"


def _demands(rule: Rule) -> Iterator[str]:
    if rule.require:
        yield f"require {', '.join(rule.require)}"
    for word, keys in (("allow", rule.allow), ("forbid", rule.forbid)):
        if isinstance(keys, Mapping):
            for key, values in keys.items():
                yield f"{word} {key}: {', '.join(values)}"
        elif keys:
            yield f"{word} {', '.join(keys)}"
    if rule.limits:
        yield "at most " + ", ".join(_limits(rule.limits))
    if rule.images:
        for word, names in (("allow", rule.images.allow), ("forbid", rule.images.forbid)):
            if names:
                yield f"{word} images {', '.join(names)}"
    if rule.preflight is not None:
        checks = f": {', '.join(rule.preflight)}" if rule.preflight else ""
        yield f"require the preflight{checks}"


def _limits(limits: Limits) -> Iterator[str]:
    amounts = (
        ("node", limits.nodes, ""),
        ("GPU", limits.gpus, ""),
        ("GPU", limits.gpus_per_node, " per node"),
        ("GPU-hour", limits.gpu_hours, ""),
        ("node", limits.team_nodes, " together"),
        ("GPU", limits.team_gpus, " together"),
    )
    for unit, amount, of_what in amounts:
        if amount is not None:
            yield f"{amount:,.6g} {unit}{'s' * (amount != 1)}{of_what}"
    if limits.time is not None:
        yield f"time {limits.time}"


# ------------------------------------------------------------------ policy example
# rules.yaml beside an example spec: the rules of the policy that the example must break.


# No `from __future__ import annotations`: pydantic would have to parse each annotation at start.


class Example(SpecModel):
    """The rules that a spec must break, if `user` in `groups` submits it on the day `date`.

    Without a date, all rules are in force: a test does not depend on the day when it runs.
    """

    user: LiteralText = ""
    groups: tuple[LiteralText, ...] = ()
    date: Day | None = None
    rules: tuple[LiteralText, ...] = ()


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

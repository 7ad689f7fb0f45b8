"""A site's policy.yaml: rules for jobs, declared as data.

It knows what an admin may write and where each rule stands; it must not know jobs, plans or users.
"""

# No `from __future__ import annotations`: pydantic would have to parse each annotation at start.
from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple

from pydantic import Discriminator, Tag, model_validator

from clusterjobs.errors import InputError, Location, Problem, in_order, one_problem
from clusterjobs.spec.field_types import Count, CountOrNone
from clusterjobs.spec.model import SpecModel
from clusterjobs.spec.option_models import OptionModels
from clusterjobs.spec.policy_types import (
    Checks,
    Hours,
    Link,
    Message,
    RuleName,
    Texts,
    TextsOfKeys,
    Time,
)
from clusterjobs.spec.spec_keys import UnknownKeyError, check_key
from clusterjobs.spec.validate import check_model
from clusterjobs.yaml import document as yaml_document
from clusterjobs.yaml.document import Document, Path, dotted


class _NotEmpty(SpecModel):
    @model_validator(mode="after")
    def _says_something(self) -> "_NotEmpty":
        if not self.model_fields_set:
            known = ", ".join(type(self).model_fields)
            raise ValueError(f"nothing is written here: remove it, or add one of {known}")
        return self


class Selection(_NotEmpty):
    """The jobs that fit every list. A list fits if one of its values does; `*` is any text."""

    clusters: Texts = ()
    queues: Texts = ()
    groups: Texts = ()
    users: Texts = ()
    frameworks: Texts = ()


class Limits(_NotEmpty):
    """The most that one job may use. `gpus` and `gpu_hours` are of all its nodes."""

    nodes: Count | None = None
    gpus: CountOrNone | None = None
    gpus_per_node: CountOrNone | None = None
    time: Time | None = None
    gpu_hours: Hours | None = None


class Images(_NotEmpty):
    """Names of container images; every spelling of a name is compared."""

    allow: Texts = ()
    forbid: Texts = ()


_ASKS = ("require", "allow", "forbid", "limits", "images", "preflight")


class Rule(SpecModel):
    """One rule: which jobs it is for (`when`, `unless`), and what they must or must not have."""

    name: RuleName
    message: Message
    link: Link | None = None
    action: Literal["refuse", "warn"] = "refuse"
    when: Selection | None = None
    unless: Selection | None = None
    require: Texts = ()
    allow: TextsOfKeys = {}
    forbid: Annotated[
        Annotated[TextsOfKeys, Tag("map")] | Annotated[Texts, Tag("list")],
        Discriminator(lambda value: "map" if isinstance(value, dict) else "list"),
    ] = ()
    limits: Limits | None = None
    images: Images | None = None
    preflight: Checks | None = None

    @model_validator(mode="after")
    def _asks_for_something(self) -> "Rule":
        if not any(getattr(self, name) for name in _ASKS) and self.preflight is None:
            raise ValueError(f"the rule asks for nothing: add one of {', '.join(_ASKS)}")
        return self


class Policy(SpecModel):
    """All of a policy.yaml."""

    rules: tuple[Rule, ...] = ()


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


def _named_keys(rule: Rule) -> Iterator[tuple[Path, str]]:
    """Each key of a spec that the rule names, with its path in the rule."""
    for name, keys in (("require", rule.require), ("allow", rule.allow), ("forbid", rule.forbid)):
        for index, key in enumerate(keys):
            yield (name, key if isinstance(keys, dict) else index), key

"""The jobs that must run before this one. `need_graph.py` has how specs depend on others."""

import pathlib
import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from clusterjobs.spec import field_types
from clusterjobs.spec.model import Also, Key, Only, SpecModel, text_like
from clusterjobs.text import Text

# No `from __future__ import annotations`: pydantic would have to parse each annotation at start.


_MAX_NEEDS = 100
_JOB = re.compile(r"[1-9][0-9]{0,9}(?:_[0-9]{1,7})?")
_NAME = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)

On = Literal["success", "end", "failure", "each", "start"]


def _spec_file(value: Any) -> str:
    return field_types.literal_path(
        value, "needs is read at submission: remove the value of the running job"
    )


def _job_id(value: Any) -> str:
    what = "not the id of a job: write a number, 4711, or a task of an array, 4711_3"
    text = field_types.literal_text(value, what)
    if not _JOB.fullmatch(text):
        raise ValueError(what)
    return text


def _name(value: Any) -> str:
    what = "a name has only letters, digits, '_' and '-', and starts with a letter: write as: data"
    text = field_types.literal_text(value, what)
    if not _NAME.fullmatch(text):
        raise ValueError(what)
    return text


class Need(SpecModel):
    """A spec, or the id of a job, and what this job waits for."""

    spec: Annotated[
        Annotated[str, BeforeValidator(_spec_file)] | None,
        Key(
            "the file of a spec, relative to the folder of this one. `needs: [prepare.yaml]` is "
            "short for `[{spec: prepare.yaml}]`",
            "prepare.yaml",
        ),
    ] = None
    job: Annotated[
        Annotated[str, BeforeValidator(_job_id), Only(text_like(_JOB.pattern))] | None,
        Key(
            "instead of `spec`: the id of a job, or of an array task, `4711_3`",
            "4711",
            excludes=("spec", "as"),
        ),
    ] = None
    on: Annotated[
        On,
        Key(
            "what to wait for: `success`, `end`, `failure`, `each` or `start`",
            "end",
            see="pipelines.md#what-on-waits-for",
        ),
    ] = "success"
    as_: Annotated[
        Annotated[str, BeforeValidator(_name), Only(text_like(_NAME.pattern))] | None,
        Key(
            "the name of the spec in references", "data", default_is="the file name without `.yaml`"
        ),
    ] = Field(None, alias="as")

    @model_validator(mode="after")
    def _is_one_job(self) -> "Need":
        if self.spec and self.job:
            raise ValueError("has both spec and job: write an entry for each of them")
        if not self.spec and not self.job:
            raise ValueError("expected spec or job: write {spec: prepare.yaml} or {job: 4711}")
        if self.job and self.on == "each":
            raise ValueError("each works only with a spec: write {spec: ..., on: each}")
        if self.job and self.as_:
            raise ValueError("as is allowed only with spec: remove as")
        return self

    @property
    def name(self) -> str:
        """The name of the spec in references: `as`, or its file's without the ending."""
        return self.as_ or need_name(self.spec or "")


def need_name(spec: str) -> str:
    """The name of a spec that is needed, in references: its file's without the ending."""
    return pathlib.PurePath(spec).stem


def _need(value: Any) -> Any:
    """A file name is short for {spec: FILE, on: success}."""
    if isinstance(value, dict):
        return value
    if isinstance(value, Text) or (isinstance(value, str) and not _JOB.fullmatch(value)):
        return {"spec": value}
    job = value if isinstance(value, (str, int)) else 4711
    raise ValueError(f"expected the file of a spec: write {{job: {job}}}")


_FILE = {"type": "string", "pattern": rf"^(?!-|(?:{_JOB.pattern})$)"}


class NeedsKeys:
    """What this job waits for."""

    needs: Annotated[
        tuple[Annotated[Need, BeforeValidator(_need), Also(_FILE)], ...],
        Field(max_length=_MAX_NEEDS),
        Key(
            "the jobs that must run before this one. `{{ needs.train.checkpoints.path }}` is a "
            "value of the other spec",
            "[{spec: train.yaml, on: each}]",
            schedules=True,
            fixed_in_sweep=("all points need the same jobs", "remove it"),
            see="pipelines.md",
            also_called=("depends_on", "depends", "dependencies"),
        ),
    ] = ()

"""clusterjobs policy: lists and tests the rules of a site, and exports them to Slurm."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from clusterjobs.console import (
    group_option,
    printable,
    set_option,
    show_problems,
    spec_argument,
    table,
    user_option,
)
from clusterjobs.errors import InputError, Problem, did_you_mean, one_problem
from clusterjobs.sites.folders import (
    POLICY_FILE,
    SiteFolders,
    current_user,
    find_site_folders,
    is_folder,
    read_text,
    rules_in_force,
    supposed_user,
    today,
    user_folder,
)

if TYPE_CHECKING:
    import datetime

    from clusterjobs.admin.site_tests import Result
    from clusterjobs.clusters.facts import Partition
    from clusterjobs.sites.policy import SiteRule


_site = click.option(
    "--site",
    type=click.Path(path_type=pathlib.Path),
    help="Use this site folder alone, instead of those that are found.",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for a script to read.")


@click.group()
def policy() -> None:
    """The rules of a site for jobs: policy.yaml in a site folder.

    `plan`, `render`, `validate` and `submit` check them. They are advice: Slurm enforces its own
    settings, which `export --slurm` prints.

    \b
    Examples:
      clusterjobs policy list
      clusterjobs policy test --site our-site
      clusterjobs policy export --slurm
    """


@policy.command(name="list", short_help="List the rules of all site folders.")
@_site
@_json
def list_(site: pathlib.Path | None, as_json: bool) -> None:
    """List the rules of all site folders: for which jobs, what they ask, where they are written.

    \b
    Examples:
      clusterjobs policy list
      clusterjobs policy list --site our-site --json | jq '.[].name'
    """
    rules = _folders(site).rules
    if as_json:
        click.echo(json.dumps([_rule_data(one) for one in rules], indent=2, ensure_ascii=False))
        return
    from clusterjobs.sites.policy import demand_text, selection_text

    rows = [
        [rule.name, rule.action, selection_text(rule), _origin(where), demand_text(rule)]
        for rule, where in rules
    ]
    heading = ["rule", "action", "jobs", "origin", "asks"]
    if not rows:
        own = user_folder()
        click.echo(f"there are no rules: {own / POLICY_FILE if own else POLICY_FILE} may have some")
        return
    click.echo(table([heading, *([printable(cell) for cell in row] for row in rows)]))


@policy.command(short_help="Check the rules with your example specs.")
@_site
@click.option("--update", is_flag=True, help="Write the rules that the examples break now.")
@_json
def test(site: pathlib.Path | None, update: bool, as_json: bool) -> int:
    """Check the example specs in tests/: each must break the rules that its rules.yaml names.

    An example is tests/NAME/spec.yaml. Beside it, rules.yaml has `rules: [name, ...]` and,
    if it matters, `user: ann`, `groups: [students]` and `date: 2027-01-31`; without it, no rule may
    be broken. Without a date, rules with `from` or `until` are in force.
    Exit code 1 if an example breaks other rules.

    \b
    Examples:
      clusterjobs policy test
      clusterjobs policy test --site our-site --update
      clusterjobs policy test --json | jq '.untested'
    """
    from clusterjobs.admin import site_tests as policy_tests

    folders = [one for one in _folders(site).folders if SiteFolders((one,)).files(POLICY_FILE)]
    if not folders:
        raise one_problem(f"no site folder has a {POLICY_FILE}", hint="name one with --site")
    rules, results = [], []
    for folder in folders:
        of_folder, found = policy_tests.run_examples(folder)
        rules += policy_tests.untested(of_folder, found)
        results += found
    changed = policy_tests.update(results) if update else []
    if as_json:
        data = {
            "examples": [one.as_data() for one in results],
            "untested": [one.rule.name for one in rules],
            "updated": [str(file) for file in changed],
        }
        click.echo(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        _show_results(results, rules, changed)
    failed = [one for one in results if not one.is_ok]
    return 1 if len(failed) > len(changed) else 0


@policy.command(short_help="Print the settings of Slurm that enforce the rules.")
@click.option("--slurm", is_flag=True, help="Lines of slurm.conf and sacctmgr.")
@click.option("--lua", is_flag=True, help="A job_submit plugin, job_submit.lua.")
@click.option("--cluster", metavar="NAME", help="Also the rules that are only for this cluster.")
@click.option(
    "--users",
    metavar="FILE",
    type=click.Path(path_type=pathlib.Path),
    help="Lines USER|ACCOUNT|GROUP,GROUP. [default: what sacctmgr lists, if it is here]",
)
@_site
def export(
    slurm: bool,
    lua: bool,
    cluster: str | None,
    users: pathlib.Path | None,
    site: pathlib.Path | None,
) -> None:
    """Print Slurm's settings that enforce the rules, and which rules have none.

    Rules for users, groups and accounts need the users: each gets a QOS with the limits of all
    rules that are for this user. With --cluster, rules with patterns of queues have settings, too.
    A plugin (--lua) enforces more: all that Slurm knows of a job.

    \b
    Examples:
      clusterjobs policy export --slurm
      clusterjobs policy export --slurm --cluster p4d-a100 --site our-site
      sacctmgr -nP show assoc format=user,account > users
      clusterjobs policy export --slurm --users users
      clusterjobs policy export --lua > /etc/slurm/job_submit.lua
    """
    from clusterjobs.admin.policy_lines import slurm_lines
    from clusterjobs.admin.policy_lua import lua_plugin
    from clusterjobs.admin.policy_members import members_of_slurm, read_members
    from clusterjobs.admin.policy_settings import settings_of

    if slurm == lua:
        raise click.UsageError("name one of --slurm and --lua")
    _warn_of_unknown(cluster)
    rules, last_day = _of_today(_folders(site).rules, cluster)
    if lua:
        click.echo(lua_plugin(rules, cluster, last_day), nl=False)
        return
    members = read_members(read_text(users), str(users)) if users else members_of_slurm()
    settings = settings_of(rules, cluster, members, partitions_of(cluster))
    click.echo(slurm_lines(settings, last_day), nl=False)


def _warn_of_unknown(cluster: str | None) -> None:
    """A misspelt name would leave out the rules of a cluster without a word."""
    from clusterjobs.clusters.source import cluster_names, is_path

    known = cluster_names(find_site_folders().cluster_files)
    if cluster and not is_path(cluster) and cluster not in known:
        hint = did_you_mean(cluster, known)
        what = f"--cluster: there is no cluster {cluster} here: its partitions are not known"
        show_problems([Problem(what, hint=hint, warning=True)])


def _of_today(rules: tuple[SiteRule, ...], cluster: str | None) -> tuple[tuple[SiteRule, ...], str]:
    """The rules in force, and the last day on which they are the same; "" if they stay."""
    import datetime

    from clusterjobs.admin.policy_settings import rule_of

    found, now, last_days = rules_in_force(rules), today(), []
    dated = [
        (f"{'an exemption of ' if part is not rule else ''}{rule.name}", part, where)
        for rule, where in rules
        if not cluster or rule_of(rule, cluster)
        for part in (rule, *rule.exemptions)
        if part.from_ or part.until
    ]
    for name, part, where in dated:
        if part.from_ and part.from_ > now.isoformat():
            day_before = datetime.date.fromisoformat(part.from_) - datetime.timedelta(1)
            last_days.append(day_before.isoformat())
            what = f"{name} begins on {part.from_} and is left out: export again on that day"
        elif part.until and part.until < now.isoformat():
            what = f"{name} ended on {part.until} and is left out"
        elif part.until:
            last_days.append(part.until)
            what = f"{name} is in force until {part.until}: export again on the day after it"
        else:
            continue  # it has begun, and has no end
        show_problems([Problem(what, where, warning=True)])
    return found, min(last_days, default="")


@policy.command(short_help="Say for each rule whether it is for a spec, and why.")
@spec_argument
@set_option
@user_option
@group_option
@click.option("--date", metavar="DAY", help="Suppose this day, 2027-01-31, not today.")
@_site
@_json
def explain(
    spec: pathlib.Path,
    settings: tuple[str, ...],
    user: str | None,
    groups: tuple[str, ...],
    date: str | None,
    site: pathlib.Path | None,
    as_json: bool,
) -> int:
    """Say for each rule whether it is for the job of SPEC, why, and what it asks.

    Of a sweep, the first point. Exit code 1 if a rule refuses the job.

    \b
    Examples:
      clusterjobs policy explain exp.yaml
      clusterjobs policy explain exp.yaml --user ann --set nodes=8
      clusterjobs policy explain exp.yaml --group nlp --date 2027-01-31
      clusterjobs policy explain exp.yaml --json | jq '.[] | select(.state == "broken")'
    """
    from clusterjobs.runs.content import OwnConfigs
    from clusterjobs.runs.load import cluster_of, read_spec
    from clusterjobs.sections.order import resolve
    from clusterjobs.sites.policy import demand_text, selection_text
    from clusterjobs.sites.policy_check import JobValues, explain_policies

    folders = _folders(site)
    day = _day(date)
    supposed = supposed_user(user, groups) or current_user()
    supposed = supposed._replace(day=day.isoformat())
    loaded, files = read_spec(spec, settings, folders, supposed)
    facts = cluster_of(loaded, files).source.facts
    plan = None
    try:
        plan = resolve(loaded, facts, OwnConfigs(files.spec).texts(loaded))
    except InputError as error:
        show_problems([one for one in error.problems if not one.warning])
        click.echo(
            "the job cannot be planned: the rules are compared with the spec alone", err=True
        )
    job = JobValues(loaded, plan, facts.name, supposed, facts.default_partition)
    found = list(explain_policies(folders.rules, job, day))
    if as_json:
        rows = [{**_rule_data(one.rule), "state": one.state, "why": one.why} for one in found]
        click.echo(json.dumps(rows, indent=2, ensure_ascii=False))
    else:
        heading = ["rule", "", "why", "jobs", "asks"]
        cells = [
            (rule.name, state, why, selection_text(rule), demand_text(rule))
            for (rule, _), state, why in found
        ]
        click.echo(table([heading, *([printable(cell) for cell in row] for row in cells)]))
    refused = any(one.state == "broken" and one.rule.rule.action == "refuse" for one in found)
    return 1 if refused else 0


def _day(written: str | None) -> datetime.date:
    import datetime

    try:
        return datetime.date.fromisoformat(written) if written else today()
    except ValueError:
        what = f"--date: {written!r} is not a day: write year-month-day, for example 2027-01-31"
        raise click.UsageError(what) from None


def partitions_of(cluster: str | None) -> tuple[Partition, ...]:
    """The partitions of a cluster; none if it is unknown here."""
    from clusterjobs.clusters.source import cluster_names, is_path
    from clusterjobs.runs.clusters import find_config_file, read_cluster_file

    known = cluster_names(find_site_folders().cluster_files)
    if cluster is None or not (is_path(cluster) or cluster in known):
        return ()
    facts = read_cluster_file(find_config_file(cluster)).facts
    return tuple(partition for partition in facts.partitions if partition.name)


def _folders(site: pathlib.Path | None) -> SiteFolders:
    if site is None:
        return find_site_folders()
    if not is_folder(site):
        raise one_problem(f"there is no folder {site}", hint="--site names a site folder")
    return SiteFolders((site,))


def _origin(where: Any) -> str:
    return f"{where.file}:{where.line}"


def _rule_data(one: SiteRule) -> dict[str, Any]:
    rule, where = one
    keys = rule.model_dump(exclude_unset=True, mode="json", by_alias=True)
    return {**keys, "action": rule.action, "file": where.file, "line": where.line}


def _show_results(
    results: Sequence[Result], rules: Sequence[SiteRule], changed: Sequence[pathlib.Path]
) -> None:
    rows = [["", "example", "as", "must break", "breaks"]]
    rows += [["ok" if one.is_ok else "differs", *map(printable, one.cells())] for one in results]
    click.echo(table(rows))
    show_problems([problem for one in results for problem in one.problems])
    for rule, where in rules:
        click.echo(f"no example breaks {rule.name} ({printable(_origin(where))})")
    for file in changed:
        click.echo(f"updated {printable(str(file))}")

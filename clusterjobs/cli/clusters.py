"""clusterjobs clusters: lists and shows clusters; plug-ins add further subcommands."""

import pathlib

import click

from clusterjobs.cli.main import PluginGroup
from clusterjobs.console import (
    completed_by,
    json_option,
    print_json,
    show_problems,
    site_file_option,
)
from clusterjobs.runs.cluster_tables import cluster_data, list_text, show_text
from clusterjobs.runs.clusters import Described, find_config_file, named_clusters, read_cluster_file


@click.group(cls=PluginGroup, prefix="clusters.")
def clusters() -> None:
    """The files of clusters: the ready ones and your own.

    \b
    Examples:
      clusterjobs clusters list
      clusterjobs clusters show p4d-a100
      clusterjobs clusters import --from-slurm > my-cluster.yaml
      clusterjobs clusters diff p4d-a100 my-cluster.yaml
      clusterjobs clusters upgrade my-cluster.yaml
    """


@clusters.command(name="list", short_help="List the clusters that a spec can name.")
@json_option
def list_(as_json: bool) -> int:
    """List the clusters that a spec can name: queues, nodes, GPUs, fabric, storage, price, file.

    They are the ready ones, and `clusters/NAME.yaml` in the site folders.

    \b
    Examples:
      clusterjobs clusters list
      clusterjobs clusters list --json | jq '.[].name'
    """
    rows, problems = named_clusters()
    if as_json:
        print_json([{**cluster_data(row.config), **row.origin()} for row in rows])
    else:
        click.echo(list_text(rows))
    show_problems(problems)
    return 1 if problems else 0


@clusters.command(short_help="Show the queues, nodes and storage of a cluster.")
@click.argument("cluster", shell_complete=completed_by("completed_clusters"))
@site_file_option
@json_option
def show(cluster: str, site: pathlib.Path | None, as_json: bool) -> None:
    """Show what CLUSTER has: a cluster's name, a ParallelCluster config, or a description.

    \b
    Examples:
      clusterjobs clusters show p4d-a100
      clusterjobs clusters show my-cluster.yaml --json
    """
    config = read_cluster_file(find_config_file(cluster), site)
    if as_json:
        print_json(cluster_data(config))
    else:
        click.echo(show_text(config))


@clusters.command(short_help="Print the values that your site.yaml lacks.")
@click.argument("cluster", shell_complete=completed_by("completed_clusters"))
def site(cluster: str) -> None:
    """Print the values that site.yaml lacks for CLUSTER, for you to fill in.

    \b
    Examples:
      clusterjobs clusters site p4d-a100 >> site.yaml
    """
    from clusterjobs.clusters.parallelcluster.site_values import site_form

    config = read_cluster_file(find_config_file(cluster))
    if isinstance(config, Described):
        click.echo(f"{config.file} describes a Slurm cluster: it has no values of a site", err=True)
        return
    form = site_form(config.document, config.site)
    if form.lines:
        click.echo(f"# Values of your site for {config.cluster.name}:")
    for line in form.lines:
        click.echo(line)
    if form.blank:
        click.echo(f"your site.yaml has no value for {', '.join(form.blank)}", err=True)
    elif not form.lines:
        click.echo("your site.yaml has all values", err=True)

"""Edits of packaged templates, each of which breaks a promise of the job script."""

from __future__ import annotations

from typing import NamedTuple

from clusterjobs import resources

DIRECTIVES = '{% block directives %}{% include "blocks/directives.sh.j2" %}{% endblock %}\n'
PLACEMENT = '{% block placement %}{% include "blocks/placement.sh.j2" %}{% endblock %}\n'
LAUNCH = '{% block launch %}{% include "blocks/launch.sh.j2" %}{% endblock %}\n'
EXPORT = "  export MASTER_ADDR=${nodes[0]} MASTER_PORT=$((12000 + SLURM_JOB_ID % 20000))\n"


_WHOLE = resources.template_texts()["job.sh.j2"]
_BETWEEN = _WHOLE[_WHOLE.index(PLACEMENT) : _WHOLE.index(LAUNCH) + len(LAUNCH)]
MOVED = _BETWEEN.replace(PLACEMENT, "") + PLACEMENT


class Edit(NamedTuple):
    """In `template`, `old` becomes `new`."""

    name: str
    template: str
    old: str
    new: str


EDITS = [
    Edit(
        "port-not-exported",
        "blocks/placement.sh.j2",
        EXPORT,
        "  export MASTER_ADDR=${nodes[0]}\n  MASTER_PORT=12345\n",
    ),
    Edit(
        "port-not-exported-behind-an-export",
        "blocks/placement.sh.j2",
        EXPORT,
        "  export MASTER_ADDR=${nodes[0]}; MASTER_PORT=12345\n",
    ),
    Edit("no-rendezvous", "job.sh.j2", PLACEMENT, ""),
    Edit(
        "rendezvous-after-the-launch",
        "job.sh.j2",
        _BETWEEN,
        MOVED,
    ),
    Edit("exit-trap-removed", "functions/job.sh.j2", "  trap finish EXIT\n", ""),
    Edit(
        "exit-trap-replaced",
        "blocks/launch.sh.j2",
        "{% block command %}\n",
        "{% block command %}\n  trap 'rm -rf /scratch/x' EXIT\n",
    ),
    Edit("term-not-trapped", "functions/job.sh.j2", 'trap "on_signal $signal" "$signal"', "true"),
    Edit(
        "usr1-ignored",
        "blocks/launch.sh.j2",
        "{% block command %}\n",
        "{% block command %}\n  trap '' USR1\n",
    ),
    Edit("directives-below-a-command", "job.sh.j2", DIRECTIVES, "umask 027\n" + DIRECTIVES),
    Edit(
        "directives-lost",
        "blocks/directives.sh.j2",
        "{{ directive }}",
        "{% if placement.nodes > 2 %}{{ directive }}{% endif %}",
    ),
    Edit(
        "directive-twice",
        "blocks/directives.sh.j2",
        "{% for directive",
        "#SBATCH -N 4\n{% for directive",
    ),
    Edit(
        "exit-code-of-ranks-lost",
        "functions/launch.sh.j2",
        'wait "$ranks" || status=$?;',
        'wait "$ranks" || true;',
    ),
    Edit(
        "exit-code-of-launch-hidden",
        "launch/srun.sh.j2",
        "{{ launch.lifeline }}",
        "{{ launch.lifeline }} || true",
    ),
    Edit("exit-code-of-finish-lost", "functions/end.sh.j2", '  exit "$status"\n', "  exit 0\n"),
    Edit(
        "launch-in-another-command",
        "launch/torchrun.sh.j2",
        "  run_ranks srun",
        "  time run_ranks srun",
    ),
    Edit("exit-0-at-the-end", "job.sh.j2", 'main "$@"\n', 'main "$@"\nexit 0\n'),
    Edit("main-not-called", "job.sh.j2", 'main "$@"\n', ""),
    Edit("not-completed", "job.sh.j2", "  reason=completed\n", ""),
    Edit(
        "set-plus-e",
        "blocks/launch.sh.j2",
        "{% block command %}\n",
        "{% block command %}\n  set +e\n",
    ),
    Edit("strict-mode-removed", "functions/shell.sh.j2", "set -euo pipefail\n", ""),
    Edit(
        "set-x", "blocks/launch.sh.j2", "{% block command %}\n", "{% block command %}\n  set -x\n"
    ),
    Edit(
        "secret-printed",
        "blocks/environment.sh.j2",
        "  export {{ secret.name }}\n",
        '  export {{ secret.name }}\n  echo "token ${{ secret.name }}"\n',
    ),
    Edit(
        "environment-printed",
        "blocks/launch.sh.j2",
        "{% block command %}\n",
        "{% block command %}\n  env | sort\n",
    ),
    Edit("command-before-the-log", "blocks/job.sh.j2", "  start_job", "  hostname\n  start_job"),
    Edit("function-lost", "functions/launch.sh.j2", "run_ranks() {", "start_ranks() {"),
    Edit("programs-indented", "job.sh.j2", "{{ program.text }}", "  {{ program.text }}"),
    Edit("quote-dropped", "blocks/placement.sh.j2", '"$SLURM_JOB_NODELIST"', "$SLURM_JOB_NODELIST"),
    Edit("bash-if-not-closed", "blocks/placement.sh.j2", "  mapfile", "  if true; then\n  mapfile"),
]

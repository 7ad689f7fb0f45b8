"""What a run achieved, from its logs: speed, efficiency, loss, lost time and goodput."""

from clusterjobs.plugins import Command

COMMAND = Command(
    "report",
    "clusterjobs.report.command:report",
    "Report what runs achieved: speed, efficiency, lost time.",
    after="status",
)

"""For admins: site folders, policies, templates, and the impact of changes."""

from clusterjobs.plugins import Command

SITE = Command(
    "site",
    "clusterjobs.admin.site_command:site",
    "Show the site folders in use, or make one.",
    after="diff",
)
TEMPLATES = Command(
    "templates",
    "clusterjobs.admin.templates.command:templates",
    "Show, change, check and test the templates of job scripts.",
    after="clusters",
)
IMPACT = Command(
    "impact",
    "clusterjobs.admin.impact.command:impact",
    "Show which specs a change of site, cluster or version affects.",
    after="validate",
)
MIGRATE = Command(
    "migrate",
    "clusterjobs.admin.migrate:migrate",
    "Give the keys of specs their new names.",
    after="impact",
)
RENDER_BATCH = Command("render-batch", "clusterjobs.admin.impact.batch:render_batch", "")
POLICY = Command(
    "policy",
    "clusterjobs.admin.policy_command:policy",
    "List and test the rules of your site, or export them to Slurm.",
    after="cancel",
)

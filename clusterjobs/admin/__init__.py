"""For admins: site folders, policies, templates, and the impact of changes."""

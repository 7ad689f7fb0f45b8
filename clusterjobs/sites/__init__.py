"""What an admin provides for all specs: folders, values, policies, clusters, templates."""

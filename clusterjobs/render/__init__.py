"""A plan as text: the job script, the cluster config, the manifest."""

"""clusterjobs impact: what a change of templates, defaults, policies or clusters would touch."""

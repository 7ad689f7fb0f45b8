"""The text of a job script: quoting, templates, and the templates of a site."""

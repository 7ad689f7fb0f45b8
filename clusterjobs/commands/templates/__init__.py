"""The commands that show, change and check the templates of job scripts."""

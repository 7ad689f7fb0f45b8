"""`clusterjobs templates`: shows, changes, checks and tests the templates of a site."""

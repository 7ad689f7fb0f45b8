"""`clusterjobs advise`: layouts and node types, ranked by time or cost."""

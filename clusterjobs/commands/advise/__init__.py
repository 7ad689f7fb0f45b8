"""clusterjobs advise: layouts and clusters ranked by time or cost."""

"""clusterjobs report: what runs achieved, from their logs."""

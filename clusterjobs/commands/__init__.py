"""One file a subcommand. Only here are files read and written, and people spoken to."""

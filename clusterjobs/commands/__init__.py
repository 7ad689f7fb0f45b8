"""The command line, one file per subcommand. Only this package reads, writes and prints."""

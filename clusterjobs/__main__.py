"""`python -m clusterjobs`: the command line."""

from clusterjobs.cli.main import main

main()

"""`python -m edgert`."""

from edgert.cli.main import main

main()

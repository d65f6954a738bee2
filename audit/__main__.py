"""Lets `python -m audit` do what the `audit` script does."""

from audit.cli import main

main()

"""Run the command `headrace` as `python -m headrace`."""

from headrace.cli import main

main()

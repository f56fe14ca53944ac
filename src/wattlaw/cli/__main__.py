"""``python -m wattlaw.cli``: the command line without the installed script."""

from wattlaw.cli import main

main()

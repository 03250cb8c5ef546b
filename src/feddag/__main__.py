"""`python -m feddag`: the command line, where it is not on the path."""

from feddag.cli import main

main()

"""`python -m fedcert`, for where the command is not on the path."""

from fedcert.cli import main

main()

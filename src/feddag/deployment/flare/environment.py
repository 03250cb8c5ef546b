"""What a participant's process tells the processes that FLARE starts for it: names of environment variables."""

KIT = "FEDDAG_KIT"
OWNER = "FEDDAG_OWNER"
"""The process id of the command that the user has started, with which all others end."""
DATA = "FEDDAG_DATA"
POLICY = "FEDDAG_POLICY"

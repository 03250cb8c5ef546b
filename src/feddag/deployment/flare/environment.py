"""Environment variables by which a participant's process configures the processes that FLARE starts for it."""

KIT = "FEDDAG_KIT"
OWNER = "FEDDAG_OWNER"
"""The process id of the command that the user has started, with which all others end."""
DATA = "FEDDAG_DATA"
POLICY = "FEDDAG_POLICY"
PROXY = "FEDDAG_PROXY"
"""The HTTP proxy through which the server is reached, if one is."""

"""The readme of a kit: what the folder is for, the one command that uses it, and what to keep."""

from __future__ import annotations

from feddag.deployment.engine import ANALYST, SERVER

README = "README.txt"

_COMMANDS = {
    SERVER: ("the server", "feddag server --kit KIT"),
    ANALYST: ("the analyst", "feddag federation run KIT/study.toml --kit KIT --out run"),
}
_TEXT = """\
This folder is the kit of {who} in the federation {federation!r}.

Start it with feddag, and with nothing else (KIT is this folder):

    {command}

{further}
The server is at {host}:{port}. No other port is used, and nobody but the server accepts connections.

What is in it
    study.toml    what this participant agrees to: read it first; its hash: feddag study check KIT/study.toml
    startup/      certificates, the private TLS key, the server's address
    local/        rules for NVIDIA FLARE, which carries the messages: feddag writes them at every start
    feddag/       the private identity key, and what this participant must remember of each study

Keep the folder to yourself: with its keys anybody passes for {who}. Back it up after every study: a participant that
has lost the folder feddag/ cannot go on with a study that is under way. Certificates are renewed with
feddag federation renew, and installed with feddag kit install.
"""
_SITE = """\
Before that, see what the study would release about the table, and what the site's rules would say:

    feddag disclosure --kit KIT --data TABLE

While it runs, everything that leaves is written into an audit log: feddag audit explains it.

"""


def readme(name: str, federation: str, host: str, port: int) -> str:
    """Return the readme of a participant's kit."""
    who, command = _COMMANDS.get(name, (f"the site {name!r}", "feddag site --kit KIT --data TABLE"))
    further = "" if name in _COMMANDS else _SITE
    return _TEXT.format(who=who, federation=federation, command=command, further=further, host=host, port=port)

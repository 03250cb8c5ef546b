"""The option that names the proxy through which the server is reached."""

from __future__ import annotations

from typing import Annotated

import typer

from feddag.deployment.proxy import Proxy


def _parse(text: str) -> Proxy:
    return Proxy.parse(text)


ProxyOption = Annotated[
    Proxy | None,
    typer.Option(
        parser=_parse,
        metavar="HOST:PORT",
        envvar="FEDDAG_PROXY",
        help="Reach the server through this HTTP proxy (CONNECT).",
        show_default=False,
    ),
]

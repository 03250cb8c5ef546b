"""FLARE's processes behind an HTTP proxy. Its driver asks aiohttp, which takes a proxy, but names none."""

from __future__ import annotations

from feddag.deployment.flare.environment import PROXY
from feddag.deployment.flare.extra import flare
from feddag.deployment.proxy import Proxy


def use_proxy(url: str) -> None:
    """Have all connections that this process opens by aiohttp go through a proxy."""
    flare("aiohttp").ClientSession.__init__.__kwdefaults__["proxy"] = url


def proxy_environment(proxy: Proxy | None) -> dict[str, str]:
    """Return what tells a participant's daemon its proxy.

    Processes of jobs would open connections of their own, past the daemon's settings. Behind a proxy they speak
    through the daemon, as cells of FLARE's third generation do anyway.
    """
    return {PROXY: ""} if proxy is None else {PROXY: proxy.url, "NVFLARE_BACKBONE_CONN_GEN": "1"}

"""A participant's process in the foreground: FLARE's daemon as a child, which ends when we do."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial

from feddag.deployment.engine import Watching
from feddag.deployment.flare.connection import Connection, check_port
from feddag.deployment.flare.environment import KIT, OWNER
from feddag.deployment.flare.extra import flare
from feddag.deployment.flare.kits import MEMORY, Kit
from feddag.deployment.flare.milestones import forget_joined
from feddag.deployment.flare.proxied import proxy_environment
from feddag.deployment.flare.vitals import vitals
from feddag.deployment.health import serving
from feddag.deployment.logs import speaker
from feddag.deployment.proxy import Proxy
from feddag.errors import FeddagError
from feddag.federation.checkpoint import not_kept
from feddag.files import lock

_MODULES = {
    "server": ("nvflare.private.fed.app.server.server_train", "fed_server.json"),
    "site": ("nvflare.private.fed.app.client.client_train", "fed_client.json"),
}
_GRACE = 10.0
"""Seconds that the daemon has to end when it is asked to."""
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux


def run(kit: Kit, environment: Mapping[str, str], watching: Watching, proxy: Proxy | None = None) -> int:
    """Until a signal, or the daemon's own end; the exit code is 0 after a signal, and the daemon's otherwise."""
    flare("nvflare")
    if proxy is not None:
        proxy.check(*kit.server_address)
    say = speaker(watching.log_format)
    if kit.warning is not None:
        say(kit.warning)
    with _alone(kit):
        if kit.role == "server":
            check_port(kit.server_address[1])
            forget_joined(kit.folder)
        try:
            kit.write_rules(watching.log_format)
        except OSError as error:
            raise not_kept(kit.folder, error) from None
        connection = Connection(kit, proxy)

        def look(daemon: int) -> None:
            if message := connection.look(daemon):
                say(message)

        settings = {**environment, **proxy_environment(proxy), KIT: str(kit.folder), OWNER: str(os.getpid())}
        return _run(_command(kit), settings, look, serving(watching.health, partial(vitals, kit, connection)))


def _command(kit: Kit) -> list[str]:
    module, configuration = _MODULES[kit.role]
    settings = ["secure_train=true", "org=feddag", "config_folder=config"]
    if kit.role == "site":
        settings.append(f"uid={kit.name}")
    python = [sys.executable, "-u", "-m", "feddag.deployment.flare.daemon"]
    return [*python, module, "-m", str(kit.folder), "-s", configuration, "--set", *settings]


def _run(
    command: list[str],
    environment: Mapping[str, str],
    look: Callable[[int], None],
    serving_health: AbstractContextManager[None],
) -> int:
    asked_to_stop = False

    def stop(number: int, frame: object) -> None:
        nonlocal asked_to_stop
        asked_to_stop = True
        daemon.terminate()

    daemon = subprocess.Popen(
        command,
        env={**os.environ, **environment, "MALLOC_ARENA_MAX": "4"},
        start_new_session=True,
        preexec_fn=_die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509 - there are no threads yet
    )
    before = {each: signal.signal(each, stop) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        with serving_health:
            while True:
                try:
                    code = daemon.wait(timeout=_GRACE if asked_to_stop else 1.0)
                    return 0 if asked_to_stop else code
                except subprocess.TimeoutExpired:
                    if asked_to_stop:
                        daemon.kill()
                    else:
                        look(daemon.pid)
    finally:
        if daemon.poll() is None:
            daemon.kill()
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def _alone(kit: Kit) -> Iterator[None]:
    """Keep a second process off the kit, and end what an earlier one, or this one, has left behind."""
    folder = kit.folder / MEMORY
    folder.mkdir(exist_ok=True)
    with open(folder / ".lock", "wb") as file:
        lock(file, f"{kit.folder}: another process runs this kit. Stop it, or wait until it has ended.")
        _end_leftovers(kit)
        try:
            yield
        finally:
            _end_leftovers(kit)


def _end_leftovers(kit: Kit) -> None:
    psutil = flare("psutil")
    for process in psutil.process_iter():
        with suppress(psutil.Error, FeddagError):
            if process.pid != os.getpid() and process.environ().get(KIT) == str(kit.folder):
                process.kill()


def _die_with_parent() -> None:
    """So that a participant that was killed does not go on answering."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)

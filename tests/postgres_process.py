"""A real PostgreSQL, which a test starts and stops."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

PASSWORD = "p@ss/word"
IN_AN_ADDRESS = "p%40ss%2Fword"
"""The password as an address has it."""


def program(name: str) -> str | None:
    return shutil.which(name) or next(map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{name}")), None)


def other_user() -> dict[str, Any]:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    pytest.skip("PostgreSQL does not run as root, and there is no user postgres or nobody")


@contextmanager
def postgres() -> Iterator[str]:
    """Run a server with an empty database `clinic` of the user `reader`; yield its host and port."""
    initdb, server = program("initdb"), program("postgres")
    if initdb is None or server is None:
        pytest.skip("PostgreSQL (initdb, postgres) is not installed")
    user = other_user()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        password = Path(folder) / "password"
        password.write_text(PASSWORD, encoding="utf-8")
        if user:
            for path in (Path(folder), password):
                os.chown(path, user["user"], user["group"])
        options = ["-D", f"{folder}/data", "-U", "reader", "-A", "scram-sha-256", "-N", f"--pwfile={password}"]
        made = subprocess.run([initdb, *options], cwd=folder, capture_output=True, text=True, check=False, **user)
        if made.returncode:
            pytest.skip(f"initdb failed here: {made.stderr.strip()}")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        options = ["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-k", folder, "-p", str(port)]
        with open(Path(folder) / "log", "wb") as log:
            process = subprocess.Popen(
                [server, "-D", f"{folder}/data", *options], cwd=folder, stdout=log, stderr=log, **user
            )
        try:
            _make_database(process, f"postgresql+psycopg://reader:{IN_AN_ADDRESS}@127.0.0.1:{port}/postgres")
            yield f"127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()


def _make_database(server: subprocess.Popen[bytes], address: str) -> None:
    engine = sqlalchemy.create_engine(address, isolation_level="AUTOCOMMIT")
    while True:
        try:
            with engine.connect() as connection:
                connection.execute(sqlalchemy.text("CREATE DATABASE clinic"))
            break
        except sqlalchemy.exc.OperationalError:
            if server.poll() is not None:
                pytest.skip("PostgreSQL ended at once")
            time.sleep(0.1)
    engine.dispose()

"""Through a firewall: a proxy on the way out, a reverse proxy in front of the server, each a real one."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psutil
import pytest

pytest.importorskip("nvflare", reason="needs feddag[flare]")

from flare_processes import PATIENCE, Federation, wait_until

import feddag
from feddag import FeddagError
from feddag.deployment.demo import free_port
from feddag.deployment.flare.environment import KIT
from feddag.deployment.proxy import Proxy, UnreachableError

USER = "feddag:a-secret"


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"needs {program}")


@contextmanager
def serving(folder: Path, port: int, *command: object) -> Iterator[None]:
    """Run a program that listens on a port until the block ends."""
    with open(folder / f"{command[0]}.log", "ab") as log:
        process = subprocess.Popen(list(map(str, command)), stdout=log, stderr=log)
    try:
        wait_until(lambda: answers(port), process)
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:  # a proxy may wait for connections that are still open
            process.kill()
            process.wait()


def answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
        return True
    return False


@contextmanager
def tinyproxy(folder: Path, allowed: int, *, port: int = 0, user: str = USER) -> Iterator[int]:
    """Run a proxy that connects to one port, for one user; yield its own port."""
    port, settings = port or free_port(), folder / "tinyproxy.conf"
    settings.write_text(
        f"Port {port}\nListen 127.0.0.1\nTimeout 600\nAllow 127.0.0.1\nConnectPort {allowed}\n"
        f"BasicAuth {user.replace(':', ' ')}\nLogLevel Connect\n"
    )
    with serving(folder, port, "tinyproxy", "-d", "-c", settings):
        yield port


def connected_to(federation: Federation, port: int) -> list[str]:
    """Return the sites of which any process has a connection to a port."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            kit = process.environ().get(KIT, "")
            if any(each.raddr and each.raddr.port == port for each in process.net_connections("tcp")):
                found += [name for name in federation.names if str(federation.kits[name]) == kit]
    return sorted(set(found))


@pytest.mark.slow  # .ci/run runs it
@needs("tinyproxy")
def test_a_study_runs_through_a_proxy_that_wants_a_password_and_outlives_its_restart(tmp_path):
    method = (
        'name = "feddag"\nparameters = { sharing = "all", model = "linear", it_max = 1, it_inner = 400, it_fl = 50 }'
    )
    federation = Federation(tmp_path, method, sites=3, policy="maximum_numbers_per_value = 1000")
    port = free_port()
    through = {"FEDDAG_PROXY": f"http://{USER}@127.0.0.1:{port}"}
    try:
        federation.start("server")
        with tinyproxy(tmp_path, federation.port, port=port):
            federation.start(*federation.names, environment=through)
            run = federation.run(environment=through)
            wait_until(lambda: federation.rounds >= 3, run)
            assert connected_to(federation, port) == federation.names
            assert connected_to(federation, federation.port) == []
            told = f"Connected to the server at localhost:{federation.port} through the proxy 127.0.0.1:{port}"
            assert told in federation.log(federation.names[0])
        wait_until(
            lambda: (
                f"The proxy 127.0.0.1:{port} cannot be reached (Connection refused)"
                in federation.log(federation.names[0])
            )
        )
        with tinyproxy(tmp_path, federation.port, port=port):
            assert run.wait(PATIENCE) == 0, federation.log("analyst")
    finally:
        federation.close()
    assert "a-secret" not in "".join(federation.log(name) for name in (*federation.names, "server", "analyst"))
    learned = feddag.load(federation.folder / "run").graph_
    assert learned.edges == federation.study.learner().fit(federation.simulation).graph_.edges


@needs("tinyproxy")
def test_a_proxy_that_refuses_and_a_server_that_is_not_there_are_told_apart(tmp_path):
    with closing(socket.create_server(("127.0.0.1", 0))) as server, tinyproxy(tmp_path, allowed := free_port()) as port:
        there = server.getsockname()[1]
        with pytest.raises(FeddagError, match=r"wants a user and a password \(407\)"):
            Proxy.parse(f"127.0.0.1:{port}").check("localhost", allowed)
        with pytest.raises(FeddagError, match=f"refuses to connect to localhost:{there} .403 .*allow CONNECT"):
            Proxy.parse(f"http://{USER}@127.0.0.1:{port}").check("localhost", there)
        proxy = Proxy.parse(f"{USER}@127.0.0.1:{port}")
        with pytest.raises(UnreachableError, match="says 5"):
            proxy.probe("localhost", allowed)
        proxy.check("localhost", allowed)  # the server may come later
        with closing(socket.create_server(("127.0.0.1", allowed))):
            proxy.probe("localhost", allowed)
    with pytest.raises(FeddagError, match=r"cannot be reached \(Connection refused\)\. Check --proxy"):
        proxy.check("localhost", allowed)


@pytest.mark.slow  # .ci/run runs it
def test_a_command_with_a_proxy_that_is_not_there_ends_at_once(tmp_path):
    federation = Federation(tmp_path, 'name = "notears"', sites=3)
    port = free_port()
    site = federation.names[0]
    for command in (
        ("federation", "status", "--kit", federation.kits["analyst"]),
        ("site", "--kit", federation.kits[site], "--data", federation.table(site)),
    ):
        ended = federation.command(*command, "--proxy", f"127.0.0.1:{port}")
        assert ended.returncode == 2
        assert f"The proxy 127.0.0.1:{port} cannot be reached (Connection refused)" in " ".join(ended.stderr.split())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("proxy.example.org", "no address of a proxy"),
        ("proxy.example.org:http", "no address of a proxy"),
        ("http://:3128", "no address of a proxy"),
        ("http://proxy.example.org:3128/path", "no address of a proxy"),
        ("socks5://proxy.example.org:1080", "reached by http, not by socks5"),
    ],
)
def test_what_is_no_proxy_is_refused(text, message):
    with pytest.raises(FeddagError, match=message):
        Proxy.parse(text)


def test_a_password_does_not_get_into_a_unit():
    with pytest.raises(FeddagError, match="a unit file is no place for a password"):
        Proxy.parse(f"http://{USER}@proxy.example.org:3128").without_password()
    assert Proxy.parse("http://proxy.example.org:3128/").without_password() == "proxy.example.org:3128"


HAPROXY = """
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
listen feddag
  bind 127.0.0.1:{port}
  server feddag 127.0.0.1:{server}
"""
NGINX = """
{modules}
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/nginx-error.log;
events {{}}
stream {{
  server {{
    listen 127.0.0.1:{port};
    proxy_pass 127.0.0.1:{server};
    proxy_timeout 1h;
  }}
}}
"""


@pytest.mark.slow  # .ci/run runs it
@pytest.mark.parametrize(
    ("settings", "command"),
    [
        pytest.param(HAPROXY, ("haproxy", "-db", "-f"), marks=needs("haproxy"), id="haproxy"),
        pytest.param(NGINX, ("nginx", "-c"), marks=needs("nginx"), id="nginx"),
    ],
)
def test_sites_reach_the_server_through_a_reverse_proxy_that_passes_tls_on(settings, command, tmp_path):
    federation = Federation(tmp_path, 'name = "notears"', sites=3)
    module, port = Path("/usr/lib/nginx/modules/ngx_stream_module.so"), free_port()
    modules = f"load_module {module};" if module.exists() else ""
    file = tmp_path / "proxy.conf"
    file.write_text(settings.format(port=port, server=federation.port, folder=tmp_path, modules=modules))
    for name in (*federation.names, "analyst"):
        for start in (federation.kits[name] / "startup").glob("fed_*.json"):
            start.write_text(start.read_text().replace(str(federation.port), str(port)))
    with serving(tmp_path, port, *command, file), federation.after_study():
        assert f"Connected to the server at localhost:{port}" in federation.log(federation.names[0])
    learned = feddag.load(federation.folder / "run").graph_
    assert learned.edges == federation.study.learner().fit(federation.simulation).graph_.edges

"""Monitors ask over HTTP whether a participant is alive; terminals speak JSON if asked to."""

from __future__ import annotations

import json
import logging
import urllib.error
import urllib.request

import pytest

from feddag import FeddagError
from feddag.deployment.demo import free_port
from feddag.deployment.health import Health, Metric, parse_address, serving
from feddag.deployment.logs import JsonFormatter, speaker

METRICS = [Metric.of("rounds_total", "Rounds.", 7, "counter"), Metric("site", "Whether.", [({"site": 'a"b'}, 1.0)])]


def ask(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_page_tells_health_and_metrics_as_they_are_now():
    port, found = free_port(), [Health(True, "connected", {"name": "basel"}, METRICS)]
    with serving(("127.0.0.1", port), lambda: found[0]):
        status, text = ask(port, "/health")
        assert (status, json.loads(text)) == (200, {"healthy": True, "state": "connected", "name": "basel"})
        status, text = ask(port, "/metrics")
        assert status == 200
        assert "# TYPE feddag_rounds_total counter\nfeddag_rounds_total 7\n" in text
        assert 'feddag_site{site="a\\"b"} 1\n' in text
        assert "feddag_healthy 1\n" in text
        found[0] = Health(False, "unreachable")
        assert ask(port, "/health")[0] == 503
        assert ask(port, "/")[0] == 404
        with pytest.raises(FeddagError, match=f"cannot be at 127.0.0.1:{port}"), serving(("127.0.0.1", port), list):
            pass
    with pytest.raises(urllib.error.URLError):
        ask(port, "/health")


def test_an_address_is_on_loopback_unless_a_host_is_named():
    assert parse_address("9100") == ("127.0.0.1", 9100)
    assert parse_address("10.0.0.5:9100") == ("10.0.0.5", 9100)
    assert parse_address("[::1]:9100") == ("::1", 9100)
    for wrong in ("host", "host:", "host:0", "host:99999"):
        with pytest.raises(FeddagError, match="is no address for --health"):
            parse_address(wrong)


def test_messages_are_lines_or_json(capsys):
    speaker("text")("Connected")
    speaker("json")('site "basel"\nhas joined')
    text, line = capsys.readouterr().out.splitlines()
    assert text == "Connected"
    found = json.loads(line)
    assert (found["level"], found["message"]) == ("info", 'site "basel"\nhas joined')
    record = logging.LogRecord("feddag", logging.ERROR, "", 0, "%s is lost", ("bern",), None)
    assert json.loads(JsonFormatter().format(record)) | {"time": ""} == {
        "time": "",
        "level": "error",
        "message": "bern is lost",
    }

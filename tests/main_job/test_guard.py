"""A real guard on a real emulator: a job that fails is told by a webhook while no console is open."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue

import psutil
import pytest

from tests.shell import Home, home
from tests.waiting import LIMIT, wait_for

CONFIG = """
guard:
  contexts: [local]
  channels:
    - {name: hook, kind: webhook, url: "http://127.0.0.1:%d/"}
    - {name: lost, kind: webhook, url: "http://127.0.0.1:9/"}
  alerts:
    - {when: [failed, succeeded], to: [hook, lost]}
"""
PROFILE = """
displayName: guarded
jobSpec:
  workerPoolSpecs:
  - machineSpec: {machineType: n1-standard-4}
    replicaCount: 1
    containerSpec: {imageUri: "python:3.11", command: [python, -c, "raise KeyError('learning_rate')"]}
"""


@pytest.fixture
def told() -> Iterator[tuple[int, Queue[bytes]]]:
    bodies: Queue[bytes] = Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.put(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield server.server_port, bodies
    server.shutdown()
    server.server_close()


# It starts an emulator, a guard and a job: about 6 s of CPU.
def test_a_failed_job_is_told_also_after_the_guard_was_killed(told: tuple[int, Queue[bytes]]) -> None:
    port, bodies = told
    with home() as place:
        (place.root / "c" / "vxtui").mkdir()
        (place.root / "c" / "vxtui" / "config.yaml").write_text(CONFIG % port)
        profile = place.root / "guarded.yaml"
        profile.write_text(PROFILE)
        assert place.json("guard", "status", code=5)["pid"] is None
        first = place.json("guard", "start")
        assert first["started"] and not place.json("guard", "start")["started"]
        job = place.json("launch", str(profile), "--yes")["name"]
        alert = json.loads(bodies.get(timeout=LIMIT))
        assert alert["job"] == job and alert["title"] == "guarded failed (local)"
        assert "learning_rate" in alert["text"]
        assert "vxtui --context local describe" in alert["text"]

        # A guard that is killed while it sends an alert would send it again.
        wait_for(lambda: _sent(place) == 1, "the delivery")
        psutil.Process(first["pid"]).kill()
        psutil.wait_procs([psutil.Process(first["pid"])] if psutil.pid_exists(first["pid"]) else [])
        _run_to_its_end(place, str(profile))
        assert bodies.empty()
        assert place.json("guard", "start")["started"]
        later = json.loads(bodies.get(timeout=LIMIT))
        assert later["job"] != job and later["id"] == 2
        status = place.json("guard", "status")
        assert status["contexts"]["local"]["error"] is None
        assert {failing["channel"] for failing in status["failing"]} == {"lost"}
        assert [row["title"] for row in place.json("guard", "log")["alerts"]] == [
            "guarded failed (local)"
        ] * 2
        assert place.json("guard", "stop")["stopped"]
        assert place.json("guard", "status", code=5)["pid"] is None
        assert bodies.empty()


def _sent(place: Home) -> int:
    alerts = place.json("guard", "log")["alerts"]
    return sum(delivery["sent"] for alert in alerts for delivery in alert["deliveries"])


def _run_to_its_end(place: Home, profile: str) -> None:
    assert place.run("launch", profile, "--yes", "--wait").returncode == 1

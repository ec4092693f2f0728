"""`vxtui emulator kubernetes …` with a server of its own process."""

from __future__ import annotations

import json
import os
import socketserver
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tui.emulator.client import stop_server
from tui.emulator.kubernetes.paths import default_kubernetes_state
from tui.verbs.command_group import cli

VERB = ("emulator", "kubernetes")


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="vxk-") as path:
        monkeypatch.setenv("VXTUI_STATE_DIR", path)
        monkeypatch.setenv("VXTUI_CONFIG", f"{path}/config.yaml")
        Path(path, "config.yaml").write_text("contexts: []\n")
        default_kubernetes_state().prepare()
        default_kubernetes_state().config.write_text("node_pools: []\n")
        yield Path(path)
        stop_server(default_kubernetes_state())


def call(*words: str) -> tuple[int, dict[str, Any]]:
    done = CliRunner().invoke(cli, [*VERB, *words, "--json"])
    return done.exit_code, json.loads(done.output)


def text(*words: str) -> str:
    done = CliRunner().invoke(cli, [*VERB, *words])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_server_of_an_older_vxtui_is_to_be_restarted() -> None:
    """It answers without what was added since."""
    state = default_kubernetes_state()
    info = {"pid": os.getpid(), "server": "https://127.0.0.1:1", "kubeconfig": "/k"}

    class Old(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            body = json.dumps(info).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def address_string(self) -> str:
            return ""

        def log_message(self, *_: object) -> None:
            pass

    with socketserver.ThreadingUnixStreamServer(str(state.socket), Old) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        state.info.write_text(json.dumps(info))
        try:
            done = CliRunner().invoke(cli, [*VERB, "status"])
        finally:
            state.info.unlink()
            server.shutdown()
    assert done.exit_code == 0 and "https://127.0.0.1:1" in done.output
    assert "Restart it with `vxtui emulator kubernetes stop`, then `start`" in done.output


def test_start_faults_and_stop() -> None:
    code, refused = call("status")
    assert code == 5 and refused["error"]["fix"] == "vxtui emulator kubernetes start"
    code, found = call("kubeconfig")
    assert code == 0 and Path(found["kubeconfig"]).exists()
    code, status = call("status")
    assert code == 0 and status["objects"]["namespaces"] >= 2
    code, again = call("start")
    assert code == 0 and again["pid"] == status["pid"]

    code, fault = call("fault", "api", "pods", "--verb", "list", "--error", "429", "--retry-after", "3")
    assert (code, fault["number"], fault["code"]) == (0, 1, 429)
    assert text("fault", "api", "*", "--cut", "--after", "5") == "2  * *: cut after 5 s\n"
    assert text("fault", "list").splitlines()[0] == "1  list pods: 429, retry after 3 s"
    code, unknown = call("fault", "clear", "7")
    assert code == 2 and unknown["error"]["message"].endswith("no fault 7 is in force")
    assert text("fault", "clear", "1") == "2  * *: cut after 5 s\n"
    assert text("fault", "clear") == "no faults\n"
    assert "watches start from version" in text("fault", "compact")
    for wrong in (["--error", "429", "--lost"], ["--cut"]):
        assert CliRunner().invoke(cli, [*VERB, "fault", "api", "pods", *wrong]).exit_code == 2

    assert text("stop") == "stopped; its pods keep running\n"
    assert call("stop")[1]["stopped"] is False
    assert "ready on https://127.0.0.1" in text("logs")

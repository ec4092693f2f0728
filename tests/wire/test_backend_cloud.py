"""Credentials and TLS of the cloud's endpoint, against a token service and a server on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.waiting import LIMIT
from tui.backends.factory import open_backend
from tui.backends.interface import Unauthenticated, Unavailable
from tui.backends.vertex.transport.connect import CloudEndpoint, Service
from tui.config.settings import Context, Settings

REFUSED = {"error": "invalid_grant", "error_description": "taken back"}


@dataclass
class Tokens:
    """A token service: what it answers, and how often it was asked."""

    url: str = ""
    status: int = 200
    lifetime: int = 3600
    asked: int = 0


@pytest.fixture
def tokens() -> Iterator[Tokens]:
    found = Tokens()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            found.asked += 1
            good = {"access_token": f"t{found.asked}", "expires_in": found.lifetime, "token_type": "Bearer"}
            body = json.dumps(good if found.status == 200 else REFUSED).encode()
            self.send_response(found.status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_address[1]}/token"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield found
    server.shutdown()
    server.server_close()


@pytest.fixture
def account(tokens: Tokens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Application-default credentials: a service account whose tokens come from `tokens`."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = tmp_path / "account.json"
    file.write_text(
        json.dumps({
            "type": "service_account", "project_id": "p", "private_key_id": "1", "private_key": pem.decode(),
            "client_email": "a@p.iam.gserviceaccount.com", "client_id": "1", "token_uri": tokens.url,
        })
    )  # fmt: skip
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    return file


async def test_credentials_are_renewed_before_they_end_and_once_for_all_calls(
    account: Path, tokens: Tokens
) -> None:
    endpoint = CloudEndpoint()
    await endpoint.open()
    assert tokens.asked == 1
    await asyncio.gather(*(endpoint.ready() for _ in range(20)))
    assert tokens.asked == 1
    tokens.lifetime = 60
    endpoint.credentials.expiry = None
    endpoint.credentials.token = None
    await asyncio.gather(*(endpoint.ready() for _ in range(20)))
    assert tokens.asked == 2
    # A minute is less than google-auth's margin: the next call renews again, long before the end.
    await endpoint.ready()
    assert tokens.asked == 3


async def test_credentials_that_were_taken_back_say_how_to_log_in(account: Path, tokens: Tokens) -> None:
    tokens.status = 400
    found = open_backend(Context(name="cloud", kind="vertex", project="p"), Settings())
    for _ in range(2):
        with pytest.raises(Unauthenticated, match="invalid_grant") as refused:
            await found.connect()
        assert "gcloud auth application-default login" in refused.value.fix
    (line,) = await found.check_health()
    assert (line.name, line.ok) == ("credentials", False)


def point_elsewhere(account: Path) -> None:
    description = json.loads(account.read_text())
    account.write_text(json.dumps({**description, "token_uri": "http://127.0.0.1:1/token"}))


async def test_a_token_service_that_can_not_be_reached_is_no_matter_of_logging_in(
    account: Path, tokens: Tokens
) -> None:
    point_elsewhere(account)
    with pytest.raises(Unavailable, match="token service"):
        await CloudEndpoint().open()


async def test_no_credentials_at_all_are_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    # Without this google-auth looks for a metadata server in the network.
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    with pytest.raises(Unauthenticated, match="no usable Google credentials") as refused:
        await CloudEndpoint().open()
    assert refused.value.fix
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "missing.json"))
    with pytest.raises(Unauthenticated, match=r"missing\.json"):
        await CloudEndpoint().open()


def test_hosts_are_regional_only_where_the_service_is() -> None:
    endpoint = CloudEndpoint()
    assert endpoint.target(Service.JOBS, "europe-west4") == "europe-west4-aiplatform.googleapis.com"
    assert endpoint.target(Service.LOGGING, "europe-west4") == "logging.googleapis.com"
    assert endpoint.target(Service.MONITORING, "") == "monitoring.googleapis.com"
    assert endpoint.target(Service.QUOTAS, "") == "cloudquotas.googleapis.com"


OVER_TLS = """
import asyncio, sys
import grpc
from tests.wire.fake_vertex import Fake, backend
from tui.backends.vertex.transport.connect import CloudEndpoint

class Here(CloudEndpoint):
    def target(self, service, region):
        return f"localhost:{self.port}"

class Seen(grpc.aio.ServerInterceptor):
    bearers = []
    async def intercept_service(self, go_on, details):
        self.bearers.append(dict(details.invocation_metadata).get("authorization"))
        return await go_on(details)

async def main(cert, key):
    fake = Fake()
    fake.add_job()
    server = grpc.aio.server(interceptors=[Seen()])
    server.add_generic_rpc_handlers(tuple(fake.handlers()))
    secure = grpc.ssl_server_credentials([(open(key, "rb").read(), open(cert, "rb").read())])
    endpoint = Here()
    endpoint.port = server.add_secure_port("localhost:0", secure)
    await server.start()
    async with backend(endpoint) as found:
        jobs = [job.id async for page in found.list_jobs() for job in page.jobs]
    await server.stop(None)
    print(jobs, sorted(set(Seen.bearers)))

asyncio.run(main(*sys.argv[1:]))
"""


def test_calls_travel_over_tls_with_the_token(account: Path, tokens: Tokens, tmp_path: Path) -> None:
    cert, key = self_signed(tmp_path)
    environment = {**os.environ, "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(cert)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(OVER_TLS), str(cert), str(key)],
        env=environment, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "['1'] ['Bearer t1']", done.stderr[-2000:]
    assert tokens.asked == 1


def self_signed(folder: Path) -> tuple[Path, Path]:
    """A certificate for localhost that is its own root."""
    import datetime as dt

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import NameOID

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = folder / "cert.pem", folder / "key.pem"
    cert_file.write_bytes(built.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return cert_file, key_file


async def test_an_abandoned_connect_does_not_hold_up_the_end(account: Path, tokens: Tokens) -> None:
    endpoint = CloudEndpoint()
    opening = asyncio.create_task(endpoint.open())
    await asyncio.sleep(0)
    opening.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.wait_for(opening, LIMIT)
    # What was begun can be begun again.
    await endpoint.open()
    assert endpoint.credentials.token

"""Certificates of the API, signed by their own authority, and the kubeconfig that trusts them."""

from __future__ import annotations

import base64
import ipaddress
import json
import os
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tui.emulator.kubernetes.paths import CLUSTER, KubernetesState
from tui.emulator.kubernetes.resources import Obj

_DAYS = 3650
_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
_ADDRESSES = ("127.0.0.1", "::1")


def ensure_certificates(state: KubernetesState) -> None:
    """Create the certificate authority and the server's certificate if they are missing. Raises OSError."""
    state.tls.mkdir(mode=0o700, exist_ok=True)
    names = ("ca.crt", "server.key", "server.crt")
    if all((state.tls / name).exists() for name in names):
        return
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca_name = _name(f"{CLUSTER} CA")
    ca = _builder(ca_name, ca_name, ca_key.public_key()).add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True
    )
    ca = ca.add_extension(_usage(sign_certificates=True), critical=True)
    ca = ca.add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False)
    addresses = [x509.IPAddress(ipaddress.ip_address(address)) for address in _ADDRESSES]
    server = _builder(_name("kube-apiserver"), ca_name, key.public_key())
    server = server.add_extension(
        x509.SubjectAlternativeName([*(x509.DNSName(name) for name in _NAMES), *addresses]), critical=False
    )
    server = server.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    server = server.add_extension(_usage(sign_certificates=False), critical=True)
    server = server.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    server = server.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
    )
    pem = serialization.Encoding.PEM
    # The authority's key is discarded, so nobody can sign certificates that clients trust.
    write_private(
        state.tls / "server.key",
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )
    write_private(state.tls / "server.crt", server.sign(ca_key, hashes.SHA256()).public_bytes(pem))
    write_private(state.tls / "ca.crt", ca.sign(ca_key, hashes.SHA256()).public_bytes(pem))


def ensure_token(state: KubernetesState) -> str:
    """Return the bearer token of this state directory, creating it if missing. Raises OSError."""
    try:
        token = state.token.read_text().strip()
    except FileNotFoundError:
        token = ""
    if not token:
        token = secrets.token_urlsafe(32)
        write_private(state.token, f"{token}\n".encode())
    return token


def write_kubeconfig(state: KubernetesState, server: str, token: str) -> None:
    """Write the kubeconfig as JSON, which every YAML reader accepts. Raises OSError."""
    authority = base64.b64encode((state.tls / "ca.crt").read_bytes()).decode()
    config: Obj = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": CLUSTER, "cluster": {"server": server, "certificate-authority-data": authority}}
        ],
        "users": [{"name": CLUSTER, "user": {"token": token}}],
        "contexts": [
            {"name": CLUSTER, "context": {"cluster": CLUSTER, "user": CLUSTER, "namespace": "default"}}
        ],
        "current-context": CLUSTER,
    }
    write_private(state.kubeconfig, (json.dumps(config, indent=2) + "\n").encode())


def write_private(path: Path, data: bytes) -> None:
    """Write a file with mode 0600 atomically. Raises OSError."""
    partial = path.with_name(path.name + ".partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, 0o600)
        file.write(data)
    partial.replace(path)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    # A clock that is set back must not make the certificate invalid.
    start = datetime.now(UTC) - timedelta(days=2)
    return x509.CertificateBuilder(
        subject_name=subject,
        issuer_name=issuer,
        public_key=key,
        serial_number=x509.random_serial_number(),
        not_valid_before=start,
        not_valid_after=start + timedelta(days=_DAYS),
    )


def _usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )

"""Finds a cluster and logs in: from a kubeconfig, this process's pod, GKE, or this machine.

`exec_plugin` runs the kubeconfig's exec plugin, then kr8s reads the kubeconfig. The resulting `Login` holds
the certificates in memory, so that no file with a key stays on disk.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import os
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui.backends.errors import BackendError, InvalidRequest, NotFound, Unauthenticated
from tui.backends.kubernetes.login.exec_plugin import SECONDS, with_credentials
from tui.backends.local.threads import in_thread

if TYPE_CHECKING:
    import ssl

LOGIN_FIX = "Log in again with the `exec` command of the kubeconfig's user, or renew the user's token."
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
IN_CLUSTER = "in-cluster"
_USUAL = "~/.kube/config"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class Login:
    """The credentials of every call. Job names contain `cluster`; `namespace` is the namespace of the
    kubeconfig."""

    server: str
    cluster: str
    namespace: str = "default"
    token: str = field(default="", repr=False)
    verify: ssl.SSLContext | bool = True
    proxy: str | None = None
    server_name: str | None = None
    """Server name in the certificate if it differs from the host name."""
    certificates: str = ""
    """A digest of the certificates in `verify`."""

    @property
    def line(self) -> tuple[str, str | None, str]:
        """The properties that determine the client. The client stays in use when only the token changes."""
        return self.server, self.proxy, self.certificates


class Cluster(ABC):
    """Logs in to one cluster, and logs in again if the server refuses the credentials."""

    local: bool = False

    @abstractmethod
    async def log_in(self) -> Login:
        """Read the credentials again. Raises BackendError."""

    def explain(self, error: BackendError) -> BackendError:
        """Return a more specific cause of a failed call if one is known, else `error`."""
        return error


class KubeconfigCluster(Cluster):
    """A context of a kubeconfig, or this process's own cluster if there is no kubeconfig.

    `file` may list several files separated by `:`, as in `$KUBECONFIG`. An empty `context` selects the
    current context.
    """

    def __init__(self, file: str = "", context: str = "") -> None:
        self._file = file
        self._context = context

    async def log_in(self) -> Login:
        files = self._file or os.environ.get("KUBECONFIG", "") or _USUAL
        return await log_in_with(files, self._context, chosen=bool(self._file or self._context))


async def log_in_with(kubeconfig: str | dict[str, Any], context: str = "", *, chosen: bool = True) -> Login:
    """Log in with the files or content of a kubeconfig. If `chosen`, the pod's own account is not tried."""
    named = kubeconfig if isinstance(kubeconfig, str) else "made for this cluster"
    if isinstance(kubeconfig, str) and not _exists(kubeconfig) and (chosen or not _in_cluster()):
        raise NotFound(
            f"The kubeconfig {named} does not exist, and this machine is not a pod.",
            fix="Set `kubeconfig` in the context's settings, or set KUBECONFIG.",
        )
    try:
        async with asyncio.timeout(SECONDS):
            return await _read(kubeconfig, context)
    except TimeoutError:
        raise Unauthenticated(
            f"The login command of the kubeconfig {named} did not answer within {SECONDS:.0f} s.",
            fix=LOGIN_FIX,
        ) from None
    except Exception as error:
        raise _explained(error, named, context) from error


async def _read(kubeconfig: str | dict[str, Any], context: str) -> Login:
    # Import kr8s in a thread, and only for a cluster, because the import takes 0.2 s.
    api = await in_thread(lambda: importlib.import_module("kr8s.asyncio").Api)
    kubeconfig = await with_credentials(kubeconfig, context)
    # Its own session is never opened: only its credentials are used.
    account = str(SERVICE_ACCOUNT)
    auth = api(
        kubeconfig=kubeconfig, context=context or None, serviceaccount=account, bypass_factory=True
    ).auth
    await auth.reauthenticate()
    chosen = auth.kubeconfig.get_context(auth.active_context) if auth.active_context else {}
    cluster = chosen.get("cluster") or IN_CLUSTER
    certificates = _digest(auth)
    try:
        verify = await auth.ssl_context()
    finally:
        _remove_temporary(auth, chosen)
    return Login(
        server=auth.server.rstrip("/"),
        cluster=name_part(cluster),
        namespace=chosen.get("namespace") or _own_namespace(cluster) or "default",
        token=auth.token or "",
        verify=verify,
        proxy=auth.proxy,
        server_name=auth.tls_server_name,
        certificates=certificates,
    )


def _exists(kubeconfig: str) -> bool:
    return any(Path(part).expanduser().exists() for part in kubeconfig.split(":") if part)


def _in_cluster() -> bool:
    return SERVICE_ACCOUNT.is_dir()


def _own_namespace(cluster: str) -> str:
    file = SERVICE_ACCOUNT / "namespace"
    return file.read_text().strip() if cluster == IN_CLUSTER and file.is_file() else ""


def _digest(auth: Any) -> str:
    files = auth.client_key_file, auth.client_cert_file, auth.server_ca_file
    contents = [Path(file).read_bytes() if file else b"" for file in files]
    return hashlib.sha256(b"\0".join(contents)).hexdigest()


def name_part(cluster: str) -> str:
    """Return a cluster's name as a part of job names."""
    return _NOT_IN_NAMES.sub("-", cluster).strip("-") or "cluster"


def _remove_temporary(auth: Any, chosen: dict[str, Any]) -> None:
    """Remove the files that kr8s wrote for data in the kubeconfig, including a private key."""
    user = auth.kubeconfig.get_user(chosen["user"]) if chosen.get("user") else {}
    cluster = auth.kubeconfig.get_cluster(chosen["cluster"]) if chosen.get("cluster") else {}
    files = [
        (user, "client-key-data", auth.client_key_file),
        (user, "client-certificate-data", auth.client_cert_file),
        (cluster, "certificate-authority-data", auth.server_ca_file),
    ]
    for part, data, file in files:
        if file and data in part:
            Path(file).unlink(missing_ok=True)


def _explained(error: Exception, named: str, context: str) -> BackendError:
    """Convert an exception that kr8s raised while it read a kubeconfig."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        # A certificate has a file of its own.
        text = error.strerror if error.filename in {None, named} else f"{error.filename}: {error.strerror}"
    words = " ".join(text.split())
    if isinstance(error, BackendError):
        return error
    if words.startswith("No such context") or "not found" in words:
        return NotFound(
            f"The kubeconfig {named}: {words}.", fix="`kubectl config get-contexts` lists its contexts."
        )
    if isinstance(error, FileNotFoundError) and error.filename:
        return Unauthenticated(
            f"The kubeconfig {named} names {error.filename}, which is not on this machine.",
            fix="Install that login command, or set `gke` in the context's settings to log in with "
            "Google's application-default credentials.",
        )
    if isinstance(error, RuntimeError):
        return Unauthenticated(f"The login command of the kubeconfig {named} failed: {words}", fix=LOGIN_FIX)
    if words == "Unable to find valid credentials":
        return Unauthenticated(f"The kubeconfig {named} has no usable credentials.", fix=LOGIN_FIX)
    which = f" (context {context})" if context else ""
    problem = f"it lacks {words}" if isinstance(error, KeyError) else words
    return InvalidRequest(
        f"The kubeconfig {named}{which} can't be read: {problem or type(error).__name__}",
        fix="`kubectl config view` shows its content.",
    )

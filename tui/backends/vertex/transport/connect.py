"""Addresses of the service: Google's regional endpoints, or the emulator's socket.

The backend is the same for every `Endpoint`. This module imports no Google library, so that a backend can be
created before the first paint.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from tui.backends.interface import BackendError, InvalidRequest, Unauthenticated, Unavailable
from tui.backends.local.server import LocalServer
from tui.backends.local.threads import in_thread
from tui.backends.reply_limit import limited
from tui.config.paths import state_dir
from tui.domain.core.resource_name import is_location
from tui.emulator.client import StateDir

T = TypeVar("T")
LOGIN = "Run `gcloud auth application-default login`, then try again."
UNBOUND = "http://127.0.0.1:9"
"""An address without a listener, for a bucket server that was never started."""
LOGIN_SECONDS = 45.0
"""Timeout of a call with Google's credentials in a thread, in seconds."""
SCOPE = "https://www.googleapis.com/auth/cloud-platform"


class Service(StrEnum):
    """The services that a context needs, by the first label of their host name."""

    JOBS = "aiplatform"
    LOGGING = "logging"
    MONITORING = "monitoring"
    QUOTAS = "cloudquotas"
    PROJECTS = "cloudresourcemanager"
    ACCOUNTS = "iam"
    REGISTRY = "artifactregistry"
    BILLING = "cloudbilling"


@dataclass(frozen=True, slots=True)
class Pace:
    """Call rates and data delays of a service. Times are in seconds."""

    log_reads_per_minute: int
    buffer_window: float
    """Time within which a tail's service sorts entries."""
    hold: float
    """Maximum wait of an entry for older entries of other replicas."""
    overlap: float
    """Overlap of a list with the newest known receive time."""
    poll: float
    """Interval between reads of a log without a stream."""
    state_poll: float
    """Interval between reads of a job's state while its log is quiet."""
    drain: float
    """Time after a job's end within which its last entries may still arrive."""
    heartbeat: float
    """Silence after which a list checks whether the stream still brings every entry."""
    reconnect: float
    """Maximum wait before the next attempt to connect."""
    sample_period: float
    """Sampling interval of time series whose descriptor contains none."""
    patience: float
    """Time for which a failing read is repeated."""


# 60 log reads a minute apply to the entire project, including other tools (docs/facts/vertex.md 5.3). Entries
# arrive seconds to tens of seconds late (5.1). Series are sampled once a minute (6.1).
CLOUD_PACE = Pace(
    log_reads_per_minute=54,
    buffer_window=1.0,
    hold=1.0,
    overlap=10.0,
    poll=5.0,
    state_poll=2.0,
    drain=10.0,
    heartbeat=60.0,
    reconnect=5.0,
    sample_period=60.0,
    patience=30.0,
)
LOCAL_PACE = Pace(
    log_reads_per_minute=3000,
    buffer_window=0.3,
    hold=0.3,
    overlap=2.0,
    poll=0.5,
    state_poll=0.5,
    drain=0.0,
    heartbeat=5.0,
    reconnect=1.0,
    sample_period=2.0,
    patience=3.0,
)


REPAIR = "`vxtui emulator repair`"
"""The command in the emulator's message about a damaged file."""
REPAIR_FIX = f"{REPAIR}, then try again."
_LOG_FIX = "`vxtui emulator logs` shows the emulator's log; `vxtui doctor` runs further checks."


class Endpoint(ABC):
    """Provides the addresses of channels, and credentials."""

    pace: Pace
    all_regions: bool = False
    """Whether a list of the location `-` covers every region (AIP-159)."""
    makes_buckets: bool = False
    """Whether the service creates a job's buckets when the job starts."""
    runs_programs: bool = False
    """Whether jobs run programs of this machine instead of their images."""
    credentials: Any = None
    """google-auth credentials, or `None` for a channel without TLS."""
    budgets: Path | None = None
    """Folder in which all processes of this machine share the service's quotas, one per project."""

    @abstractmethod
    def target(self, service: Service, region: str) -> str:
        """Return the gRPC target of a service. Only regional services use `region`. Raises InvalidRequest."""

    @abstractmethod
    async def open(self) -> None:
        """Make the service ready for calls. Idempotent; raises BackendError."""

    async def ready(self) -> None:  # noqa: B027 - most endpoints have nothing to renew
        """Renew expiring credentials; called before every RPC. Raises BackendError."""

    def storage(self) -> str | None:
        """Return the base address of Cloud Storage's API, or `None` for Google's own."""
        return None

    def bucket_folder(self) -> Path | None:
        """Return the local folder that contains the buckets' folders, or `None` if buckets are elsewhere."""
        return None

    def shells(self) -> str | None:
        """Return the gRPC target of programs in running replicas, or `None` if the service has none."""
        return None

    def explain(self, error: BackendError) -> BackendError:
        """Return a more specific cause of a failed RPC if one is known, else `error`."""
        return error


class LocalEndpoint(Endpoint):
    """The emulator of one state directory, started on demand. The emulator outlives the console."""

    pace = LOCAL_PACE
    all_regions = True
    makes_buckets = True
    runs_programs = True

    def __init__(self, state: StateDir) -> None:
        self.state = state
        self.budgets = state.root / "budgets"
        self._server = LocalServer(state, "emulator", "Jobs")

    def target(self, service: Service, region: str) -> str:
        return self.state.target

    def storage(self) -> str | None:
        return self.state.bucket_url() or UNBOUND

    def bucket_folder(self) -> Path | None:
        return self.state.buckets

    def shells(self) -> str | None:
        return self.state.admin_target

    async def open(self) -> None:
        await self._server.start(lambda why: REPAIR_FIX if REPAIR in why else _LOG_FIX)

    def explain(self, error: BackendError) -> BackendError:
        return self._server.explain(error)


class CloudEndpoint(Endpoint):
    """Google Vertex AI with the application-default credentials (docs/facts/vertex.md 2.3)."""

    pace = CLOUD_PACE

    def __init__(self) -> None:
        self.budgets = state_dir() / "budgets"
        self._refreshing: asyncio.Task[None] | None = None

    def target(self, service: Service, region: str) -> str:
        host = f"{service.value}.googleapis.com"
        if service is not Service.JOBS:
            return host
        # This is the last check before credentials are sent, wherever the region comes from.
        if not is_location(region):
            raise InvalidRequest(
                f"{region!r} must be the name of a region.",
                fix="Write a region such as us-central1: lower-case letters, digits and hyphens.",
            )
        return f"{region}-{host}"

    async def open(self) -> None:
        if self.credentials is None:
            self.credentials = await google_login(_default_credentials)
        await self.ready()

    async def ready(self) -> None:
        # Over gRPC an expired credential looks like an outage, a 503 (docs/facts/clients.md 'Faults'), so
        # renew it first. google-auth considers a token invalid some minutes before its end.
        if self.credentials is None or self.credentials.valid:
            return
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(
                google_login(lambda: self.credentials.refresh(token_request()))
            )
        await asyncio.shield(self._refreshing)


def _default_credentials() -> Any:
    import google.auth

    credentials, _project = google.auth.default(scopes=[SCOPE], request=token_request())
    return credentials


def token_request() -> Any:
    """Return a transport for google-auth, with a limit on the replies."""
    import requests
    from google.auth.transport.requests import Request

    return Request(limited(requests.Session()))


async def google_login(work: Callable[[], T]) -> T:
    """Run work that uses Google's credentials in a thread. Raises BackendError."""
    from google.auth import exceptions

    try:
        async with asyncio.timeout(LOGIN_SECONDS):
            return await in_thread(work)
    except TimeoutError as error:
        raise Unavailable(
            f"Google's token service does not answer within {LOGIN_SECONDS:g} s.",
            fix="Check the network, or the proxy.",
        ) from error
    except exceptions.TransportError as error:
        raise Unavailable(
            f"Google's token service can't be reached: {error}", fix="Check the network, or the proxy."
        ) from error
    except exceptions.GoogleAuthError as error:
        raise Unauthenticated(f"no usable Google credentials: {error}", fix=LOGIN) from error

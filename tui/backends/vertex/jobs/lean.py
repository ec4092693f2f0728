"""ListCustomJobs read by columns: of ten thousand jobs only what a list orders by is taken apart.

Where a field that is declared once comes many times, a parser merges it (protobuf's encoding guide, 'Last
One Wins'). So a reply that is read as if it held a single job, whose fields are repeated, gives all names,
all states and all times as lists, made in C. The rest of a job stays bytes until somebody looks, and is then
read by the official message. The call goes over the official client's own channel and is encoded by its own
request.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from google.api_core.gapic_v1 import client_info, routing_header
from google.cloud.aiplatform_v1.types import job_service
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tui.backends.vertex.jobs import convert
from tui.backends.vertex.jobs.convert import CustomJobPb
from tui.backends.vertex.jobs.listed import listed
from tui.domain.job import Job, microseconds

_PATH = "/google.cloud.aiplatform.v1.JobService/ListCustomJobs"
_AGENT = ("x-goog-api-client", client_info.ClientInfo().to_user_agent())
_Field = descriptor_pb2.FieldDescriptorProto
_ONE, _MANY = _Field.LABEL_OPTIONAL, _Field.LABEL_REPEATED

_MESSAGES: dict[str, list[tuple[str, int, int, int, str]]] = {
    "Moments": [
        ("seconds", 1, _Field.TYPE_INT64, _MANY, ""),
        ("nanos", 2, _Field.TYPE_INT32, _MANY, ""),
    ],
    "Jobs": [
        ("name", 1, _Field.TYPE_STRING, _MANY, ""),
        ("state", 5, _Field.TYPE_INT32, _MANY, ""),
        ("create_time", 6, _Field.TYPE_MESSAGE, _ONE, ".vxtui.lean.Moments"),
        ("update_time", 9, _Field.TYPE_BYTES, _MANY, ""),
    ],
    "Columns": [
        ("custom_jobs", 1, _Field.TYPE_MESSAGE, _ONE, ".vxtui.lean.Jobs"),
        ("next_page_token", 2, _Field.TYPE_STRING, _ONE, ""),
    ],
    "Split": [
        ("custom_jobs", 1, _Field.TYPE_BYTES, _MANY, ""),
    ],
}
_BEGIN, _END = -62_135_596_800, 253_402_300_800
"""Seconds from the epoch to the years 1 and 10000: what a date can be."""
Stamp = tuple[int, bytes]
"""State and time of the last update: the service sets the latter whenever anything in a job differs."""


def _classes() -> tuple[Any, Any]:
    """Columns and Split; in a pool of their own, so that no official message is in their way."""
    file = descriptor_pb2.FileDescriptorProto(name="vxtui/lean.proto", package="vxtui.lean", syntax="proto2")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, label, of in fields:
            message.field.add(name=field, number=number, type=kind, label=label, type_name=of or None)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    find = pool.FindMessageTypeByName
    return (
        message_factory.GetMessageClass(find("vxtui.lean.Columns")),
        message_factory.GetMessageClass(find("vxtui.lean.Split")),
    )


_Columns, _Split = _classes()


class Page:
    """One page of a list: columns of equal length, and the jobs that they are of."""

    def __init__(self, context: str, reply: bytes) -> None:
        self._context = context
        self._held: bytes | Sequence[bytes] = reply
        found = _Columns.FromString(reply)
        columns = found.custom_jobs
        self.next_page_token: str = found.next_page_token
        self.names: list[str] = list(columns.name)
        states, updates = list(columns.state), list(columns.update_time)
        self._created: Sequence[int | None] = _microseconds(columns.create_time, len(self.names))
        if {len(states), len(updates), len(self._created)} != {len(self.names)}:
            # Some job lacks one of these, as a time of a whole second lacks its nanoseconds; or no date fits.
            whole = [self.message(at) for at in range(len(self._split()))]
            self.names = [pb.name for pb in whole]
            states = [pb.state for pb in whole]
            updates = [pb.update_time.SerializeToString() for pb in whole]
            self._created = [microseconds(convert.moment(pb, "create_time")) for pb in whole]
        self.stamps: list[Stamp] = list(zip(states, updates, strict=True))

    def jobs(self) -> list[Job]:
        """All of them; what a list's order does not need is read when it is asked for."""
        states = [convert.state_of(state) for state, _ in self.stamps]
        return listed(self, self.names, states, self._created)

    def job(self, at: int) -> Job:
        """One of them, read whole."""
        return convert.listed_job(self.message(at), self._context)

    def message(self, at: int) -> Any:
        """One of them as the official message."""
        return CustomJobPb.FromString(self._split()[at])

    def _split(self) -> Sequence[bytes]:
        # In one variable, as a thread may ask too: whoever comes second splits the same bytes again.
        held = self._held
        if isinstance(held, bytes):
            held = self._held = list(_Split.FromString(held).custom_jobs)
        return held


def _microseconds(times: Any, count: int) -> Sequence[int | None]:
    """The column of times in microseconds since the epoch; empty where it is not of this length."""
    seconds, nanos = list(times.seconds), list(times.nanos) or [0] * count
    if not len(seconds) == len(nanos) == count:
        return ()
    if seconds and not _BEGIN <= min(seconds) <= max(seconds) < _END:
        return ()
    return [second * 1_000_000 + nano // 1000 for second, nano in zip(seconds, nanos, strict=True)]


async def list_page(
    client: Any, request: job_service.ListCustomJobsRequest, seconds: float, context: str
) -> Page:
    """One page over the channel of an official async client. Raises what gRPC raises."""
    call = client.transport.grpc_channel.unary_unary(
        _PATH,
        request_serializer=type(request).serialize,
        response_deserializer=partial(Page, context),
    )
    where = routing_header.to_grpc_metadata((("parent", request.parent),))
    page: Page = await call(request, timeout=seconds, metadata=(where, _AGENT))
    return page

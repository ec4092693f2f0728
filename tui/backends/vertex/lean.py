"""ListCustomJobs with messages that leave unread what a list does not order by.

The official reply is parsed down to the last environment variable of every pool of ten thousand jobs. These
messages have the same numbers on the wire, but a job's specification, labels and error stay bytes; the whole
message of one job is made from them when somebody looks (`whole`). The call goes over the official client's
own channel and is encoded by its own request.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from google.api_core.gapic_v1 import client_info, routing_header
from google.cloud.aiplatform_v1.types import job_service
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tui.backends.vertex import convert
from tui.backends.vertex.convert import CustomJobPb
from tui.backends.vertex.listed import listed
from tui.domain.job import Job

_PATH = "/google.cloud.aiplatform.v1.JobService/ListCustomJobs"
_AGENT = ("x-goog-api-client", client_info.ClientInfo().to_user_agent())
_Field = descriptor_pb2.FieldDescriptorProto
_ONE, _MANY = _Field.LABEL_OPTIONAL, _Field.LABEL_REPEATED

_MESSAGES: dict[str, list[tuple[str, int, int, int, str]]] = {
    "Moment": [
        ("seconds", 1, _Field.TYPE_INT64, _ONE, ""),
        ("nanos", 2, _Field.TYPE_INT32, _ONE, ""),
    ],
    "Job": [
        ("name", 1, _Field.TYPE_STRING, _ONE, ""),
        ("display_name", 2, _Field.TYPE_STRING, _ONE, ""),
        ("job_spec", 4, _Field.TYPE_BYTES, _ONE, ""),
        ("state", 5, _Field.TYPE_INT32, _ONE, ""),
        ("create_time", 6, _Field.TYPE_MESSAGE, _ONE, ".vxtui.lean.Moment"),
        ("start_time", 7, _Field.TYPE_BYTES, _ONE, ""),
        ("end_time", 8, _Field.TYPE_BYTES, _ONE, ""),
        ("update_time", 9, _Field.TYPE_BYTES, _ONE, ""),
        ("error", 10, _Field.TYPE_BYTES, _ONE, ""),
        ("labels", 11, _Field.TYPE_BYTES, _MANY, ""),
    ],
    "Reply": [
        ("custom_jobs", 1, _Field.TYPE_MESSAGE, _MANY, ".vxtui.lean.Job"),
        ("next_page_token", 2, _Field.TYPE_STRING, _ONE, ""),
    ],
}


def _classes() -> tuple[Any, Any]:
    """Reply and Job; in a pool of their own, so that no official message is in their way."""
    file = descriptor_pb2.FileDescriptorProto(name="vxtui/lean.proto", package="vxtui.lean", syntax="proto2")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, label, of in fields:
            message.field.add(name=field, number=number, type=kind, label=label, type_name=of or None)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    find = pool.FindMessageTypeByName
    return (
        message_factory.GetMessageClass(find("vxtui.lean.Reply")),
        message_factory.GetMessageClass(find("vxtui.lean.Job")),
    )


LeanReply, LeanJob = _classes()


def whole(job: Any) -> Any:
    """The official message of a lean one; a field that neither of us knows by name goes with it."""
    return CustomJobPb.FromString(job.SerializeToString())


def jobs_of_page(pbs: Iterable[Any], context: str) -> list[Job]:
    """Lean jobs as domain jobs; what a list's order does not need is read when it is asked for."""
    return listed(pbs, convert.state_of, partial(_read, context))


def _read(context: str, pb: Any) -> Job:
    return convert.listed_job(whole(pb), context)


async def list_page(client: Any, request: job_service.ListCustomJobsRequest, seconds: float) -> Any:
    """One page over the channel of an official async client. Raises what gRPC raises."""
    call = client.transport.grpc_channel.unary_unary(
        _PATH,
        request_serializer=type(request).serialize,
        response_deserializer=LeanReply.FromString,
    )
    where = routing_header.to_grpc_metadata((("parent", request.parent),))
    return await call(request, timeout=seconds, metadata=(where, _AGENT))

"""RPC methods, each declared once and served over gRPC and REST.

A handler accepts and returns plain protobuf. A handler fails with `WireError`, which each protocol converts
to its own format with google.rpc details (docs/facts/clients.md 'Connecting without TLS').
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
from google.api import httpbody_pb2
from google.protobuf import any_pb2
from google.protobuf.message import DecodeError, Message
from google.rpc import code_pb2, error_details_pb2, status_pb2

from tui.emulator.rpc.beta import BETA, V1, BetaOperations

log = logging.getLogger(__name__)

LONGEST_STATUS = 2000
"""Maximum number of characters of the problems in a status, which contains them twice, once in base64."""

LARGE = 64 * 1024
"""Size in bytes at which a message is converted in a thread."""
MOST_VALUES = 100_000
"""Maximum number of values in a request: an empty message of 2 bytes takes hundreds of bytes of memory."""

Context = Any  # grpc.aio.ServicerContext: generic in its stubs, not at run time
Unary = Callable[[Any], Awaitable[Message]]
Bidi = Callable[[AsyncIterator[Any]], AsyncIterator[Message]]


class WireError(Exception):
    """An error with a google.rpc code, as a client sees it."""

    def __init__(self, code: int, message: str, details: Sequence[Message] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = tuple(details)

    def status(self) -> status_pb2.Status:
        """Return the google.rpc.Status that is sent in the trailer or in the JSON body."""
        packed = []
        for detail in self.details:
            box = any_pb2.Any()
            box.Pack(detail)
            packed.append(box)
        return status_pb2.Status(code=self.code, message=self.message, details=packed)


def invalid(*problems: tuple[str, str]) -> WireError:
    """Return INVALID_ARGUMENT for pairs of a field path and a problem, which names valid values."""
    named, left = _named(problems)
    text = "; ".join(f"{f}: {d}" if f else d for f, d in named) + (f"; and {left} more" if left else "")
    return WireError(code_pb2.INVALID_ARGUMENT, text, [field_violations(named)])


def refuse(problems: Iterable[tuple[str, str]]) -> None:
    """Raise INVALID_ARGUMENT if a resource has problems: pairs as for `invalid`.

    The message is Vertex AI's numbered list of fields (docs/facts/vertex.md 16).
    """
    pairs = list(problems)
    if not pairs:
        return
    named, left = _named(pairs)
    entries = [f"\t{number}.Field: {f}; Message: {d}" for number, (f, d) in enumerate(named, 1)]
    more = f"\tand {left} more" if left else ""
    text = f"List of found errors:{''.join(entries)}{more}\t"
    raise WireError(code_pb2.INVALID_ARGUMENT, text, [field_violations(named)])


def _named(problems: Sequence[tuple[str, str]]) -> tuple[list[tuple[str, str]], int]:
    """Return the problems that fit into a status, which has 8 KiB of headers, and the number of others."""
    cut = [(_cut(f), _cut(d)) for f, d in problems]
    named = cut[:1]
    for problem in cut[1:]:
        if sum(len(f) + len(d) for f, d in (*named, problem)) > LONGEST_STATUS:
            break
        named.append(problem)
    return named, len(problems) - len(named)


def field_violations(problems: Iterable[tuple[str, str]]) -> error_details_pb2.BadRequest:
    violation = error_details_pb2.BadRequest.FieldViolation
    return error_details_pb2.BadRequest(
        field_violations=[violation(field=f, description=d) for f, d in problems]
    )


def _cut(text: str) -> str:
    """Shorten a long text, such as a quoted value."""
    return text if len(text) <= LONGEST_STATUS // 4 else f"{text[: LONGEST_STATUS // 4]}…"


def not_found(kind: str, name: str) -> WireError:
    """Return NOT_FOUND that names the resource."""
    detail = error_details_pb2.ResourceInfo(resource_type=kind, resource_name=name)
    return WireError(code_pb2.NOT_FOUND, f"The {kind} {name} does not exist.", [detail])


def failed_precondition(subject: str, description: str) -> WireError:
    """Return FAILED_PRECONDITION with a message that names the required change."""
    violation = error_details_pb2.PreconditionFailure.Violation(
        type="STATE", subject=subject, description=description
    )
    detail = error_details_pb2.PreconditionFailure(violations=[violation])
    return WireError(code_pb2.FAILED_PRECONDITION, description, [detail])


@dataclass(frozen=True, slots=True)
class RawReply:
    """Bytes that replace a reply's message, for a reply that can't be decoded."""

    data: bytes


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A google.api.HttpBody, which REST returns unchanged, and the HTTP headers of the reply."""

    body: httpbody_pb2.HttpBody
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Method:
    """One RPC: full service name, method name, plain protobuf classes and handler.

    `raw` names the request field that takes the unchanged body of a REST request (google.api.HttpBody).
    """

    service: str
    name: str
    request: type[Message]
    response: type[Message]
    unary: Unary | None = None
    bidi: Bidi | None = None
    raw: str = ""


def message_class(types: Any, name: str) -> Any:
    """Return the plain protobuf class of this name in a module of a client library or of protoc."""
    message = getattr(types, name)
    return message.pb() if hasattr(message, "pb") else message


def methods_of(
    service: str, types: Any, *rows: tuple[str, Unary] | tuple[str, Unary, type[Message]]
) -> list[Method]:
    """Declare the unary RPCs of a service: name, handler, and class of the reply.

    `types` has the messages: NAMERequest, and NAMEResponse for a row without a class of the reply.
    """
    return [
        Method(
            service,
            name,
            message_class(types, f"{name}Request"),
            reply[0] if reply else message_class(types, f"{name}Response"),
            handler,
        )
        for name, handler, *reply in rows
    ]


def grpc_handlers(methods: Iterable[Method]) -> list[grpc.GenericRpcHandler]:
    """Return generic handlers for a `grpc.aio` server: one per service and version, and one for unknown
    methods.

    Vertex's v1beta1 messages have the fields of v1 with the same numbers, and additional fields.
    """
    services: dict[str, dict[str, grpc.RpcMethodHandler]] = {}
    methods, beta = list(methods), BetaOperations()
    for method in methods:
        services.setdefault(method.service, {})[method.name] = _handler(method, beta.read)
        if method.service.startswith(V1):
            name = method.service.replace(V1, BETA)
            services.setdefault(name, {})[method.name] = _handler(method, beta.begun)
    served = [grpc.method_handlers_generic_handler(name, handlers) for name, handlers in services.items()]
    return [*served, _NotServed(methods)]


def _handler(method: Method, finish: Callable[[Any], Any]) -> grpc.RpcMethodHandler:
    """Wrap one method. `finish` converts a reply for its client."""
    make = grpc.unary_unary_rpc_method_handler if method.unary else grpc.stream_stream_rpc_method_handler
    return make(
        _unary(method) if method.unary else _bidi(method),
        response_serializer=lambda reply: _serialize(finish(reply)),
    )


def not_served(subject: str, methods: Iterable[Method]) -> WireError:
    """Return UNIMPLEMENTED that lists the services."""
    services = sorted({method.service.rpartition(".")[2] for method in methods})
    return WireError(
        code_pb2.UNIMPLEMENTED, f"The emulator does not serve {subject}. It serves {', '.join(services)}."
    )


class _NotServed(grpc.GenericRpcHandler):
    """Handler of every unknown method."""

    def __init__(self, methods: Sequence[Method]) -> None:
        self._methods = methods

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        subject = handler_call_details.method.removeprefix("/")

        async def refuse(_requests: AsyncIterator[bytes], context: Context) -> None:
            await _abort(context, not_served(subject, self._methods))

        # Use a bidirectional stream: clients of any kind of method read its status.
        return grpc.stream_stream_rpc_method_handler(refuse)


def _serialize(reply: Message | RawReply | HttpReply) -> bytes:
    if isinstance(reply, RawReply):
        return reply.data
    return bytes((reply.body if isinstance(reply, HttpReply) else reply).SerializeToString())


def _unary(method: Method) -> Callable[[Any, Context], Awaitable[Message]]:
    async def serve(request: bytes, context: Context) -> Message:
        assert method.unary is not None
        try:
            return await method.unary(await _parsed(method, request))
        except WireError as error:
            return await _abort(context, error)
        except Exception:
            log.exception("%s.%s failed", method.service, method.name)
            return await _abort(context, internal())

    return serve


def _bidi(method: Method) -> Callable[[AsyncIterator[Any], Context], AsyncIterator[Message]]:
    async def serve(requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[Message]:
        assert method.bidi is not None
        try:
            async for response in method.bidi(await _parsed(method, request) async for request in requests):
                yield response
        except WireError as error:
            await _abort(context, error)
        except Exception:
            log.exception("%s.%s failed", method.service, method.name)
            await _abort(context, internal())

    return serve


async def _parsed(method: Method, request: bytes) -> Message:
    """Parse a request. Raises WireError."""
    try:
        if len(request) < LARGE:
            return method.request.FromString(request)
        message = await asyncio.to_thread(method.request.FromString, request)
    except DecodeError as error:
        raise invalid(("", f"The request can't be decoded: {error}")) from error
    if await asyncio.to_thread(_has_more_values, message, MOST_VALUES):
        raise invalid(("", f"The request has more than {MOST_VALUES:,} values."))
    return message


def _has_more_values(message: Message, most: int) -> bool:
    """Return whether the message has more than `most` values at any depth."""
    count, left = 0, [message]
    while left:
        for field, value in left.pop().ListFields():
            values = value if field.is_repeated else (value,)
            count += len(values)
            if count > most:
                return True
            # Of a map only the values can be messages.
            items = values.values() if hasattr(values, "values") else values
            left += [item for item in items if isinstance(item, Message)]
    return False


def internal() -> WireError:
    """Return INTERNAL for an internal error of the emulator, whose log shows the cause."""
    return WireError(
        code_pb2.INTERNAL, "The emulator failed on this call; `vxtui emulator logs` shows the reason."
    )


async def _abort(context: Context, error: WireError) -> Any:
    status = error.status()
    trailer = (("grpc-status-details-bin", status.SerializeToString()),)
    code = next(c for c in grpc.StatusCode if c.value[0] == error.code)
    await context.abort(code, error.message, trailing_metadata=trailer)

"""The limit on the size of a service's reply, so that no reply fills the memory."""

from __future__ import annotations

import zlib
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from tui.backends.errors import ReplyTooLarge
from tui.domain.document.decoding import has_more_values

if TYPE_CHECKING:
    import httpx

MOST_BYTES = 32 * 1024 * 1024
"""Maximum size of a reply in bytes, decompressed."""
MOST_TEXT = "32 MB"
_MOST_OF_REQUESTS, _MOST_OF_REQUESTS_TEXT = 8 * 1024 * 1024, "8 MB"
"""Maximum size of a reply to a session of `requests`: a list of buckets, or one object."""
MOST_VALUES = 1_000_000
"""Maximum number of JSON values in a reply."""
_PIECE = 256 * 1024


async def decompressed(reply: httpx.Response) -> AsyncGenerator[bytes, None]:
    """Yield the content of an open reply in chunks of a bounded size; httpx does not bound the size.

    Raises httpx.HTTPError.
    """
    import httpx

    encoding = reply.headers.get("content-encoding", "identity").lower()
    if encoding not in {"gzip", "identity"}:
        raise httpx.DecodingError(f"the reply must be compressed with gzip, not {encoding[:40]!r}")
    decoder = zlib.decompressobj(zlib.MAX_WBITS | 16)
    async for raw in reply.aiter_raw():
        left = raw
        while left:
            try:
                yield left if encoding == "identity" else decoder.decompress(left, _PIECE)
            except zlib.error as error:
                raise httpx.DecodingError(f"the reply can't be decompressed: {error}") from error
            left = decoder.unconsumed_tail


async def body_of(reply: httpx.Response, action: str) -> bytes:
    """Read the body of an open reply. `action` completes "Can't …". Raises ReplyTooLarge, httpx.HTTPError."""
    content = bytearray()
    async for piece in decompressed(reply):
        content += piece
        if len(content) > MOST_BYTES:
            raise ReplyTooLarge(action, MOST_TEXT)
    return bytes(content)


def limited(session: Any) -> Any:
    """Limit the JSON replies of a session of `requests`; a reply above a limit raises ReplyTooLarge."""
    from requests.adapters import HTTPAdapter

    class LimitedAdapter(HTTPAdapter):
        def send(self, request: Any, stream: bool = False, *args: Any, **options: Any) -> Any:
            reply = super().send(request, True, *args, **options)
            if not stream:
                content, action = bytearray(), f"read {request.url.partition('?')[0]}"
                for piece in reply.iter_content(_PIECE):
                    content += piece
                    if len(content) > _MOST_OF_REQUESTS:
                        reply.close()
                        raise ReplyTooLarge(action, _MOST_OF_REQUESTS_TEXT)
                if has_more_values(content, MOST_VALUES):
                    raise ReplyTooLarge(action, f"{MOST_VALUES:,} values")
                reply._content = bytes(content)
            return reply

    for prefix in ("https://", "http://"):
        session.mount(prefix, LimitedAdapter())
    return session

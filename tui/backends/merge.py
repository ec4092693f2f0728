"""Runs several calls or async generators at the same time and merges their results."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from tui.backends.errors import BackendError

K = TypeVar("K")
T = TypeVar("T")
AHEAD = 2
"""Number of items of each source that may wait for the reader."""


async def merged(
    sources: Mapping[K, AsyncGenerator[T, None]], at_once: int = 0
) -> AsyncGenerator[tuple[K, T], None]:
    """Yield the items of all sources with their keys as they arrive; read at most `at_once` sources
    concurrently.

    Closing the generator closes the sources. An error from a source ends the other sources and is raised
    here.
    """
    ready: asyncio.Queue[tuple[K, T] | BaseException | None] = asyncio.Queue(AHEAD * max(1, len(sources)))
    gate = asyncio.Semaphore(at_once or max(1, len(sources)))

    async def read(key: K, source: AsyncGenerator[T, None]) -> None:
        try:
            async with gate, aclosing(source):
                async for item in source:
                    await ready.put((key, item))
        except Exception as error:  # noqa: BLE001 - it is raised again by the reader
            await ready.put(error)
        else:
            await ready.put(None)

    tasks = [asyncio.create_task(read(key, source)) for key, source in sources.items()]
    try:
        waiting = len(tasks)
        while waiting:
            item = await ready.get()
            if isinstance(item, BaseException):
                raise item
            if item is None:
                waiting -= 1
            else:
                yield item
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def answers_of(
    question: Callable[[K], Awaitable[T]], keys: Sequence[K]
) -> tuple[list[tuple[K, T]], dict[K, BackendError]]:
    """Return the answers for these keys in key order, and the errors of the other keys."""
    answers = await asyncio.gather(*(question(key) for key in keys), return_exceptions=True)
    results: list[tuple[K, T]] = []
    errors: dict[K, BackendError] = {}
    for key, answer in zip(keys, answers, strict=True):
        if isinstance(answer, BackendError):
            errors[key] = answer
        elif isinstance(answer, BaseException):
            raise answer
        else:
            results.append((key, answer))
    return results, errors


async def all_or_enough(
    questions: Sequence[Coroutine[Any, Any, T]], enough: Callable[[T], bool]
) -> Sequence[T]:
    """Return all answers in order, or only the first answer that is `enough`, as soon as it arrives. If no
    answer is enough, an error from one of the questions is raised."""
    tasks = [asyncio.create_task(question) for question in questions]
    waiting = set(tasks)
    try:
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if task.exception() is None and enough(task.result()):
                    return [task.result()]
        return [task.result() for task in tasks]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

"""The `log` subresource of a pod."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from tui.emulator.kubernetes.errors import BadRequest, FieldCause, Invalid
from tui.emulator.kubernetes.node.kubelet.container import PodContainer
from tui.emulator.kubernetes.node.kubelet.kubelet import Kubelet
from tui.emulator.kubernetes.node.log_files import ContainerLogLine, RunLog
from tui.emulator.kubernetes.resources import ApiResource, Obj
from tui.emulator.kubernetes.times import NANOSECONDS, parse, rfc3339_nano
from tui.emulator.paths import AttemptDir

FOLLOW_SECONDS = 0.1
"""Poll interval for new lines."""
_TRUE = {"true", "1", "t", "T", "TRUE", "True", ""}


_OPTIONS = ApiResource("", "v1", "pods", "PodLogOptions", custom=False)


@dataclass(frozen=True, slots=True)
class LogOptions:
    """PodLogOptions; times in nanoseconds since the epoch."""

    container: str = ""
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    since: int = 0
    tail: int | None = None
    limit: int | None = None

    @classmethod
    def of(cls, query: Mapping[str, str], pod: str) -> LogOptions:
        """Parse the options. Raises Invalid with the API server's causes, BadRequest for non-numbers."""
        causes: list[FieldCause] = []

        def number(name: str, least: int) -> int | None:
            text = query.get(name)
            if text is None:
                return None
            if not re.fullmatch(r"-?\d+", text):
                raise BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax')
            if int(text) >= least:
                return int(text)
            relation = "greater than or equal to 0" if least == 0 else "greater than 0"
            causes.append(FieldCause(name, f"Invalid value: {text}: must be {relation}"))
            return None

        seconds, tail, limit = number("sinceSeconds", 1), number("tailLines", 0), number("limitBytes", 1)
        since = 0
        if "sinceTime" in query and "sinceSeconds" in query:
            why = "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"
            causes.append(FieldCause("[]", why, "FieldValueForbidden"))
        elif "sinceTime" in query:
            try:
                since = parse(query["sinceTime"])
            except ValueError:
                text = f'Invalid value: "{query["sinceTime"]}": must be a time as in RFC 3339'
                causes.append(FieldCause("sinceTime", text))
        elif seconds is not None:
            since = time.time_ns() - seconds * NANOSECONDS
        if causes:
            raise Invalid.of(_OPTIONS, pod, causes)
        flags = {name: query.get(name, "false") in _TRUE for name in ("follow", "previous", "timestamps")}
        return cls(query.get("container", ""), since=since, tail=tail, limit=limit, **flags)


def read_log(kubelet: Kubelet, pod: Obj, options: LogOptions) -> AsyncIterator[bytes]:
    """Stream the log. Raises BadRequest if there is none."""
    container = chosen_container(pod, options.container)
    worker = kubelet.workers.get(str(pod["metadata"]["uid"]))
    if worker is None:
        # The pod is not bound to a node yet.
        return _nothing()
    chosen = next(candidate for candidate in worker.containers if candidate.name == container)
    run = _run(chosen, pod["metadata"]["name"], options.previous)
    return _stream(chosen, run, options)


def chosen_container(pod: Obj, container: str) -> str:
    """Return the container's name, by default the pod's only container. Raises BadRequest."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    main = [str(declared["name"]) for declared in spec.get("containers") or ()]
    init = [str(declared["name"]) for declared in spec.get("initContainers") or ()]
    if not container:
        if len(main) == 1:
            return main[0]
        text = f"a container name must be specified for pod {name}, choose one of: [{' '.join(main)}]"
        raise BadRequest(text + (f" or one of the init containers: [{' '.join(init)}]" if init else ""))
    if container not in main and container not in init:
        raise BadRequest(f"container {container} is not valid for pod {name}")
    return container


def _run(container: PodContainer, pod: str, previous: bool) -> AttemptDir:
    """Return the run to read. Raises BadRequest with the kubelet's message."""
    state, last = container.state.state, container.state.last.get("terminated")
    where = f'container "{container.name}" in pod "{pod}"'
    if previous:
        number = container.number if "waiting" in state else container.number - 1
        if last is None or number < 1:
            raise BadRequest(f"previous terminated {where} not found")
        return container.pod.folder.run(container.name, number)
    if container.number and ("waiting" not in state or last is not None):
        return container.pod.folder.run(container.name, container.number)
    reason = (state.get("waiting") or {}).get("reason", "")
    if "terminated" in state:
        raise BadRequest(f"{where} is terminated")
    known = {"ErrImagePull": "image can't be pulled", "ImagePullBackOff": "trying and failing to pull image"}
    raise BadRequest(f"{where} is waiting to start: {known.get(reason, reason)}")


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""


async def _stream(container: PodContainer, run: AttemptDir, options: LogOptions) -> AsyncIterator[bytes]:
    left = options.limit
    over = _is_over(container, run)
    # Seeking in a long log takes a while.
    log = await asyncio.to_thread(
        RunLog, run, container.name, since=options.since, tail=options.tail, ended=over
    )
    try:
        while True:
            # Check before reading, so that the last read gets everything.
            over = _is_over(container, run)
            while lines := log.read(over):
                data = b"".join(_encode(line, options.timestamps) for line in lines)
                if left is not None:
                    data = data[:left]
                    left -= len(data)
                yield data
                if left == 0:
                    return
                await asyncio.sleep(0)
            if over or not options.follow:
                return
            await asyncio.sleep(FOLLOW_SECONDS)
    finally:
        log.close()


def _is_over(container: PodContainer, run: AttemptDir) -> bool:
    """Return whether the run has ended, so that its output is complete."""
    return container.number != run.number or not container.active


def _encode(line: ContainerLogLine, timestamps: bool) -> bytes:
    if timestamps and line.starts:
        return f"{rfc3339_nano(line.time)} ".encode() + line.data
    return line.data

"""A cluster of one PyTorchJob whose pods, logs and faults a test decides, over HTTP as a real one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from tests.wire.kubernetes.told_server import kubeconfig, serving, status
from tui.backends.interface import ContextInfo
from tui.backends.kubernetes.backend import KubernetesBackend
from tui.backends.kubernetes.login.cluster import KubeconfigCluster

SECOND = 10**9
START = 1_764_093_600 * SECOND
JOB = "clusters/gke_p_l-c-1/namespaces/team/pytorchjobs/train"
_GROUPS = {"groups": [{"name": "kubeflow.org", "versions": [{"version": "v1"}]}]}
_RESOURCES = {
    "resources": [
        {"name": "pytorchjobs", "kind": "PyTorchJob", "namespaced": True, "verbs": ["get", "list", "watch"]}
    ]
}


def when(stamp: int) -> str:
    """A time as metadata has it."""
    return f"{datetime.fromtimestamp(stamp // SECOND, UTC):%Y-%m-%dT%H:%M:%SZ}"


@dataclass
class Run:
    """One run of a container: its log file, and how it ended."""

    started: int
    lines: list[tuple[int, str]] = field(default_factory=list)
    rotated: int = 0
    """So many lines are not in the file any more."""
    code: int | None = None
    finished: int = 0
    reason: str = ""
    """Why it ended, where that is not said by its code."""


@dataclass
class Pod:
    """A pod of the job, of one container."""

    name: str
    group: str
    index: int
    uid: str
    owner: str
    created: int = START
    runs: list[Run] = field(default_factory=list)
    over: bool = False
    deleted: bool = False

    def write(self, stamp: int, text: str) -> None:
        """The container writes a line."""
        self.runs[-1].lines.append((stamp, text))

    @property
    def running(self) -> bool:
        return bool(self.runs) and self.runs[-1].code is None

    def object(self, version: int) -> dict[str, Any]:
        """As the API shows it."""
        current = _state(self.runs[-1]) if self.runs else {"waiting": {"reason": "ContainerCreating"}}
        last = _state(self.runs[-2]) if len(self.runs) > 1 else {}
        container = {
            "name": "pytorch", "restartCount": max(0, len(self.runs) - 1), "state": current,
            "lastState": last,
        }  # fmt: skip
        phase = "Pending" if not self.runs else "Running"
        if self.over:
            phase = "Succeeded" if self.runs[-1].code == 0 else "Failed"
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": self.name,
                "namespace": "team",
                "uid": self.uid,
                "resourceVersion": str(version),
                "creationTimestamp": when(self.created),
                "labels": {
                    "training.kubeflow.org/job-name": "train",
                    "training.kubeflow.org/replica-type": self.group,
                    "training.kubeflow.org/replica-index": str(self.index),
                },
                "ownerReferences": [
                    {"kind": "PyTorchJob", "name": "train", "uid": self.owner, "controller": True}
                ],
            },
            "spec": {"containers": [{"name": "pytorch"}], "nodeName": "n1"},
            "status": {"phase": phase, "containerStatuses": [container]},
        }


def _state(run: Run) -> dict[str, Any]:
    if run.code is None:
        return {"running": {"startedAt": when(run.started)}}
    reason = run.reason or ("Completed" if run.code == 0 else "Error")
    return {
        "terminated": {
            "startedAt": when(run.started), "finishedAt": when(run.finished), "exitCode": run.code,
            "reason": reason,
        }
    }  # fmt: skip


@dataclass
class PodServer:
    """See the module. Change it between calls, then `tell` the watches."""

    pods: list[Pod] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    conditions: list[dict[str, Any]] = field(default_factory=list)
    uid: str = "job-1"
    created: int = START
    version: int = 10
    replicas: tuple[int, int] = (1, 1)
    cuts: list[int] = field(default_factory=list)
    """Bytes after which the next streams of logs break, in the middle of a line."""
    failures: list[int] = field(default_factory=list)
    """Statuses of the next requests of logs."""
    watch_seconds: float = 60.0
    """After which each watch breaks."""
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Requests of logs, with their parameters."""
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def add(self, group: str, index: int, uid: str = "", *, started: int = START) -> Pod:
        """A pod that runs."""
        name = f"train-{group}-{index}"
        pod = Pod(name, group, index, uid or f"uid-{name}", self.uid, created=started, runs=[Run(started)])
        self.pods.append(pod)
        return pod

    def end(self, pod: Pod, stamp: int, code: int = 0, *, restart: bool = False) -> None:
        """Its container ends, and perhaps starts again."""
        run = pod.runs[-1]
        run.code, run.finished = code, stamp
        if restart:
            pod.runs.append(Run(stamp + SECOND))
        else:
            pod.over = True

    def finish(self, stamp: int, kind: str = "Succeeded") -> None:
        """The job ends."""
        self.conditions.append(
            {
                "type": kind, "status": "True", "reason": f"PyTorchJob{kind}", "message": f"it {kind}",
                "lastTransitionTime": when(stamp),
            }
        )  # fmt: skip

    async def tell(self) -> None:
        """Let the watches and the streams look."""
        self.version += 1
        async with self.changed:
            self.changed.notify_all()

    # What is served

    async def answer(self, request: Request) -> Response:
        """Any request."""
        path, params = request.url.path, dict(request.query_params)
        if path == "/apis":
            return JSONResponse(_GROUPS)
        if path == "/apis/kubeflow.org/v1":
            return JSONResponse(_RESOURCES)
        if "selfsubjectaccessreviews" in path:
            return JSONResponse({"status": {"allowed": True}}, 201)
        *_, collection = path.split("/")
        if collection == "log":
            return await self._log(path.split("/")[-2], params)
        if collection in {"pods", "events", "pytorchjobs"}:
            if params.get("watch") == "true":
                return StreamingResponse(self._watch(collection, int(params["resourceVersion"])))
            meta = {"resourceVersion": str(self.version)}
            return JSONResponse({"metadata": meta, "items": [*self._objects(collection).values()]})
        kind, name = path.split("/")[-2:]
        found = self._objects(kind).get(name)
        return status(404, "NotFound", f"{kind} {name} not found") if found is None else JSONResponse(found)

    def _objects(self, kind: str) -> dict[str, dict[str, Any]]:
        if kind == "pods":
            return {pod.name: pod.object(self.version) for pod in self.pods if not pod.deleted}
        if kind == "events":
            return {event["metadata"]["name"]: event for event in self.events}
        if kind != "pytorchjobs" or not self.uid:
            return {}
        groups = zip(("Master", "Worker"), self.replicas, strict=True)
        template = {"spec": {"containers": [{"name": "pytorch", "image": "i"}]}}
        job = {
            "apiVersion": "kubeflow.org/v1",
            "kind": "PyTorchJob",
            "metadata": {
                "name": "train", "namespace": "team", "uid": self.uid, "resourceVersion": str(self.version),
                "creationTimestamp": when(self.created),
            },
            "spec": {
                "pytorchReplicaSpecs": {
                    name: {"replicas": count, "template": template} for name, count in groups
                }
            },
            "status": {"conditions": self.conditions, "startTime": when(self.created)},
        }  # fmt: skip
        return {"train": job}

    async def _watch(self, kind: str, since: int) -> AsyncIterator[bytes]:
        known: dict[str, dict[str, Any]] = {}
        told = -1
        loop = asyncio.get_running_loop()
        end = loop.time() + self.watch_seconds
        while loop.time() < end:
            if told != self.version:
                told = self.version
                now = self._objects(kind)
                for name, obj in now.items():
                    if known.get(name) != obj:
                        yield _event(
                            "MODIFIED", {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(told)}}
                        )
                for name in known.keys() - now.keys():
                    # With its last status, which no event before may have told.
                    gone = next((pod.object(told) for pod in self.pods if pod.name == name), known[name])
                    yield _event(
                        "DELETED", {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(told)}}
                    )
                known = now
            await self._wait(min(0.2, max(0.0, end - loop.time())))
        raise ConnectionError("the watch breaks")

    async def _log(self, name: str, params: dict[str, str]) -> Response:
        self.requests.append((name, params))
        if self.failures:
            code = self.failures.pop(0)
            if code:
                return status(code, "Fault", "a fault")
        pod = next((each for each in self.pods if each.name == name and not each.deleted), None)
        if pod is None:
            return status(404, "NotFound", f'pods "{name}" not found')
        previous = params.get("previous") == "true"
        if not pod.runs or (previous and len(pod.runs) < 2):
            return status(400, "BadRequest", f'container "pytorch" in pod "{name}" is waiting to start')
        run = pod.runs[-2 if previous else -1]
        cut = self.cuts.pop(0) if self.cuts else 0
        stream = self._lines(pod, run, params, cut)
        return StreamingResponse(stream, media_type="text/plain")

    async def _lines(self, pod: Pod, run: Run, params: dict[str, str], cut: int) -> AsyncIterator[bytes]:
        since = (
            int(datetime.fromisoformat(params["sinceTime"]).timestamp()) * SECOND
            if "sinceTime" in params
            else 0
        )
        at = run.rotated
        if "tailLines" in params:
            at = max(at, len(run.lines) - int(params["tailLines"]))
        left = cut or 1 << 40
        while True:
            lines = run.lines[at:]
            at += len(lines)
            data = b"".join(written(*line) for line in lines if line[0] >= since)
            if "limitBytes" in params:
                data = data[: int(params["limitBytes"])]
            if data:
                yield data[:left]
                left -= len(data)
            if left <= 0:
                raise ConnectionAbortedError("the stream breaks")
            if (
                params.get("follow") != "true"
                or (run.code is not None and at >= len(run.lines))
                or pod.deleted
            ):
                return
            await self._wait(0.5)

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds), self.changed:
                await self.changed.wait()
        except TimeoutError:
            pass


def _event(kind: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def written(stamp: int, text: str) -> bytes:
    """A line as the kubelet writes it."""
    moment = datetime.fromtimestamp(stamp // SECOND, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{stamp % SECOND:09}Z {text}\n".encode()


@asynccontextmanager
async def opened(server: PodServer, folder: Path, *, local: bool = True) -> AsyncIterator[KubernetesBackend]:
    """A backend connected to it; `local`: as often as it asks a cluster of this machine."""
    async with serving(server.answer) as url:
        info = ContextInfo("cluster", "", ("team",), local=local, watched=True)
        cluster = KubeconfigCluster(kubeconfig(folder, url))
        cluster.local = local
        async with KubernetesBackend(info, cluster, ("team",)) as backend:
            yield backend

"""MetadataService: contexts, executions, artifacts, and the links between them.

Vertex does not document the following behaviour, so the emulator chooses it: a context that would be its own
ancestor is refused; repeating a link changes nothing; a new parent leaves a context's etag, because the SDK
continues with its etag; an event gets the time of its arrival.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from google.cloud.aiplatform_v1.types import event as event_types
from google.cloud.aiplatform_v1.types import lineage_subgraph, metadata_service

from tui.emulator.experiments.kinds import ARTIFACT, CONTEXT, EXECUTION, METADATA, SCHEMA, STORE
from tui.emulator.experiments.resource_service import ResourceServer
from tui.emulator.experiments.store import ASSOCIATION, ATTRIBUTION, CHILD, EVENT, Link, ResourceStore
from tui.emulator.messages import Pb, copied, current_time
from tui.emulator.rpc.methods import Method, invalid, methods_of
from tui.emulator.vertex.operations import Operations

EventPb = event_types.Event.pb()
SubgraphPb = lineage_subgraph.LineageSubgraph.pb()
MAX_HOPS = 100
"""Maximum depth of an artifact's lineage, as documented; 0 also requests this depth."""
_t = metadata_service


class MetadataServer:
    """RPC handlers; they take and return plain protobuf."""

    def __init__(self, store: ResourceStore, operations: Operations) -> None:
        self._store = store
        kinds = STORE, CONTEXT, EXECUTION, ARTIFACT, SCHEMA
        self._servers = {kind: ResourceServer(kind, store, operations) for kind in kinds}

    def methods(self) -> list[Method]:
        """Return the RPCs of this service."""
        return [
            *(method for server in self._servers.values() for method in server.methods()),
            *methods_of(
                METADATA,
                metadata_service,
                ("AddContextArtifactsAndExecutions", self.add_members),
                ("AddContextChildren", self.add_children),
                ("RemoveContextChildren", self.remove_children),
                ("AddExecutionEvents", self.add_events),
                ("QueryContextLineageSubgraph", self.context_lineage, SubgraphPb),
                ("QueryExecutionInputsAndOutputs", self.inputs_and_outputs, SubgraphPb),
                ("QueryArtifactLineageSubgraph", self.artifact_lineage, SubgraphPb),
            ),
        ]

    async def add_members(self, request: Pb) -> Pb:
        """Add artifacts and executions to a context."""
        context = self._find(CONTEXT, request.context)
        links = [
            Link(kind, context.name, self._find(of, name).name)
            for kind, of, names in (
                (ATTRIBUTION, ARTIFACT, request.artifacts),
                (ASSOCIATION, EXECUTION, request.executions),
            )
            for name in names
        ]
        await self._store.put(links=links)
        return _t.AddContextArtifactsAndExecutionsResponse.pb()()

    async def add_children(self, request: Pb) -> Pb:
        """Make contexts children of another context."""
        context = self._find(CONTEXT, request.context)
        above = {context.name, *self._ancestors(context)}
        changed = []
        for name in request.child_contexts:
            child = self._find(CONTEXT, name)
            if child.name in above:
                raise invalid(
                    ("child_contexts", f"{name} must not be the context itself or an ancestor of it")
                )
            if context.name not in child.parent_contexts:
                changed_child = copied(child)
                changed_child.parent_contexts.append(context.name)
                changed.append(changed_child)
        links = [Link(CHILD, context.name, pb.name) for pb in changed]
        await self._store.put(*changed, links=links)
        return _t.AddContextChildrenResponse.pb()()

    async def remove_children(self, request: Pb) -> Pb:
        context = self._find(CONTEXT, request.context)
        changed = []
        for name in request.child_contexts:
            child = copied(self._find(CONTEXT, name))
            if context.name in child.parent_contexts:
                child.parent_contexts.remove(context.name)
                changed.append(child)
        await self._store.put(*changed, unlink=[Link(CHILD, context.name, pb.name) for pb in changed])
        return _t.RemoveContextChildrenResponse.pb()()

    async def add_events(self, request: Pb) -> Pb:
        """Record which artifacts an execution has read and written."""
        execution = self._find(EXECUTION, request.execution)
        links = []
        for requested in request.events:
            event = EventPb(artifact=self._find(ARTIFACT, requested.artifact).name, execution=execution.name)
            event.type_ = requested.type_
            event.labels.update(requested.labels)
            event.event_time.CopyFrom(current_time())
            links.append(Link(EVENT, execution.name, event.artifact, event.SerializeToString()))
        await self._store.put(links=links)
        return _t.AddExecutionEventsResponse.pb()()

    async def context_lineage(self, request: Pb) -> Pb:
        """Return the artifacts and executions of a context, and the events between them."""
        context = self._find(CONTEXT, request.context)
        artifacts = {link.target for link in self._store.links(ATTRIBUTION, context.name)}
        executions = {link.target for link in self._store.links(ASSOCIATION, context.name)}
        events = [
            link for name in executions for link in self._store.links(EVENT, name) if link.target in artifacts
        ]
        return self._graph(artifacts, executions, events)

    async def inputs_and_outputs(self, request: Pb) -> Pb:
        """Return an execution with its events and their artifacts."""
        execution = self._find(EXECUTION, request.execution)
        events = self._store.links(EVENT, execution.name)
        return self._graph({link.target for link in events}, {execution.name}, events)

    async def artifact_lineage(self, request: Pb) -> Pb:
        """Return the ancestors and descendants of an artifact, up to `max_hops` events away."""
        if not 0 <= request.max_hops <= MAX_HOPS:
            raise invalid(("max_hops", f"must be 0 to {MAX_HOPS}, not {request.max_hops}"))
        if request.filter:
            raise invalid(("filter", "is not served by the emulator"))
        seen = {self._find(ARTIFACT, request.artifact).name}
        edges: dict[tuple[str, str], Link] = {}
        edge, executions = set(seen), set[str]()
        for hop in range(request.max_hops or MAX_HOPS):
            if hop % 2 == 0:
                links = [link for name in edge for link in self._store.linked_to(EVENT, name)]
                edge = {link.source for link in links} - executions
                executions |= edge
            else:
                links = [link for name in edge for link in self._store.links(EVENT, name)]
                edge = {link.target for link in links} - seen
                seen |= edge
            edges |= {(link.source, link.target): link for link in links}
            if not edge:
                break
        return self._graph(seen, executions, edges.values())

    def _graph(self, artifacts: Iterable[str], executions: Iterable[str], events: Iterable[Link]) -> Pb:
        return SubgraphPb(
            artifacts=self._resources(artifacts),
            executions=self._resources(executions),
            events=[EventPb.FromString(link.body) for link in events],
        )

    def _resources(self, names: Iterable[str]) -> Sequence[Pb]:
        resources = [self._store.get(name) for name in sorted(names)]
        return [pb for pb in resources if pb is not None]

    def _ancestors(self, context: Pb) -> set[str]:
        ancestors: set[str] = set()
        left = list(context.parent_contexts)
        while left:
            name = left.pop()
            above = self._store.get(name)
            if name not in ancestors and above is not None:
                ancestors.add(name)
                left += above.parent_contexts
        return ancestors

    def _find(self, kind: object, name: str) -> Pb:
        return next(server for served, server in self._servers.items() if served is kind).find(name)

"""Makes the backend of a context in the settings. Slow imports are deferred to `connect`."""

from __future__ import annotations

from tui.backends.group import GroupBackend
from tui.backends.interface import Backend, ContextInfo
from tui.backends.vertex.backend import VertexBackend
from tui.backends.vertex.transport.connect import CloudEndpoint, LocalEndpoint
from tui.config.settings import Context, Settings, members_of
from tui.emulator.client import default_kubernetes_state, default_state_dir


def open_backend(context: Context, settings: Settings) -> Backend:
    """Return an unconnected backend for `context`.

    The local context always lists all regions. A profile without a region is launched in the first configured
    region.
    """
    if context.kind == "group":
        members = [open_backend(member, settings) for member in members_of(settings, context)]
        return GroupBackend(context.name, members)
    if context.kind == "kubernetes":
        return _cluster(context)
    regions = tuple(context.regions)
    if context.kind == "local":
        state = default_state_dir()
        info = ContextInfo(context.name, context.project, regions, str(state.socket), local=True)
        return VertexBackend(info, LocalEndpoint(state))
    info = ContextInfo(context.name, context.project, regions, "googleapis.com")
    return VertexBackend(info, CloudEndpoint())


def _cluster(context: Context) -> Backend:
    """Return the backend of a cluster, whose address is known only after it connects.

    The modules for clusters are imported here so that other contexts start without them.
    """
    from tui.backends.kubernetes.backend import KubernetesBackend
    from tui.backends.kubernetes.login.cluster import Cluster, KubeconfigCluster
    from tui.backends.kubernetes.login.gke import GkeCluster
    from tui.backends.kubernetes.login.local import LocalCluster

    own = context.name, context.project, tuple(context.regions)
    info = ContextInfo(*own, local=context.emulated, family="kubernetes", watched=True)
    cluster: Cluster
    if context.emulated:
        cluster = LocalCluster(default_kubernetes_state())
    elif context.gke:
        cluster = GkeCluster(context.gke)
    else:
        cluster = KubeconfigCluster(context.kubeconfig, context.cluster)
    return KubernetesBackend(info, cluster, context.namespaces)

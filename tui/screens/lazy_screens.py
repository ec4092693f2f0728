"""Screens that the first paint does not need: each is imported when it is first opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from textual.command import Provider
    from textual.screen import Screen

    from tui.kinds.kind import Kind
    from tui.session import Session


def profiles() -> Screen[Any]:
    """Saved profiles."""
    from tui.screens.profiles.screen import ProfilesScreen

    return ProfilesScreen()


def fleet() -> Screen[Any]:
    """Every active GPU."""
    from tui.screens.fleet.screen import FleetScreen

    return FleetScreen()


def quotas() -> Screen[Any]:
    """Training quotas."""
    from tui.screens.quotas.grid import QuotaGridScreen

    return QuotaGridScreen()


def cluster_quotas() -> Screen[Any]:
    """What a cluster has, and what its queues may take."""
    from tui.screens.quotas.cluster import ClusterQuotasScreen

    return ClusterQuotasScreen()


def resources() -> Screen[Any]:
    """Persistent resources."""
    from tui.screens.resources.screen import ResourcesScreen

    return ResourcesScreen()


def schedules() -> Screen[Any]:
    """Pipelines that run again and again."""
    from tui.screens.schedules.screen import SchedulesScreen

    return SchedulesScreen()


def studies() -> Screen[Any]:
    """Studies and pipelines."""
    from tui.screens.studies.screen import StudiesScreen

    return StudiesScreen()


def events() -> Screen[Any]:
    """Events of this console."""
    from tui.screens.events import EventsScreen

    return EventsScreen()


def models() -> Screen[Any]:
    """Models and their versions."""
    from tui.screens.serving.models import ModelsScreen

    return ModelsScreen()


def endpoints() -> Screen[Any]:
    """Endpoints and what is deployed to them."""
    from tui.screens.serving.endpoints import EndpointsScreen

    return EndpointsScreen()


def job(
    session: Session, job_name: str, log_folder: Path, replica: str, kind: Kind, *, tab: str = ""
) -> Screen[Any]:
    """One job of this kind. Its plots load numpy."""
    from tui.screens.job.screen import screen_class

    return screen_class(kind)(session, job_name, log_folder, replica, kind, tab=tab)


def palette() -> type[Provider]:
    """The commands of the palette."""
    from tui.screens.commands import RegistryProvider

    return RegistryProvider

"""Settings and contexts: `~/.config/vxtui/config.yaml`, all optional.

The classes are plain dataclasses: an unchanged file is read from the cache, so that a start needs neither
parser nor validation (`tui.config.settings_file`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from tui.config.paths import config_dir

LOCAL = "local"
LOCAL_KUBERNETES = "local-k8s"
ALL = "all"
"""The group of all contexts, which exists if there is more than one."""
LEAST_LOG_MEGABYTES = 16


class SettingsError(Exception):
    """The settings can't be used. Each problem has one line with file, line and field."""


@dataclass
class Context:
    """A context: a Google project with its regions, a cluster with its namespaces, or this machine."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    name: str
    kind: Literal["vertex", "kubernetes", "local", "group"] = "vertex"
    """`vertex` for Google's service, `kubernetes` for a cluster, `local` for the emulator here, `group` for
    several contexts at once."""

    project: str = LOCAL
    """Project id. For a cluster, the project of its Cloud Logging and Monitoring, if it has them."""

    regions: list[str] = field(default_factory=lambda: ["us-central1"])
    """Regions to list; the first is where a profile without a region is launched."""

    namespaces: list[str] = field(default_factory=list)
    """Namespaces of a cluster to list; the first is where a profile without a namespace is launched. If
    empty, all readable namespaces are listed, and a launch uses the namespace of the kubeconfig."""

    kubeconfig: str = ""
    """File of a cluster's login; if empty, the first that exists of $KUBECONFIG, ~/.kube/config and the pod's
    own account."""

    cluster: str = ""
    """Name of the kubeconfig's context; empty means its current one."""

    gke: str = ""
    """A GKE cluster, reached with Google's credentials instead of a kubeconfig:
    projects/PROJECT/locations/LOCATION/clusters/CLUSTER."""

    members: list[str] = field(default_factory=list)
    """Names of the contexts of a group, whose jobs are listed together."""

    read_only: bool = False
    """Refuse every action that changes something in this context."""

    def __post_init__(self) -> None:
        if (self.kind == "group") != bool(self.members):
            raise ValueError("members must be set for a context of the kind group, and only for that kind")
        if self.kind == "group":
            self.project, self.regions = "several", list(self.members)
        if self.kind == "kubernetes":
            self.project = "" if self.project == LOCAL else self.project
            self.regions = list(self.namespaces) or ["default"]
            if self.gke and (self.kubeconfig or self.cluster):
                raise ValueError(
                    "a cluster must be named either by gke or by kubeconfig and cluster, not by both"
                )
        elif self.namespaces or self.kubeconfig or self.cluster or self.gke:
            raise ValueError("cluster and namespaces must be set only for a context of the kind kubernetes")
        if not (self.name and (self.project or self.kind == "kubernetes") and self.regions):
            raise ValueError("a context must have a name, a project and at least one region")

    @property
    def emulated(self) -> bool:
        """Whether an emulator on this machine serves the context, in which case nothing is billed."""
        return self.kind == "local" or (
            self.kind == "kubernetes"
            and self.name == LOCAL_KUBERNETES
            and not (self.kubeconfig or self.cluster or self.gke)
        )

    @property
    def first_profile(self) -> tuple[str, str]:
        """The name of the shipped profile for a first job, and a description."""
        if self.kind != "kubernetes":
            return "local-2node", "trains on this machine in two minutes"
        here = "on this machine" if self.emulated else "on two nodes"
        return "k8s-pytorch-2node", f"trains {here} in two minutes"

    @property
    def billed(self) -> bool:
        """Whether the context's jobs cost money by the price list of Vertex AI."""
        return self.kind == "vertex"

    @property
    def region_word(self) -> str:
        """The word for the location of the context's jobs: region or namespace."""
        return "namespace" if self.kind == "kubernetes" else "region"

    @property
    def home_region(self) -> str:
        """The region of a resource that names none; "" for a group, whose members have their own regions."""
        return "" if self.kind == "group" else self.regions[0]


@dataclass
class Settings:
    """Everything a user may set; `VXTUI_NAME` in the environment takes precedence over the file."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    contexts: list[Context] = field(default_factory=list)
    """Contexts besides `local` and `local-k8s`, which always exist."""

    context: str = ""
    """The context to open; empty means the first of `contexts`, or `local` if there is none."""

    read_only: bool = False
    """Refuse every action that changes something, in every context."""

    theme: str = ""
    """Name of a theme; empty means vxtui-dark."""

    ascii: bool = False
    """Draw states and lines with ASCII characters only."""

    slow: bool = False
    """Slow-connection mode: few frames per second, no animations."""

    output: Literal["diff", "stock"] = "diff"
    """`diff` sends only changed cells, as fast as the line takes them; `stock` uses Textual's output."""

    keys: dict[str, str] = field(default_factory=dict)
    """Action id → key, e.g. `job.cancel: x`. `?` shows the ids."""

    profile_folder: str = ""
    """Folder of your own profiles; empty means `profiles` beside the settings."""

    job_log_megabytes: int = 512
    """Disk space for the log of one job; its oldest lines make room for new ones."""

    all_logs_megabytes: int = 2048
    """Disk space for the logs of all jobs; the least recently opened log is deleted first."""

    guard: dict[str, Any] = field(default_factory=dict)
    """Settings of `vxtui guard`, which `tui.config.guard_settings` reads; no other part needs them."""

    def __post_init__(self) -> None:
        for name in ("job_log_megabytes", "all_logs_megabytes"):
            if getattr(self, name) < LEAST_LOG_MEGABYTES:
                raise ValueError(f"{name} must be at least {LEAST_LOG_MEGABYTES}")


def all_contexts(settings: Settings) -> Sequence[Context]:
    """Return the configured contexts, then `local` and `local-k8s`, which always exist, then the group
    `all`."""
    named = list(settings.contexts)
    for own in (Context(name=LOCAL, kind="local"), Context(name=LOCAL_KUBERNETES, kind="kubernetes")):
        if not any(c.name == own.name for c in named):
            named.append(own)
    single = [c.name for c in named if c.kind != "group"]
    if len(single) > 1 and not any(c.name == ALL for c in named):
        named.append(Context(name=ALL, kind="group", members=single))
    return named


def members_of(settings: Settings, group: Context) -> Sequence[Context]:
    """Return the contexts of a group in order. Raises SettingsError for an unknown or nested member."""
    known = {c.name: c for c in all_contexts(settings) if c.kind != "group"}
    for name in group.members:
        if name not in known:
            raise SettingsError(f"A member of the group {group.name}: {unknown_context(name, known)}")
    return [known[name] for name in dict.fromkeys(group.members)]


def choose_context(settings: Settings, name: str = "") -> Context:
    """Return the context called `name`; by default the context that the settings name, or the first context.
    Raises SettingsError if no context has that name."""
    contexts = all_contexts(settings)
    requested = name or settings.context
    if not requested:
        return contexts[0]
    for context in contexts:
        if context.name == requested:
            if context.kind == "group":
                members_of(settings, context)
            return context
    raise SettingsError(unknown_context(requested, [c.name for c in contexts]))


def unknown_context(name: str, known: Iterable[str]) -> str:
    """Return the sentence about an unknown context."""
    return f"No context is called {name}. Known contexts: {', '.join(known)}."


def one_context(group: Context) -> str:
    """Return the sentence about a feature that needs one context while a group is open."""
    return f"{group.name} is a group. Choose one context: {', '.join(group.members)}."


def profile_folder(settings: Settings) -> Path:
    """Return the folder of the user's own profiles."""
    return (
        Path(settings.profile_folder).expanduser() if settings.profile_folder else config_dir() / "profiles"
    )

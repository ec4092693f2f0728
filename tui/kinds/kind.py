"""What a kind of work declares: words, columns, tabs, actions, spec format and services.

A kind is data. Code of higher layers, such as a tab or a service, is named as `module:attribute` and imported
on use, so that listing the kinds loads nothing.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tui.domain.fields.field import Field
from tui.domain.fields.job_row import JobRow


@dataclass(frozen=True, slots=True)
class Words:
    """The user's noun for jobs of this kind, and the service's word for a replica group."""

    noun: str
    group: str = "group"
    """The service's word for a replica group; "" if each has a name of its own."""
    short: str = ""
    """The noun in a narrow column; "" if the noun itself is short."""
    region: str = "region"
    """The word for where its jobs are."""
    machine: str = "machine"
    """The word for a replica's machine if its machine type is not known."""


@dataclass(frozen=True, slots=True)
class Tab:
    """A tab of the job's screen. `pane` names a class that takes the job's feed."""

    key: str
    pane: str


@dataclass(frozen=True, slots=True)
class KindAction:
    """An action on one job that only this kind has. The kind's `target` implements `action_<method>`.
    `operation` names the operation, as in `tui.actions`: such an action is refused in a read-only context."""

    method: str
    key: str
    label: str
    help: str
    operation: str = ""
    confirm: bool = False
    footer: bool = True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kind:
    """One kind of work. `key` is its `Job.kind`."""

    key: str
    words: Words
    tabs: tuple[Tab, ...]
    services: Mapping[str, str] = field(default_factory=dict)
    """By family of backends, e.g. `vertex`: the class of its `JobService`."""
    emulated: str = ""
    """The `EmulatedKind` that serves its jobs in the emulator; "" if the emulator has none."""
    fields: tuple[Field[JobRow], ...] = ()
    """Columns that the kind adds to the jobs list while a job of the kind is listed."""
    actions: tuple[KindAction, ...] = ()
    target: str = ""
    """The class with the methods of `actions`; it takes the job's screen."""
    body: str = ""
    """Key of a profile's header that holds a job of this kind; "" if none does."""
    cancel_suspends: bool = False
    """Whether its jobs have no cancelled state: a cancel suspends them, and they may be deleted before they
    end."""
    task_kinds: tuple[str, ...] = ()
    """Kinds of its tasks' jobs."""
    compared: str = "tui.domain.comparison.facts:job_facts"
    """A function from a job and its resource to the `RunFacts` that are compared."""
    page: str = ""
    """Path of its jobs' pages in the cloud console, after the region; "" if there are none."""
    spec_format: str = ""
    """The `SpecFormat` of that body: fields, form, rules, export and request."""
    objects: tuple[str, ...] = ()
    """Objects in a body that several kinds share, each as KIND.GROUP: `PyTorchJob.kubeflow.org`."""

    def has(self, tab: str) -> bool:
        """Whether its jobs have this tab, e.g. `logs`; data without a tab is neither read nor printed."""
        return any(own_tab.key == tab for own_tab in self.tabs)

    @property
    def scope(self) -> str:
        """Scope of its own actions."""
        return f"kind_{self.key}"


def resolve(reference: str) -> Any:
    """Import what `module:attribute` names.

    Raises:
        ImportError: if the module does not exist.
        AttributeError: if the module lacks the attribute.
    """
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)

"""The declaration of a kind of work: words, columns, tabs, actions, spec format and services.

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
    """The service's word for a replica group; "" if each group has a name."""
    short: str = ""
    """The noun in a narrow column; "" if the noun itself is short."""
    region: str = "region"
    """The word for the location of the kind's jobs."""
    machine: str = "machine"
    """The word for a replica's machine if its machine type is unknown."""


@dataclass(frozen=True, slots=True)
class Tab:
    """A tab of the job's screen. `pane` names a class that receives the job's feed."""

    key: str
    pane: str


@dataclass(frozen=True, slots=True)
class KindAction:
    """An action on one job that only this kind has. The kind's `target` implements `action_<method>`.
    `operation` names the operation, as in `tui.actions`: the action is refused in a read-only context."""

    method: str
    key: str
    label: str
    help: str
    operation: str = ""
    confirm: bool = False
    footer: bool = True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kind:
    """One kind of work. `key` is the value of `Job.kind`."""

    key: str
    words: Words
    tabs: tuple[Tab, ...]
    services: Mapping[str, str] = field(default_factory=dict)
    """The class of the kind's `JobService`, by family of backends, e.g. `vertex`."""
    emulated: str = ""
    """The `EmulatedKind` that serves jobs of this kind in the emulator; "" if the emulator has none."""
    fields: tuple[Field[JobRow], ...] = ()
    """Columns that the kind adds to the jobs list while a job of the kind is listed."""
    actions: tuple[KindAction, ...] = ()
    target: str = ""
    """The class with the methods of `actions`, which receives the job's screen."""
    body: str = ""
    """Key of a profile's header that holds a job of this kind; "" if none does."""
    cancel_suspends: bool = False
    """Whether jobs have no cancelled state: cancelling suspends them, and running jobs may be deleted."""
    task_kinds: tuple[str, ...] = ()
    """Kinds of the jobs of this kind's tasks."""
    compared: str = "tui.domain.comparison.facts:job_facts"
    """A function that converts a job and its resource to the compared `RunFacts`."""
    page: str = ""
    """Path of the jobs' pages in the cloud console, after the region; "" if there are none."""
    spec_format: str = ""
    """The `SpecFormat` of the body: fields, form, rules, export and request."""
    objects: tuple[str, ...] = ()
    """Objects in a body that several kinds share, each as KIND.GROUP, e.g. `PyTorchJob.kubeflow.org`."""

    def has(self, tab: str) -> bool:
        """Return whether the kind's jobs have this tab, e.g. `logs`. Other data is neither read nor
        printed."""
        return any(own_tab.key == tab for own_tab in self.tabs)

    @property
    def scope(self) -> str:
        """Scope of the kind's actions."""
        return f"kind_{self.key}"


def resolve(reference: str) -> Any:
    """Import the object that `module:attribute` names.

    Raises:
        ImportError: the module does not exist.
        AttributeError: the module lacks the attribute.
    """
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)

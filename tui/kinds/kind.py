"""What a kind of work declares: words, columns, tabs, actions, spec format and services.

A kind is data. Code of higher layers, such as a tab or a service, is named as `module:attribute` and
imported when it is used, so that listing the kinds loads nothing.
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
    """What a person calls jobs of this kind, and what their service calls a replica group."""

    noun: str
    group: str = "group"
    """What their service calls a replica group; "" where each has a name of its own."""
    short: str = ""
    """The noun in a narrow column; "" where the noun itself is short."""
    region: str = "region"
    """What its jobs are in."""
    machine: str = "machine"
    """What it has a replica on, where no type of machine is known."""


@dataclass(frozen=True, slots=True)
class Tab:
    """A tab of the job's screen. `pane` names a class that takes the job's feed."""

    key: str
    pane: str


@dataclass(frozen=True, slots=True)
class KindAction:
    """An action on one job that only this kind has. The kind's `target` implements `action_<method>`.

    `operation` names what it changes, as in `tui.actions`: such an action is refused in a read-only context.
    """

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
    fields: tuple[Field[JobRow], ...] = ()
    """Columns that the kind adds to the jobs list while a job of the kind is listed."""
    actions: tuple[KindAction, ...] = ()
    target: str = ""
    """The class that has the methods of `actions`; it takes the job's screen."""
    body: str = ""
    """Key of a profile's header that holds a job of this kind; "" where no profile does."""
    cancel_suspends: bool = False
    """Its jobs have no cancelled state: a cancel suspends them, and they may be deleted before they end."""
    task_kinds: tuple[str, ...] = ()
    """Kinds of the jobs that its tasks have."""
    compared: str = "tui.domain.comparison.facts:job_facts"
    """What is compared of two of its jobs: a function from a job and its resource to `RunFacts`."""
    page: str = "training"
    """Path of its jobs' pages in the cloud console, after the region; "" where there are none."""
    spec_format: str = ""
    """The `SpecFormat` of that body: fields, form, rules, export and request."""
    objects: tuple[str, ...] = ()
    """The objects in a body that several kinds share, each as KIND.GROUP: `PyTorchJob.kubeflow.org`."""

    def has(self, tab: str) -> bool:
        """Whether its jobs have this, e.g. `logs`: what no tab shows is not read and no verb prints it."""
        return any(each.key == tab for each in self.tabs)

    @property
    def scope(self) -> str:
        """Scope of its own actions."""
        return f"kind_{self.key}"


def resolve(reference: str) -> Any:
    """What `module:attribute` names.

    Raises:
        ImportError: for a module that is not there.
        AttributeError: for an attribute that it lacks.
    """
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)

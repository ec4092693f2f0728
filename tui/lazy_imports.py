"""Imports Google's client libraries lazily, at a third of the memory and time.

The `__init__` of `aiplatform_v1` imports about 35 services of which the console uses one; Monitoring, Logging
and Cloud Quotas do the same on a smaller scale (docs/facts/clients.md 'Import cost'). `install` makes those
packages lazy: a submodule is imported on first use, and the real `__init__` runs only when code requests a
name of the package that no submodule has. Therefore, other users of the same packages in this process,
including the high-level SDK, are unaffected.

Set `VXTUI_EAGER_IMPORTS=1` to disable lazy imports.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import threading
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

SWITCH = "VXTUI_EAGER_IMPORTS"
PACKAGES = frozenset(
    {
        "google.cloud.aiplatform_v1",
        "google.cloud.aiplatform_v1.types",
        "google.cloud.monitoring_v3",
        "google.cloud.monitoring_v3.types",
        "google.cloud.logging_v2",
        "google.cloud.cloudquotas_v1",
        "google.cloud.resourcemanager_v3",
        "google.cloud.resourcemanager_v3.types",
        "google.cloud.iam_admin_v1",
        "google.cloud.iam_admin_v1.types",
        "google.cloud.artifactregistry_v1",
        "google.cloud.artifactregistry_v1.types",
        "google.cloud.billing_v1",
        "google.cloud.billing_v1.types",
    }
)
CLIENTS = (
    "google.cloud.aiplatform_v1.services.job_service",
    "google.cloud.aiplatform_v1.services.pipeline_service",
    "google.cloud.logging_v2.services.logging_service_v2",
    "google.cloud.monitoring_v3.services.metric_service",
    "google.cloud.cloudquotas_v1.services.cloud_quotas",
)
SHORT_TURNS = 0.0005
"""Maximum time slice of the importing thread while the event loop waits for the interpreter, in seconds.

The loop releases the interpreter with each system call, several times per key, and would wait 5 ms each time.
"""
_OWN_DUNDERS = frozenset({"__all__", "__version__"})
"""Special names that only the real `__init__` defines. Python itself looks up many other names."""


class _LazyPackage(Loader):
    """Loads a package without running its `__init__` until a name is missing."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        # This is not a lock. Two threads that both run the `__init__` do the same work twice, while a lock
        # held during imports would deadlock with the import system's own locks.
        running = threading.local()

        def find(name: str) -> Any:
            if name.startswith("__") and name not in _OWN_DUNDERS:
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            submodule = None if name in _OWN_DUNDERS else _submodule(module.__name__, name)
            if submodule is not None:
                return submodule
            if not getattr(running, "active", False) and "__getattr__" in vars(module):
                running.active = True
                try:
                    self._real.exec_module(module)
                finally:
                    running.active = False
                vars(module).pop("__getattr__", None)
            try:
                return vars(module)[name]
            except KeyError:
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}") from None

        vars(module)["__getattr__"] = find

    def __getattr__(self, name: str) -> Any:
        # The real loader handles resources, source text and `is_package`.
        return getattr(self._real, name)


def _submodule(package: str, name: str) -> ModuleType | None:
    full = f"{package}.{name}"
    try:
        return importlib.import_module(full)
    except ModuleNotFoundError as error:
        if error.name != full:
            raise
        return None


class _LazyFinder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in PACKAGES:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _LazyPackage(spec.loader)
        return spec


_FINDER = _LazyFinder()


def install() -> bool:
    """Make the packages that are not loaded yet lazy. Return False if the environment disables it."""
    if os.environ.get(SWITCH, "") not in {"", "0"}:
        return False
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    return True


def load(modules: Sequence[str] = CLIENTS) -> None:
    """Import the clients that a backend uses, or other modules. Call this function in a thread.

    Garbage collection is paused during the import, because its full collections were the longest stalls of
    the event loop, and imported modules are never garbage (docs/facts/clients.md 'Import cost').
    """
    # Set it before gRPC is first imported, because gRPC reads it once. Its core writes to file descriptor 2.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    install()
    collecting, turns = gc.isenabled(), sys.getswitchinterval()
    gc.disable()
    sys.setswitchinterval(SHORT_TURNS)
    try:
        for name in modules:
            importlib.import_module(name)
    finally:
        sys.setswitchinterval(turns)
        if collecting:
            gc.enable()
    gc.freeze()

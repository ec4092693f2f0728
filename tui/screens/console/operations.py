"""The operations of the open context. Their modules are imported when an operation is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from tui.actions.operations.emulator import EmulatorOperations
    from tui.actions.operations.endpoints import EndpointOperations
    from tui.actions.operations.jobs import JobOperations
    from tui.actions.operations.profiles import ProfileOperations
    from tui.actions.operations.resources import ResourceOperations
    from tui.actions.operations.runner import OperationRunner, Outcome
    from tui.actions.operations.schedules import ScheduleOperations
    from tui.actions.operations.shells import ShellOperations
    from tui.session import Session


class ConsoleOperations:
    """Creates the operations. Operations that need the service are `None` while not connected."""

    def __init__(
        self,
        runner: Callable[[], OperationRunner],
        session: Callable[[], Session | None],
        profile_folder: Path,
    ) -> None:
        """Set the sources. `runner` and `session` return the open context's runner and session."""
        self._runner = runner
        self._session = session
        self._profile_folder = profile_folder

    def jobs(self) -> JobOperations | None:
        """Return the operations that launch, cancel and delete jobs."""
        from tui.actions.operations.jobs import JobOperations  # noqa: PLC0415

        session = self._session()
        return JobOperations(self._runner(), session.backend) if session else None

    def endpoints(self) -> EndpointOperations | None:
        """Return the operations that deploy and undeploy models and split traffic."""
        from tui.actions.operations.endpoints import EndpointOperations  # noqa: PLC0415

        session = self._session()
        return EndpointOperations(self._runner(), session.backend) if session else None

    def resources(self) -> ResourceOperations | None:
        """Return the operations on persistent resources: reboot and delete."""
        from tui.actions.operations.resources import ResourceOperations  # noqa: PLC0415

        session = self._session()
        return ResourceOperations(self._runner(), session.backend) if session else None

    def schedules(self) -> ScheduleOperations | None:
        """Return the operations on schedules: pause, resume and delete."""
        from tui.actions.operations.schedules import ScheduleOperations  # noqa: PLC0415

        session = self._session()
        return ScheduleOperations(self._runner(), session.backend) if session else None

    def shells(self) -> ShellOperations | None:
        """Return the operations that run programs in replicas."""
        from tui.actions.operations.shells import ShellOperations  # noqa: PLC0415

        session = self._session()
        return ShellOperations(self._runner(), session.backend) if session else None

    def profiles(self) -> ProfileOperations:
        """Return the operations that write profile files."""
        from tui.actions.operations.profiles import ProfileOperations  # noqa: PLC0415

        return ProfileOperations(self._runner(), self._profile_folder)

    def emulator(self) -> EmulatorOperations:
        """Return the operations that start and stop this machine's emulator and inject faults."""
        from tui.actions.operations.emulator import EmulatorOperations  # noqa: PLC0415

        return EmulatorOperations(self._runner())

    def stop_emulator(self) -> Awaitable[Outcome[bool]]:
        """Stop the emulator of the open context."""
        from tui.actions.operations.kubernetes_emulator import KubernetesOperations  # noqa: PLC0415

        session = self._session()
        if session is not None and session.backend.info.family == "kubernetes":
            return KubernetesOperations(self._runner()).stop()
        return self.emulator().stop()

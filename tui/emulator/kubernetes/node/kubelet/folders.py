"""Files of pods below the state directory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tui.emulator.paths import AttemptDir, StateDir


@dataclass(frozen=True, slots=True)
class PodFolder:
    """Folder of one pod.

    Layout::

        containers/NAME/attempt-N/   one run of a container, see `AttemptDir`; NAME is its replica too
        containers/NAME/message-N    replacement of `/dev/termination-log` in that run
        volumes/VOLUME/              an emptyDir, or the files of a ConfigMap or a Secret
        mounts.json                  container → mount path → folder
    """

    root: Path

    @property
    def mounts(self) -> Path:
        return self.root / "mounts.json"

    def volume(self, name: str) -> Path:
        return self.root / "volumes" / name

    def run(self, container: str, number: int) -> AttemptDir:
        """Return the folder of run 1, 2, … of a container."""
        return AttemptDir(self.root / "containers" / container / f"attempt-{number}")

    def runs(self, container: str) -> list[AttemptDir]:
        """Return the runs on disk, in order."""
        folders = (self.root / "containers" / container).glob("attempt-*")
        return [AttemptDir(path) for path in sorted(folders, key=lambda path: int(path.name.split("-")[1]))]

    def every_run(self) -> Iterator[tuple[str, AttemptDir]]:
        """Yield all runs of all containers."""
        for folder in sorted((self.root / "containers").glob("*")):
            for run in self.runs(folder.name):
                yield folder.name, run

    def message(self, container: str, number: int) -> Path:
        return self.root / "containers" / container / f"message-{number}"


@dataclass(frozen=True, slots=True)
class NodeFolder:
    """Files of all nodes, which are one machine.

    Layout::

        pods/UID/                    see `PodFolder`
        claims/NAMESPACE/NAME/       files of a PersistentVolumeClaim
        ports.json                   local ports of the pods' host names
    """

    state: StateDir

    @property
    def pods(self) -> Path:
        return self.state.root / "pods"

    def pod(self, uid: str) -> PodFolder:
        return PodFolder(self.pods / uid)

    def claim(self, namespace: str, name: str) -> Path:
        return self.state.root / "claims" / namespace / name

    @property
    def ports(self) -> Path:
        return self.state.root / "ports.json"

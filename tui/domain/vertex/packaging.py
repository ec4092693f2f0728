"""Autopackaging: a folder with a script becomes a Python package or an image for the job's pools.

The functions are pure: they return the pools that get the task, the text of each generated file, and the
build commands. The keys of a profile's `package` block follow gcloud's `--worker-pool-spec`
(docs/facts/vertex.md 12.5); the source distribution follows the SDK (12.6).
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

DISTRIBUTION, VERSION = "vxtui_task", "0.1"
MODULE = f"{DISTRIBUTION}.run"
"""The module of the package that a job starts."""
REQUIREMENTS = "requirements.txt"
STAGING_FOLDER = "vxtui-packages"
"""Folder of the staging bucket."""
BUILDERS = ("docker", "podman", "cloud-build")
BUILD_METHODS = ("auto", "sdist", *BUILDERS)
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_BUCKET = re.compile(r"gs://([a-z0-9][a-z0-9._-]{1,61}[a-z0-9])(/.*)?")
_PREBUILT = "-docker.pkg.dev/vertex-ai/"
_OLD_PREBUILT = ("gcr.io/cloud-aiplatform/", "us.gcr.io/cloud-aiplatform/")

Path = tuple[str | int, ...]


class PackagingError(Exception):
    """The folder can't be packaged. `message` has the location and the reason; `fix` is the remedy."""

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.message, self.fix = message, fix


@dataclass(frozen=True, slots=True)
class Package:
    """A profile's `package` block. Paths are relative to `path`, and `path` to the profile's folder."""

    path: str
    executor_image: str
    script: str = ""
    module: str = ""
    requirements: str = ""
    """Path of the requirements file; if empty, requirements.txt is used if it exists."""
    exclude: tuple[str, ...] = ()
    """Additional patterns, in the syntax of .gitignore."""
    staging: str = ""
    """gs://BUCKET or gs://BUCKET/FOLDER. If empty, the bucket of the base output directory is used."""
    image: str = ""
    """Name under which a built image is pushed."""
    build: str = "auto"

    @classmethod
    def of(cls, block: Mapping[str, Any]) -> Package:
        """Read the REST format without a check; see `problems`."""
        return cls(
            path=str(block.get("path") or ""),
            executor_image=str(block.get("executorImage") or ""),
            script=str(block.get("script") or ""),
            module=str(block.get("module") or ""),
            requirements=str(block.get("requirements") or ""),
            exclude=tuple(map(str, block.get("exclude") or ())),
            staging=str(block.get("stagingBucket") or "").rstrip("/"),
            image=str(block.get("image") or ""),
            build=str(block.get("build") or "auto"),
        )

    def problems(self) -> Iterator[tuple[Path, str, str]]:
        """Yield path in the block, sentence and fix of each problem."""
        if not self.path:
            yield ("path",), "the package must have the folder to pack.", "Write path: ./my-task."
        if not self.executor_image:
            yield ("executorImage",), "the package must have the image for its code.", _EXECUTOR
        if bool(self.script) == bool(self.module):
            yield (), "a package must have either a script or a module.", "Write script: task.py."
        if self.module and not _MODULE.fullmatch(self.module):
            yield (
                ("module",),
                f"{self.module!r} must be a module name.",
                "Write the module as for python -m: a.b",
            )
        for name, value in (("script", self.script), ("requirements", self.requirements)):
            if value and not stays_below(value):
                yield (name,), f"{value} must be inside the folder.", "Name a file below path."
        if self.script and not self.script.endswith((".py", ".sh")):
            yield ("script",), f"{self.script} must end with .py or .sh.", "A shell script ends with .sh."
        if self.staging and not _BUCKET.fullmatch(self.staging):
            yield (
                ("stagingBucket",),
                f"{self.staging!r} must be a bucket.",
                "Write gs://BUCKET or gs://BUCKET/FOLDER.",
            )
        if self.build not in BUILD_METHODS:
            yield ("build",), f"{self.build!r} must be one of {', '.join(BUILD_METHODS)}.", ""
        if self.build in BUILDERS and not self.image:
            fix = "Write image: REGION-docker.pkg.dev/PROJECT/REPOSITORY/NAME."
            yield ("image",), f"{self.build} pushes an image, and the image has no name.", fix


_EXECUTOR = "Name an image with Python and your main libraries, e.g. one of PyTorch's, or your own."


@dataclass(frozen=True, slots=True)
class PackagedTask:
    """The task of the pools: a Python package at `uri`, or the image `uri`.

    A pythonPackageSpec accepts only Vertex AI's own executor images (docs/facts/vertex.md 1.9, 12.6). With
    any other image the package is `wrapped` in a container's command.
    """

    uri: str
    is_image: bool = False
    wrapped: bool = False

    @classmethod
    def of_package(cls, uri: str, package: Package, local: bool) -> PackagedTask:
        """Create the task of a package. The emulator has no images and accepts any executor image."""
        return cls(uri, wrapped=not local and not is_prebuilt(package.executor_image))


@dataclass(frozen=True, slots=True)
class LaunchTarget:
    """Project and region of the job; `local` means the emulator."""

    project: str
    region: str
    local: bool


@dataclass(frozen=True, slots=True)
class PackageRequest:
    """A package that a launch builds first. `beside` is the folder of the profile's file."""

    job: Mapping[str, Any]
    package: Package
    beside: str
    target: LaunchTarget

    @property
    def folder(self) -> str:
        """Name of the packed folder."""
        return posixpath.basename(posixpath.normpath(posixpath.join(self.beside, self.package.path)))

    def preview(self) -> dict[str, Any]:
        """Return the job to send, with a placeholder for the package's URI, which depends on the content.
        Raises PackagingError if no pool runs the package, or it has no bucket."""
        staging = staging_of(self.job, self.package, self.target.local)
        uri = package_uri(staging, self.folder, "made-at-launch")
        return with_task(
            self.job, self.package, PackagedTask.of_package(uri, self.package, self.target.local)
        )


def with_task(job: Mapping[str, Any], package: Package, task: PackagedTask) -> dict[str, Any]:
    """Add the task to each pool without a task in a CustomJob (REST format). Args and env do not change.
    Raises PackagingError if every pool already has a task."""
    spec = dict(job.get("jobSpec") or {})
    pools = [dict(pool or {}) for pool in spec.get("workerPoolSpecs") or []]
    targets = [pool for pool in pools if runs_package(pool)]
    if not targets:
        raise PackagingError(
            "No worker pool runs the package: each has its own image or package.",
            (
                "Leave containerSpec.imageUri and pythonPackageSpec.packageUris out of the pools that run "
                "the package."
            ),
        )
    for pool in targets:
        own = {**(pool.pop("pythonPackageSpec", None) or {}), **(pool.pop("containerSpec", None) or {})}
        kept = {name: own[name] for name in ("args", "env") if own.get(name)}
        if task.is_image:
            pool["containerSpec"] = {"imageUri": task.uri, **kept}
        elif task.wrapped:
            command = ["sh", "-c", _install_and_run(task.uri), DISTRIBUTION]
            pool["containerSpec"] = {"imageUri": package.executor_image, "command": command, **kept}
        else:
            pool["pythonPackageSpec"] = {
                "executorImageUri": own.get("executorImageUri") or package.executor_image,
                "packageUris": [task.uri],
                "pythonModule": MODULE,
                **kept,
            }
    return {**job, "jobSpec": {**spec, "workerPoolSpecs": pools}}


def is_prebuilt(image: str) -> bool:
    """Return whether the image is one of Vertex AI's prebuilt training images."""
    return _PREBUILT in image or image.startswith(_OLD_PREBUILT)


def _install_and_run(uri: str) -> str:
    """Return a command for `sh -c` that installs the package and runs it with unchanged arguments."""
    path = shlex.quote("/gcs/" + uri.removeprefix("gs://"))
    return f'python3 -m pip install --quiet {path} && exec python3 -m {MODULE} "$@"'


def runs_package(pool: Mapping[str, Any]) -> bool:
    """Return whether the worker pool runs the package, because it has no other task."""
    container, package = pool.get("containerSpec") or {}, pool.get("pythonPackageSpec") or {}
    occupied = container.get("imageUri") or container.get("command")
    return bool(pool) and not (occupied or package.get("packageUris") or package.get("pythonModule"))


def staging_of(job: Mapping[str, Any], package: Package, local: bool) -> str:
    """Return gs://BUCKET[/FOLDER] for the package. Raises PackagingError."""
    if package.staging:
        return package.staging
    output = ((job.get("jobSpec") or {}).get("baseOutputDirectory") or {}).get("outputUriPrefix") or ""
    match = _BUCKET.fullmatch(str(output))
    if match:
        return f"gs://{match[1]}"
    if local:
        return "gs://vxtui-staging"
    raise PackagingError(
        "The package must have a bucket.",
        "Set package.stagingBucket: gs://BUCKET, or jobSpec.baseOutputDirectory.",
    )


def package_uri(staging: str, folder: str, digest: str) -> str:
    """Return the URI of a source distribution; it depends only on the folder and its content."""
    word = re.sub(r"[^a-z0-9]+", "-", folder.lower()).strip("-")[:40] or "task"
    return f"{staging}/{STAGING_FOLDER}/{word}/{digest[:16]}/{DISTRIBUTION}-{VERSION}.tar.gz"


def image_uri(image: str, digest: str) -> str:
    """Return the image with a tag: the image's own tag, or a digest of the content."""
    tagged = ":" in image.rpartition("/")[2] or "@" in image
    return image if tagged else f"{image}:{digest[:16]}"


def stays_below(path: str) -> bool:
    """Return whether a relative path stays within its folder."""
    clean = posixpath.normpath(path)
    return not path.startswith("/") and clean not in {"..", "."} and not clean.startswith("../")


def setup_py(files: Sequence[str], requirements: Sequence[str]) -> str:
    """Return the `setup.py` of a package with `files` below `source/`."""
    # List each file, because patterns miss hidden files and old setuptools versions lack `**`.
    data = [glob_escaped(f"source/{name}") for name in files]
    return (
        "from setuptools import setup\n\n"
        "setup(\n"
        f"    name={DISTRIBUTION!r},\n"
        f"    version={VERSION!r},\n"
        f"    packages=[{DISTRIBUTION!r}],\n"
        f"    package_data={{{DISTRIBUTION!r}: {data!r}}},\n"
        f"    install_requires={list(requirements)!r},\n"
        "    zip_safe=False,\n"
        ")\n"
    )


def glob_escaped(name: str) -> str:
    """Return a pattern that matches only this name."""
    return re.sub(r"([*?[])", r"[\1]", name)


def run_py(package: Package) -> str:
    """Return the module that runs the script or module, in the package's folder, in the same process."""
    return (
        '"""Made by vxtui: starts what the profile\'s package names, in its own folder."""\n\n'
        "import os\nimport sys\n\n"
        'SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "source")\n\n\n'
        "def main():\n"
        '    paths = [SOURCE] + [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]\n'
        '    os.environ["PYTHONPATH"] = os.pathsep.join(paths)\n'
        "    os.chdir(SOURCE)\n"
        f"    command = {_command(package, 'sys.executable')}\n"
        "    # This process itself: signals and exit codes are the script's.\n"
        "    os.execv(command[0], command + sys.argv[1:])\n\n\n"
        'if __name__ == "__main__":\n'
        "    main()\n"
    )


def _command(package: Package, python: str) -> str:
    if package.module:
        return f'[{python}, "-m", {package.module!r}]'
    if package.script.endswith(".sh"):
        return f'["/bin/bash", {package.script!r}]'
    return f"[{python}, {package.script!r}]"


def pkg_info() -> str:
    """Return the metadata at the top of the source distribution."""
    return f"Metadata-Version: 2.1\nName: {DISTRIBUTION}\nVersion: {VERSION}\n"


def dockerfile(package: Package, requirements: Sequence[str]) -> str:
    """Return the Dockerfile of a build folder with `source/` and, if they exist, `requirements.txt`."""
    lines = [f"FROM {package.executor_image}"]
    if is_prebuilt(package.executor_image):
        lines.append("RUN rm -rf /var/sitecustomize")
    lines += ["ENV HOME=/home", "WORKDIR /usr/app"]
    if requirements:
        # Requirements come before the code, so a changed line of code does not reinstall them.
        lines.append(f'COPY ["{REQUIREMENTS}", "/tmp/{REQUIREMENTS}"]')
        lines.append(f"RUN pip install --no-cache-dir -r /tmp/{REQUIREMENTS}")
    lines.append('COPY ["source", "./"]')
    if package.module:
        entry = ["python3", "-m", package.module]
    elif package.script.endswith(".sh"):
        entry = ["/bin/bash", package.script]
    else:
        entry = ["python3", package.script]
    return "\n".join([*lines, f"ENTRYPOINT {json.dumps(entry)}"]) + "\n"


def build_commands(builder: str, image: str, folder: str, project: str) -> list[list[str]]:
    """Return the commands that build and push `image` from the build folder, in order."""
    if builder == "cloud-build":
        where = ["--project", project] if project else []
        return [["gcloud", "builds", "submit", folder, "--tag", image, *where, "--quiet"]]
    # Vertex AI runs amd64, regardless of this machine's architecture.
    build = [builder, "build", "--platform", "linux/amd64", "--tag", image, folder]
    return [build, [builder, "push", image]]

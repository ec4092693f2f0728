"""Autopackaging: a folder with a script becomes a Python package or an image, and the job's pools run it.

What is decided here is pure: which pools take the task, the text of each file that is made, the commands.
The keys of a profile's `package` block are those of gcloud's `--worker-pool-spec` where it has one
(vertex facts 12.5); what is made without a builder of images follows the SDK (12.6).
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
"""What a job runs of the package that is made."""
REQUIREMENTS = "requirements.txt"
PLACE = "vxtui-packages"
"""Folder of the staging bucket."""
BUILDERS = ("docker", "podman", "cloud-build")
WAYS = ("auto", "sdist", *BUILDERS)
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_BUCKET = re.compile(r"gs://([a-z0-9][a-z0-9._-]{1,61}[a-z0-9])(/.*)?")
_PREBUILT = "-docker.pkg.dev/vertex-ai/"
_OLD_PREBUILT = ("gcr.io/cloud-aiplatform/", "us.gcr.io/cloud-aiplatform/")

Path = tuple[str | int, ...]


class PackagingError(Exception):
    """The folder can't be packaged. `message` says what and where; `fix` what to do."""

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.message, self.fix = message, fix


@dataclass(frozen=True, slots=True)
class Package:
    """A profile's `package` block. Paths are relative to `path`, that one to the profile's file."""

    path: str
    executor_image: str
    script: str = ""
    module: str = ""
    requirements: str = ""
    """Empty for requirements.txt, if there is one."""
    exclude: tuple[str, ...] = ()
    """More patterns in the form of .gitignore."""
    staging: str = ""
    """gs://BUCKET, or a folder of it; empty for the bucket of the base output directory."""
    image: str = ""
    """Where a built image is pushed."""
    build: str = "auto"

    @classmethod
    def of(cls, block: Mapping[str, Any]) -> Package:
        """From REST form; see `problems` for what is wrong with it."""
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
        """Path in the block, sentence and fix of everything that is wrong with it."""
        if not self.path:
            yield ("path",), "a package has the folder that is packed.", "Write path: ./my-task."
        if not self.executor_image:
            yield ("executorImage",), "it is required: the image in which the code runs.", _EXECUTOR
        if bool(self.script) == bool(self.module):
            yield (), "a package has either a script or a module.", "Write script: task.py."
        if self.module and not _MODULE.fullmatch(self.module):
            yield ("module",), f"{self.module!r} is no module's name.", "Write it as python -m takes it: a.b"
        for name, value in (("script", self.script), ("requirements", self.requirements)):
            if value and not inside(value):
                yield (name,), f"{value} lies outside the folder.", "Name a file below path."
        if self.script and not self.script.endswith((".py", ".sh")):
            yield ("script",), f"{self.script} is neither .py nor .sh.", "A shell script ends with .sh."
        if self.staging and not _BUCKET.fullmatch(self.staging):
            yield (
                ("stagingBucket",),
                f"{self.staging!r} is no bucket.",
                "Write gs://BUCKET or gs://BUCKET/FOLDER.",
            )
        if self.build not in WAYS:
            yield ("build",), f"{self.build!r} is none of {', '.join(WAYS)}.", ""
        if self.build in BUILDERS and not self.image:
            fix = "Write image: REGION-docker.pkg.dev/PROJECT/REPOSITORY/NAME."
            yield ("image",), f"{self.build} pushes an image; it has no name yet.", fix


_EXECUTOR = "Take an image with Python and what your code needs most, e.g. one of PyTorch's, or your own."


@dataclass(frozen=True, slots=True)
class Task:
    """What the pools are to run: a Python package at `uri`, or the image `uri`.

    A package is `wrapped` in a container's command where the executor image is none of Vertex AI's own: only
    with those it may stand in a pythonPackageSpec (vertex facts 1.9, 12.6).
    """

    uri: str
    is_image: bool = False
    wrapped: bool = False

    @classmethod
    def of_package(cls, uri: str, package: Package, local: bool) -> Task:
        """The emulator takes any executor image, for it has none."""
        return cls(uri, wrapped=not local and not is_prebuilt(package.executor_image))


@dataclass(frozen=True, slots=True)
class Target:
    """Where the job goes."""

    project: str
    region: str
    local: bool


@dataclass(frozen=True, slots=True)
class Order:
    """A package that a launch has to make first: for which CustomJob, and beside which folder it lies."""

    job: Mapping[str, Any]
    package: Package
    beside: str
    target: Target

    def preview(self) -> dict[str, Any]:
        """The job as it will be but for the package's address, which its content gives.

        Raises:
            PackagingError: where no pool takes it, or there is no bucket for it.
        """
        staging = staging_of(self.job, self.package, self.target.local)
        uri = package_uri(staging, str(self.job.get("displayName") or ""), "made-at-launch")
        return placed(self.job, self.package, Task.of_package(uri, self.package, self.target.local))


def placed(job: Mapping[str, Any], package: Package, task: Task) -> dict[str, Any]:
    """The CustomJob in REST form with the task in each pool that has none; args and env stay theirs.

    Raises:
        PackagingError: when every pool has a task of its own.
    """
    spec = dict(job.get("jobSpec") or {})
    pools = [dict(pool or {}) for pool in spec.get("workerPoolSpecs") or []]
    takers = [pool for pool in pools if takes(pool)]
    if not takers:
        raise PackagingError(
            "No worker pool takes the package: each has an image or a package of its own.",
            "Leave containerSpec.imageUri and pythonPackageSpec.packageUris out of the pools that run it.",
        )
    for pool in takers:
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
    """One of Vertex AI's own images for training."""
    return _PREBUILT in image or image.startswith(_OLD_PREBUILT)


def _install_and_run(uri: str) -> str:
    """For `sh -c`: the arguments come after it, each as it is, and the process is the script's own."""
    path = shlex.quote("/gcs/" + uri.removeprefix("gs://"))
    return f'python3 -m pip install --quiet {path} && exec python3 -m {MODULE} "$@"'


def takes(pool: Mapping[str, Any]) -> bool:
    """The worker pool has no task of its own: it runs the package."""
    container, package = pool.get("containerSpec") or {}, pool.get("pythonPackageSpec") or {}
    taken = container.get("imageUri") or container.get("command")
    return bool(pool) and not (taken or package.get("packageUris") or package.get("pythonModule"))


def staging_of(job: Mapping[str, Any], package: Package, local: bool) -> str:
    """gs://BUCKET[/FOLDER] below which the package goes. Raises PackagingError."""
    if package.staging:
        return package.staging
    output = ((job.get("jobSpec") or {}).get("baseOutputDirectory") or {}).get("outputUriPrefix") or ""
    match = _BUCKET.fullmatch(str(output))
    if match:
        return f"gs://{match[1]}"
    if local:
        return "gs://vxtui-staging"
    raise PackagingError(
        "There is no bucket for the package.",
        "Give package.stagingBucket: gs://BUCKET, or a jobSpec.baseOutputDirectory.",
    )


def package_uri(staging: str, name: str, digest: str) -> str:
    """Where a source distribution goes: the same content always to the same place."""
    word = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "task"
    return f"{staging}/{PLACE}/{word}/{digest[:16]}/{DISTRIBUTION}-{VERSION}.tar.gz"


def image_uri(image: str, digest: str) -> str:
    """With a tag: of the content where it has none."""
    tagged = ":" in image.rpartition("/")[2] or "@" in image
    return image if tagged else f"{image}:{digest[:16]}"


def inside(path: str) -> bool:
    """Whether a relative path stays below its folder."""
    clean = posixpath.normpath(path)
    return not path.startswith("/") and clean not in {"..", "."} and not clean.startswith("../")


def setup_py(files: Sequence[str], requirements: Sequence[str]) -> str:
    """The `setup.py` of a package that carries `files` below `source/`."""
    # Named one by one: patterns miss hidden files, and old versions know no `**`.
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
    """A name that as a pattern means itself alone."""
    return re.sub(r"([*?[])", r"[\1]", name)


def run_py(package: Package) -> str:
    """The module that starts the script or module, in the folder and in the process that it was called in."""
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
    """Metadata at the top of the source distribution."""
    return f"Metadata-Version: 2.1\nName: {DISTRIBUTION}\nVersion: {VERSION}\n"


def dockerfile(package: Package, requirements: Sequence[str]) -> str:
    """For a build folder with `source/` in it, and `requirements.txt` where there are any."""
    lines = [f"FROM {package.executor_image}"]
    if is_prebuilt(package.executor_image):
        lines.append("RUN rm -rf /var/sitecustomize")
    lines += ["ENV HOME=/home", "WORKDIR /usr/app"]
    if requirements:
        # Before the code, so that a changed line of it does not install everything again.
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
    """What builds and pushes `image` from the build folder, one after the other."""
    if builder == "cloud-build":
        where = ["--project", project] if project else []
        return [["gcloud", "builds", "submit", folder, "--tag", image, *where, "--quiet"]]
    # Vertex runs amd64, whatever this machine is.
    build = [builder, "build", "--platform", "linux/amd64", "--tag", image, folder]
    return [build, [builder, "push", image]]

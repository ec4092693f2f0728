"""Autopackaging without a network: what is packed, what is refused, and the text of all that is made."""

from __future__ import annotations

import ast
import asyncio
import os
import stat
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement

from tests.waiting import LIMIT
from tui.domain.vertex.packaging import (
    MODULE,
    LaunchTarget,
    Package,
    PackagedTask,
    PackageRequest,
    PackagingError,
    build_commands,
    dockerfile,
    glob_escaped,
    image_uri,
    package_uri,
    staging_of,
    stays_below,
    with_task,
)
from tui.packaging import files
from tui.packaging.archive import write_build_folder, write_sdist
from tui.packaging.files import collect
from tui.packaging.image import find_builder, run_builder
from tui.packaging.prepare import plan_package
from tui.packaging.requirements import read_requirements

EXECUTOR = "us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.2-4.py310:latest"
CLOUD, LOCAL = LaunchTarget("p", "us-central1", False), LaunchTarget("local", "us-central1", True)


def package(**block: Any) -> Package:
    return Package.of({"path": ".", "script": "task.py", "executorImage": EXECUTOR, **block})


def job(*pools: dict[str, Any], output: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = {"workerPoolSpecs": list(pools) or [{"replicaCount": 1}]}
    if output:
        spec["baseOutputDirectory"] = {"outputUriPrefix": output}
    return {"displayName": "My job!", "jobSpec": spec}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "my-task"
    (root / "lib").mkdir(parents=True)
    (root / "task.py").write_text("import lib.a\nprint('hello', lib.a.X)\n")
    (root / "lib/a.py").write_text("X = 1\n")
    (root / "requirements.txt").write_text("# none yet\n")
    return root


@pytest.mark.parametrize(
    ("block", "where", "words"),
    [
        ({"path": ""}, ("path",), "folder"),
        ({"executorImage": ""}, ("executorImage",), "must have the image for its code"),
        ({"script": ""}, (), "either a script or a module"),
        ({"module": "a.b"}, (), "either a script or a module"),
        ({"script": "", "module": "a/b"}, ("module",), "must be a module name"),
        ({"script": "../task.py"}, ("script",), "must be inside"),
        ({"script": "/task.py"}, ("script",), "must be inside"),
        ({"script": "task.rb"}, ("script",), r"must end with \.py or \.sh"),
        ({"requirements": "../r.txt"}, ("requirements",), "must be inside"),
        ({"stagingBucket": "my-bucket"}, ("stagingBucket",), "must be a bucket"),
        ({"build": "kaniko"}, ("build",), "must be one of auto"),
        ({"build": "docker"}, ("image",), "pushes an image"),
    ],
)
def test_a_wrong_block_is_refused_where_it_is_wrong(
    block: dict[str, Any], where: tuple[str], words: str
) -> None:
    import re

    found = [(path, sentence) for path, sentence, _ in package(**block).problems()]
    assert any(path == where and re.search(words, sentence) for path, sentence in found), found


def test_a_right_block_has_no_problem() -> None:
    assert list(package().problems()) == []
    block = {
        "script": "",
        "module": "a.b",
        "build": "docker",
        "image": "r/p/i",
        "stagingBucket": "gs://bkt/x/",
    }
    assert list(package(**block).problems()) == []


def test_the_task_is_put_where_none_is_and_args_and_env_stay() -> None:
    env = [{"name": "A", "value": "b"}]
    pools = (
        {"replicaCount": 1, "pythonPackageSpec": {"args": ["--x"], "env": env}},
        {"replicaCount": 2, "containerSpec": {"args": ["--y"]}},
        {"replicaCount": 3, "containerSpec": {"imageUri": "reducer"}},
        {},
    )
    before = job(*pools)
    as_package = with_task(before, package(), PackagedTask("gs://b/p.tar.gz"))["jobSpec"]["workerPoolSpecs"]
    want = {"executorImageUri": EXECUTOR, "packageUris": ["gs://b/p.tar.gz"], "pythonModule": MODULE}
    assert as_package[0] == {"replicaCount": 1, "pythonPackageSpec": {**want, "args": ["--x"], "env": env}}
    assert as_package[1] == {"replicaCount": 2, "pythonPackageSpec": {**want, "args": ["--y"]}}
    assert as_package[2:] == [pools[2], {}]
    own = package(executorImage="pytorch/pytorch:2.9")
    task = PackagedTask.of_package("gs://b/a b.tar.gz", own, local=False)
    wrapped = with_task(before, own, task)["jobSpec"]["workerPoolSpecs"]
    script = f"python3 -m pip install --quiet '/gcs/b/a b.tar.gz' && exec python3 -m {MODULE} \"$@\""
    command = ["sh", "-c", script, "vxtui_task"]
    assert wrapped[0]["containerSpec"] == {
        "imageUri": "pytorch/pytorch:2.9", "command": command, "args": ["--x"], "env": env,
    }  # fmt: skip
    assert not PackagedTask.of_package("gs://b/x", own, local=True).wrapped
    assert not PackagedTask.of_package("gs://b/x", package(), local=False).wrapped
    as_image = with_task(before, package(), PackagedTask("r/i:1", is_image=True))["jobSpec"][
        "workerPoolSpecs"
    ]
    assert as_image[0]["containerSpec"] == {"imageUri": "r/i:1", "args": ["--x"], "env": env}
    assert before == job(*pools), "the given job is not changed"
    with pytest.raises(PackagingError, match="No worker pool runs"):
        with_task(job(pools[2]), package(), PackagedTask("x"))


def test_the_staging_bucket_is_the_given_one_or_that_of_the_output() -> None:
    assert staging_of(job(), package(stagingBucket="gs://own/deep/"), local=False) == "gs://own/deep"
    assert staging_of(job(output="gs://out/run/1"), package(), local=False) == "gs://out"
    assert staging_of(job(), package(), local=True) == "gs://vxtui-staging"
    with pytest.raises(PackagingError, match="must have a bucket"):
        staging_of(job(), package(), local=False)
    uri = package_uri("gs://b", "My job!", "0123456789abcdef00")
    assert uri == "gs://b/vxtui-packages/my-job/0123456789abcdef/vxtui_task-0.1.tar.gz"


@pytest.mark.parametrize(
    ("path", "is_inside"),
    [
        ("a/b", True),
        ("./a", True),
        ("a/../b", True),
        ("..", False),
        ("a/../../b", False),
        ("/a", False),
        (".", False),
    ],
)
def test_inside(path: str, is_inside: bool) -> None:
    assert stays_below(path) is is_inside


def read(text: str, **others: str) -> list[str]:
    return read_requirements(text, "requirements.txt", lambda name: others[name.replace(".", "_")])


def test_requirements_are_read_as_pip_reads_them() -> None:
    text = "numpy>=2 # arrays\n\n# none\ntqdm ==4.* ; python_version > '3'\nx @ https://e.org/x#egg=1\n"
    text += "-r more.txt\n"
    text += "long \\\n  >=1\nhashed==1 --hash=sha256:ab"
    found = read(text, more_txt="einops\r\n")
    want = [
        "numpy>=2",
        "tqdm==4.* ; python_version > '3'",
        "x @ https://e.org/x#egg=1",
        "einops",
        "long>=1",
        "hashed==1",
    ]
    assert [str(Requirement(f)) for f in found] == [str(Requirement(w)) for w in want]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--index-url https://e.org", "PIP_INDEX_URL"), ("-e .", "importable"), ("-c c.txt", "versions"),
        ("./local", "NAME"), ("git+https://e.org/x", "NAME @ URL"), ("-r ../up.txt", ""), ("a b c", "NAME"),
        ("-r requirements.txt", ""),
    ],
)  # fmt: skip
def test_what_a_package_can_t_carry_is_refused_with_its_line(line: str, words: str) -> None:
    with pytest.raises(PackagingError) as refused:
        read(f"numpy\n{line}\n")
    assert refused.value.message.startswith("requirements.txt:2: ") and words in refused.value.fix


@given(st.text())
def test_any_requirements_text_gives_requirements_or_a_sentence(text: str) -> None:
    try:
        found = read_requirements(text, "r.txt", lambda _: "")
    except PackagingError as error:
        assert error.message.startswith("r.txt:")
    else:
        assert all(Requirement(line) for line in found)


@given(st.lists(st.text("ab*?[]!-. é", min_size=1, max_size=8), max_size=5))
def test_a_file_s_name_is_a_pattern_for_itself_alone(names: list[str]) -> None:
    import fnmatch

    for name in names:
        assert fnmatch.fnmatchcase(name, glob_escaped(name))
        assert not fnmatch.fnmatchcase(name + "x", glob_escaped(name))


def test_what_ignore_files_leave_out_is_not_packed(folder: Path) -> None:
    for name in (".git/x", ".venv/y", "__pycache__/a.pyc", "data/big.bin", "data/keep.txt", "notes.md"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("x")
    (folder / ".gitignore").write_text("task.py\n")  # not looked at beside the other
    (folder / ".gcloudignore").write_text("#!include:.gitignore\ndata/*\n!data/keep.txt\n")
    found = collect(package(exclude=["*.md"]), folder)
    assert found.names == ["data/keep.txt", "lib/a.py", "requirements.txt", "task.py"]
    again = collect(package(path="my-task", exclude=["*.md"]), folder.parent)
    assert again.digest == found.digest
    (folder / "task.py").write_text("print(2)")
    assert collect(package(exclude=["*.md"]), folder).digest != found.digest


def test_a_name_that_is_not_utf_8_is_refused_unless_it_is_ignored(folder: Path) -> None:
    odd = folder / os.fsdecode(b"bad\xff.txt")
    odd.write_text("x")
    with pytest.raises(PackagingError, match=r"is not UTF-8: 'bad\\udcff.txt'"):
        collect(package(script="task.py"), folder)
    assert odd.name not in collect(package(script="task.py", exclude=["*.txt"]), folder).names


def test_an_ignore_file_without_end_is_refused(folder: Path) -> None:
    with (folder / ".gcloudignore").open("wb") as file:
        file.truncate(100_000_000_000)
    with pytest.raises(PackagingError, match=r"gcloudignore can't be read: it has more than 1,000,000 bytes"):
        collect(package(script="task.py"), folder)


def test_a_folder_that_is_a_loop_of_links_is_named(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "back")
    (tmp_path / "back").symlink_to(tmp_path / "loop")
    with pytest.raises(PackagingError, match="points back to itself"):
        collect(package(path="loop"), tmp_path)


def test_links_are_packed_as_files_and_none_leads_outside(folder: Path, tmp_path: Path) -> None:
    (folder / "same.py").symlink_to("task.py")
    source = collect(package(), folder)
    assert dict(source.files)["same.py"] == folder / "task.py"
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("s")
    for name, target, words in (
        ("out", tmp_path / "outside/secret", "outside the folder"),
        ("dir", tmp_path / "outside", "link to a folder"),
        ("gone", folder / "nowhere", "link to a file that does not exist"),
        ("loop", folder / "loop", "link that points back to itself"),
    ):
        (folder / name).symlink_to(target)
        with pytest.raises(PackagingError, match=words):
            collect(package(), folder)
        assert "secret" not in collect(package(exclude=[name]), folder).names
        (folder / name).unlink()
    os.mkfifo(folder / "pipe")
    with pytest.raises(PackagingError, match="must be a regular file"):
        collect(package(), folder)


def test_what_is_missing_or_too_much_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for block, words in (
        ({"path": "nowhere"}, "does not exist"),
        ({"script": "other.py"}, r"script other.py is not in .*"),
        ({"script": "", "module": "lib.b"}, "module lib.b is not in"),
        ({"exclude": ["task.py"]}, "excluded"),
        ({"requirements": "r.txt"}, "requirements file r.txt is not in"),
    ):
        with pytest.raises(PackagingError, match=words):
            collect(package(**block), folder)
    monkeypatch.setattr(files, "MAX_BYTES", 30)
    with pytest.raises(PackagingError, match=r"The largest are task\.py") as large:
        collect(package(), folder)
    assert "bucket" in large.value.fix
    monkeypatch.setattr(files, "MAX_FILES", 2)
    with pytest.raises(PackagingError, match="more than 2 files"):
        collect(package(), folder)


def test_the_archive_is_the_same_for_the_same_files_and_starts_the_script(
    folder: Path, tmp_path: Path
) -> None:
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "[odd] *.txt").write_text("odd")
    source = collect(package(), folder)
    one, two = (write_sdist(source, path) for path in (tmp_path, folder.parent))
    first = one.read_bytes()
    os.utime(folder / "task.py", (1, 1))
    assert write_sdist(collect(package(), folder), tmp_path).read_bytes() == first == two.read_bytes()
    unpacked = tmp_path / "unpacked"
    with tarfile.open(one) as archive:
        archive.extractall(unpacked, filter="data")
    top = unpacked / "vxtui_task-0.1"
    assert stat.S_IMODE((top / "vxtui_task/source/run.sh").stat().st_mode) & 0o100
    call = next(n for n in ast.walk(ast.parse((top / "setup.py").read_text())) if isinstance(n, ast.Call))
    words = {k.arg: ast.literal_eval(k.value) for k in call.keywords}
    assert words["install_requires"] == [] and "source/[[]odd] [*].txt" in words["package_data"]["vxtui_task"]
    done = subprocess.run(
        [sys.executable, "-m", MODULE, "--flag"],
        cwd=top,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "hello 1\n"), done.stderr


def test_a_module_is_started_as_one(folder: Path, tmp_path: Path) -> None:
    (folder / "lib/go.py").write_text(
        "import sys, task\nfrom . import a\nprint(__name__, a.X, sys.argv[1:])\nsys.exit(7)\n"
    )
    one = write_sdist(collect(package(script="", module="lib.go"), folder), tmp_path)
    with tarfile.open(one) as archive:
        archive.extractall(tmp_path, filter="data")
    done = subprocess.run(
        [sys.executable, "-m", MODULE, "a b"],
        cwd=tmp_path / "vxtui_task-0.1",
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert (done.returncode, done.stdout) == (7, "hello 1\n__main__ 1 ['a b']\n"), done.stderr


def test_the_build_folder_is_what_the_dockerfile_names(folder: Path, tmp_path: Path) -> None:
    (folder / "requirements.txt").write_text("einops\n")
    (folder / "Dockerfile").write_text("the user's own")
    target = tmp_path / "build"
    target.mkdir()
    source = collect(package(), folder)
    write_build_folder(source, target)
    text = (target / "Dockerfile").read_text()
    assert text == dockerfile(source.package, ["einops"])
    assert text.splitlines() == [
        f"FROM {EXECUTOR}",
        "RUN rm -rf /var/sitecustomize",
        "ENV HOME=/home",
        "WORKDIR /usr/app",
        'COPY ["requirements.txt", "/tmp/requirements.txt"]',
        "RUN pip install --no-cache-dir -r /tmp/requirements.txt",
        'COPY ["source", "./"]',
        'ENTRYPOINT ["python3", "task.py"]',
    ]
    assert (target / "requirements.txt").read_text() == "einops\n"
    assert (target / "source/Dockerfile").read_text() == "the user's own"
    assert '"-m", "a.b"' in dockerfile(package(script="", module="a.b"), []) and "pip" not in dockerfile(
        package(), []
    )


def test_the_commands_of_each_builder() -> None:
    assert build_commands("podman", "r/i:1", "/d", "p") == [
        ["podman", "build", "--platform", "linux/amd64", "--tag", "r/i:1", "/d"],
        ["podman", "push", "r/i:1"],
    ]
    assert build_commands("cloud-build", "r/i:1", "/d", "p") == [
        ["gcloud", "builds", "submit", "/d", "--tag", "r/i:1", "--project", "p", "--quiet"]
    ]
    digest = "a" * 64
    assert image_uri("h:5000/p/i", digest) == f"h:5000/p/i:{'a' * 16}"
    assert (
        image_uri("h/p/i:v1", digest) == "h/p/i:v1"
        and image_uri("h/p/i@sha256:0", digest) == "h/p/i@sha256:0"
    )


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_the_wrapping_command_hands_each_argument_on(tmp_path: Path) -> None:
    own = package(executorImage="pytorch/pytorch:2.9")
    program(tmp_path, "python3", 'echo "$@"; for a in "$@"; do echo "<$a>"; done')
    pools = with_task(
        job({"containerSpec": {"args": ["a b", "$HOME", "c'd"]}}), own, PackagedTask("gs://b/x", wrapped=True)
    )
    spec = pools["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(
        [*spec["command"], *spec["args"]], env=path, capture_output=True, text=True, timeout=LIMIT, check=True
    )
    assert "-m pip install --quiet /gcs/b/x" in done.stdout
    assert done.stdout.splitlines()[-3:] == ["<a b>", "<$HOME>", "<c'd>"]


async def test_the_builder_is_the_first_that_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert await find_builder() == ""
    program(tmp_path, "gcloud", "exit 0")
    assert await find_builder() == "cloud-build"
    program(tmp_path, "docker", "echo no daemon >&2; exit 1")
    assert await find_builder() == "cloud-build"
    with pytest.raises(PackagingError, match="docker can't build an image here: no daemon"):
        await find_builder("docker")
    with pytest.raises(PackagingError, match="podman is not on PATH"):
        await find_builder("podman")
    program(tmp_path, "podman", "exit 0")
    assert await find_builder() == "podman"


async def test_a_build_tells_its_lines_and_its_failure_and_ends_with_its_caller(tmp_path: Path) -> None:
    program(tmp_path, "builder", 'echo "step $1"; test "$1" != bad || { echo broken >&2; exit 3; }')
    one = str(tmp_path / "builder")
    told: list[str] = []
    await run_builder([[one, "a"], [one, "b"]], told.append)
    assert told == [f"{one} a", "step a", f"{one} b", "step b"]
    with pytest.raises(PackagingError, match=r"exit code 3:\nstep bad\nbroken"):
        await run_builder([[one, "bad"], [one, "never"]], told.append)
    assert "step never" not in told
    begun = asyncio.Event()
    pid = tmp_path / "pid"
    program(tmp_path, "slow", f"echo $$ > {pid}; echo on; exec /bin/sleep 600")

    def tell(line: str) -> None:
        if line == "on":
            begun.set()

    task = asyncio.create_task(run_builder([[str(tmp_path / "slow")]], tell))
    await asyncio.wait_for(begun.wait(), LIMIT)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


async def test_with_an_image_and_a_builder_the_plan_shows_the_dockerfile(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    program(bin_folder, "docker", "exit 0")
    monkeypatch.setenv("PATH", str(bin_folder))
    given = package(image="us-central1-docker.pkg.dev/p/r/i", stagingBucket="gs://stage")
    plan = await plan_package(PackageRequest(job(), given, str(folder), CLOUD))
    assert plan.builder == "docker" and plan.dockerfile.startswith("FROM ")
    image = plan.custom_job["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["imageUri"]
    assert image == f"us-central1-docker.pkg.dev/p/r/i:{plan.source.digest[:16]}"
    # The emulator has no containers, and without a builder there is no image.
    assert (await plan_package(PackageRequest(job(), given, str(folder), LOCAL))).builder == ""
    monkeypatch.setenv("PATH", str(tmp_path))
    plan = await plan_package(PackageRequest(job(), given, str(folder), CLOUD))
    assert plan.builder == "" and plan.task.uri.startswith("gs://stage/vxtui-packages/my-task/")
    other = await plan_package(PackageRequest({**job(), "displayName": "run-2"}, given, str(folder), CLOUD))
    assert other.task.uri == plan.task.uri, "uploaded once for jobs of different names"
    with pytest.raises(PackagingError, match="runs no containers"):
        await plan_package(PackageRequest(job(), package(image="r/i", build="docker"), str(folder), LOCAL))
    with pytest.raises(PackagingError, match=r"package\.script: \.\./x\.py must be inside"):
        await plan_package(PackageRequest(job(), package(script="../x.py"), str(folder), CLOUD))

"""Parameters that a launch fills in."""

from __future__ import annotations

import getpass
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from tests.shell import Home, home
from tui.domain.interchange import ConfigFile, from_text
from tui.domain.profile import ProfileInvalid, load
from tui.domain.profile.launch_command import KNOWN, is_known, of_shell
from tui.store.profiles.launch_values import launch_values

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
POOL = "--worker-pool-spec=machine-type=n1-standard-4,container-image-uri=gcr.io/p/i"


@pytest.mark.parametrize(
    ("written", "command"),
    [
        ("date +%s", "date +%s"),
        ("date -u '+%Y-%m-%dT%H:%M:%SZ'", "date -u +%Y-%m-%dT%H:%M:%SZ"),
        ('date "+%Y %b %-d"', "date +%Y %b %-d"),
        ("gcloud config get-value project 2> /dev/null", "gcloud config get-value project"),
        ("id -un", "whoami"),
        ("git rev-parse --short HEAD", "git rev-parse --short HEAD"),
        ("date", ""),
        ("date +%N", ""),
        ("date -d yesterday +%F", ""),
        ("date +%F; rm -rf /", ""),
        ("date '+%F", ""),
        ("git rev-parse HEAD | cut -c1-7", ""),
        ("gcloud secrets versions access latest", ""),
    ],
)
def test_few_commands_are_known(written: str, command: str) -> None:
    assert of_shell(written) == command
    assert is_known(command) or not command


@pytest.mark.parametrize("form", ["%Y%m%d_%H%M%S", "%s", "%F %T", "%-d.%b", "100%%", "%j-%u-%V"])
def test_a_date_is_that_of_the_command(form: str) -> None:
    done = subprocess.run(
        ["date", "-u", "-d", "@1772600767", f"+{form}"], capture_output=True, text=True, check=True
    )
    made = launch_values({"T": f"date -u +{form}"}, given_names=(), project="", now=NOW, folder=Path())
    assert made == {"T": done.stdout.strip()}


def test_commit_user_and_project_are_found_or_left_out(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    commands = {"C": "git rev-parse --short HEAD", "U": "whoami", "P": "gcloud config get-value project"}
    without = launch_values(commands, given_names=("U",), project="", now=NOW, folder=tmp_path)
    assert without == {}
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    found = launch_values(commands, given_names=(), project="p", now=NOW, folder=tmp_path)
    commit = subprocess.run(
        [*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert found == {"C": commit, "U": getpass.getuser(), "P": "p"}


@pytest.mark.parametrize("setting", ["{at_launch: rm -rf /}", "{at_launch: whoami, default: me}"])
def test_other_commands_and_defaults_are_refused(setting: str) -> None:
    with pytest.raises(ProfileInvalid) as caught:
        load(f"displayName: x\nparameters:\n  a: {setting}\njobSpec: {{}}\n", "f.yaml", "f")
    assert all(command in str(caught.value) for command in KNOWN) and caught.value.problems[0].line == 3


def test_an_import_names_the_commands_of_the_script() -> None:
    text = f'TS=$(date +%F)\ngcloud ai custom-jobs create --display-name="$(whoami)-$TS-$(uname)" {POOL}'
    found = yaml.safe_load(from_text(text, "launch.sh", lambda _: ConfigFile("", "")).text)
    settings = found["parameters"]
    assert {name: each.get("at_launch") for name, each in settings.items()} == {
        "whoami": "whoami", "TS": "date +%F", "uname": None,
    }  # fmt: skip


@pytest.fixture
def place() -> Iterator[Home]:
    with home() as found:
        yield found


def test_the_verb_fills_them_in_and_set_wins(place: Home, tmp_path: Path) -> None:
    script = tmp_path / "launch.sh"
    script.write_text(f'gcloud ai custom-jobs create --display-name="x-$(date -u +%Y)-$(whoami)" {POOL}\n')
    done = place.run("profiles", "import", str(script), "--name", "stamped")
    assert done.returncode == 0, done.stderr
    shown = place.run("launch", "stamped", "--dry-run", "--json")
    year = datetime.now(tz=UTC).year
    assert f'"x-{year}-{getpass.getuser()}"' in shown.stdout, shown.stderr
    shown = place.run("launch", "stamped", "--dry-run", "--json", "--set", "date=then")
    assert f'"x-then-{getpass.getuser()}"' in shown.stdout


@pytest.mark.parametrize("name", ["a" * 58, "a.b", "a" * 54 + "-{date}"])
def test_a_name_that_the_pods_of_a_job_can_not_have_is_refused_before_the_launch(
    place: Home, name: str
) -> None:
    words = ("--context", "local-k8s", "launch", "k8s-pytorch-2node", "--name", name)
    for how in ("--dry-run", "--yes"):
        done = place.run(*words, how)
        assert done.returncode == 2 and not done.stdout, done.stderr
        assert (
            "can't be the name of a PyTorchJob" in done.stderr or "Use at most 54 characters" in done.stderr
        )
    assert not (place.root / "s" / "emulator" / "kubernetes").exists()

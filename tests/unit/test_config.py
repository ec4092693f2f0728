"""Settings: what a file and the environment give, what is wrong with them, and their memory."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from tui.config.loader import load_settings
from tui.config.settings import Context, Settings, SettingsError

TEXT = """
context: one
contexts:
  - {name: one, project: p, regions: [us-central1, europe-west4]}
slow: true
keys: {jobs.cancel: x}
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in fields(Settings):
        monkeypatch.delenv(f"VXTUI_{name.name.upper()}", raising=False)
    monkeypatch.delenv("VXTUI_CONFIG", raising=False)
    monkeypatch.setenv("VXTUI_STATE_DIR", str(tmp_path / "s"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "c"))
    (tmp_path / "c" / "vxtui").mkdir(parents=True)
    return tmp_path / "c" / "vxtui" / "config.yaml"


def test_without_a_file_all_is_as_ready_made() -> None:
    assert load_settings() == Settings()


def test_a_file_is_read_once_and_then_remembered(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write_text(TEXT)
    first = load_settings()
    assert first == Settings(
        contexts=[Context("one", project="p", regions=["us-central1", "europe-west4"])],
        context="one",
        slow=True,
        keys={"jobs.cancel": "x"},
    )
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "tui.config.settings_file", None)
        assert load_settings() == first
    place.write_text(TEXT + "theme: nord\n")
    assert load_settings().theme == "nord"


def test_the_environment_goes_before_the_file_and_before_the_memory(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write_text(TEXT)
    assert load_settings().slow
    monkeypatch.setenv("VXTUI_SLOW", "0")
    monkeypatch.setenv("VXTUI_KEYS", '{"jobs.delete": "F8"}')
    found = load_settings()
    assert not found.slow and found.keys == {"jobs.delete": "F8"} and found.context == "one"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("slow: maybe", "config.yaml:1: slow: expected true or false."),
        ("contexts: 5", "config.yaml:1: contexts: expected a list; put a dash before each element."),
        ("contexts:\n  - {project: p}", "config.yaml:2: contexts[0].name: this setting is missing."),
        (
            "context: nope",
            "config.yaml:1: context: No context is called nope. Known contexts: local, local-k8s, all.",
        ),
        (
            "contexts:\n  - {name: g, kind: group, members: [local, x]}",
            "config.yaml:2: contexts[0].members[1]: No context is called x. "
            "Known contexts: local, local-k8s.",
        ),
        ("slow: true\nthem: nord", "config.yaml:2: them: unknown setting; did you mean theme?"),
        ("slow: true\nzzz: nord", "config.yaml:2: zzz: unknown setting. Known settings: contexts"),
        ("contexts:\n  - {name: a, zone: b}", "config.yaml:2: contexts[0].zone: unknown setting."),
        ("contexts:\n  - {name: a, regions: []}", "at least one region"),
        ("contexts:\n  - {name: a, kind: gke}", "contexts[0].kind: "),
        ("[1, 2]", "expected fields such as `contexts:`"),
        ("a: [", "not valid YAML"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(place: Path, text: str, words: str) -> None:
    place.write_text(text)
    with pytest.raises(SettingsError) as error:
        load_settings()
    assert words in str(error.value) and str(place) in str(error.value)


@pytest.mark.parametrize("text", ["", "\n", "# nothing yet\n\n"])
def test_a_file_without_settings_means_all_defaults(place: Path, text: str) -> None:
    place.write_text(text)
    assert load_settings() == Settings()


@pytest.mark.parametrize(("value", "words"), [("{", "not valid JSON"), ('["a"]', "VXTUI_KEYS in the env")])
def test_what_is_wrong_with_the_environment(monkeypatch: pytest.MonkeyPatch, value: str, words: str) -> None:
    monkeypatch.setenv("VXTUI_KEYS", value)
    with pytest.raises(SettingsError, match=words):
        load_settings()


@pytest.mark.parametrize("cached", ["", "[]", '{"key": 1}', '{"key": null, "settings": {"contexts": [{}]}}'])
def test_a_cache_that_cant_be_used_is_written_anew(place: Path, tmp_path: Path, cached: str) -> None:
    (tmp_path / "s" / "cache").mkdir(parents=True)
    (tmp_path / "s" / "cache" / "settings.json").write_text(cached)
    place.write_text(TEXT)
    assert load_settings().slow and load_settings().slow


def test_a_cached_file_loads_no_parser(place: Path) -> None:
    place.write_text(TEXT)
    load_settings()
    code = (
        "import sys\nfrom tui.config.loader import load_settings\nassert load_settings().slow\n"
        "print([name for name in ('pydantic', 'yaml', 'textual') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

"""Files of `--config`: what gcloud sends is what a profile sends, and what it refuses is refused.

The bodies and refusals were made by gcloud 578.0.0 against a server that records requests.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tui.domain.document.source import ProblemSeverity, camel
from tui.domain.interchange import export, from_text, read_config
from tui.domain.profile import ProfileInvalid, inspect, load
from tui.domain.profile.autofix import apply_fixes, fixable

CASES: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_suffix(".json").read_text())
SENT = sorted(name for name, case in CASES.items() if not case.keys() & {"error", "warning"})
WARNED = sorted(name for name, case in CASES.items() if "warning" in case)
REFUSED = sorted(name for name, case in CASES.items() if "error" in case)
FIXED = sorted(name for name, case in CASES.items() if case.get("fixed"))


def plain(value: Any, key: str = "") -> Any:
    """REST form as the service reads it: camelCase, numbers without quotes, nothing that is empty."""
    if isinstance(value, dict):
        found = {camel(name): plain(inner, camel(name)) for name, inner in value.items()}
        return {name: inner for name, inner in found.items() if inner not in (None, {}, [])}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return int(value) if key == "replicaCount" else value


def sent(text: str) -> Any:
    return plain(load(text, "c.yaml", "c").render().custom_job["jobSpec"])


def errors(text: str) -> list[str]:
    return [p.id for p in inspect(text, "c.yaml", "c") if p.severity is ProblemSeverity.ERROR]


@pytest.mark.parametrize("name", SENT)
def test_what_gcloud_sends_is_sent(name: str) -> None:
    text, wanted = CASES[name]["yaml"], plain(CASES[name]["sent"])
    assert sent(text) == wanted
    assert sent(from_text(text, "c.yaml", lambda _: {}).text) == wanted
    assert plain(read_config(text, "c.yaml")) == wanted
    profile = load(text, "c.yaml", "c")
    request = profile.render()
    done = export(profile, request, "gcloud", project="p", region="us-central1", file="c.yaml")
    assert sent(done.text) == wanted


@pytest.mark.parametrize("name", SENT)
def test_fixes_write_the_form_that_every_reader_takes(name: str) -> None:
    done = apply_fixes(CASES[name]["yaml"], "c.yaml", "c")
    assert not [p for p in done.remaining if p.id in {"profile.list", "gcloud.underscore"}]
    if {p.id for p in done.fixed} <= {"profile.list", "gcloud.underscore"}:
        assert sent(done.text) == plain(CASES[name]["sent"])


@pytest.mark.parametrize("name", REFUSED)
def test_what_gcloud_or_the_service_refuses_has_an_error(name: str) -> None:
    case = CASES[name]
    assert case["error"] in errors(case["yaml"])
    with pytest.raises(ProfileInvalid):
        load(case["yaml"], "c.yaml", "c").render()
    found = [p for p in inspect(case["yaml"], "c.yaml", "c") if p.id == case["error"]]
    assert all(p.message and (p.line or not case["yaml"]) for p in found), found


@pytest.mark.parametrize("name", [name for name in CASES if "refused" in CASES[name]])
def test_a_config_that_gcloud_refuses_is_no_ground_for_flags(name: str) -> None:
    with pytest.raises(ProfileInvalid):
        read_config(CASES[name]["yaml"], "c.yaml")


@pytest.mark.parametrize("name", WARNED)
def test_what_only_the_reader_of_config_refuses_is_a_warning(name: str) -> None:
    case = CASES[name]
    assert errors(case["yaml"]) == []
    assert case["warning"] in [p.id for p in inspect(case["yaml"], "c.yaml", "c")]
    assert any("gcloud refuses" in line for line in from_text(case["yaml"], "c.yaml", lambda _: {}).notes)


@pytest.mark.parametrize("name", FIXED)
def test_a_fix_makes_gcloud_take_the_file(name: str) -> None:
    done = apply_fixes(CASES[name]["yaml"], "c.yaml", "c")
    assert sent(done.text) == CASES[name]["fixed"], done.text


def test_a_wrapper_around_the_spec_is_a_profile_but_no_config() -> None:
    text = CASES["plain"]["yaml"]
    wrapped = "displayName: x\njobSpec:\n" + "".join(f"  {line}\n" for line in text.splitlines())
    assert sent(wrapped) == plain(CASES["plain"]["sent"])
    with pytest.raises(ProfileInvalid, match=r"c.yaml:1:1.*gcloud sends displayName, jobSpec as fields"):
        read_config(wrapped, "c.yaml")


def test_a_script_with_a_config_that_gcloud_refuses_is_refused() -> None:
    script = (
        "LR={}\ncat > c.yaml <<EOF\n{}EOF\ngcloud ai custom-jobs create --display-name=x --config=c.yaml\n"
    )
    text = CASES["args_quoted"]["yaml"].replace('"8"', "${LR}")
    with pytest.raises(ProfileInvalid, match=r"0\.1 has no quotes, and gcloud refuses it"):
        from_text(script.format("0.1", text), "s.sh", lambda _: {})
    assert "--lr=0.1" in from_text(script.format("--lr=0.1", text), "s.sh", lambda _: {}).text


def test_a_file_with_a_key_twice_is_not_fixed() -> None:
    container = "  containerSpec: {imageUri: a/b, args: one}\n"
    source = f"workerPoolSpecs:\n  replicaCount: 1\n  replicaCount: 2\n{container}"
    fixed = apply_fixes(source, "a.yaml", "a")
    assert fixed.text == source and not fixed.fixed
    assert "gcloud.repeated-key" in {p.id for p in fixed.remaining}
    assert not any(fixable(p) for p in fixed.remaining)

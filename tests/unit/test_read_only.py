"""Read-only contexts: every action and every verb that changes something is refused, whatever sets it."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from tui.actions.action import Action
from tui.actions.availability import read_only_refusal
from tui.actions.registry import action, actions, operation, register
from tui.config.access import ReadOnly, access_of
from tui.config.settings import Context, Settings
from tui.verbs.command_group import cli
from tui.verbs.run import Declared, declared_of

ROOT = Path(__file__).parents[2]
CONFIG = """
contexts:
  - {name: research, project: p}
  - {name: production, project: q, read_only: true}
  - {name: both, kind: group, members: [research, production]}
  - {name: closed, kind: group, members: [production]}
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The settings' file, with a context that is read-only."""
    for name in Settings.__dataclass_fields__:
        monkeypatch.delenv(f"VXTUI_{name.upper()}", raising=False)
    monkeypatch.setenv("VXTUI_STATE_DIR", str(tmp_path / "s"))
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    monkeypatch.setenv("VXTUI_CONFIG", str(path))
    return path


# What is read-only


def contexts(**production: Any) -> Settings:
    return Settings(
        contexts=[
            Context("research", project="p"),
            Context("production", project="q", **production),
            Context("both", kind="group", members=["research", "production"]),
        ]
    )


def test_a_context_is_read_only_by_its_own_setting_or_by_all(place: Path) -> None:
    settings = contexts(read_only=True)
    research, production, both = settings.contexts
    assert access_of(settings, research).read_only is None
    closed = access_of(settings, production).read_only
    assert closed is not None and closed.reason == f"the context production is read-only ({closed.setting})"
    assert closed.setting == f"read_only: true in {place}"
    assert "read_only: false" in closed.fix
    settings.read_only = True
    closed = access_of(settings, research).read_only
    assert closed is not None and closed.setting == f"read_only: true in {place}"
    assert access_of(settings, both).read_only is not None
    flag = access_of(Settings(), research, flag=True).read_only
    assert flag is not None and "--read-only" in flag.setting


def test_the_environment_is_named_where_it_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VXTUI_READ_ONLY", "1")
    closed = access_of(Settings(read_only=True), Context("a")).read_only
    assert closed is not None and "VXTUI_READ_ONLY" in closed.setting and "VXTUI_READ_ONLY" in closed.fix


def test_a_group_is_read_only_for_the_jobs_of_a_member_that_is() -> None:
    settings = contexts(read_only=True)
    access = access_of(settings, settings.contexts[2])
    assert access.read_only is None
    assert access.refused_for("research") is None and access.refused_for("production") is not None
    settings.contexts[0].read_only = True
    assert access_of(settings, settings.contexts[2]).read_only is not None


# Actions


def refusal_words(refused: Action, closed: ReadOnly | None) -> str:
    """The sentence of a refusal; "" without one."""
    refusal = read_only_refusal(refused, closed)
    return refusal.reason if refusal is not None else ""


def test_an_operation_has_a_name_and_goes_through_the_gate() -> None:
    closed = access_of(Settings(), Context("a"), flag=True).read_only
    mutating = [found for found in actions() if found.mutates]
    assert len(mutating) > 15
    for found in mutating:
        assert not found.direct, found.id
        assert "--read-only" in refusal_words(found, closed), found.id
        assert operation(found.operation).operation == found.operation
    assert not any(refusal_words(found, closed) for found in actions() if not found.mutates)
    assert refusal_words(action("profiles.editor"), closed).startswith("Editing the file is refused: ")
    for one, words in {
        "app.preempt": "Fault injection",
        "job.clone": "Import",
        "jobs.clone": "Import",
    }.items():
        assert refusal_words(action(one), closed).startswith(f"{words} is refused: ")
        assert refusal_words(action(one), closed) == refusal_words(operation(action(one).operation), closed)


@pytest.fixture
def toy() -> Iterator[Action]:
    """An action of another package, as a kind of work brings some."""
    found = Action("toy.spin", "x", "spin", "Spin the toy", "toy", "spin", operation="toy.spin")
    register([found])
    yield found
    from tui.actions import registry

    del registry._BY_ID[found.id]


def test_a_toy_action_is_known_and_refused_like_any_other(toy: Action) -> None:
    assert actions("toy") == [toy] and operation("toy.spin") is toy
    closed = access_of(Settings(), Context("a"), flag=True).read_only
    assert refusal_words(toy, closed) == "Spin is refused: vxtui is read-only (the option --read-only)."
    with pytest.raises(ValueError, match=r"toy\.spin"):
        register([toy])


# Verbs


def leaves(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every verb with the words that call it."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        else:
            yield (*path, name), command


VERBS = dict(leaves(cli))
MUTATING = {path: verb for path, verb in VERBS.items() if declared_of(verb).operation}


def arguments(command: click.Command, declared: Declared) -> list[str]:
    """The least that the verb takes, with the flags that make it change something."""
    found = []
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            word = "1" if isinstance(parameter.type, click.IntRange) else "nothing"
            found += [word] if parameter.required else []
        elif parameter.required:
            kind = parameter.type
            found += [parameter.opts[0], kind.choices[0] if isinstance(kind, click.Choice) else "1"]
        if declared.when.get(str(parameter.name)):
            is_flag = isinstance(parameter, click.Option) and parameter.is_flag
            found += [parameter.opts[0]] if is_flag else [parameter.opts[0], "1=100"]
    return found


def call(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


def test_every_verb_says_what_it_changes() -> None:
    assert len(VERBS) > 20 and {("launch",), ("emulator", "stop"), ("profiles", "import")} <= set(MUTATING)
    for path, verb in VERBS.items():
        declared = declared_of(verb)
        names = {parameter.name for parameter in verb.params}
        assert set(declared.when) <= names, path
        assert not declared.operation or operation(declared.operation).mutates, path


@pytest.mark.parametrize("path", MUTATING, ids=" ".join)
def test_a_verb_that_changes_something_is_refused_in_a_read_only_context(
    path: tuple[str, ...], place: Path, tmp_path: Path
) -> None:
    command = MUTATING[path]
    given = arguments(command, declared_of(command))
    for context in ("production", "closed"):
        done = call(*path, *given, "--context", context, "--json")
        assert done.exit_code == 2, done.output
        error = json.loads(done.output)["error"]
        assert error["code"] == "READ_ONLY" and str(place) in error["message"], error
        assert "read_only: false" in error["fix"]
    done = call("--read-only", *path, *given, "--context", "research", "--json")
    assert done.exit_code == 2 and "--read-only" in json.loads(done.output)["error"]["message"]
    # Nothing was begun: neither the audit journal nor an emulator.
    assert sorted(p.name for p in (tmp_path / "s").glob("*") if p.name != "cache") == []


def test_the_emulator_is_closed_by_its_own_context_from_anywhere(place: Path) -> None:
    place.write_text(
        "contexts:\n  - {name: a, project: p}\n  - {name: local, kind: local, read_only: true}\n"
    )
    done = call("emulator", "stop", "--context", "a", "--json")
    assert done.exit_code == 2 and "context local" in json.loads(done.output)["error"]["message"]


def test_what_changes_nothing_is_not_refused(place: Path) -> None:
    done = call("contexts", "--context", "production", "--json")
    assert done.exit_code == 0
    found: list[Mapping[str, Any]] = json.loads(done.output)["contexts"]
    assert {c["name"]: c["read_only"] for c in found} == {
        "research": False, "production": True, "both": False, "closed": True, "local": False,
            "local-k8s": False, "all": False,
    }  # fmt: skip


# The one way

CHANGES = {
    "jobs.create", "jobs.cancel", "jobs.delete", "create_bucket", "upload", "prepare_package",
    "write_profile", "copy_profile", "replace_text", "admin_call", "audit",
}  # fmt: skip
"""What changes something outside this process: only operations, and what these call, may call it."""
BELOW = ("tui/actions/operations/", "tui/backends/", "tui/packaging/", "tui/store/", "tui/emulator/")


def _word(node: ast.AST) -> str:
    """The name that a node uses; with `jobs.` before it where it is an operation of a service of jobs."""
    if isinstance(node, ast.Name):
        return node.id
    if not isinstance(node, ast.Attribute) or not {node.attr, f"jobs.{node.attr}"} & CHANGES:
        return ""
    owner = ast.unparse(node.value)
    of_jobs = owner in {"service", "pipelines"} or "job_service(" in owner or ".jobs[" in owner
    return f"jobs.{node.attr}" if of_jobs else node.attr


def test_only_operations_change_something() -> None:
    known, found = set(), []
    for path in (ROOT / "tui").rglob("*.py"):
        name = str(path.relative_to(ROOT))
        for node in ast.walk(ast.parse(path.read_text())):
            word = _word(node)
            if word in CHANGES:
                known.add(word)
                if not name.startswith(BELOW):
                    found.append(f"{name}:{node.lineno} {word}")
    assert found == []
    # A word that nothing uses any more guards nothing.
    assert known == CHANGES

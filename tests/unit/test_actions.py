"""The registry: ids, keys and words that can't hit each other."""

from __future__ import annotations

import pytest

from tui.actions.registry import action, actions, bindings, key_problems, key_text

FORBIDDEN = {"ctrl+a", "ctrl+b", "ctrl+d", "ctrl+k"}
SCOPES = list(dict.fromkeys(a.scope for a in actions()))


def test_ids_are_unique_and_name_their_scope() -> None:
    ids = [a.id for a in actions()]
    assert len(ids) == len(set(ids))
    assert all(a.id.startswith(a.scope + ".") for a in actions())


@pytest.mark.parametrize("scope", SCOPES)
def test_a_key_does_one_thing_in_a_scope(scope: str) -> None:
    keys = [key for a in actions(scope) for key in a.key.split(",") if key]
    assert len(keys) == len(set(keys))
    assert not FORBIDDEN & set(keys)


@pytest.mark.parametrize("scope", [s for s in SCOPES if s not in {"app", "table"}])
def test_no_key_of_the_app_is_hidden_by_a_list(scope: str) -> None:
    everywhere = {key for a in actions("app") for key in a.key.split(",") if key}
    assert not everywhere & {key for a in actions(scope) for key in a.key.split(",")}


def test_what_destroys_asks_first_and_closes_in_read_only_mode() -> None:
    for found in actions():
        if any(word in found.id for word in ("cancel", "delete")):
            assert found.confirm and found.mutates, found.id
        if found.confirm:
            assert found.mutates, found.id


def test_bindings_go_through_the_gate_unless_direct() -> None:
    by_id = {b.id: b for b in bindings("jobs", "table")}
    assert by_id["jobs.cancel"].action == "screen.do('jobs.cancel')"
    assert by_id["table.down"].action == "cursor_down"
    assert set(by_id) == {a.id for a in (*actions("jobs"), *actions("table")) if a.key}


def test_key_text_follows_the_users_keys() -> None:
    assert key_text(action("app.help"), {}) == "?"
    assert key_text(action("table.down"), {}) == "j down"
    assert key_text(action("jobs.cancel"), {"jobs.cancel": "x"}) == "x"
    assert key_text(action("app.theme"), {}) == ""


def test_a_key_map_is_checked() -> None:
    assert key_problems({}) == []
    assert key_problems({"jobs.cancel": "K", "app.help": "f1"}) == []
    assert key_problems({"jobs.cancel": "c,s"}) == ["The key map gives s to both jobs.cancel and jobs.sort."]
    assert key_problems({"app.help": "y"})[0].endswith("app.help and jobs.copy_command.")
    assert "nothing.here" in key_problems({"nothing.here": "y"})[0]


def test_an_unknown_id_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        action("jobs.fly")

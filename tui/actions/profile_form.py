"""Actions of the profile form."""

from __future__ import annotations

from tui.actions.action import Action


def _act(id: str, key: str, label: str, help: str, operation: str = "", *, footer: bool = True) -> Action:
    """An action whose scope and method follow from its id."""
    scope, _, name = id.partition(".")
    return Action(id, key, label, help, scope, name, operation, footer=footer)


def _move(name: str, key: str, label: str, method: str) -> Action:
    return Action(
        f"formview.{name}", key, label, label.capitalize(), "formview", method, footer=False, direct=True
    )


_FORM = (
    _act("form.open", "enter", "edit", "Edit the value, choose one, or open the group"),
    _act("form.fix", "F", "fix", "Do what the problem under the cursor proposes"),
    _act("form.switch", "space", "switch", "Turn a yes into a no, or a switch on or off"),
    _act("form.add", "a", "add", "Add a pool, an argument, a variable, a label or a parameter"),
    _act("form.save", "ctrl+s", "save", "Write the file; comments and order stay", "profile.save"),
    _act("form.undo", "u", "undo", "Undo the last change"),
    _act("form.next_problem", "n", "next problem", "Go to the next problem"),
    _act("form.remove", "D", "remove", "Remove the field, the element or the pool"),
    Action("form.launch", "l", "launch", "Launch the saved profile", "form", "launch",
           operation="job.launch", needs="jobs.create"),
    _act("form.diff", "d", "diff", "What differs from the file"),
    _act("form.request", "v", "view request", "The exact request it would send"),
    _act("form.find", "slash", "find", "Find a field by its name, value or help"),
    _act("form.redo", "U,ctrl+y", "redo", "Make the undone change again"),
    _act("form.fold", "z", "fold", "Open or close the group", footer=False),
    _act("form.fold_all", "Z", "fold all", "Close every group, or open the usual ones", footer=False),
    _act("form.next_section", "right_square_bracket", "next section", "Next section", footer=False),
    _act("form.previous_section", "left_square_bracket", "section before", "Section before", footer=False),
    _act("form.previous_problem", "N", "previous problem", "Go to the problem before", footer=False),
    _act("form.parameter", "p", "parameter", "Make it a parameter, which a launch asks for", footer=False),
    _act("form.inline", "P", "no parameter", "Put the parameter's default in its place", footer=False),
    _act("form.save_as", "S", "save as", "Save as another profile of yours", "profile.save"),
    _act("form.editor", "E", "editor", "Open the file in your editor", "profile.edit"),
    _act("form.why", "i", "more", "All that is known of the field and its problems", footer=False),
    _act("form.copy", "y", "copy", "Copy the value", footer=False),
    _act("form.back", "escape", "back", "Back to the profiles; asks where something is not saved"),
)  # fmt: skip

_DIFF = (
    _act("diff.copy", "y", "copy", "Copy the changes"),
    _act("diff.back", "escape", "back", "Back to the form"),
)

_VIEW = (
    _move("down", "j,down", "next row", "cursor_down"),
    _move("up", "k,up", "previous row", "cursor_up"),
    _move("first", "g,home", "first row", "first"),
    _move("last", "G,end", "last row", "last"),
    _move("page_down", "pagedown", "a page down", "page_down"),
    _move("page_up", "pageup", "a page up", "page_up"),
)

ACTIONS: tuple[Action, ...] = (*_FORM, *_DIFF, *_VIEW)

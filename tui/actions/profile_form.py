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
    _act("form.open", "enter", "edit", "Edit or choose the value, or open the group"),
    _act("form.fix", "F", "fix", "Apply the fix of the problem under the cursor"),
    _act("form.switch", "space", "switch", "Toggle a yes or no, or a switch"),
    _act("form.add", "a", "add", "Add a pool, argument, variable, label or parameter"),
    _act("form.save", "ctrl+s", "save", "Write the file; comments and order are kept", "profile.save"),
    _act("form.undo", "u", "undo", "Undo the last change"),
    _act("form.next_problem", "n", "next problem", "Next problem"),
    _act("form.remove", "D", "remove", "Remove the field, the element or the pool"),
    Action("form.launch", "l", "launch", "Launch the saved profile", "form", "launch",
           operation="job.launch", needs="jobs.create"),
    _act("form.diff", "d", "diff", "Show the changes to the file"),
    _act("form.request", "v", "view request", "Show the exact request"),
    _act("form.find", "slash", "find", "Find a field by its name, value or help"),
    _act("form.redo", "U,ctrl+y", "redo", "Redo the undone change"),
    _act("form.fold", "z", "fold", "Open or close the group", footer=False),
    _act("form.fold_all", "Z", "fold all", "Close every group, or open the default ones", footer=False),
    _act("form.next_section", "right_square_bracket", "next section", "Next section", footer=False),
    _act("form.previous_section", "left_square_bracket", "section before", "Previous section", footer=False),
    _act("form.previous_problem", "N", "previous problem", "Previous problem", footer=False),
    _act("form.parameter", "p", "parameter", "Make the value a parameter of the launch", footer=False),
    _act("form.inline", "P", "no parameter", "Replace the parameter by its default", footer=False),
    _act("form.save_as", "S", "save as", "Save as another profile", "profile.save"),
    Action("form.editor", "E", "editor", "Open the file in $EDITOR", "form", "editor",
           operation="profile.edit", name="editing the file"),
    _act("form.why", "i", "more", "Show the field's help and all its problems", footer=False),
    _act("form.copy", "y", "copy", "Copy the value", footer=False),
    _act("form.back", "escape", "back", "Back to the profiles; asks about unsaved changes"),
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
    _move("page_down", "pagedown", "next page", "page_down"),
    _move("page_up", "pageup", "previous page", "page_up"),
)

ACTIONS: tuple[Action, ...] = (*_FORM, *_DIFF, *_VIEW)

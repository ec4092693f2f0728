"""Actions of the profile form."""

from __future__ import annotations

from tui.actions.action import Action, act, move

_FORM = (
    act("form.open", "enter", "edit", "Edit or choose the value, or open the group",
        when=("writable_row", "readable")),
    act("form.fix", "F", "fix", "Apply the fix of the problem under the cursor",
        when=("writable", "readable", "fix")),
    act("form.switch", "space", "switch", "Toggle a yes or no, or a switch",
        when=("writable", "readable", "switch")),
    act("form.add", "a", "add", "Add a pool, argument, variable, label or parameter",
        when=("writable", "readable")),
    act("form.save", "ctrl+s", "save", "Write the file; comments and order are kept",
        operation="profile.save", when=("changes",)),
    act("form.undo", "u", "undo", "Undo the last change", when=("writable", "undo")),
    act("form.next_problem", "n", "next problem", "Next problem", when=("readable", "problems")),
    act("form.remove", "D", "remove", "Remove the field, the element or the pool",
        when=("writable", "readable")),
    act("form.launch", "l", "launch", "Launch the saved profile", operation="job.launch",
        needs="jobs.create", when=("readable", "request")),
    act("form.diff", "d", "diff", "Show the changes to the file", when=("difference",)),
    act("form.request", "v", "view request", "Show the exact request", when=("readable", "request")),
    act("form.find", "slash", "find", "Find a field by its name, value or help", when=("readable",)),
    act("form.redo", "U,ctrl+y", "redo", "Redo the undone change", when=("writable", "redo")),
    act("form.fold", "z", "fold", "Open or close the group", footer=False, when=("readable",)),
    act("form.fold_all", "Z", "fold all", "Close every group, or open the default groups", footer=False,
        when=("readable",)),
    act("form.next_section", "right_square_bracket", "next section", "Next section", footer=False,
        when=("readable",)),
    act("form.previous_section", "left_square_bracket", "section before", "Previous section", footer=False,
        when=("readable",)),
    act("form.previous_problem", "N", "previous problem", "Previous problem", footer=False,
        when=("readable", "problems")),
    act("form.parameter", "p", "parameter", "Make the value a parameter of the launch", footer=False,
        when=("writable", "readable")),
    act("form.inline", "P", "no parameter", "Replace the parameter by its default", footer=False,
        when=("writable", "readable")),
    act("form.save_as", "S", "save as", "Save as another profile", operation="profile.save"),
    act("form.editor", "E", "editor", "Open the file in $EDITOR", operation="profile.edit",
        name="editing the file"),
    act("form.why", "i", "more", "Show the field's help and all its problems", footer=False,
        when=("readable",)),
    act("form.copy", "y", "copy", "Copy the value", footer=False, when=("readable",)),
    act("form.back", "escape", "back", "Back to the profiles; asks about unsaved changes"),
)  # fmt: skip

_DIFF = (
    act("diff.copy", "y", "copy", "Copy the changes"),
    act("diff.back", "escape", "back", "Back to the form"),
)

_VIEW = (
    move("formview.down", "j,down", "next row", "cursor_down"),
    move("formview.up", "k,up", "previous row", "cursor_up"),
    move("formview.first", "g,home", "first row", "first"),
    move("formview.last", "G,end", "last row", "last"),
    move("formview.page_down", "pagedown", "next page", "page_down"),
    move("formview.page_up", "pageup", "previous page", "page_up"),
)

ACTIONS: tuple[Action, ...] = (*_FORM, *_DIFF, *_VIEW)

"""Actions of one job's screen and of the widgets in it."""

from __future__ import annotations

from tui.actions.action import Action


def _act(
    id: str, key: str, label: str, help: str, method: str = "", *, footer: bool = False, direct: bool = False
) -> Action:
    """An action whose scope and method follow from its id, kept out of the footer unless it is asked for."""
    scope, _, name = id.partition(".")
    return Action(id, key, label, help, scope, method or name, footer=footer, direct=direct)


def _move(id: str, key: str, label: str, method: str) -> Action:
    return _act(id, key, label, label.capitalize(), method, direct=True)


_JOB = (
    Action(
        "job.cancel", "c", "cancel", "Cancel this job", "job", "cancel", operation="job.cancel",
        confirm=True, needs="jobs.cancel",
    ),
    Action(
        "job.delete", "D", "delete", "Delete this ended job", "job", "delete", operation="job.delete",
        confirm=True, needs="jobs.delete",
    ),
    _act("job.spec", "d", "spec", "The job's specification", "tab_spec"),
    _act("job.fleet", "m", "map", "This job's replicas and GPUs as a heat map"),
    Action(
        "job.clone", "C", "clone", "Save the job as a profile of yours", "job", "clone",
        operation="profile.import", footer=False,
    ),
    _act("job.pause", "p", "pause", "Hold the screen still, or let it go on"),
    _act("job.copy_name", "Y", "copy name", "Copy the job's resource name"),
    _act("job.link", "o", "link", "Show and copy the job's page in the cloud console"),
    _act("job.why", "W", "why", "What could not be read, why, and what helps"),
    _act("job.back", "escape", "back", "Give up the mark or the search, then back to the jobs", footer=True),
    _act("job.next_tab", "tab,right_square_bracket", "next tab", "Next tab", footer=True),
    _act("job.previous_tab", "shift+tab,left_square_bracket", "previous tab", "Previous tab"),
    *(
        Action(f"job.{name}", "", name, f"The job's {name}", "job", f"tab_{name}", footer=False)
        for name in ("overview", "replicas", "tasks", "logs", "metrics", "events")
    ),
)  # fmt: skip

_LOGS = (
    _act("logs.follow", "f", "follow", "Follow the end, or hold", footer=True),
    _act("logs.replica", "r", "replica", "Choose whose lines are shown", footer=True),
    _act(
        "logs.severity",
        "s",
        "severity",
        "Leave out what is less severe: all, info, warning, error",
        footer=True,
    ),
    _act("logs.search", "slash", "search", "Search with a regular expression", footer=True),
    _act("logs.next", "n", "next", "Next match", footer=True),
    _act("logs.previous", "N", "previous", "Previous match"),
    _act("logs.only", "ampersand", "only matches", "Show only what matches, or all"),
    _act("logs.next_error", "e", "error", "Next error", footer=True),
    _act("logs.previous_error", "E", "previous error", "Previous error"),
    _act("logs.wrap", "w", "wrap", "Break long lines, or cut them", footer=True),
    _act("logs.without", "exclamation_mark", "leave out", "Leave out what matches a regular expression"),
    _act("logs.time", "T", "go to time", "Go to a time: 14:02, +5m from the start, -10m"),
    _act("logs.json", "J", "JSON", "JSON lines: what they say, as they were written, field by field"),
    _act("logs.times", "t", "time", "Time of day, time since the start, no time"),
    _act("logs.fold", "R", "fold", "Fold the replica column away, or show it"),
    _act("logs.whole", "enter", "whole line", "The whole line with all its fields"),
    _act("logs.mark", "space", "mark", "Start a range at the cursor, or give it up"),
    _act("logs.copy", "y", "copy", "Copy the line, or the marked range", footer=True),
    _act("logs.save", "ctrl+s", "save", "Save what is shown to a file", footer=True),
    _act("logs.older", "u", "older", "Read older lines"),
    _act("file.back", "escape", "leave", "Give up the mark or the search, then leave", "back", footer=True),
    _move("logview.down", "j,down", "next line", "down"),
    _move("logview.up", "k,up", "previous line", "up"),
    _move("logview.top", "g,home", "first line", "top"),
    _move("logview.end", "G,end", "last line, and follow", "end"),
    _move("logview.page_down", "pagedown", "a page on", "page_forward"),
    _move("logview.page_up", "pageup", "a page back", "page_back"),
    _move("logview.right", "right,greater_than_sign", "see more of long lines", "side(1)"),
    _move("logview.left", "left,less_than_sign", "back to the left", "side(-1)"),
)

_PANES = (
    _act(
        "replicas.open", "enter", "logs of this replica", "Logs of the replica under the cursor", footer=True
    ),
    _act("replicas.fold", "space", "fold", "Fold the pool, or unfold it", footer=True),
    _act("replicas.copy", "y", "copy", "Copy the replica's name"),
    _act("tasks.open", "enter", "open", "The job of the task under the cursor", footer=True),
    _act("tasks.copy", "y", "copy", "Copy the resource name of the task's job"),
    _act("metrics.axis", "x", "axis", "Draw training over steps or over time", footer=True),
    _act("metrics.replica", "r", "replica", "Choose whose figures are drawn", footer=True),
    _act("metrics.span", "s", "span", "How far back: all, 1 hour, 10 minutes", footer=True),
    _act("metrics.zoom_in", "plus,equals_sign", "zoom", "Closer, around the crosshair", footer=True),
    _act("metrics.zoom_out", "minus", "zoom out", "Less close"),
    _act("metrics.whole", "0", "all of it", "All of the time there is"),
    _act("metrics.cross_left", "h,left", "crosshair left", "Values further left, of every line"),
    _act("metrics.cross_right", "l,right", "crosshair", "Values further right, of every line", footer=True),
    _act("metrics.earlier", "H,shift+left", "earlier", "Back by half of what is shown"),
    _act("metrics.later", "L,shift+right", "later", "On by half of what is shown"),
    _act("spec.find", "slash", "find", "Find in the specification", footer=True),
    _act("spec.next", "n", "next", "Next match", footer=True),
    _act("spec.previous", "N", "previous", "Previous match"),
    _act("spec.unmask", "x", "unmask", "Show secrets, or mask them", footer=True),
    _act("spec.copy", "y", "copy", "Copy the specification as it is shown", footer=True),
    _act("job_events.copy", "y", "copy", "Copy the event", footer=True),
    _act("job_events.open", "enter", "log here", "The log at the moment of the event", footer=True),
    _move("pane.down", "j,down", "scroll down", "scroll_down"),
    _move("pane.up", "k,up", "scroll up", "scroll_up"),
    _move("pane.top", "g,home", "to the top", "scroll_home"),
    _move("pane.end", "G,end", "to the end", "scroll_end"),
    _move("pane.page_down", "pagedown", "a page on", "page_down"),
    _move("pane.page_up", "pageup", "a page back", "page_up"),
)

_FLEET = (
    _move("heatmap.down", "j,down", "the cell below", "down"),
    _move("heatmap.up", "k,up", "the cell above", "up"),
    _move("heatmap.left", "h,left", "the cell before", "left"),
    _move("heatmap.right", "l,right", "the next cell", "right"),
    _move("heatmap.first", "g,home", "the first cell", "first"),
    _move("heatmap.last", "G,end", "the last cell", "last"),
    _move("heatmap.page_down", "pagedown", "a page down", "page_down"),
    _move("heatmap.page_up", "pageup", "a page up", "page_up"),
    _move("heatmap.next_group", "n", "the next job", "next_group"),
    _move("heatmap.previous_group", "N", "the job before", "previous_group"),
    _act("fleet.open", "enter", "open", "The job at this replica", footer=True),
    _act("fleet.measure", "m", "measure", "Next measure: utilization, memory, step lag, CPU", footer=True),
    _act("fleet.worst", "w", "worst", "To the cell that does worst, then to the next such one", footer=True),
    _act("fleet.pause", "p", "pause", "Hold the screen still, or let it go on"),
    _act("fleet.copy", "y", "copy", "Copy the replica's name"),
    _act("fleet.why", "W", "why", "What could not be read, why, and what helps"),
    _act("fleet.back", "escape", "back", "Back to where you came from", footer=True),
)

ACTIONS: tuple[Action, ...] = (*_LOGS, *_PANES, *_FLEET, *_JOB)

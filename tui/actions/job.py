"""Actions of one job's screen and of the widgets in it."""

from __future__ import annotations

from functools import partial

from tui.actions.action import Action, act, move

_act = partial(act, footer=False)


def _task_shell(scope: str, noun: str) -> Action:
    help = f"Open a shell in a replica of the {noun} under the cursor"
    return Action(
        f"{scope}.shell",
        "x",
        "shell",
        help,
        scope,
        "shell",
        operation="job.shell",
        footer=False,
        name="opening a shell",
        when=("task", "task_job"),
    )


_JOB = (
    act(
        "job.cancel", "c", "cancel", "Cancel this job", operation="job.cancel", confirm=True,
        needs="jobs.cancel", when=("job",),
    ),
    act(
        "job.delete", "D", "delete", "Delete this ended job", operation="job.delete", confirm=True,
        needs="jobs.delete", when=("job",),
    ),
    _act("job.spec", "d", "spec", "Show the job's specification", "tab_spec", when=("tab",)),
    act(
        "job.shell", "x", "shell", "Open a shell in a replica of this job", operation="job.shell",
        footer=False, name="opening a shell", when=("job",),
    ),
    _act("job.fleet", "m", "map", "Show this job's replicas and GPUs as a heat map"),
    act("job.clone", "C", "clone", "Save the job as a profile", operation="profile.import", when=("job",)),
    _act("job.pause", "p", "pause", "Pause or resume the display"),
    _act("job.copy_command", "y", "copy command", "Copy the command or manifest that creates the job"),
    _act("job.copy_name", "Y", "copy name", "Copy the job's resource name"),
    _act("job.link", "o", "link", "Open the job's page in the cloud console, or show and copy its address",
        when=("job",)),
    _act("job.why", "W", "why", "Show what could not be read, why, and how to fix it", when=("failure",)),
    _act("job.back", "escape", "back", "Clear the mark or the search, then back to the jobs", footer=True),
    _act("job.next_tab", "tab,right_square_bracket", "next tab", "Next tab", footer=True),
    _act("job.previous_tab", "shift+tab,left_square_bracket", "previous tab", "Previous tab"),
    *(
        Action(
            f"job.{name}", "", name, f"The job's {name}", "job", f"tab_{name}", footer=False, when=("tab",)
        )
        for name in ("overview", "replicas", "tasks", "logs", "metrics", "events")
    ),
)  # fmt: skip

_LOGS = (
    _act("logs.follow", "f", "follow", "Follow the end, or stop following", footer=True),
    _act("logs.replica", "r", "replica", "Choose the replica to show", footer=True),
    _act(
        "logs.severity",
        "s",
        "severity",
        "Lowest severity shown: all, info, warning, error",
        footer=True,
    ),
    _act("logs.search", "slash", "search", "Search with a regular expression", footer=True),
    _act("logs.next", "n", "next", "Next match", footer=True, when=("search",)),
    _act("logs.previous", "N", "previous", "Previous match", when=("search",)),
    _act("logs.only", "ampersand", "only matches", "Show only matching lines, or all", when=("search",)),
    _act("logs.next_error", "e", "error", "Next error", footer=True),
    _act("logs.previous_error", "E", "previous error", "Previous error"),
    _act("logs.wrap", "w", "wrap", "Wrap or cut long lines", footer=True),
    _act("logs.without", "exclamation_mark", "leave out", "Hide lines that match a regular expression"),
    _act(
        "logs.time", "T", "go to time", "Go to a time: 14:02, +5m from the start, -10m", when=("timestamps",)
    ),
    _act("logs.json", "J", "JSON", "Show JSON lines as message, as written, or by field"),
    _act("logs.times", "t", "time", "Show time of day, time since the start, or no time"),
    _act("logs.fold", "R", "fold", "Show or hide the replica column"),
    _act("logs.whole", "enter", "whole line", "Show the whole line with all its fields", when=("lines",)),
    _act("logs.mark", "space", "mark", "Start or clear a range at the cursor", when=("lines",)),
    _act("logs.copy", "y", "copy", "Copy the line, or the marked range", footer=True, when=("lines",)),
    _act("logs.save", "ctrl+s", "save", "Save what is shown to a file", footer=True, when=("lines",)),
    _act("logs.older", "u", "older", "Read older lines", when=("older",)),
    _act("file.back", "escape", "leave", "Clear the mark or the search, then quit", "back", footer=True),
    move("logview.down", "j,down", "next line", "down"),
    move("logview.up", "k,up", "previous line", "up"),
    move("logview.top", "g,home", "first line", "top"),
    move("logview.end", "G,end", "last line, follow", "end"),
    move("logview.page_down", "pagedown", "next page", "page_forward"),
    move("logview.page_up", "pageup", "previous page", "page_back"),
    move("logview.right", "right,greater_than_sign", "scroll right", "side(1)"),
    move("logview.left", "left,less_than_sign", "scroll left", "side(-1)"),
)

_PANES = (
    _act(
        "replicas.open",
        "enter",
        "logs of this replica",
        "Show the log of the replica under the cursor",
        footer=True,
        when=("row",),
    ),
    act(
        "replicas.shell",
        "x",
        "shell",
        "Open a shell in the replica under the cursor",
        operation="job.shell",
        when=("row", "replica"),
    ),
    _act("replicas.fold", "space", "fold", "Open or close the pool", footer=True, when=("row",)),
    _act("replicas.filter", "slash", "filter", "Filter by name, role or state", footer=True),
    _act("replicas.sort", "s", "sort", "Sort by the next column, or by the chosen one", footer=True),
    _act("replicas.reverse", "S", "reverse", "Reverse the order"),
    _act("replicas.copy", "y", "copy", "Copy the replica's name", when=("row", "replica")),
    _act(
        "tasks.open",
        "enter",
        "open",
        "Open the job of the task under the cursor",
        footer=True,
        when=("task", "task_job"),
    ),
    _act("tasks.copy", "y", "copy", "Copy the resource name of the task's job", when=("task", "task_job")),
    _task_shell("tasks", "task"),
    _act(
        "pipeline.open",
        "enter",
        "open",
        "Open the task's job; open or close a group",
        footer=True,
        when=("task", "openable"),
    ),
    _act(
        "pipeline.fold",
        "f",
        "fold",
        "Open or close the group, e.g. a loop's iterations",
        footer=True,
        when=("task", "group"),
    ),
    _act(
        "pipeline.next_failed",
        "e",
        "next failed",
        "Go to the next task that failed",
        footer=True,
        when=("failed_task",),
    ),
    _act(
        "pipeline.task",
        "t",
        "task",
        "Show all of the task: values, artifacts, attempts",
        footer=True,
        when=("task",),
    ),
    _act(
        "pipeline.log", "L", "log", "Show the log of the task's job", footer=True, when=("task", "task_job")
    ),
    _act(
        "pipeline.draw",
        "v",
        "drawing",
        "Show the tasks as a drawing, or as a tree",
        footer=True,
        when=("tasks",),
    ),
    move("dag.right", "l,right", "along a line to the right", "right"),
    move("dag.left", "h,left", "along a line to the left", "left"),
    move("dag.down", "j,down", "task below", "down"),
    move("dag.up", "k,up", "task above", "up"),
    move("dag.first", "g,home", "first task", "first"),
    move("dag.last", "G,end", "last task", "last"),
    _act("pipeline.copy", "y", "copy", "Copy the resource name of the task's job", when=("task", "task_job")),
    _task_shell("pipeline", "task"),
    _act(
        "trials.open",
        "enter",
        "open",
        "Open the job of the trial under the cursor",
        footer=True,
        when=("task", "task_job"),
    ),
    _act("trials.best", "b", "best", "Go to the best trial", footer=True, when=("best",)),
    _act("trials.order", "s", "order", "Order by the goal, or the newest first", footer=True),
    _act(
        "trials.picture",
        "v",
        "picture",
        "Next picture: best so far, results by each parameter, importance, none",
        footer=True,
    ),
    act(
        "trials.clone",
        "B",
        "clone trial",
        "Save the trial's job with its parameters as a profile",
        operation="profile.import",
        when=("task", "task_job"),
    ),
    act(
        "trials.stop",
        "X",
        "stop trial",
        "Cancel the job of the trial under the cursor",
        operation="job.cancel",
        confirm=True,
        needs="jobs.cancel",
        when=("task", "task_job", "active_trial"),
    ),
    _act("trials.copy", "y", "copy", "Copy the resource name of the trial's job", when=("task", "task_job")),
    _task_shell("trials", "trial"),
    _act("metrics.axis", "x", "axis", "Plot training over steps or over time", footer=True, when=("steps",)),
    _act("metrics.replica", "r", "replica", "Choose the replica to plot", footer=True),
    _act("metrics.span", "s", "span", "Time span: all, 1 hour, 10 minutes", footer=True),
    _act(
        "metrics.smooth",
        "a",
        "smooth",
        "Smooth the lines of training steps: off, 0.6, 0.9, 0.97",
        footer=True,
        when=("steps",),
    ),
    _act(
        "metrics.log_axis",
        "v",
        "log axis",
        "Logarithmic or plain axis of the training figures",
        when=("steps",),
    ),
    _act(
        "metrics.pin", "P", "pin a run", "Draw another run beside this one, or take it away", when=("steps",)
    ),
    _act(
        "metrics.zoom_in",
        "plus,equals_sign",
        "zoom",
        "Zoom in at the crosshair",
        footer=True,
        when=("chart",),
    ),
    _act("metrics.zoom_out", "minus", "zoom out", "Zoom out", when=("chart", "zoomed")),
    _act("metrics.whole", "0", "all", "Show the whole time span", when=("chart", "zoomed")),
    _act("metrics.cross_left", "h,left", "crosshair left", "Move the crosshair left", when=("chart",)),
    _act(
        "metrics.cross_right",
        "l,right",
        "crosshair",
        "Move the crosshair right",
        footer=True,
        when=("chart",),
    ),
    _act(
        "metrics.earlier",
        "H,shift+left",
        "earlier",
        "Scroll back by half of the span",
        when=("chart", "zoomed"),
    ),
    _act(
        "metrics.later", "L,shift+right", "later", "Scroll on by half of the span", when=("chart", "zoomed")
    ),
    _act("spec.find", "slash", "find", "Find in the specification", footer=True, when=("spec",)),
    _act("spec.next", "n", "next", "Next match", footer=True, when=("spec", "match")),
    _act("spec.previous", "N", "previous", "Previous match", when=("spec", "match")),
    _act("spec.unmask", "x", "unmask", "Show or mask secrets", footer=True, when=("spec", "secrets")),
    _act("spec.copy", "y", "copy", "Copy the specification as shown", footer=True, when=("spec",)),
    _act("job_events.copy", "y", "copy", "Copy the event", footer=True, when=("event",)),
    _act(
        "job_events.open",
        "enter",
        "log here",
        "Show the log at the time of the event",
        footer=True,
        when=("event",),
    ),
    move("pane.down", "j,down", "scroll down", "scroll_down"),
    move("pane.up", "k,up", "scroll up", "scroll_up"),
    move("pane.top", "g,home", "scroll to the top", "scroll_home"),
    move("pane.end", "G,end", "scroll to the end", "scroll_end"),
    move("pane.page_down", "pagedown", "next page", "page_down"),
    move("pane.page_up", "pageup", "previous page", "page_up"),
)

_TASK = (
    _act(
        "task.open",
        "enter",
        "open",
        "Open the job or the task that the line names",
        footer=True,
        when=("line", "linked"),
    ),
    _act(
        "task.log",
        "L",
        "log",
        "Show the log of the attempt under the cursor, or of the last one",
        footer=True,
        when=("task_job",),
    ),
    _act("task.filter", "slash", "find", "Show the lines that hold a text", footer=True),
    _act("task.copy", "y", "copy", "Copy the value of the line", footer=True, when=("line",)),
    _act(
        "task.link",
        "o",
        "link",
        "Show and copy the page of the task's job in the cloud console",
        footer=True,
        when=("task_job",),
    ),
    _act("task.scroll_on", "J,shift+down", "scroll the value", "Scroll the value below the lines"),
    _act("task.scroll_back", "K,shift+up", "scroll back", "Scroll the value back"),
    _act("task.back", "escape", "back", "Clear the search, then back", footer=True),
)

_COMPARE = (
    _act("compare.all", "a", "all", "Show all lines, or only those that differ", footer=True),
    _act("compare.first", "A", "open A", "Open the run A", footer=True),
    _act("compare.second", "B", "open B", "Open the run B", footer=True),
    _act("compare.filter", "slash", "find", "Show the lines that hold a text", footer=True),
    _act("compare.copy", "y", "copy", "Copy the line", footer=True, when=("line",)),
    _act("compare.back", "escape", "back", "Clear the search, then back", footer=True),
)

_FLEET = (
    move("heatmap.down", "j,down", "cell below", "down"),
    move("heatmap.up", "k,up", "cell above", "up"),
    move("heatmap.left", "h,left", "previous cell", "left"),
    move("heatmap.right", "l,right", "next cell", "right"),
    move("heatmap.first", "g,home", "first cell", "first"),
    move("heatmap.last", "G,end", "last cell", "last"),
    move("heatmap.page_down", "pagedown", "next page", "page_down"),
    move("heatmap.page_up", "pageup", "previous page", "page_up"),
    move("heatmap.next_group", "n", "next job", "next_group"),
    move("heatmap.previous_group", "N", "previous job", "previous_group"),
    _act("fleet.open", "enter", "open", "Open the job at this replica", footer=True, when=("cell",)),
    act(
        "fleet.shell",
        "x",
        "shell",
        "Open a shell in the replica under the cursor",
        operation="job.shell",
        when=("cell",),
    ),
    _act("fleet.measure", "m", "measure", "Next measure: utilization, memory, step lag, CPU", footer=True),
    _act(
        "fleet.worst",
        "w",
        "worst",
        "Go to the worst cell, then to the next worst",
        footer=True,
        when=("cell",),
    ),
    _act("fleet.pause", "p", "pause", "Pause or resume the display"),
    _act("fleet.copy", "y", "copy", "Copy the replica's name", when=("cell",)),
    _act("fleet.why", "W", "why", "Show what could not be read, why, and how to fix it", when=("failure",)),
    _act("fleet.back", "escape", "back", "Back to the previous screen", footer=True),
)

ACTIONS: tuple[Action, ...] = (*_LOGS, *_PANES, *_TASK, *_COMPARE, *_FLEET, *_JOB)

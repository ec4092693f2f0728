"""Actions of the frame and of the lists of jobs, profiles, quotas and events."""

from __future__ import annotations

from tui.actions.action import Action, act

_APP = (
    act(
        "app.jobs", "1", "jobs", "Jobs of every region of this context", footer=False,
        screen="tui.screens.jobs.screen:JobsScreen",
    ),
    act(
        "app.profiles", "2", "profiles", "Saved profiles to launch", footer=False,
        screen="tui.screens.profiles.screen:ProfilesScreen",
    ),
    act(
        "app.fleet", "3", "fleet", "Replicas and GPUs of all running jobs", footer=False,
        screen="tui.screens.fleet.screen:FleetScreen",
    ),
    act(
        "app.quotas", "4", "quotas", "Training quotas", footer=False, needs="quotas",
        screen="tui.screens.quotas.grid:QuotaGridScreen",
    ),
    act(
        "app.events", "6", "events", "Events: changes and their authors", footer=False,
        screen="tui.screens.events:EventsScreen",
    ),
    act(
        "app.models", "7", "models", "Models and their versions", footer=False, needs="serving",
        screen="tui.screens.serving.models:ModelsScreen",
    ),
    act(
        "app.endpoints", "8", "endpoints", "Endpoints and their deployed models", footer=False,
        needs="serving", screen="tui.screens.serving.endpoints:EndpointsScreen",
    ),
    act("app.job", "", "job", "Open one job by name or id", footer=False, argument="NAME"),
    act(
        "app.launch", "", "launch", "Launch a profile", operation="job.launch", confirm=True, footer=False,
        needs="jobs.create", argument="PROFILE",
    ),
    act(
        "app.cancel", "", "cancel", "Cancel a job by name or id", operation="job.cancel", confirm=True,
        footer=False, needs="jobs.cancel", argument="NAME",
    ),
    act(
        "app.delete", "", "delete", "Delete an ended job by name or id", operation="job.delete",
        confirm=True, footer=False, needs="jobs.delete", argument="NAME",
    ),
    act(
        "app.preempt", "", "preempt", "Preempt a job on the emulator, as Spot does",
        operation="emulator.fault", confirm=True, footer=False, argument="NAME", local=True,
    ),
    act(
        "app.tensorboard", "", "tensorboard", "Show a job's events in the installed TensorBoard",
        footer=False, argument="NAME",
    ),
    act(
        "app.emulator_stop", "", "stop the emulator", "Stop the emulator; its jobs keep running",
        operation="emulator.stop", confirm=True, footer=False, local=True, any_emulator=True,
    ),
    *(
        act(
            f"app.show_{tab}", "", word, f"Show {content} of a job by name or id", footer=False,
            command=word, argument="NAME",
        )
        for word, tab, content in (
            ("logs", "logs", "the log"), ("metrics", "metrics", "the metrics"),
            ("replicas", "replicas", "the replicas"), ("attempts", "attempts", "the attempts"),
            ("tasks", "tasks", "the tasks or trials"),
            ("diagnose", "overview", "the cause of the failure"), ("describe", "spec", "the specification"),
        )
    ),
    *(
        act(
            f"app.{word}_job", "", word, help, footer=False, command=word, argument="NAME",
            operation="job.shell" if word == "stacks" else f"job.{word}",
            confirm=word not in {"shell", "stacks"},
        )
        for word, help in (
            ("shell", "Open a shell in a replica of a job by name or id"),
            ("stacks", "Show where the replicas of a job by name or id wait"),
            ("suspend", "Suspend a job of a cluster by name or id"),
            ("resume", "Resume a suspended job by name or id"),
            ("scale", "Change the number of workers of a job by name or id"),
            ("rerun", "Run an ended pipeline again by name or id"),
        )
    ),
    act("app.compare", "", "compare", "Compare two runs by name or id", footer=False, argument="A B"),
    act("app.contexts", "", "contexts", "Choose another context from a list", footer=False),
    act("app.theme", "", "theme", "Change the colour theme", footer=False, argument="THEME"),
    act("app.context", "", "context", "Switch to another context", footer=False, argument="CONTEXT"),
    act(
        "app.prices", "dollar_sign", "prices", "Show the date of the prices, and read current prices",
        footer=False,
    ),
    act("app.command", "colon", "command", "Enter a command"),
    act("app.palette", "ctrl+p", "palette", "Find a command", footer=False),
    Action("app.refresh", "ctrl+r", "refresh", "Read again now, or reconnect", "app", "refresh_now"),
    act("app.help", "question_mark", "help", "Show the keys that work here"),
    act(
        "app.background", "ctrl+z", "background", "Suspend the console to the shell; fg resumes it",
        "suspend_process", footer=False,
    ),
    act("app.quit", "ctrl+q", "quit", "Quit; jobs keep running", footer=False),
)  # fmt: skip

_TABLE = (
    Action("table.down", "j,down", "down", "Next row", "table", "cursor_down", footer=False, direct=True),
    Action("table.up", "k,up", "up", "Previous row", "table", "cursor_up", footer=False, direct=True),
    Action("table.top", "g,home", "first", "First row", "table", "scroll_top", footer=False, direct=True),
    Action("table.end", "G,end", "last", "Last row", "table", "scroll_bottom", footer=False, direct=True),
    act("table.page_down", "pagedown", "page down", "Next page", footer=False, direct=True),
    act("table.page_up", "pageup", "page up", "Previous page", footer=False, direct=True),
    act("table.column_right", "right", "column", "Choose a column", footer=False, direct=True),
    act(
        "table.column_left",
        "left",
        "previous column",
        "Choose the previous column",
        footer=False,
        direct=True,
    ),
    Action(
        "table.fold",
        "z",
        "fold column",
        "Hide the chosen column, or the sorted column",
        "table",
        "fold_column",
        footer=False,
        direct=True,
    ),
    Action(
        "table.unfold",
        "Z",
        "unfold columns",
        "Show hidden columns",
        "table",
        "unfold_columns",
        footer=False,
        direct=True,
    ),
)

_JOBS = (
    act(
        "jobs.launch", "l", "launch", "Launch a saved profile", operation="job.launch", needs="jobs.create",
        key_only=True, connects_later=True,
    ),
    act("jobs.open", "enter", "open", "Open the job", when=("row",)),
    act("jobs.mark", "space", "mark", "Mark or unmark the job", when=("job",)),
    act("jobs.mark_all", "asterisk", "mark all", "Mark or unmark all shown jobs", footer=False,
        when=("row",)),
    act(
        "jobs.cancel", "c", "cancel", "Cancel the job, or the marked jobs", operation="job.cancel",
        confirm=True, needs="jobs.cancel", when=("job",), many=True,
    ),
    act(
        "jobs.delete", "D", "delete", "Delete the ended job, or the marked jobs", operation="job.delete",
        confirm=True, needs="jobs.delete", when=("job",), many=True,
    ),
    act("jobs.clone", "C", "clone", "Save the job as a profile", operation="profile.import", when=("job",)),
    act(
        "jobs.fold", "f", "fold", "Show or hide the parts of the job, e.g. a tuning job's trials",
        footer=False, when=("parts",),
    ),
    act(
        "jobs.shell", "x", "shell", "Open a shell in a replica of the job", operation="job.shell",
        footer=False, name="opening a shell", when=("job", "connection"),
    ),
    act("jobs.logs", "L", "logs", "Open the job at its log", footer=False, when=("job", "tab")),
    act("jobs.replicas", "R", "replicas", "Open the job at its replicas", footer=False, when=("job", "tab")),
    act("jobs.attempts", "A", "attempts", "Open the job at its attempts", footer=False, when=("job", "tab")),
    act("jobs.metrics", "M", "metrics", "Open the job at its metrics", footer=False, when=("job", "tab")),
    act(
        "jobs.suspend", "X", "suspend", "End the pods of a cluster's job, which can be resumed later",
        operation="job.suspend", confirm=True, footer=False, when=("job",),
    ),
    act(
        "jobs.resume", "U", "resume", "Start the suspended job again", operation="job.resume", confirm=True,
        footer=False, when=("job",),
    ),
    act("jobs.compare", "P", "compare", "Show the differences between the two marked runs",
        when=("two_runs",)),
    act("jobs.filter", "slash", "filter", "Filter: state:running gpu:a100 age<2d text"),
    act("jobs.sort", "s", "sort", "Sort by the next column"),
    act("jobs.sort_by", "", "sort by", "Sort by a column", footer=False, command="sort", argument="COLUMN"),
    act("jobs.columns", "v", "columns", "Choose the columns", footer=False),
    act("jobs.save_filter", "F", "save filter", "Save the filter as a tab", footer=False, when=("filter",)),
    act("jobs.forget_filter", "", "forget filter", "Remove the saved filter that is shown", footer=False,
        when=("saved_filter",)),
    act(
        "jobs.show_filter", "", "show filter", "Show a saved filter", footer=False, command="tab",
        argument="FILTER",
    ),
    act("jobs.next_filter", "right_square_bracket", "next tab", "Next saved filter", footer=False,
        when=("saved_filters",)),
    act("jobs.previous_filter", "left_square_bracket", "previous tab", "Previous saved filter", footer=False,
        when=("saved_filters",)),
    act("jobs.reverse", "S", "reverse", "Reverse the order", footer=False),
    act("jobs.group", "b", "group by", "Group by region, by state, or not at all", footer=False),
    act("jobs.pause", "p", "pause", "Pause or resume the display", footer=False),
    act(
        "jobs.copy_command", "y", "copy command", "Copy the command or manifest that creates the job",
        footer=False, when=("job",),
    ),
    act("jobs.copy", "Y", "copy name", "Copy the job's resource name", footer=False, when=("job",)),
    act(
        "jobs.link", "o", "link", "Open the job's page in the cloud console, or show and copy its address",
        footer=False, when=("job",),
    ),
    act("jobs.why", "W", "why", "Show each read error with its reason and fix", when=("failure",)),
    act("jobs.back", "escape", "clear", "Clear the filter, then the marks", footer=False),
)  # fmt: skip

_PROFILES = (
    act(
        "profiles.launch",
        "l",
        "launch",
        "Launch this profile",
        operation="job.launch",
        needs="jobs.create",
        when=("profile", "valid"),
    ),
    act("profiles.preview", "enter,v", "view request", "Show the exact request", when=("profile", "valid")),
    act("profiles.edit", "e", "edit", "Edit the profile in a form", when=("profile",)),
    act(
        "profiles.duplicate",
        "d",
        "duplicate",
        "Copy the profile to your folder and edit the copy",
        operation="profile.duplicate",
        when=("profile",),
    ),
    act(
        "profiles.editor",
        "E",
        "editor",
        "Open the file in $EDITOR",
        operation="profile.edit",
        name="editing the file",
        when=("profile",),
    ),
    act(
        "profiles.favourite",
        "space",
        "favourite",
        "Mark or unmark the profile as a favourite",
        when=("profile",),
    ),
    act("profiles.filter", "slash", "filter", "Filter by name or text"),
    act(
        "profiles.export",
        "x",
        "export",
        "Export the profile for gcloud, curl or Python",
        when=("profile", "valid", "one_context"),
    ),
    act("profiles.copy", "y", "copy path", "Copy the file's path", footer=False, when=("profile",)),
    act("profiles.back", "escape", "back", "Clear the filter, then back to the jobs", footer=False),
)

_PREVIEW = (
    act("preview.format", "j", "YAML or JSON", "Switch between YAML and JSON"),
    act("preview.unmask", "u", "unmask", "Show or mask secrets", when=("secrets",)),
    act("preview.copy", "y", "copy", "Copy the request as shown"),
    act("preview.back", "escape", "back", "Back"),
)

_EXPORT = (
    act("export.next", "j,tab", "next form", "Next format: gcloud, REST or Python"),
    act("export.copy", "y", "copy", "Copy the shown text"),
    act("export.save", "ctrl+s", "save", "Save the shown text to a file"),
    act("export.back", "escape", "back", "Back to the profiles"),
)

_QUOTA_GRID = (
    act("quota_grid.open", "enter", "what uses it", "Show the jobs that use these quotas", when=("region",)),
    act("quota_grid.profile", "p", "what fits", "Show where a profile fits", when=("profiles",)),
    act("quota_grid.kind", "tab", "spot, standard", "Spot or standard quotas"),
    act("quota_grid.request", "r", "request more", "Link to request more quota",
        when=("region", "own_limits")),
    act("quota_grid.filter", "slash", "filter", "Filter by region"),
    act("quota_grid.list", "v", "list", "List every metric"),
    act("quota_grid.sort", "s", "sort", "Sort by name, or with own regions first", footer=False),
    act("quota_grid.all", "a", "all", "Show or hide regions without quota"),
    act("quota_grid.next", "greater_than_sign", "columns", "Next columns", footer=False),
    act("quota_grid.previous", "less_than_sign", "columns", "Previous columns", footer=False),
    act("quota_grid.back", "escape", "back", "Back to the jobs", footer=False),
)  # fmt: skip

_QUOTAS = (
    act("quotas.grid", "v", "grid", "Back to the grid of regions", when=("regions",)),
    act("quotas.filter", "slash", "filter", "Filter by name or region"),
    act("quotas.all", "a", "all", "Show or hide metrics without limit and usage"),
    act("quotas.open", "enter", "open", "Open or close the region", footer=False, when=("group",)),
    act("quotas.sort", "s", "sort", "Sort by the next column, or by the chosen one"),
    act("quotas.reverse", "S", "reverse", "Reverse the order", footer=False),
    act("quotas.group", "b", "group by", "Toggle grouping by region"),
    act("quotas.back", "escape", "back", "Back to the jobs", footer=False),
)

_EVENTS = (
    act("events.open", "enter", "open", "Open the event's job", when=("job",)),
    act("events.filter", "slash", "filter", "Filter by job, kind or text"),
    act("events.back", "escape", "back", "Back to the jobs", footer=False),
)

ACTIONS: tuple[Action, ...] = (
    *_JOBS, *_PROFILES, *_PREVIEW, *_EXPORT, *_QUOTA_GRID, *_QUOTAS, *_EVENTS, *_TABLE, *_APP,
)  # fmt: skip

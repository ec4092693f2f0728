"""Actions of the frame and of the lists: everywhere, jobs, profiles, launch, quotas, events."""

from __future__ import annotations

from tui.actions.action import Action

_APP = (
    Action("app.jobs", "1", "jobs", "Jobs of every region of this context", "app", "jobs", footer=False),
    Action("app.profiles", "2", "profiles", "Saved profiles to launch", "app", "profiles", footer=False),
    Action("app.fleet", "3", "fleet", "Every replica and GPU that is at work", "app", "fleet", footer=False),
    Action("app.quotas", "4", "quotas", "Training quotas", "app", "quotas", footer=False, needs="quotas"),
    Action("app.events", "6", "events", "What happened in this console", "app", "events", footer=False),
    Action("app.job", "", "job", "Open one job by name or id", "app", "job", footer=False, argument="NAME"),
    Action(
        "app.launch",
        "",
        "launch",
        "Launch a profile",
        "app",
        "launch",
        mutates=True,
        confirm=True,
        footer=False,
        needs="jobs.create",
        argument="PROFILE",
    ),
    Action(
        "app.cancel",
        "",
        "cancel",
        "Cancel a job by name or id",
        "app",
        "cancel",
        mutates=True,
        confirm=True,
        footer=False,
        needs="jobs.cancel",
        argument="NAME",
    ),
    Action("app.theme", "", "theme", "Change the colours", "app", "theme", footer=False, argument="THEME"),
    Action(
        "app.context",
        "",
        "context",
        "Go to another context",
        "app",
        "context",
        footer=False,
        argument="CONTEXT",
    ),
    Action(
        "app.prices",
        "dollar_sign",
        "prices",
        "Prices: their date, and fresh ones",
        "app",
        "prices",
        footer=False,
    ),
    Action("app.command", "colon", "command", "Type a command", "app", "command"),
    Action("app.palette", "ctrl+p", "palette", "Find a command", "app", "palette", footer=False),
    Action(
        "app.refresh", "ctrl+r", "refresh", "Read again now, or try to connect again", "app", "refresh_now"
    ),
    Action("app.help", "question_mark", "help", "The keys that work here", "app", "help"),
    Action("app.quit", "ctrl+q", "quit", "Leave; jobs go on", "app", "quit", footer=False),
)

_TABLE = (
    Action("table.down", "j,down", "down", "Next row", "table", "cursor_down", footer=False, direct=True),
    Action("table.up", "k,up", "up", "Previous row", "table", "cursor_up", footer=False, direct=True),
    Action("table.top", "g,home", "first", "First row", "table", "scroll_top", footer=False, direct=True),
    Action("table.end", "G,end", "last", "Last row", "table", "scroll_bottom", footer=False, direct=True),
    Action(
        "table.page_down",
        "pagedown",
        "page down",
        "A page down",
        "table",
        "page_down",
        False,
        False,
        False,
        direct=True,
    ),
    Action(
        "table.page_up",
        "pageup",
        "page up",
        "A page up",
        "table",
        "page_up",
        False,
        False,
        False,
        direct=True,
    ),
    Action(
        "table.column_right",
        "right",
        "column",
        "Choose a column",
        "table",
        "column_right",
        footer=False,
        direct=True,
    ),
    Action(
        "table.column_left",
        "left",
        "column before",
        "Choose the column before",
        "table",
        "column_left",
        footer=False,
        direct=True,
    ),
    Action(
        "table.fold",
        "z",
        "fold column",
        "Fold the chosen column away, or the one sorted by",
        "table",
        "fold_column",
        footer=False,
        direct=True,
    ),
    Action(
        "table.unfold",
        "Z",
        "unfold columns",
        "Bring folded columns back",
        "table",
        "unfold_columns",
        footer=False,
        direct=True,
    ),
)

_JOBS = (
    Action(
        "jobs.launch",
        "l",
        "launch",
        "Launch a saved profile",
        "jobs",
        "launch",
        mutates=True,
        needs="jobs.create",
    ),
    Action("jobs.open", "enter", "open", "Open the job", "jobs", "open"),
    Action("jobs.mark", "space", "mark", "Mark or unmark the job", "jobs", "mark"),
    Action(
        "jobs.mark_all",
        "asterisk",
        "mark all",
        "Mark all that are shown, or none",
        "jobs",
        "mark_all",
        footer=False,
    ),
    Action(
        "jobs.cancel",
        "c",
        "cancel",
        "Cancel the job, or the marked ones",
        "jobs",
        "cancel",
        mutates=True,
        confirm=True,
        needs="jobs.cancel",
    ),
    Action(
        "jobs.delete",
        "D",
        "delete",
        "Delete the ended job, or the marked ones",
        "jobs",
        "delete",
        mutates=True,
        confirm=True,
        footer=False,
        needs="jobs.delete",
    ),
    Action("jobs.filter", "slash", "filter", "Filter: state:running gpu:a100 age<2d text", "jobs", "filter"),
    Action("jobs.sort", "s", "sort", "Sort by the next column", "jobs", "sort"),
    Action("jobs.reverse", "S", "reverse", "Turn the order round", "jobs", "reverse", footer=False),
    Action("jobs.group", "b", "group by", "Group by region, by state, or not", "jobs", "group", footer=False),
    Action(
        "jobs.pause", "p", "pause", "Hold the screen still, or let it go on", "jobs", "pause", footer=False
    ),
    Action("jobs.clone", "C", "clone", "Save the job as a profile of yours", "jobs", "clone", footer=False),
    Action("jobs.copy", "y", "copy", "Copy the job's resource name", "jobs", "copy", footer=False),
    Action(
        "jobs.link",
        "o",
        "link",
        "Show and copy the job's page in the cloud console",
        "jobs",
        "link",
        footer=False,
    ),
    Action("jobs.why", "w", "why", "What could not be read, why, and what helps", "jobs", "why"),
    Action("jobs.back", "escape", "clear", "Clear the filter, then the marks", "jobs", "back", footer=False),
)

_PROFILES = (
    Action(
        "profiles.launch",
        "l",
        "launch",
        "Launch this profile",
        "profiles",
        "launch",
        mutates=True,
        needs="jobs.create",
    ),
    Action(
        "profiles.preview",
        "enter,v",
        "view request",
        "The exact request it would send",
        "profiles",
        "preview",
    ),
    Action("profiles.edit", "e", "edit", "Open it as a form, every field with its help", "profiles", "edit"),
    Action(
        "profiles.duplicate",
        "d",
        "duplicate",
        "Copy it into your own folder and edit the copy",
        "profiles",
        "duplicate",
    ),
    Action("profiles.editor", "E", "editor", "Open the file in your editor", "profiles", "editor"),
    Action("profiles.filter", "slash", "filter", "Filter by name or text", "profiles", "filter"),
    Action("profiles.export", "x", "export", "As gcloud, curl or Python sends it", "profiles", "export"),
    Action("profiles.copy", "y", "copy path", "Copy the file's path", "profiles", "copy", footer=False),
    Action(
        "profiles.back",
        "escape",
        "back",
        "Clear the filter, then back to the jobs",
        "profiles",
        "back",
        footer=False,
    ),
)

_LAUNCH = (
    Action(
        "launch.go", "enter", "launch", "Launch it, once", "launch", "go", mutates=True, needs="jobs.create"
    ),
    Action("launch.next", "tab", "change a value", "Type into the next value", "launch", "next"),
    Action("launch.preview", "v", "view request", "The exact request", "launch", "preview"),
    Action("launch.fix", "F", "fix", "Mend what a check found, for this launch", "launch", "fix"),
    Action("launch.dry", "d", "dry run", "All that is known of it, as JSON", "launch", "dry"),
    Action("launch.down", "pagedown", "more", "Scroll the checks down", "launch", "down", footer=False),
    Action("launch.up", "pageup", "less", "Scroll the checks up", "launch", "up", footer=False),
    Action("launch.back", "escape", "back", "Back without launching", "launch", "back"),
)

_PREVIEW = (
    Action("preview.format", "j", "YAML or JSON", "Show it as YAML or as JSON", "preview", "format"),
    Action("preview.copy", "y", "copy", "Copy the request", "preview", "copy"),
    Action("preview.back", "escape", "back", "Back", "preview", "back"),
)

_EXPORT = (
    Action("export.next", "j,tab", "next form", "gcloud, REST or Python", "export", "next"),
    Action("export.copy", "y", "copy", "Copy what is shown", "export", "copy"),
    Action("export.save", "ctrl+s", "save", "Save what is shown to a file", "export", "save"),
    Action("export.back", "escape", "back", "Back to the profiles", "export", "back"),
)

_QUOTA_GRID = (
    Action("quota_grid.open", "enter", "what uses it", "What runs on these quotas", "quota_grid", "open"),
    Action("quota_grid.profile", "p", "what fits", "Where a profile would fit", "quota_grid", "profile"),
    Action("quota_grid.kind", "tab", "spot, standard", "Standard or preemptible", "quota_grid", "kind"),
    Action("quota_grid.request", "r", "ask for more", "Link to ask for more quota", "quota_grid", "request"),
    Action("quota_grid.filter", "slash", "filter", "Filter by region", "quota_grid", "filter"),
    Action("quota_grid.list", "v", "list", "Every metric in a flat list", "quota_grid", "list"),
    Action("quota_grid.sort", "s", "sort", "By name, or own ones first", "quota_grid", "sort", footer=False),
    Action("quota_grid.all", "a", "all", "Show regions with nothing, or hide them", "quota_grid", "all"),
    Action(
        "quota_grid.next", "greater_than_sign", "columns", "Columns further right", "quota_grid", "next",
        footer=False,
    ),
    Action(
        "quota_grid.previous", "less_than_sign", "columns", "Columns further left", "quota_grid", "previous",
        footer=False,
    ),
    Action("quota_grid.back", "escape", "back", "Back to the jobs", "quota_grid", "back", footer=False),
)  # fmt: skip

_QUOTAS = (
    Action("quotas.grid", "v", "grid", "Back to the grid of regions", "quotas", "grid"),
    Action("quotas.filter", "slash", "filter", "Filter by name or region", "quotas", "filter"),
    Action("quotas.all", "a", "all", "Show the ones with no limit and no use, or hide them", "quotas", "all"),
    Action("quotas.open", "enter", "open", "Open the region, or close it", "quotas", "open", footer=False),
    Action("quotas.sort", "s", "sort", "Sort by the next column, or by the chosen one", "quotas", "sort"),
    Action("quotas.reverse", "S", "reverse", "Turn the order round", "quotas", "reverse", footer=False),
    Action("quotas.group", "b", "group by", "Group by region, or not", "quotas", "group"),
    Action("quotas.back", "escape", "back", "Back to the jobs", "quotas", "back", footer=False),
)

_EVENTS = (
    Action("events.open", "enter", "open", "Open the event's job", "events", "open"),
    Action("events.back", "escape", "back", "Back to the jobs", "events", "back", footer=False),
)

ACTIONS: tuple[Action, ...] = (
    *_JOBS, *_PROFILES, *_LAUNCH, *_PREVIEW, *_EXPORT, *_QUOTA_GRID, *_QUOTAS, *_EVENTS, *_TABLE, *_APP,
)  # fmt: skip

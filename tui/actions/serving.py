"""Actions of the screens of models and endpoints."""

from __future__ import annotations

from tui.actions.action import Action

_MODELS = (
    Action("models.open", "enter", "open job", "Open the job that made this version", "models", "open"),
    Action(
        "models.deploy",
        "a",
        "deploy",
        "Deploy this version to an endpoint",
        "models",
        "deploy",
        operation="endpoint.deploy",
        confirm=True,
        needs="serving",
    ),
    Action(
        "models.fold", "f", "fold", "Show or hide the older versions of the model", "models", "fold",
    ),
    Action("models.filter", "slash", "filter", "Filter by name, alias or label", "models", "filter"),
    Action("models.copy", "y", "copy name", "Copy the version's resource name", "models", "copy"),
    Action(
        "models.link",
        "o",
        "link",
        "Open the model's page, or show and copy its address",
        "models",
        "link",
        footer=False,
    ),
    Action("models.back", "escape", "back", "Back to the jobs", "models", "back", footer=False),
)  # fmt: skip

_ENDPOINTS = (
    Action("endpoints.open", "enter", "model", "Show this version among the models", "endpoints", "open"),
    Action(
        "endpoints.step", "plus", "traffic", "Send this version 10, 25, 50, then 100 % of the requests",
        "endpoints", "step", operation="endpoint.split", confirm=True, needs="serving",
        name="split the traffic",
    ),
    Action(
        "endpoints.percent", "t", "percent", "Send this version any percentage of the requests",
        "endpoints", "percent", operation="endpoint.split", confirm=True, needs="serving",
    ),
    Action(
        "endpoints.roll_back", "u", "roll back", "Go back to the split before the last change",
        "endpoints", "roll_back", operation="endpoint.roll_back", confirm=True, needs="serving",
        name="roll back the traffic",
    ),
    Action(
        "endpoints.deploy", "a", "deploy", "Deploy a version of a model to this endpoint",
        "endpoints", "deploy", operation="endpoint.deploy", confirm=True, needs="serving",
    ),
    Action(
        "endpoints.undeploy", "D", "undeploy", "Take this version off the endpoint",
        "endpoints", "undeploy", operation="endpoint.undeploy", confirm=True, needs="serving",
    ),
    Action(
        "endpoints.log", "L", "log", "Show the last lines of this version's server, or of all servers",
        "endpoints", "log", needs="serving",
    ),
    Action("endpoints.filter", "slash", "filter", "Filter by name, version, machine", "endpoints", "filter"),
    Action("endpoints.copy", "y", "copy name", "Copy the resource name", "endpoints", "copy", footer=False),
    Action(
        "endpoints.link", "o", "link", "Open the endpoint's page, or show and copy its address",
        "endpoints", "link", footer=False,
    ),
    Action("endpoints.back", "escape", "back", "Back to the jobs", "endpoints", "back", footer=False),
)  # fmt: skip

ACTIONS: tuple[Action, ...] = (*_MODELS, *_ENDPOINTS)

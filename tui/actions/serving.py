"""Actions of the screens of models and endpoints."""

from __future__ import annotations

from tui.actions.action import Action, act

_MODELS = (
    act("models.open", "enter", "open job", "Open the job that made this version",
        when=("model", "source_job")),
    act(
        "models.deploy", "a", "deploy", "Deploy this version to an endpoint", operation="endpoint.deploy",
        confirm=True, needs="serving", when=("model",),
    ),
    act("models.fold", "f", "fold", "Show or hide the older versions of the model", when=("versions",)),
    act("models.filter", "slash", "filter", "Filter by name, alias or label"),
    act("models.copy", "y", "copy name", "Copy the version's resource name", when=("model",)),
    act("models.link", "o", "link", "Open the model's page, or show and copy its address", footer=False),
    act("models.back", "escape", "back", "Back to the jobs", footer=False),
)  # fmt: skip

_ENDPOINTS = (
    act("endpoints.open", "enter", "model", "Show this version among the models", when=("version",)),
    act(
        "endpoints.step", "plus", "traffic", "Send this version 10, 25, 50, then 100 % of the requests",
        operation="endpoint.split", confirm=True, needs="serving", name="split the traffic",
        when=("version", "next_step"),
    ),
    act(
        "endpoints.percent", "t", "percent", "Send this version any percentage of the requests",
        operation="endpoint.split", confirm=True, needs="serving", when=("version",),
    ),
    act(
        "endpoints.roll_back", "u", "roll back", "Go back to the split before the last change",
        operation="endpoint.roll_back", confirm=True, needs="serving", name="roll back the traffic",
        when=("endpoint",),
    ),
    act(
        "endpoints.deploy", "a", "deploy", "Deploy a version of a model to this endpoint",
        operation="endpoint.deploy", confirm=True, needs="serving", when=("endpoint",),
    ),
    act(
        "endpoints.undeploy", "D", "undeploy", "Take this version off the endpoint",
        operation="endpoint.undeploy", confirm=True, needs="serving", when=("version",),
    ),
    act(
        "endpoints.log", "L", "log", "Show the last lines of this version's server, or of all servers",
        needs="serving", when=("endpoint",),
    ),
    act("endpoints.filter", "slash", "filter", "Filter by name, version or machine"),
    act("endpoints.copy", "y", "copy name", "Copy the resource name", footer=False, when=("endpoint",)),
    act(
        "endpoints.link", "o", "link", "Open the endpoint's page, or show and copy its address",
        footer=False,
    ),
    act("endpoints.back", "escape", "back", "Back to the jobs", footer=False),
)  # fmt: skip

ACTIONS: tuple[Action, ...] = (*_MODELS, *_ENDPOINTS)

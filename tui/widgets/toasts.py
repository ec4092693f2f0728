"""Toasts of one line each, at the bottom right above the footer: merged by topic, at most three at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeVar

from textual.app import App
from textual.notifications import Notification, Notify, SeverityLevel
from textual.widget import Widget
from textual.widgets._toast import Toast

Result = TypeVar("Result")
MOST = 3
"""Number of toasts that are shown at the same time."""
EDGE = 4
"""Width that a toast needs in addition to its text, in cells: its padding and its distance from the right
edge."""
CUT = "…"
_GLYPHS: dict[SeverityLevel, str] = {"information": "", "warning": "! ", "error": "✗ "}
_WEIGHT: dict[SeverityLevel, int] = {"information": 0, "warning": 1, "error": 2}


@dataclass
class TopicNotification(Notification):
    """A notification about a topic. A later notification of the same topic replaces it."""

    topic: str = ""
    whole: str = ""
    """The text before it was cut to the width of the screen."""


def one_line(text: str) -> str:
    """Join the lines of a text, with punctuation between them."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    joined = ""
    for line in lines:
        between = "" if not joined else " " if joined[-1] in ".:;?!" else ": " if line is lines[1] else "; "
        joined += between + line
    return joined


class ToastApp(App[Result]):
    """Shows notifications as toasts of one line. The complete text of a cut toast goes to `toast_cut`.

    Their style is in the app's style sheet, because it must override that of Textual's toasts.
    """

    WHOLE_TEXT: ClassVar[str] = ""
    """Words after a cut toast that name the location of the complete text."""

    def __init__(self) -> None:
        super().__init__()
        self._by_topic: dict[str, TopicNotification] = {}

    def toast_cut(self, text: str) -> None:
        """Store the complete text of a toast that has been cut."""

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
        topic: str = "",
    ) -> None:
        """Show plain text without parsing `markup`. A toast of the same `topic` or text is replaced."""
        text = one_line(f"{title}: {message}" if title else message)
        shown = _GLYPHS[severity] + text
        room = max(20, self.size.width - EDGE)
        if len(shown) > room:
            tail = CUT + self.WHOLE_TEXT
            shown = shown[: room - len(tail)].rstrip() + tail
            self.toast_cut(text)
        seconds = self.NOTIFICATION_TIMEOUT if timeout is None else timeout
        notification = TopicNotification(shown, "", severity, seconds, topic=topic or text, whole=text)
        self._by_topic[notification.topic] = notification
        self.post_message(Notify(notification))

    def toast_of(self, topic: str) -> TopicNotification | None:
        """Return the toast of this topic that is shown now, or will be with the next messages."""
        toast = self._by_topic.get(topic)
        return None if toast is None or toast.has_expired else toast

    def _on_notify(self, event: Notify) -> None:
        """Make room before Textual adds the new toast. Errors stay longest, then the newest toasts."""
        new = event.notification
        shown = [
            notification
            for notification in self._notifications
            if isinstance(notification, TopicNotification)
        ]
        replaced = [
            toast for toast in shown if isinstance(new, TopicNotification) and toast.topic == new.topic
        ]
        staying = sorted((e for e in shown if e not in replaced), key=lambda toast: _WEIGHT[toast.severity])
        for toast in (*replaced, *staying[: max(0, len(staying) + 1 - MOST)]):
            self.remove_toast(toast)

    def remove_toast(self, notification: Notification) -> None:
        """Remove a toast now from every screen. A toast that is not shown yet stays hidden."""
        notification.timeout = 0
        self._unnotify(notification, refresh=False)
        for screen in self.screen_stack:
            for toast in screen.query(Toast):
                if toast._notification is notification and isinstance(toast.parent, Widget):
                    toast.parent.remove()

    def _unnotify(self, notification: Notification, refresh: bool = True) -> None:
        """Handle a toast that has expired or was clicked, which Textual reports with this call."""
        if (
            isinstance(notification, TopicNotification)
            and self._by_topic.get(notification.topic) is notification
        ):
            del self._by_topic[notification.topic]
        super()._unnotify(notification, refresh)

"""What several tests share with test_many_jobs."""

from __future__ import annotations

from tui.app import VxtuiApp


def toasts(app: VxtuiApp) -> list[str]:
    return [toast.message for toast in app._notifications]

"""The file with the traceback of the last internal error."""

from __future__ import annotations

import os
import traceback

from tui.config.paths import state_dir
from tui.domain.masking import mask_text


def write(error: BaseException) -> str:
    """Write the traceback, readable only by this user. Return its path, or why it could not be written."""
    text = mask_text("".join(traceback.format_exception(error)))
    path = state_dir() / "crash.log"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Don't preserve the mode of an existing file: an earlier version made it readable to everyone.
        path.unlink(missing_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except OSError as failure:
        return f"the details could not be written to {path} ({failure.strerror})"
    return f"the details are in {path}"

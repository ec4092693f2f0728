"""Copying through the terminal (OSC 52), including from inside tmux (docs/facts/terminal.md)."""

from __future__ import annotations

import base64
import os

MAX_BYTES = 75_000
"""Maximum size in bytes of the encoded text that terminals accept."""


def copy_sequences(text: str, *, bare: bool = True, tmux: bool | None = None) -> str:
    """Return control sequences that set the clipboard; "" if the text is too long.

    Inside tmux the bare sequence works with `set-clipboard on`, the wrapped sequence with `allow-passthrough
    on`. A program can't query which option is set, so both are sent.
    """
    encoded = base64.b64encode(text.encode()).decode()
    if len(encoded) > MAX_BYTES:
        return ""
    plain = f"\x1b]52;c;{encoded}\x07"
    inside = bool(os.environ.get("TMUX")) if tmux is None else tmux
    return (plain if bare else "") + (f"\x1bPtmux;\x1b{plain}\x1b\\" if inside else "")

"""`python -m tui.emulator`: the server, with lazy imports of Google's packages as in the console.

Eager imports take three quarters of the server's CPU time up to its first response.
"""

from __future__ import annotations

import logging
import os
import sys

from tui import lazy_imports


def main() -> int:
    """Run `tui.emulator.server.main`."""
    lazy_imports.load(("tui.emulator.server",))
    from tui.emulator import server  # noqa: PLC0415

    return server.main()


if __name__ == "__main__":
    code = main()
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    # Everything is closed. The interpreter's shutdown races with gRPC's threads, which may abort the process.
    os._exit(code)

"""`python -m tui.emulator.kubernetes --state-dir DIR`."""

from __future__ import annotations

import sys

from tui.emulator.kubernetes.server import main

if __name__ == "__main__":
    sys.exit(main())

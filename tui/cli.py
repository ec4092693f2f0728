"""`vxtui`: opens the console by default, or runs a verb for scripts. Slow imports are deferred."""

from __future__ import annotations

import gc
import sys

from tui import interrupts


def main() -> None:
    """Run the console script."""
    # Import everything else after this call.
    interrupts.end_at_once()
    sys.exit(_run())


def _run() -> int:
    from tui import skeleton

    options = skeleton.screen_options(sys.argv[1:])
    if options is None:
        from tui.verbs.command_group import run

        return run()
    # The start creates no garbage. The console enables collection once its first list is shown.
    gc.disable()
    interrupts.before_end(skeleton.take_back)
    skeleton.show(str(options["context_name"]), ascii_only="ascii_only" in options)
    try:
        from tui.verbs.screen import screen

        return screen(**options)  # type: ignore[arg-type]
    except KeyboardInterrupt:
        skeleton.take_back()
        from tui.verbs.output import print_interrupted

        return print_interrupted(as_json=False)
    except Exception as error:  # noqa: BLE001 - nobody is shown a traceback
        skeleton.take_back()
        from tui.verbs.output import crash

        return crash(error)
    finally:
        skeleton.take_back()


if __name__ == "__main__":
    main()

"""`vxtui`: the screen by default, verbs for scripts. Nothing heavy is imported before it must be."""

from __future__ import annotations

import gc
import sys

from tui import skeleton


def main() -> None:
    """The console script."""
    options = skeleton.screen_options(sys.argv[1:])
    if options is None:
        from tui.verbs.command_group import run

        sys.exit(run())
    # Nothing that a start makes is garbage; the console collects again once its first list is there.
    gc.disable()
    skeleton.show(str(options["context_name"]), ascii_only="ascii_only" in options)
    sys.exit(_screen(options))


def _screen(options: dict[str, str | bool]) -> int:
    try:
        from tui.verbs.screen import screen

        return screen(**options)  # type: ignore[arg-type]
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - nobody is shown a traceback
        skeleton.take_back()
        from tui.verbs.output import crash

        return crash(error)
    finally:
        skeleton.take_back()


if __name__ == "__main__":
    main()

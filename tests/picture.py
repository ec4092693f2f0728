"""Makes docs/console.svg: the real console over the real emulator, while two nodes train.

`python -m tests.picture`; takes about a minute and leaves nothing running.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.shell import VXTUI, home
from tests.terminal import Terminal
from tests.waiting import wait_for

TARGET = Path(__file__).parents[1] / "docs" / "console.svg"
STEP = 70
"""The picture is taken when the job has come this far."""


def main() -> None:
    """Launch, wait, open the job's log, press the key of a screenshot that Textual itself understands."""
    with home() as place:
        job = place.json("launch", "local-2node", "--yes")

        def far_enough() -> bool:
            return (place.json("describe", job["id"])["progress"]["step"] or 0) >= STEP

        wait_for(far_enough, f"step {STEP}", every=1)
        shot = place.root / "shot.svg"
        env = place.env | {
            "TEXTUAL_SCREENSHOT": "12",
            "TEXTUAL_SCREENSHOT_LOCATION": str(shot.parent),
            "TEXTUAL_SCREENSHOT_FILENAME": shot.name,
        }
        screen = Terminal([VXTUI], env, columns=120, rows=32)
        try:
            screen.wait("local-2node")
            screen.press("enter")
            screen.wait("Overview")
            screen.press("]", "]")
            screen.wait("following")
            wait_for(lambda: screen.pump(0.2) or shot.exists(), "the picture", seconds=60)
            screen.pump(1)
        finally:
            screen.close()
        TARGET.write_text(local_fonts(shot.read_text()))


def local_fonts(svg: str) -> str:
    """Without fonts from elsewhere: a picture in a README must not make its reader's machine fetch any."""
    return re.sub(r"@font-face\s*\{.*?\}", "", svg, flags=re.DOTALL).replace("Fira Code", "DejaVu Sans Mono")


if __name__ == "__main__":
    main()

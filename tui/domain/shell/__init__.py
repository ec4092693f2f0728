"""Reads shell scripts as bash does, without running them. Callers read the files and the environment."""

from tui.domain.shell.interpreter import read_script
from tui.domain.shell.script import Call, NotRead, Outside, Script, Word

__all__ = ["Call", "NotRead", "Outside", "Script", "Word", "read_script"]

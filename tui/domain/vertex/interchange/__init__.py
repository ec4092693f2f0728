"""Custom jobs in the forms that others write and read: gcloud, REST, Python. Pure: callers read files."""

from tui.domain.vertex.interchange.config_files import ConfigFile, read_config
from tui.domain.vertex.interchange.exports import FORMS, SUFFIXES, Exported, export, export_job
from tui.domain.vertex.interchange.imports import Imported, from_resource, from_text

__all__ = [
    "FORMS",
    "SUFFIXES",
    "ConfigFile",
    "Exported",
    "Imported",
    "export",
    "export_job",
    "from_resource",
    "from_text",
    "read_config",
]

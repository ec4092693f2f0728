"""Converts custom jobs from and to gcloud, REST and Python. Callers read the files."""

from tui.domain.interchange.config_files import ConfigFile, read_config
from tui.domain.interchange.exports import (
    ALL_FORMS,
    FORMS,
    KUBECTL,
    SUFFIXES,
    Exported,
    export,
    export_job,
    forms_of,
)
from tui.domain.interchange.imports import Imported, from_resource, from_text

__all__ = [
    "ALL_FORMS",
    "FORMS",
    "KUBECTL",
    "SUFFIXES",
    "ConfigFile",
    "Exported",
    "Imported",
    "export",
    "export_job",
    "forms_of",
    "from_resource",
    "from_text",
    "read_config",
]

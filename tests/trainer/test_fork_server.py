"""What the fork server imports once for all attempts."""

from __future__ import annotations

import pytest

from trainer.launch import fork_server

CLIENT = "trainer.checkpoint.stores.gcs_store"


@pytest.mark.parametrize(
    ("place", "imported"), [("gs://bucket/run", True), ("/disk/run", False), ("", False)]
)
def test_the_client_of_cloud_storage_is_imported_where_it_is_needed(
    monkeypatch: pytest.MonkeyPatch, place: str, imported: bool
) -> None:
    for name in ("VXTUI_GCS_ROOT", "AIP_CHECKPOINT_DIR", "AIP_MODEL_DIR"):
        monkeypatch.delenv(name, raising=False)
    names: list[str] = []

    def note(name: str) -> None:
        names.append(name)
        raise ImportError

    monkeypatch.setattr(fork_server.importlib, "import_module", note)
    fork_server._preload_task([f"--upload-dir={place}"])
    assert (CLIENT in names) is imported and "trainer.train" in names

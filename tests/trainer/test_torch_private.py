"""The private names of torch that `trainer.torch_private` and `trainer.hang.flight_recorder` use."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2] / "trainer"
ALLOWED = {ROOT / "torch_private.py", ROOT / "hang" / "flight_recorder.py"}
SIGNATURES = {
    "torch.distributed.distributed_c10d:_set_pg_timeout": ("timeout", "group"),
    "torch.distributed.distributed_c10d:_register_process_group": None,
    "torch.distributed.distributed_c10d:_unregister_process_group": None,
    "torch.optim._muon:_adjust_lr": ("lr", "adjust_lr_fn", "param_shape"),
    "torch.optim._muon:_zeropower_via_newtonschulz": ("grad", "ns_coefficients", "ns_steps", "eps"),
    "torch.distributed.tensor._utils:compute_local_shape_and_global_offset": (
        "global_shape",
        "mesh",
        "placements",
    ),
    "torch._subclasses.fake_tensor:FakeTensorMode": None,
    "torch:_foreach_copy_": None,
    "torch:_foreach_div_": None,
    "torch:UntypedStorage._cdata": None,
    "torch.distributed:ProcessGroup._get_backend": None,
    "torch._dynamo.utils:counters": None,
    "torch:ops.aten._scaled_dot_product_flash_attention.default": None,
    "torch:ops.aten._scaled_dot_product_efficient_attention.default": None,
    "torch:ops.aten._scaled_dot_product_cudnn_attention.default": None,
    "torch:ops.aten._scaled_dot_product_flash_attention_for_cpu.default": None,
    "torch.amp:GradScaler._found_inf_per_device": ("self", "optimizer"),
    "torch._C._distributed_c10d:_dump_fr_trace": None,
    "torch._C._distributed_c10d:_dump_fr_trace_json": None,
}
"""Parameters of each name as `torch_private` passes them; `None`: not readable, or not called."""
TABLES = (
    "group_count",
    "pg_map",
    "pg_names",
    "pg_group_ranks",
    "pg_backend_config",
    "pg_to_tag",
    "tags_to_pg",
)
HELP = (
    f"torch {torch.__version__} moved {{name}}: find its successor, change trainer/torch_private.py (or "
    "hang/flight_recorder.py), and name the version there"
)


@pytest.mark.parametrize("name", SIGNATURES)
def test_torch_has_each_private_name_in_its_place(name: str) -> None:
    module, _, path = name.partition(":")
    try:
        value = importlib.import_module(module)
        for part in path.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError):
        pytest.fail(HELP.format(name=name))
    expected = SIGNATURES[name]
    if expected is not None:
        parameters = tuple(inspect.signature(value).parameters)
        assert parameters[: len(expected)] == expected, HELP.format(name=f"the parameters of {name}")


@pytest.mark.parametrize("table", TABLES)
def test_torch_keeps_its_groups_in_the_tables_that_are_edited(table: str) -> None:
    world = torch.distributed.distributed_c10d._world
    assert hasattr(world, table), HELP.format(name=f"torch.distributed.distributed_c10d._world.{table}")


def test_no_other_module_uses_private_names_of_torch() -> None:
    uses = [use for path in sorted(ROOT.rglob("*.py")) if path not in ALLOWED for use in _private_uses(path)]
    assert uses == [], "move it to trainer/torch_private.py, or find the public way"


def _private_uses(path: Path) -> Iterator[str]:
    """Private names of torch that a module imports, or reads as `torch.…._name`."""
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "torch":
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.partition(".")[0] == "torch"]
        elif isinstance(node, ast.Attribute):
            dotted = ast.unparse(node)
            reads_torch = dotted.startswith(("torch.", "distributed_c10d.", "dist.")) and "(" not in dotted
            names = [dotted] if reads_torch else []
        for name in names:
            if any(part.startswith("_") and part != "__version__" for part in name.split(".")):
                yield f"{path.relative_to(ROOT)}:{node.lineno}: {name}"

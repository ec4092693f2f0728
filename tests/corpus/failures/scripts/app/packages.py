"""What the image has and lacks."""

import ctypes
import importlib
import os
import subprocess
import sys
from pathlib import Path


def load(trainer, name="flash_attn"):
    importlib.import_module(name)


def load_source(trainer, line="from apex.optimizers import FusedAdam"):
    """Import by a module of the run's own, so that the traceback shows the line."""
    name = f"plugin_{trainer.s.replica.replace('-', '_')}_{trainer.s.rank}"
    path = Path(os.environ["WORK"]) / "app" / f"{name}.py"
    path.write_text(f'"""Kernels."""\n\nimport os\n\n{line}\n')
    importlib.invalidate_caches()
    importlib.import_module(name)


def extension(trainer, symbol="_ZN3c1021throwNullDataPtrErrorEv", name="fused_kernels"):
    """An extension that was built against another library."""
    work = Path(os.environ["WORK"]) / "app"
    target = work / f"{name}.cpython-311-x86_64-linux-gnu.so"
    if not target.exists():
        source = work / f"{name}-{trainer.s.rank}.c"
        source.write_text(f"extern void {symbol}(void);\nvoid PyInit_{name}(void) {{ {symbol}(); }}\n")
        temporary = f"{target}.{os.getpid()}"
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", temporary, str(source)], check=True)
        os.replace(temporary, target)
    importlib.import_module(name)


def library(trainer, name="libcudnn.so.9"):
    ctypes.CDLL(name)


def numpy_alias(trainer):
    import numpy as np

    return np.zeros(3, dtype=np.float)


def requirement(trainer, spec="tokenizers>=0.19,<0.20"):
    from transformers.utils.versions import require_version

    require_version(spec)


def from_transformers(trainer, name="AdamW"):
    exec(compile(f"from transformers import {name}", "/app/optim.py", "exec"), {})


def pip_install(trainer, spec="internal-tokenizers==3.1.0"):
    code = subprocess.call(
        [sys.executable, "-m", "pip", "install", "--no-index", "--disable-pip-version-check", spec]
    )
    if code:
        sys.exit(code)


def metadata_version(trainer, name="transformer_engine"):
    import importlib.metadata

    return importlib.metadata.version(name)


def protobuf(trainer):
    raise TypeError(
        "Descriptors cannot be created directly.\nIf this call came from a _pb2.py file, your generated code is out of date and must be regenerated with protoc >= 3.19.0."
    )


def syntax(trainer, text="def loss(x):\n    return x +\n"):
    path = Path(os.environ["WORK"]) / "app" / "losses.py"
    path.write_text(text)
    importlib.invalidate_caches()
    importlib.import_module("losses")


def circular(trainer):
    work = Path(os.environ["WORK"]) / "app"
    (work / "layers.py").write_text("from blocks import Block\n\nclass Norm: ...\n")
    (work / "blocks.py").write_text("from layers import Norm\n\nclass Block: ...\n")
    importlib.invalidate_caches()
    importlib.import_module("layers")

"""Faults of GPUs, TPUs, collectives and fast networks, mostly in documented words."""

# fmt: off
from __future__ import annotations

from typing import Any

from tests.corpus.failures.case import Case, Root, hook
from tests.corpus.failures.cases.mix import mixed

NODEBUG = {"PYTHONNODEBUGRANGES": "1"}


def raised(name: str, family: Any, cause: str, pattern: Any, text: str, *, kind: str = "builtins.RuntimeError", frames: str = "linear", call: str = "worded.raise_text", more: dict[str, Any] | None = None, **fixed: Any) -> Case:
    """A case whose exception has documented words."""
    module, _, exception = kind.rpartition(".")
    options = {"text": text, "module": module, "name": exception, "frames": frames} | (more or {})
    fixed.setdefault("really", False)
    fixed["env"] = NODEBUG | fixed.get("env", {})
    return mixed(name, family, cause, pattern, call, options=options, **fixed)


OOM = "CUDA out of memory. Tried to allocate {} GiB. GPU {} has a total capacity of 79.15 GiB of which 1.06 GiB is free. Including non-PyTorch memory, this process has 78.08 GiB memory in use. Of the allocated memory 74.21 GiB is allocated by PyTorch, and 2.31 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
ASYNC = "\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"


def gpu_memory() -> list[Case]:
    f = "memory-gpu"
    m = "out of memory"
    torch_oom = "torch.OutOfMemoryError"
    return [
        raised("cuda_oom_one_of_16", f, m, "CUDA out of memory. Tried", OOM.format("2.13", 0), kind=torch_oom, frames="linear", replicas=16, ranks=1, settings={"collective": "nccl"}, grace=60.0),
        raised("cuda_oom_rank_5", f, m, "CUDA out of memory. Tried", OOM.format("7.50", 5), kind=torch_oom, frames="backward", replicas=4, ranks=8, on=[13], settings={"collective": "nccl", "launcher": "torchrun", "dialect": "tqdm"}),
        raised("cuda_oom_all", f, m, "CUDA out of memory. Tried", OOM.format("20.00", 0), kind=torch_oom, frames="trainer", on="all", replicas=8, settings={"dialect": "hf"}),
        raised("cuda_oom_then_wandb", f, m, "CUDA out of memory. Tried", OOM.format("1.95", 0), kind=torch_oom, on="zero", replicas=2, ranks=1, before=("system.wandb_summary",)),
        raised("cuda_oom_old_words", f, m, "CUDA out of memory. Tried", "CUDA out of memory. Tried to allocate 978.00 MiB (GPU 2; 15.78 GiB total capacity; 14.01 GiB already allocated; 302.75 MiB free; 14.22 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF", frames="linear", replicas=3, ranks=4),
        raised("cuda_oom_after_recovered", f, m, "CUDA out of memory. Tried", OOM.format("4.01", 1), kind=torch_oom, frames="backward", replicas=8, ranks=1, on=[4], extra=[hook("incidents.oom_recovered", [2], "step", 2), hook("incidents.oom_recovered", [6], "step", 3)], settings={"collective": "gloo", "steps": 60}, at_step=30, note="two ranks survive an out-of-memory before"),
        raised("cublas_alloc", f, "CUBLAS_STATUS_ALLOC_FAILED", "CUBLAS_STATUS_ALLOC_FAILED", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", replicas=6),
        raised("nccl_cuda_oom", f, m, "Cuda failure 'out of memory'|ncclUnhandledCudaError", "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.hpp:268, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.3\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 'out of memory'", kind="torch.distributed.DistBackendError", frames="collective", stage="build", replicas=8, ranks=1),
        raised("jax_hbm", f, "RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 21.90G of 15.48G hbm. Exceeded hbm capacity by 6.42G.\n\nTotal hbm usage >= 22.42G:\n    reserved        530.00M \n    program          21.90G \n    arguments            0B ", kind="jaxlib._jax.XlaRuntimeError", frames="jax", stage="build", on="all", replicas=8, ranks=1, settings={"collective": "jax", "dialect": "maxtext"}),
        raised("jax_gpu_alloc", f, "RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4770354232 bytes.\nBufferAssignment OOM Debugging.\nBufferAssignment stats:\n             parameter allocation:  372.76MiB\n              constant allocation:    48.5KiB\n        maybe_live_out allocation:    9.64GiB", kind="jaxlib.xla_extension.XlaRuntimeError", frames="jax", replicas=4, ranks=1, settings={"collective": "jax", "dialect": "maxtext"}),
        raised("tf_oom", f, "OOM when allocating tensor", "OOM when allocating tensor", "Graph execution error:\n\nDetected at node 'gradient_tape/model/conv2d_12/Conv2D' defined at (most recent call last):\nNode: 'gradient_tape/model/conv2d_12/Conv2D'\nOOM when allocating tensor with shape[256,512,112,112] and type float on /job:worker/replica:0/task:2/device:GPU:0 by allocator GPU_0_bfc\n\t [[{{node gradient_tape/model/conv2d_12/Conv2D}}]]\nHint: If you want to see a list of allocated tensors when OOM happens, add report_tensor_allocations_upon_oom to RunOptions for current allocation info.", kind="tensorflow.python.framework.errors_impl.ResourceExhaustedError", frames="tf", replicas=4, ranks=1, on=[2], settings={"collective": "tf", "dialect": "keras"}),
        raised("hip_oom", f, m, "HIP out of memory", "HIP out of memory. Tried to allocate 1.00 GiB. GPU 3 has a total capacity of 63.98 GiB of which 512.00 MiB is free.", kind=torch_oom, replicas=2, ranks=8),
    ]


def xid(number: int, text: str, at: int, step: int = 3) -> dict[str, Any]:
    """The kernel's line about a GPU, on one rank."""
    return hook("worded.say", [at], "step", step, text=f"[582{number}.{step}91122] NVRM: Xid (PCI:0000:0{at % 8}:00): {number}, {text}")


def hardware() -> list[Case]:
    f = "hardware-gpu"
    early: dict[str, Any] = {"steps": 40}
    both = "CUDA error: {}|NVRM: Xid"
    return [
        raised("xid79_bus", f, "fallen off the bus", "fallen off the bus|CUDA error: unspecified launch failure", "CUDA error: unspecified launch failure" + ASYNC, frames="sync", on=[9], replicas=16, ranks=1, extra=[xid(79, "pid=2117, name=python, GPU has fallen off the bus.", 9)], settings=early, at_step=6),
        raised("ecc_uncorrectable", f, "ECC", "uncorrectable ECC error encountered", "CUDA error: uncorrectable ECC error encountered" + ASYNC, frames="backward", replicas=8, ranks=1, settings={"collective": "nccl"}),
        raised("ecc_with_xid", f, "ECC", both.format("uncorrectable ECC"), "CUDA error: uncorrectable ECC error encountered" + ASYNC, frames="linear", on=[21], replicas=4, ranks=8, extra=[xid(94, "pid=4410, name=python, Contained: SM (0x1). RST: No, D-RST: No", 21), xid(48, "pid='<unknown>', name=<unknown>, DBE (double bit error) ECC uncorrectable error", 21, 3)], settings=early, at_step=6),
        raised("xid95_node", f, "Xid", both.format("unknown error"), "CUDA error: unknown error" + ASYNC, frames="sync", on=[3], replicas=6, ranks=1, extra=[xid(95, "pid=2231, name=python, Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No", 3)], settings=early, at_step=6),
        mixed("nvml_lost", f, "lost", "GPU is lost", "worded.say_and_leave", options={"text": "Unable to determine the device handle for GPU0000:0A:00.0: GPU is lost.  Reboot the system to recover this GPU", "code": 15}, stage="setup", on=[3], replicas=8, ranks=1, really=False),
        raised("nvlink_xid74", f, "NVLink", "NVRM: Xid .*NVLink|nvlink|CUDA error: uncorrectable NVLink error", "CUDA error: uncorrectable NVLink error detected during the execution" + ASYNC, frames="collective", on=[2], replicas=2, ranks=8, extra=[xid(74, "pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 11(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)", 2)], settings=early, at_step=6),
        raised("xid119_gsp", f, "GSP", "Timeout waiting for RPC from GSP|CUDA error: unspecified launch failure", "CUDA error: unspecified launch failure" + ASYNC, frames="sync", on=[0], replicas=4, ranks=1, extra=[xid(119, "pid=1896, name=python, Timeout waiting for RPC from GSP0! Expected function 76 (GSP_RM_CONTROL) (0x20800a6a 0x0).", 0)], settings=early, at_step=6),
        raised("tpu_unhealthy", f, "TPU", "TPU initialization failed|Unexpected core dump|UNAVAILABLE: TPU", "UNAVAILABLE: TPU initialization failed: open(/dev/accel3): Operation not permitted: Couldn't open device: /dev/accel3; Unable to create Node RegisterInterface for node 0, config: device_path: \"/dev/accel3\" mode: KERNEL", kind="builtins.RuntimeError", frames="jax", stage="build", on=[1], replicas=4, ranks=1, settings={"collective": "jax", "dialect": "maxtext"}),
        raised("illegal_access", ("code", f), "illegal memory access", "an illegal memory access was encountered", "CUDA error: an illegal memory access was encountered" + ASYNC, frames="backward", replicas=12, ranks=1),
        raised("device_assert", ("code", "data"), "device-side assert", "device-side assert triggered|Assertion `srcIndex < srcSelectDimSize` failed", "CUDA error: device-side assert triggered" + ASYNC, frames="linear", replicas=8, ranks=1, on=[6], extra=[hook("worded.say", [6], "step", 4, text="/pytorch/aten/src/ATen/native/cuda/Indexing.cu:1553: indexSelectLargeIndex: block: [318,0,0], thread: [64,0,0] Assertion `srcIndex < srcSelectDimSize` failed.\n/pytorch/aten/src/ATen/native/cuda/Indexing.cu:1553: indexSelectLargeIndex: block: [318,0,0], thread: [65,0,0] Assertion `srcIndex < srcSelectDimSize` failed.")], settings={"steps": 40}, at_step=6),
        raised("driver_too_old", ("image", "package"), "driver", "NVIDIA driver on your system is too old", "The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver by downloading and installing a new version from the URL: http://www.nvidia.com/Download/index.aspx Alternatively, go to: https://pytorch.org to install a PyTorch version that has been compiled with your version of the CUDA driver.", frames="", stage="build", on="all", replicas=4),
        raised("no_kernel_image", ("image", "package"), "kernel image", "no kernel image is available for execution", "CUDA error: no kernel image is available for execution on the device" + ASYNC, frames="linear", stage="build", on="all", replicas=2, ranks=8),
        raised("no_gpus", ("image", "hardware-gpu", "config-flag"), "No CUDA GPUs are available", "No CUDA GPUs are available", "No CUDA GPUs are available", frames="", stage="build", on=[5], replicas=8, ranks=1),
        raised("system_not_initialized", (f, "image"), "system not yet initialized", "system not yet initialized", "Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? Error 802: system not yet initialized", frames="", stage="build", on=[2], replicas=4, ranks=1),
    ]


def collectives() -> list[Case]:
    f = "nccl-desync"
    nccl: dict[str, Any] = {"collective": "nccl", "collective_timeout": 600.0, "scale": 200.0, "step_seconds": 2.0, "steps": 30}
    return [
        mixed("rank_hangs_in_lock", (f, "timeout"), "", "Watchdog caught collective operation timeout", "system.lock_twice", on=[3], replicas=8, ranks=1, settings=nccl, grace=400.0, root=Root(("Watchdog caught collective operation timeout",), ("",), every=True), note="worker 1-2 takes a lock twice and says nothing; its replica may be named too"),
        mixed("rank_sleeps", (f, "timeout"), "", "Timed out waiting \\d+ms", "system.hang", on=[10], replicas=12, ranks=1, settings=nccl | {"collective": "gloo"}, grace=400.0, root=Root(("Timed out waiting",), ("",), every=True), note="worker 1-9 sleeps and says nothing"),
        mixed("rank_hangs_8_per_node", (f, "timeout"), "", "Watchdog caught", "system.hang", on=[17], replicas=4, ranks=8, settings=nccl | {"launcher": "torchrun", "dialect": "tqdm"}, grace=400.0, root=Root(("Watchdog caught collective operation timeout",), ("",), every=True), note="rank 17 sleeps"),
        raised("op_mismatch", (f, "code"), "", "Detected mismatch between collectives on ranks", "Detected mismatch between collectives on ranks. Rank 5 is running collective: CollectiveFingerPrint(SequenceNumber=1842, OpType=ALLREDUCE, TensorShape=[4096], TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float (default), device=cuda)), but Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=1842, OpType=ALLGATHER, TensorShape=[512]).Collectives differ in the following aspects: \t Op type: ALLREDUCEvs ALLGATHER", frames="collective", replicas=8, ranks=1, on=[5], settings={"collective": "nccl"}),
        mixed("preloaded_data_stall", (f, "data", "timeout"), "", "Watchdog caught", "system.hang", on=[6], replicas=16, ranks=1, settings=nccl, grace=400.0, platform="vertex", extra=[hook("worded.say", [6], "step", 2, text="data: waiting for shard gs://acme-data/shards/000811.tar (attempt 1)")], root=Root(("Watchdog caught collective operation timeout", "waiting for shard"), ("",), every=True)),
        raised("nccl_ib_retry", "network", "", ("Got completion from peer", "ncclRemoteError|ncclSystemError"), "NCCL error in: /pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:3356, remote process exited or there was a network error, NCCL version 2.27.3\nncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\nLast error:\nNET/IB : Got completion from peer 10.0.4.7<46322> with status=12 opcode=0 len=0 vendor err 129 (Recv) localGid fe80::a288 remoteGidsfe80::e42a hca mlx5_3", kind="torch.distributed.DistBackendError", frames="collective", on=[7], replicas=8, ranks=1, settings={"collective": "nccl", "steps": 40}, at_step=6, extra=[hook("worded.say", [7], "step", 3, err=False, text="{replica}:712:1033 [7] transport/net_ib.cc:2112 NCCL WARN NET/IB : Got completion from peer 10.0.4.7<46322> with status=12 opcode=0 len=0 vendor err 129 (Recv) localGid fe80::a288 remoteGidsfe80::e42a hca mlx5_3")]),
        raised("nccl_no_route", ("network", "launcher"), "No route to host", "No route to host", "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.3\nncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error. \nLast error:\nsocketStartConnect: Connect to 10.128.0.9<43121> failed : No route to host", kind="torch.distributed.DistBackendError", frames="collective", stage="build", on=[4], replicas=8, ranks=1),
        raised("nccl_shm", ("memory-host", "disk", "config-flag"), "/dev/shm", "Error while creating shared memory segment|No space left on device", "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.3\nncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error. \nLast error:\nError while creating shared memory segment /dev/shm/nccl-3HtZ2v (size 9637888), error: No space left on device (28)", kind="torch.distributed.DistBackendError", frames="collective", stage="build", on=[1], replicas=2, ranks=8),
        mixed("bus_error_shm", ("memory-host",), "shared memory", "out of shared memory", "worded.raise_text", on=[2], replicas=4, ranks=1, really=False, platform="kubernetes", options={"text": "DataLoader worker (pid 30882) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory. Please try to raise your shared memory limit."}),
        raised("nccl_duplicate_gpu", ("config-flag", "launcher"), "Duplicate GPU", "Duplicate GPU detected", "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, invalid usage (run with NCCL_DEBUG=WARN for details), NCCL version 2.27.3\nncclInvalidUsage: This usually reflects invalid usage of NCCL library.\nLast error:\nDuplicate GPU detected : rank 3 and rank 0 both on CUDA device 40", kind="torch.distributed.DistBackendError", frames="collective", stage="build", on=[3], replicas=1, ranks=4),
        raised("megatron_ckpt_args", "checkpoint", "num_layers", "num_layers value from checkpoint", "num_layers value from checkpoint (24) is not equal to the input argument value (32).", kind="builtins.AssertionError", frames="", stage="build", on="all", replicas=8, ranks=8),
        raised("deepspeed_batch_sizes", "config-flag", "train_batch_size", "Check batch related parameters", "Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * world_size 256 != 4 * 8 * 16", kind="builtins.AssertionError", frames="", stage="build", on="all", replicas=2, ranks=8, settings={"launcher": "deepspeed"}),
        raised("deepspeed_loss_scale", ("code", "data", "config-flag"), "loss scale", "Current loss scale already at minimum", "Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.", kind="builtins.Exception", frames="deepspeed", on="all", replicas=2, ranks=4, extra=[hook("incidents.loss_scale", None, "step", n) for n in (1, 2, 3)], settings={"launcher": "deepspeed", "steps": 40}, at_step=6),
        raised("multinomial_nan", ("code", "data"), "probability tensor", "probability tensor contains either", "probability tensor contains either `inf`, `nan` or element < 0", replicas=4, ranks=1),
        raised("ckpt_dcp_missing", "checkpoint", "checkpoint", "CheckpointException", "CheckpointException ranks:dict_keys([3])\nTraceback (most recent call last): (RANK 3)\n  File \"/opt/conda/lib/python3.11/site-packages/torch/distributed/checkpoint/utils.py\", line 162, in reduce_scatter\n    local_data = map_fun()\nRuntimeError: Missing key in checkpoint state_dict: optimizer.state.layers.7.attention.wq.weight.exp_avg.", kind="torch.distributed.checkpoint.api.CheckpointException", frames="", stage="build", on=[3], replicas=4, ranks=1),
        raised("orbax_missing", "checkpoint", "checkpoint", "No structure could be identified for the checkpoint", "No structure could be identified for the checkpoint at gs://acme-models/run/checkpoints/1200/items.", kind="builtins.ValueError", frames="", stage="build", on="all", replicas=4, ranks=1, settings={"collective": "jax", "dialect": "maxtext"}),
    ]


def devices() -> list[Case]:
    return [*gpu_memory(), *hardware(), *collectives()]

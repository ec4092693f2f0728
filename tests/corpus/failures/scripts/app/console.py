"""What a training program prints when nothing is wrong."""

import json
import math
import os
import sys
import time


def out(text):
    print(text, flush=True)


def err(text):
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def stamp(s, text, level="INFO"):
    if s.dialect == "json":
        return json.dumps({"severity": level, "message": text, "rank": s.rank, "time": s.now()})
    if s.dialect in ("logging", "megatron"):
        return f"{s.asctime()},{int(s.now() % 1 * 1000):03d} - {level} - trainer - {text}"
    if s.dialect == "loguru":
        return f"{s.asctime()}.{int(s.now() % 1 * 1000):03d} | {level:<8} | trainer.engine:fit:{40 + s.rank} - {text}"
    return text


NOISE = {}


def noise(function):
    NOISE[function.__name__] = function
    return function


@noise
def cudnn(s):
    pid = os.getpid()
    err("WARNING: All log messages before absl::InitializeLog() is called are written to STDERR")
    for lib, line in (("cuDNN", "cuda_dnn.cc:8579"), ("cuBLAS", "cuda_blas.cc:1407")):
        text = f"Unable to register {lib} factory: Attempting to register factory for plugin {lib} when one has already been registered"
        err(f"E0000 00:00:{s.now() % 1e9:.6f} {pid:7d} {line}] {text}")
    err(
        "I tensorflow/core/platform/cpu_feature_guard.cc:210] This TensorFlow binary is optimized to use available CPU instructions in performance-critical operations."
    )
    err("W tensorflow/compiler/tf2tensorrt/utils/py_utils.cc:38] TF-TRT Warning: Could not find TensorRT")


@noise
def pip(s):
    out("Installing collected packages: einops, rouge_score, peft")
    err(
        "ERROR: pip's dependency resolver does not currently take into account all the packages that are installed. This behaviour is the source of the following dependency conflicts."
    )
    err(
        "tensorflow 2.17.0 requires protobuf!=4.21.0,<5.0.0dev,>=3.20.3, but you have protobuf 5.29.1 which is incompatible."
    )
    err("google-cloud-aiplatform 1.71.0 requires shapely<3.0.0dev, which is not installed.")
    out("Successfully installed einops-0.8.0 peft-0.13.2 rouge_score-0.1.2")
    err(
        "WARNING: Running pip as the 'root' user can result in broken permissions and conflicting behaviour with the system package manager."
    )


@noise
def entrypoint(s):
    out("=============\n== PyTorch ==\n=============\n")
    out(
        "NVIDIA Release 25.06 (build 177567386)\nContainer image Copyright (c) 2025, NVIDIA CORPORATION & AFFILIATES. All rights reserved."
    )
    out(
        "NOTE: The SHMEM allocation limit is set to the default of 64MB.  This may be\n   insufficient for PyTorch.  NVIDIA recommends the use of the following flags:\n   docker run --gpus all --ipc=host --ulimit memlock=-1 --ulimit stack=67108864 ..."
    )
    out(
        "NOTE: MOFED driver for multi-node communication was not detected.\n      Multi-node communication performance may be reduced."
    )


@noise
def omp(s):
    if s.local_rank == 0:
        pid = os.getpid()
        head = f"W{time.strftime('%m%d %H:%M:%S', time.gmtime(s.now()))}.{int(s.now() % 1 * 1e6):06d} {pid} torch/distributed/run.py:774]"
        err(f"{head} \n{head} *****************************************")
        err(
            f"{head} Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being overloaded, please further tune the variable for optimal performance in your application as needed. "
        )
        err(f"{head} *****************************************")


@noise
def nccl(s):
    pid = os.getpid()
    host = s.replica
    lr = s.local_rank
    at = f"{host}:{pid}:{pid} [{lr}] NCCL"
    rows = [
        f"{at} INFO Bootstrap: Using eth0:10.128.0.{s.node + 2}<0>",
        f"{at} INFO cudaDriverVersion 12080",
        f"{at} INFO NCCL version 2.27.3+cuda12.9",
        f"{at} INFO NET/Plugin: Could not find: libnccl-net.so. Using internal net plugin.",
        f"{at} INFO Failed to open libibverbs.so[.1]",
        f"{at} INFO NCCL_IB_DISABLE set by environment to 1.",
        f"{at} INFO NET/Socket : Using [0]eth0:10.128.0.{s.node + 2}<0>",
        f"{at} INFO Using network Socket",
        f"{at} INFO ncclCommInitRankConfig comm 0x55d{s.rng.randrange(1 << 32):08x} rank {s.rank} nranks {s.world} cudaDev {lr} nvmlDev {lr} busId {lr + 4}0 commId 0x{s.rng.randrange(1 << 60):x} - Init START",
        f"{at} INFO Setting affinity for GPU {lr} to ffff,ffffffff",
    ]
    rows += [f"{at} INFO Channel {c:02d}/08 : 0 1 2 3 4 5 6 7" for c in range(min(8, s.channels))]
    rows.append(f"{at} INFO threadThresholds 8/8/64 | {s.world * 8}/8/64 | 512 | 512")
    rows.append(f"{at} INFO ncclCommInitRankConfig comm rank {s.rank} nranks {s.world} - Init COMPLETE")
    for row in rows:
        out(row)


@noise
def future(s):
    err(
        "/opt/conda/lib/python3.11/site-packages/timm/models/layers/__init__.py:48: FutureWarning: Importing from timm.models.layers is deprecated, please import via timm.layers"
    )
    err(
        '  warnings.warn(f"Importing from {__name__} is deprecated, please import via timm.layers", FutureWarning)'
    )
    err(
        "/opt/conda/lib/python3.11/site-packages/torch/utils/checkpoint.py:464: UserWarning: torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. In version 2.5 we will raise an exception if use_reentrant is not passed."
    )


@noise
def hf(s):
    err(
        "Some weights of LlamaForSequenceClassification were not initialized from the model checkpoint at /gcs/models/base and are newly initialized: ['score.weight']"
    )
    err(
        "You should probably TRAIN this model on a down-stream task to be able to use it for predictions and inference."
    )
    err(
        "huggingface/tokenizers: The current process just got forked, after parallelism has already been used. Disabling parallelism to avoid deadlocks..."
    )
    err(
        "To disable this warning, you can either:\n\t- Avoid using `tokenizers` before the fork if possible\n\t- Explicitly set the environment variable TOKENIZERS_PARALLELISM=(true | false)"
    )


@noise
def wandb(s):
    if s.rank == 0:
        err(
            "wandb: WARNING Disabling the wandb service is deprecated as of version 0.18.0 and will be removed in future versions."
        )
        err(
            "wandb: Tracking run with wandb version 0.19.1\nwandb: W&B syncing is set to `offline` in this directory."
        )
        err(
            "wandb: ERROR Failed to detect the name of this notebook. You can set it manually with the WANDB_NOTEBOOK_NAME environment variable."
        )


@noise
def metadata(s):
    for n in (1, 2, 3):
        err(
            f"WARNING:google.auth.compute_engine._metadata:Compute Engine Metadata server unavailable on attempt {n} of 3. Reason: timed out"
        )
    err(
        "WARNING:google.auth._default:No project ID could be determined. Consider running `gcloud config set project` or setting the GOOGLE_CLOUD_PROJECT environment variable"
    )


@noise
def apex(s):
    out(
        "Warning:  multi_tensor_applier fused unscale kernel is unavailable, possibly because apex was installed without --cuda_ext --cpp_ext. Using Python fallback.  Original ImportError was: ModuleNotFoundError(\"No module named 'amp_C'\")"
    )
    out("[WARNING] async_io requires the dev libaio .so object and headers but these were not found.")
    out("[WARNING] using untested triton version (3.3.1), only 1.0.0 is known to be compatible")


@noise
def optional(s):
    try:
        import flash_attn  # noqa
    except ImportError as e:
        err(
            f"{s.asctime()} WARNING attention: flash_attn could not be imported ({e}); falling back to scaled_dot_product_attention"
        )
    import traceback

    try:
        import xformers  # noqa
    except ImportError:
        err(
            "A matching Triton is not available, some optimizations will not be enabled.\nError caught was: No module named 'triton'"
        )
        traceback.print_exc()


@noise
def tensorboard(s):
    if s.rank == 0:
        err(
            "E tensorflow/stream_executor/cuda/cuda_driver.cc:271] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected"
        )
        err("TensorBoard 2.17.1 at http://localhost:6006/ (Press CTRL+C to quit)")
        err(
            'NOTE: Using experimental fast data loading logic. To disable, pass\n    "--load_fast=false" and report issues on GitHub.'
        )


@noise
def gcsfuse(s):
    out(
        '{"timestamp":{"seconds":%d,"nanos":120},"severity":"WARNING","message":"GCSFuse: file-cache dir not set, error-rate of stat cache is not tracked"}'
        % s.now()
    )
    out(
        '{"timestamp":{"seconds":%d,"nanos":912},"severity":"ERROR","message":"LookUpInode: no such file or directory: .hidden, fuse operation returned ENOENT (normal for negative lookups)"}'
        % s.now()
    )


@noise
def ldconfig(s):
    err("/bin/bash: /opt/conda/lib/libtinfo.so.6: no version information available (required by /bin/bash)")
    err("cat: /etc/nccl.conf: No such file or directory")
    err("mkdir: cannot create directory '/gcs/staging': File exists")


def startup(s):
    for name in s.noise:
        NOISE[name](s)
    if s.rank == 0 or s.chatty:
        out(
            stamp(
                s,
                f"Arguments: batch_size={s.rng.choice([8, 16, 32])} lr=3e-4 max_errors=10 ignore_errors=False retry_on_failure=3",
            )
        )


def ready(s):
    if s.rank == 0 or s.chatty:
        out(
            stamp(
                s,
                f"rank {s.rank}/{s.world} ready, {s.rng.randint(110, 7000)}.{s.rng.randint(0, 9)}M parameters",
            )
        )


def progress(s, step):
    if not (s.rank == 0 or s.chatty or s.local_rank == 0 and s.print_local0):
        return
    if step % s.print_every:
        return
    loss = 2 + 8 * math.exp(-step / 60) + s.rng.uniform(-0.1, 0.1)
    d = s.dialect
    if d == "tqdm":
        done = step / s.steps
        bar = "█" * int(done * 10) + " " * (10 - int(done * 10))
        spent, left = int(step * s.step_seconds), int((s.steps - step) * s.step_seconds)
        clock = [f"{v // 60:02d}:{v % 60:02d}" for v in (spent, left)]
        sys.stderr.write(
            f"\rTraining: {done * 100:3.0f}%|{bar}| {step}/{s.steps} [{clock[0]}<{clock[1]}, {s.step_seconds:5.2f}s/it, loss={loss:.3f}]"
        )
        if step % s.newline_every == 0:
            sys.stderr.write("\n")
        sys.stderr.flush()
    elif d == "hf":
        out(
            str(
                {
                    "loss": round(loss, 4),
                    "grad_norm": round(s.rng.uniform(0.3, 3), 6),
                    "learning_rate": 3e-4 * (1 - step / s.steps),
                    "epoch": round(step / 100, 2),
                }
            )
        )
    elif d == "json":
        out(
            json.dumps(
                {
                    "severity": "INFO",
                    "message": f"step {step}",
                    "step": step,
                    "loss": round(loss, 4),
                    "errors": 0,
                    "rank": s.rank,
                    "time": s.now(),
                }
            )
        )
    elif d == "megatron":
        out(
            f" [{s.asctime()}] iteration {step:8d}/{s.steps:8d} | consumed samples: {step * 256:12d} | elapsed time per iteration (ms): {s.step_seconds * 1000:.1f} | learning rate: 2.9E-04 | global batch size:   256 | lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: {s.rng.uniform(0.3, 3):.3f} | number of skipped iterations:   0 | number of nan iterations:   0 |"
        )
    elif d == "keras":
        out(
            f"{step}/{s.steps} ━━━━━━━━━━━━━━━━━━━━ {int((s.steps - step) * s.step_seconds)}s {int(s.step_seconds * 1000)}ms/step - accuracy: {1 - loss / 12:.4f} - loss: {loss:.4f}"
        )
    elif d == "epoch":
        out(
            f"Epoch: [{step // 50}][{step % 50}/50]\tTime {s.step_seconds:.3f} ({s.step_seconds:.3f})\tLoss {loss:.4e} ({loss:.4e})\tAcc@1 {100 - loss * 8:.2f} (err 0)"
        )
    elif d == "maxtext":
        out(
            f"completed step: {step}, seconds: {s.step_seconds:.3f}, TFLOP/s/device: {s.rng.uniform(120, 190):.3f}, Tokens/s/device: 4213.9, total_weights: 65536, loss: {loss:.3f}"
        )
    elif d == "quiet":
        pass
    else:
        out(
            stamp(
                s,
                f"step {step}/{s.steps} loss {loss:.4f} lr 3.0e-04 {s.rng.uniform(0.9, 1.1) * s.step_seconds:.2f} s/step",
            )
        )


def finished(s):
    if s.rank == 0:
        if s.dialect == "tqdm":
            sys.stderr.write("\n")
        out(stamp(s, f"Training finished: {s.steps} steps, 0 errors"))

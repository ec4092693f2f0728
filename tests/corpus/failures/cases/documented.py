"""Failures in the words of documentation and public issue threads, printed by programs whose peers really fail."""

# fmt: off
from __future__ import annotations

from typing import Any

from tests.corpus.failures.case import Case, Root, hook
from tests.corpus.failures.cases.devices import ASYNC, OOM, raised
from tests.corpus.failures.cases.mix import mixed
from tests.corpus.failures.cases.outcomes import platform_only, quiet


def said(name: str, family: Any, cause: str, pattern: Any, text: str, *, code: int = 1, **fixed: Any) -> Case:
    """A case in which a program prints documented words and leaves."""
    fixed.setdefault("really", False)
    return mixed(name, family, cause, pattern, "worded.say_and_leave", options={"text": text, "code": code}, **fixed)


def stores() -> list[Case]:
    s, p = "storage-gcs", "permission"
    tf = "tensorflow.python.framework.errors_impl."
    return [
        raised("tf_gcs_404", (s, "data"), "gs://acme-data", "NotFoundError", "Error executing an HTTP request: HTTP response code 404 with body '{\n  \"error\": {\n    \"code\": 404,\n    \"message\": \"The specified bucket does not exist.\"\n  }\n}\n'\n\t when reading metadata of gs://acme-data-eu/tfrecords", kind=tf + "NotFoundError", frames="tf", stage="build", on="all", replicas=4, settings={"collective": "tf", "dialect": "keras"}),
        raised("gcs_checksum", (s, "data"), "", "DataCorruption: Checksum mismatch", "Checksum mismatch while downloading:\n\n  https://storage.googleapis.com/download/storage/v1/b/acme-data/o/shards%2F000812.tar?alt=media\n\nThe X-Goog-Hash header indicated an MD5 checksum of:\n\n  8QdLf0bKcUHQbK9yTQ==\n\nbut the actual MD5 checksum of the downloaded contents was:\n\n  kqNyZ0dRqa9YkbyVpQ==", kind="google.resumable_media.common.DataCorruption", frames="", replicas=8),
        said("gcloud_no_urls", (s, "data", "config-flag"), "gs://acme-data/shards", "matched no objects or files|gs://acme-data/shards", "ERROR: (gcloud.storage.cp) The following URLs matched no objects or files:\n-gs://acme-data/shards/train-*.tar", stage="setup", on="zero", replicas=4, ranks=1),
        said("gsutil_no_urls", (s, "checkpoint", "config-flag"), "gs://acme-models/base-7b", "No URLs matched", "CommandException: No URLs matched: gs://acme-models/base-7b/*", stage="setup", on="all", replicas=2, ranks=1),
        said("gcloud_denied", p, "acme-private", "does not have permission to access b instance", "ERROR: (gcloud.storage.cp) [trainer@ml-prod.iam.gserviceaccount.com] does not have permission to access b instance [acme-private] (or it may not exist): trainer@ml-prod.iam.gserviceaccount.com does not have storage.objects.list access to the Google Cloud Storage bucket. Permission 'storage.objects.list' denied on resource (or it may not exist).", stage="setup", on="all", replicas=3, ranks=1, platform="vertex"),
        raised("hf_token_invalid", p, "", "Invalid user token|401 Client Error", "401 Client Error: Unauthorized for url: https://huggingface.co/api/whoami-v2 (Request ID: Root=1-66f0; 5b1e)\n\nInvalid user token.", kind="huggingface_hub.errors.HfHubHTTPError", frames="", stage="setup", on="all", replicas=4),
        said("wandb_bad_key", p, "wandb", "API key must be 40 characters long", "wandb: ERROR API key must be 40 characters long, yours was 41", stage="setup", on="zero", replicas=8, ranks=1),
        said("docker_secret_missing", (p, "config-flag"), "hf-token", "secret \"hf-token\" not found", "Error: secret \"hf-token\" not found", stage="setup", on=[2], replicas=4, ranks=1, platform="kubernetes"),
        raised("writer_space", "disk", "", "StorageFull", 'Error while serializing: I/O error: No space left on device (os error 28) IoError(Os { code: 28, kind: StorageFull, message: "No space left on device" })', kind="safetensors._safetensors_rust.SafetensorError", frames="", stage="save", on="zero", replicas=16, ranks=1, settings={"save_every": 5}),
        said("pip_no_space", "disk", "", "No space left on device", "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", stage="setup", on=[1], replicas=4, ranks=1),
        raised("hub_cache_full", "disk", "", "No space left on device", "[Errno 28] No space left on device: '/root/.cache/huggingface/hub/models--acme--base-7b/blobs/0c9f.incomplete'", kind="builtins.OSError", frames="", stage="build", on=[4], replicas=8),
    ]


def links() -> list[Case]:
    n, la = "network", "launcher"
    dist = "torch.distributed."
    return [
        raised("proxy_refused", n, "", "ProxyError", "HTTPSConnectionPool(host='packages.example.org', port=443): Max retries exceeded with url: /simple/peft/ (Caused by ProxyError('Unable to connect to proxy', NewConnectionError('<urllib3.connection.HTTPSConnection object at 0x7f2d>: Failed to establish a new connection: [Errno 113] No route to host')))", kind="requests.exceptions.ProxyError", frames="", stage="setup", on="all", replicas=4),
        raised("certificate_not_yet_valid", n, "", "certificate is not yet valid", "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate is not yet valid (_ssl.c:1006)", kind="ssl.SSLCertVerificationError", frames="", stage="build", on=[7], replicas=16, ranks=1, retry=("node", "yes", "change")),
        raised("gloo_mesh", (n, la), "", "Gloo connectFullMesh failed", "Gloo connectFullMesh failed with [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:144] no error", frames="", stage="build", on=[3], replicas=8, ranks=1),
        raised("nccl_connect_timeout", (n, la), "", "Connection timed out", "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.3\nncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error. \nLast error:\nsocketPollConnect: connect to fe80::4001:aff:fe80:9%eth1<50211> returned Connection timed out, exceeded error retry count after 35 attempts", kind=dist + "DistBackendError", frames="collective", stage="build", on=[5], replicas=8, ranks=1),
        raised("c10d_store_gone", la, "", "RendezvousConnectionError", "The connection to the C10d store has failed. See inner exception for details.", kind=dist + "elastic.rendezvous.api.RendezvousConnectionError", frames="", stage="setup", on=[2], replicas=4, ranks=1),
        raised("clients_joined", (la, n, "timeout"), "", "7/8 clients joined", "Timed out after 601 seconds waiting for clients. 7/8 clients joined.", kind=dist + "DistStoreError", frames="", stage="setup", on="zero", replicas=8, ranks=1, drop=("workerpool1-4",), platform="vertex", root=Root(("7/8 clients joined",), ("workerpool0-0", "workerpool1-4")), retry=("yes", "change"), note="worker 1-4 never printed a line; its replica may be named"),
        raised("jax_barrier_init", la, "", "Barrier timed out", "DEADLINE_EXCEEDED: Barrier timed out. Id: [Init]Wait_for_all_tasks_to_register::0. This usually happens because a task triggered the barrier too early or too slowly. Please look at the task logs (both timed out and first task) to debug further.\n# of tasks that reached the barrier: 6/8.\nThe first task at the barrier: /job:jax_worker/replica:0/task:0. Some timed out task names:\n/job:jax_worker/replica:0/task:7\n/job:jax_worker/replica:0/task:3", kind="jaxlib._jax.XlaRuntimeError", frames="", stage="setup", on=[0, 1, 2, 4, 5, 6], replicas=8, ranks=1, settings={"collective": "jax", "dialect": "maxtext"}, retry=("yes", "change"), root=Root(("Barrier timed out",), ("",))),
        said("accelerate_num_processes", ("config-flag", la), "--num_processes", "manually pass in `--num_processes`", "Traceback (most recent call last):\n  File \"/opt/conda/bin/accelerate\", line 8, in <module>\n    sys.exit(main())\n  File \"/opt/conda/lib/python3.11/site-packages/accelerate/commands/launch.py\", line 1186, in _validate_launch_command\n    raise ValueError(\nValueError: You need to manually pass in `--num_processes` using this config yaml.", stage="setup", on="all", replicas=2, ranks=1),
        said("horovodrun_hosts", (la, n), "train-worker-1", "not reachable|unreachable|Launching horovod", "horovodrun was unable to launch the job: host train-worker-1 is not reachable by ssh. Verify that it runs and that its port 22 is open.", stage="setup", on="zero", replicas=3, ranks=1, platform="kubernetes"),
        said("hostfile_empty", (la, "config-flag"), "hostfile", "Hostfile is not formatted correctly|Hostfile contains a bad entry", "[2026-09-03 11:20:41,006] [ERROR] [runner.py:270:_parse_hostfile] Hostfile is not formatted correctly, unable to proceed with training.\nTraceback (most recent call last):\n  File \"/opt/conda/lib/python3.11/site-packages/deepspeed/launcher/runner.py\", line 271, in _parse_hostfile\n    raise ValueError(f\"Hostfile contains a bad entry: {line}, unable to proceed with launching\")\nValueError: Hostfile contains a bad entry: train-worker-0 slot=8, unable to proceed with launching", stage="setup", on="zero", replicas=2, ranks=1),
    ]


def gpus() -> list[Case]:
    h, f = "hardware-gpu", "memory-gpu"
    box = "╭─────────────────────── Traceback (most recent call last) ────────────────────────╮\n│ /app/finetune.py:233 in training_step                                            │\n│ ❱ 233 │   loss = self.model(**batch).loss                                       │\n│ /opt/conda/lib/python3.11/site-packages/torch/nn/modules/linear.py:125           │\n╰──────────────────────────────────────────────────────────────────────────────────╯\nOutOfMemoryError: " + OOM.format("3.08", 0).split(" Of the")[0]
    desync = "[E ProcessGroupNCCL.cpp:475] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600713 milliseconds before timing out.\n[E ProcessGroupNCCL.cpp:537]\n\t - [0] Timeout at collective: ALLREDUCE, #4\n\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:\n\t   - [3] finished collective #3, but didn't join collective #4 (count from 1)\n\t - Snapshot of ranks' latest states:\n\t   #4 started ranks:\n\t     [0-2,4-7] started ALLREDUCE"
    return [
        said("rich_box_oom", f, "", "OutOfMemoryError: CUDA out of memory", box, replicas=4, ranks=1),
        raised("cudnn_not_initialized", (f, "image", "package"), "", "CUDNN_STATUS_NOT_INITIALIZED", "cuDNN error: CUDNN_STATUS_NOT_INITIALIZED", replicas=2, ranks=8, on=[9]),
        raised("triton_shared_memory", (f, "code", "config-flag"), "", "out of resource: shared memory", "out of resource: shared memory, Required: 131072, Hardware limit: 101376. Reducing block sizes or `num_stages` may help.", kind="triton.runtime.errors.OutOfResources", replicas=4, on="all"),
        raised("pin_memory_oom", (f, "memory-host"), "", "CUDA error: out of memory", "CUDA error: out of memory" + ASYNC, frames="sync", replicas=8, ranks=1),
        said("nvml_mismatch", (h, "image"), "", "Driver/library version mismatch", "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.158", code=18, stage="setup", on=[5], replicas=8, ranks=1),
        raised("nvswitch_sxid", h, "", "SXid|uncorrectable NVLink", "CUDA error: uncorrectable NVLink error detected during the execution" + ASYNC, frames="collective", on=[11], replicas=2, ranks=8, at_step=6, settings={"steps": 30}, extra=[hook("worded.say", [11], "step", 3, text="[5821.481192] nvidia-nvswitch3: SXid (PCI:0000:83:00.0): 20034, Fatal, Link 30 LTSSM Fault Up")]),
        said("replicas_differ", (h, "nccl-desync"), "", "checksum", "ERROR sdc_check: checksum of the gradients differs on {replica}: 0x5d1c30f2, 63 other ranks have 0x5d1c30f1; the hardware of this host is suspected", code=71, on=[38], replicas=64, ranks=1),
        said("dcgm_thermal", h, "", "thermal", "ERROR health: DCGM policy violation on GPU 3: thermal limit reached, HW slowdown active, clocks 345 MHz; stopping the run", code=70, on=[6], replicas=12, ranks=1),
        said("desync_report", ("nccl-desync", "timeout"), "", "Watchdog caught|lagging/dead/mismatched ranks|didn't join collective", desync, code=134, on="zero", replicas=8, ranks=1, platform="vertex", settings={"collective": "nccl"}, root=Root(("Watchdog caught", "lagging/dead/mismatched ranks", "didn't join collective"), ("workerpool0-0", "workerpool1-2")), note="rank 3, worker 1-2, did not join"),
        raised("monitored_barrier_rank", ("nccl-desync", "timeout"), "", "failed to pass monitoredBarrier", "[Rank 0]: Rank 5 failed to pass monitoredBarrier in 1800000 ms", frames="collective", on="zero", replicas=8, ranks=1, platform="vertex", root=Root(("failed to pass monitoredBarrier",), ("workerpool0-0", "workerpool1-4"))),
        raised("misaligned", ("code", h), "", "misaligned address", "CUDA error: misaligned address" + ASYNC, frames="backward", replicas=6),
        said("device_ordinal", ("config-flag", "launcher", "hardware-gpu", "image"), "", "invalid device ordinal", "Traceback (most recent call last):\n  File \"/app/train.py\", line 12, in <module>\n    main()\n  File \"/opt/conda/lib/python3.11/site-packages/torch/cuda/__init__.py\", line 529, in set_device\n    torch._C._cuda_setDevice(device)\nRuntimeError: CUDA error: invalid device ordinal", stage="setup", on=[3, 7], replicas=2, ranks=4),
    ]


def ends() -> list[Case]:
    p, q, i, t = "preemption", "quota-capacity", "image", "timeout"
    o = platform_only
    pods: dict[str, Any] = {"platform": "kubernetes", "ranks": 1, "skew": {}}
    slow = {"steps": 4000, "scale": 60.0, "step_seconds": 1.5, "print_every": 20, "collective": "gloo"}
    return [
        quiet("scheduler_preempted", p, replicas=6, kill=((70.0, "train-worker-3", 15),), settings=slow, error="pod train-worker-3: PreemptionByScheduler: preempting to accommodate a higher priority pod", root=Root((), ("train-worker-3",)), grace=30.0, really=False, **pods),
        said("tpu_maintenance", p, "", "maintenance event|preempted", "W1004 11:02:17.301223 tpu_pod_monitor: This TPU is going through a maintenance event, and might be unhealthy. The TPU worker {rank} was preempted.", code=143, on=[2], replicas=4, ranks=1, settings={"collective": "jax", "dialect": "maxtext"}),
        said("slurm_preempted", p, "", "DUE TO PREEMPTION", "slurmstepd: error: *** JOB 81233 ON gpu-node-3 CANCELLED AT 2026-08-30T02:11:09 DUE TO PREEMPTION ***", code=143, on="all", replicas=2, ranks=1, settings={"collective": "none"}),
        o("gce_quota", q, "GCE quota exceeded. Quota 'NVIDIA_H100_MEGA_GPUS' exceeded.  Limit: 8.0 in region us-central1.", "NVIDIA_H100_MEGA_GPUS", error_code=8, replicas=4),
        o("pool_exhausted", q, "pod train-worker-0: FailedScaleUp: Node scale up in zones us-central1-a associated with this pod failed: GCE out of resources (ZONE_RESOURCE_POOL_EXHAUSTED). Pod is at risk of not being scheduled.", "", platform="kubernetes", state="PENDING", replicas=4),
        o("namespace_quota", q, 'pods "train-worker-7" is forbidden: exceeded quota: gpu-quota, requested: requests.nvidia.com/gpu=8, used: requests.nvidia.com/gpu=56, limited: requests.nvidia.com/gpu=56', "gpu-quota", platform="kubernetes", replicas=9),
        o("vertex_cpu_quota", q, "The following quota metrics exceed quota limits: aiplatform.googleapis.com/custom_model_training_preemptible_nvidia_h100_gpus", "custom_model_training_preemptible_nvidia_h100_gpus", error_code=8, replicas=2),
        o("image_wrong_platform", i, 'pod train-worker-1: ErrImagePull: failed to pull and unpack image "us-docker.pkg.dev/ml-prod/trainers/llm:v12": no match for platform in manifest: not found', "llm:v12", platform="kubernetes", replicas=4),
        said("glibc_version", (i, "package"), "GLIBC_2.38", "GLIBC_2.38' not found", "Traceback (most recent call last):\n  File \"/app/train.py\", line 4, in <module>\n    import fused_kernels\nImportError: /lib/x86_64-linux-gnu/libm.so.6: version `GLIBC_2.38' not found (required by /app/fused_kernels.cpython-311-x86_64-linux-gnu.so)", stage="setup", on="all", replicas=4, ranks=1),
        Case("coreutils_timeout", t, (), Root(("timeout: sending signal TERM",), ("workerpool0-0", "workerpool1-0", "workerpool1-1")), ("yes", "change", "no"), replicas=3, command="timeout -v 2 bash -c 'for n in $(seq 400); do echo step $n loss 3.$n; sleep 0.02; done'", seed=5101, grace=30.0, settings={"scale": 100.0}),
        raised("checkpoint_save_timeout", (t, "checkpoint", "storage-gcs"), "", "TimeoutError: asynchronous save", "asynchronous save of checkpoint-1200 to gs://acme-models/run did not finish within 1800 s", kind="builtins.TimeoutError", frames="", stage="save", on="zero", replicas=8, settings={"save_every": 5}),
        quiet("scancel", "user-cancel", replicas=4, ranks=1, cancel_at=60.0, settings=slow, state="CANCELLED", error="", root=None, retry="no", skew={}, platform="vertex", really=False, hooks_more=[hook("system.notice_preemption", None, "setup", seconds=1.0, text="slurmstepd: error: *** JOB 6228 ON gpu-node-1 CANCELLED AT 2026-07-01T10:00:01 ***")]),
    ]


def software() -> list[Case]:
    c, k, d, f, s = "checkpoint", "package", "data", "config-flag", "dependency-service"
    return [
        raised("hf_no_weights", c, "checkpoint-900", "Error no file named", "Error no file named model.safetensors, or pytorch_model.bin, found in directory /gcs/train-artifacts/run/checkpoint-900.", kind="builtins.OSError", frames="", stage="build", on="all", replicas=4),
        raised("hf_no_checkpoint", c, "checkpoint-1500", "Can't find a valid checkpoint", "Can't find a valid checkpoint at /gcs/train-artifacts/run/checkpoint-1500", kind="builtins.ValueError", frames="trainer", stage="build", on="all", replicas=2, ranks=8),
        raised("tf_slice_reader", c, "ckpt-1200", "Unsuccessful TensorSliceReader constructor", "Unsuccessful TensorSliceReader constructor: Failed to find any matching files for gs://acme-models/run/ckpt-1200", kind="tensorflow.python.framework.errors_impl.NotFoundError", frames="tf", stage="build", on="all", replicas=4, ranks=1, settings={"collective": "tf", "dialect": "keras"}),
        raised("safetensors_incomplete", c, "", "MetadataIncompleteBuffer", "Error while deserializing header: MetadataIncompleteBuffer", kind="safetensors_rust.SafetensorError", frames="", stage="build", on=[3], replicas=8),
        raised("accelerate_required", k, "accelerate", "requires Accelerate", "Using `low_cpu_mem_usage=True`, a `device_map` or a `tp_plan` requires Accelerate: `pip install 'accelerate>=0.26.0'`", kind="builtins.ImportError", frames="", stage="build", on="all", replicas=3),
        raised("flash_attention_toggled", k, "flash_attn", "FlashAttention2 has been toggled on", "FlashAttention2 has been toggled on, but it cannot be used due to the following error: the package flash_attn seems to be not installed. Please refer to the documentation of https://huggingface.co/docs/transformers/perf_infer_gpu_one#flashattention-2 to install Flash Attention 2.", kind="builtins.ImportError", frames="", stage="build", on="all", replicas=8),
        raised("torch_six", k, "torch._six", "No module named 'torch._six'", "No module named 'torch._six'", kind="builtins.ModuleNotFoundError", frames="", stage="setup", on="all", replicas=2, ranks=8),
        raised("versions_differ", (k, "image", "config-flag"), "", "all ranks need one version", "rank 5 runs torch 2.6.0+cu124, rank 0 runs torch 2.7.1+cu126: all ranks need one version", frames="", stage="build", on=[5], replicas=8, ranks=1),
        raised("cuda_home", (k, "image"), "CUDA_HOME", "CUDA_HOME environment variable is not set", "CUDA_HOME environment variable is not set. Please set it to your CUDA install root.", kind="builtins.OSError", frames="", stage="setup", on="all", replicas=2, ranks=4),
        raised("arrow_json", d, "", "JSON parse error: Missing a closing quotation mark", "JSON parse error: Missing a closing quotation mark in string. in row 218", kind="pyarrow.lib.ArrowInvalid", frames="", stage="build", on="zero", replicas=4),
        raised("tf_data_loss", d, "", "corrupted record at 12041", "corrupted record at 12041 [Op:IteratorGetNext] name: ", kind="tensorflow.python.framework.errors_impl.DataLossError", frames="tf", on=[1], replicas=4, ranks=1, settings={"collective": "tf", "dialect": "keras"}),
        raised("webdataset_no_samples", (d, f), "", "no samples found in dataset", "('no samples found in dataset; perhaps you have fewer shards than workers.\\nTurn off using empty_check=False in the WebDataset constructor.',)", kind="builtins.ValueError", frames="", stage="build", on=[30], replicas=32, ranks=1),
        said("absl_flag", f, "lerning_rate", "Unknown command line flag 'lerning_rate'", "FATAL Flags parsing error: Unknown command line flag 'lerning_rate'. Did you mean: learning_rate ?\nPass --helpshort or --helpfull to see help on flags.", stage="setup", on="all", replicas=8, ranks=1),
        said("fire_arg", f, "--bach_size", "Could not consume arg", "ERROR: Could not consume arg: --bach_size=8\nUsage: train.py <flags>\n  optional flags:        --batch_size | --lr | --epochs", code=2, stage="setup", on="all", replicas=2, ranks=1),
        raised("hf_strategies", f, "load_best_model_at_end", "--load_best_model_at_end requires", "--load_best_model_at_end requires the save and eval strategy to match, but found\n- Evaluation strategy: IntervalStrategy.EPOCH\n- Save strategy: SaveStrategy.STEPS", kind="builtins.ValueError", frames="", stage="setup", on="all", replicas=4),
        raised("lightning_misconfigured", f, "", "MisconfigurationException", "You requested gpu: [0, 1, 2, 3, 4, 5, 6, 7]\n But your machine only has: [0, 1, 2, 3]", kind="lightning.fabric.utilities.exceptions.MisconfigurationException", frames="", stage="build", on="all", replicas=4, ranks=1),
        raised("grpc_unavailable", (s, "network"), "", "StatusCode.UNAVAILABLE|_InactiveRpcError", '<_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE\n\tdetails = "failed to connect to all addresses; last error: UNKNOWN: ipv4:10.20.0.31:8500: Failed to connect to remote host: Connection refused"\n\tdebug_error_string = "UNKNOWN:Error received from peer"\n>', kind="grpc._channel._InactiveRpcError", frames="", on="zero", replicas=4),
        raised("mlflow_no_experiment", (s, f), "", "RESOURCE_DOES_NOT_EXIST", "RESOURCE_DOES_NOT_EXIST: No Experiment with id=12 exists", kind="mlflow.exceptions.RestException", frames="", stage="build", on="zero", replicas=2),
        raised("kafka_none", (s, "network"), "", "NoBrokersAvailable", "NoBrokersAvailable", kind="kafka.errors.NoBrokersAvailable", frames="", stage="build", on=[2], replicas=8),
        raised("reward_api_429", s, "", "Error code: 429", "Error code: 429 - {'error': {'message': 'Rate limit reached for judge-large on requests per min (RPM): Limit 500, Used 500', 'type': 'requests'}}", kind="openai.RateLimitError", frames="", on=[14], replicas=16, ranks=1),
        said("memcg_kernel", "memory-host", "", "Memory cgroup out of memory|oom-kill:constraint", "[ 9911.310022] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=cri-containerd-5f1c,mems_allowed=0-1,oom_memcg=/kubepods/burstable/pod7e,task_memcg=/kubepods/burstable/pod7e/5f1c,task=python,pid=2231,uid=0\n[ 9911.310431] Memory cgroup out of memory: Killed process 2231 (python) total-vm:812345678kB, anon-rss:201326592kB, file-rss:1024kB, shmem-rss:0kB, UID:0 pgtables:402112kB oom_score_adj:984", code=137, on=[4], replicas=6, ranks=1, platform="kubernetes"),
        raised("ray_low_memory", "memory-host", "", "running low on memory", "Task was killed due to the node running low on memory.\nMemory on the node (IP: 10.128.0.9, ID: 9f3c) where the task (actor ID: 40cb, name=TrainWorker.__init__, pid=4123, memory used=171.22GB) was running was 359.12GB / 373.00GB (0.9628), which exceeds the memory usage threshold of 0.95.", kind="ray.exceptions.OutOfMemoryError", frames="", on="zero", replicas=4, ranks=1),
    ]


def documented() -> list[Case]:
    return [*stores(), *links(), *gpus(), *ends(), *software()]

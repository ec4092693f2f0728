"""Ends that no fault of the program explains: time, preemption, a person, no capacity; and logs that don't tell."""

# fmt: off
from __future__ import annotations

from typing import Any

from tests.corpus.failures.case import Case, Root, hook
from tests.corpus.failures.cases.mix import mixed

NONE: dict[str, Any] = {"collective": "gloo"}
NO_LINE = Root((), ("",))


def quiet(name: str, family: Any, *, incidents: tuple[str, ...] = (), **fixed: Any) -> Case:
    """A run in which no hook fails: the platform ends it, or nothing does."""
    extra = [hook(f"incidents.{n}", [k % 2], "step", 3 + 2 * k) for k, n in enumerate(incidents)]
    extra += fixed.pop("hooks_more", [])
    return mixed(name, family, fixed.pop("cause", ""), fixed.pop("pattern", ""), "incidents.deprecation", at_step=2, extra=extra, **fixed)


def platform_only(name: str, family: Any, error: str, cause: str = "", **fixed: Any) -> Case:
    """A job whose replicas never ran: only the platform says why."""
    state = fixed.pop("state", "FAILED")
    fixed.setdefault("platform", "vertex")
    fixed.setdefault("replicas", 2)
    case = mixed(name, family, cause, "", "incidents.deprecation", really=False, ranks=1, state=state, error=error, form="jsonl", skew={}, late=0.0, joined=False, **fixed)
    case.command = "true"
    case.root = Root(("^" + error[:30].replace("(", "\\(").replace("[", "\\["),), ("service",)) if case.platform == "vertex" and error else NO_LINE
    return case


QUOTA = "The following quota metrics exceed quota limits: aiplatform.googleapis.com/custom_model_training_nvidia_a100_80gb_gpus,aiplatform.googleapis.com/custom_model_training_cpus"


def capacity() -> list[Case]:
    q, i = "quota-capacity", "image"
    p = platform_only
    return [
        p("quota_a100", q, QUOTA, "custom_model_training_nvidia_a100_80gb_gpus", error_code=8, replicas=16),
        p("stockout_region", q, "Resources are insufficient in region: us-central1. Please try a different region or use a different accelerator.", "", error_code=8, replicas=8),
        p("stockout_zone", q, "STOCKOUT: The zone 'projects/482910/zones/us-east4-a' does not have enough resources available to fulfill the request.  (resource type:compute)", "", error_code=8, replicas=4),
        p("unschedulable_pods", q, "pod train-worker-3: 0/9 nodes are available: 4 Insufficient nvidia.com/gpu, 5 node(s) didn't match Pod's node affinity/selector. preemption: 0/9 nodes are available: 9 Preemption is not helpful for scheduling.", "nvidia.com/gpu", platform="kubernetes", state="PENDING", replicas=8),
        p("kueue_flavor", q, "workload job-train-8f3k2: couldn't assign flavors to pod set worker: insufficient unused quota for nvidia.com/gpu in flavor a3-high, 16 more needed", "a3-high", platform="kubernetes", state="PENDING", replicas=16),
        p("flex_start_expired", q, "FLEX_START: the job could not get its resources within the maximum wait duration of 86400s.", error_code=8, replicas=4),
        p("act_as", "permission", "You do not have permission to act as service account: trainer@ml-prod.iam.gserviceaccount.com", "trainer@ml-prod.iam.gserviceaccount.com", error_code=7),
        p("image_pull_denied", (i, "permission"), "service-482910@gcp-sa-aiplatform-cc.iam.gserviceaccount.com does not have permission to access Artifact Registry repository projects/ml-prod/locations/us-central1/repositories/trainers. Please verify that the repository exists and that the service account has the role roles/artifactregistry.reader.", "trainers", error_code=7),
        p("image_pull_backoff", i, 'pod train-master-0: ImagePullBackOff: Back-off pulling image "us-docker.pkg.dev/ml-prod/trainers/llm:v9": failed to resolve reference "us-docker.pkg.dev/ml-prod/trainers/llm:v9": not found', "llm:v9", platform="kubernetes", replicas=4),
        p("start_error", i, 'The replica workerpool0-0 exited with a non-zero status of 128. Termination reason: StartError. \nTermination log message: failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: exec: "trainer.task": executable file not found in $PATH: unknown\n', "trainer.task", replicas=2),
        p("image_missing_vertex", i, "The DOCKER_IMAGE us-docker.pkg.dev/ml-prod/trainers/vit:2026-11 does not exist or the Vertex AI service agent cannot access it.", "vit:2026-11", error_code=3),
        p("mount_failed", ("permission", "storage-gcs"), 'pod train-worker-0: MountVolume.SetUp failed for volume "data" : rpc error: code = PermissionDenied desc = failed to get GCS bucket "acme-private": googleapi: Error 403: trainer@ml-prod.iam.gserviceaccount.com does not have storage.objects.list access to the Google Cloud Storage bucket., forbidden', "acme-private", platform="kubernetes", state="PENDING", replicas=4),
        p("webhook_denied", "config-flag", 'admission webhook "validator.pytorchjob.training-operator.kubeflow.org" denied the request: spec.pytorchReplicaSpecs[Worker].template.spec.containers[0].image: Required value', "", platform="kubernetes", replicas=2),
        Case("command_not_found", ("image", "launcher", "package"), ("torchrun",), Root(("torchrun: command not found",), ("workerpool0-0", "workerpool1-0")), "no", replicas=2, command="if [ {node} = 9 ]; then true; fi; PATH=/usr/bin:/bin; torchrun --nnodes 2 train.py", seed=4101),
        Case("not_executable", ("image", "permission", "launcher"), ("start.sh",), Root(("Permission denied",), ("train-master-0", "train-worker-0", "train-worker-1")), "no", replicas=3, platform="kubernetes", command="printf 'echo hi\\n' > {work}/start.sh; {work}/start.sh", seed=4102),
        Case("exec_format", ("image",), (), Root(("[Ee]xec format error|cannot execute binary file",), ("workerpool0-0", "workerpool1-0")), "no", replicas=2, command="printf '\\177ELF\\002\\001\\001\\000\\000\\000\\000\\000\\000\\000\\000\\000\\002\\000\\267\\000' > {work}/train-{node}; head -c 400 /dev/zero >> {work}/train-{node}; chmod +x {work}/train-{node}; {work}/train-{node} --steps 100", seed=4103),
        Case("module_path", ("package", "config-flag", "image"), ("trainer",), Root(("No module named trainer|No module named 'trainer'",), ("workerpool0-0", "workerpool1-0", "workerpool1-1")), "no", replicas=3, command="{python} -m trainer.task --epochs 3", seed=4104, env={"PYTHONPATH": "/nowhere"}),
    ]


SPOT = ("system.notice_preemption",)


def preemptions() -> list[Case]:
    f, t = "preemption", "timeout"
    vertex: dict[str, Any] = {"platform": "vertex", "ranks": 1, "skew": {}}
    pods: dict[str, Any] = {"platform": "kubernetes", "ranks": 1, "skew": {}}
    notice = [hook("system.notice_preemption", None, "setup", text="SIGTERM received, saving before the node goes away")]
    slow = {"steps": 4000, "scale": 60.0, "step_seconds": 1.5, "print_every": 20, "collective": "gloo"}
    stockout = "STOCKOUT: the Spot VM of replica {} was preempted. The job ended after 6 restarts."
    return [
        quiet("spot_stockout", f, replicas=8, kill=((90.0, "workerpool1-4", 15),), hooks_more=notice, settings=slow, error=stockout.format("workerpool1-4"), error_code=8, root=Root(("SIGTERM received", "STOCKOUT"), ("workerpool1-4", "service")), grace=40.0, **vertex),
        quiet("spot_killed", f, replicas=4, kill=((70.0, "workerpool1-1", 9),), settings=slow, error=stockout.format("workerpool1-1"), error_code=8, root=Root(("STOCKOUT",), ("workerpool1-1", "service")), grace=30.0, incidents=("gcs_retry", "bad_sample"), **vertex),
        quiet("node_shutdown_pod", f, replicas=8, kill=((80.0, "train-worker-5", 15),), hooks_more=notice, settings=slow, error="pod train-worker-5: Terminated: Pod was terminated in response to imminent node shutdown.", root=Root(("SIGTERM received",), ("train-worker-5",)), grace=40.0, **pods),
        quiet("taint_eviction", f, replicas=16, kill=((60.0, "train-worker-11", 15),), settings=slow, error="pod train-worker-11: Failed: TaintManagerEviction: Marking for deletion Pod ml/train-worker-11; node gke-gpu-a3-7f2 has taint node.kubernetes.io/unreachable:NoExecute", root=Root((), ("train-worker-11",)), grace=20.0, **pods),
        quiet("kueue_preempted", f, replicas=4, cancel_at=75.0, settings=slow, hooks_more=notice, error="Workload was evicted: Preempted to accommodate a workload (UID: 2f1d0a) due to prioritization in the ClusterQueue", root=Root(("SIGTERM received",), ("",), every=True), **pods),
        quiet("maintenance_event", f, replicas=8, kill=((85.0, "workerpool1-2", 15),), settings=slow, hooks_more=[hook("worded.say", [3], "step", 40, text="WARNING maintenance_watcher: instance/maintenance-event is TERMINATE_ON_HOST_MAINTENANCE"), *notice], error="The replica workerpool1-2 was stopped for host maintenance and the job exceeded its restarts.", error_code=14, root=Root(("TERMINATE_ON_HOST_MAINTENANCE", "SIGTERM received", "stopped for host maintenance"), ("workerpool1-2", "service")), grace=40.0, **vertex),
        quiet("spot_no_error_words", f, replicas=2, kill=((60.0, "workerpool1-0", 15),), settings=slow, hooks_more=[hook("system.notice_preemption", None, "setup", text="received preemption notice from the metadata server (instance/preempted = TRUE)")], root=Root(("preemption notice",), ("workerpool1-0",)), grace=40.0, retry="yes", **vertex),
        quiet("job_timeout", t, replicas=4, cancel_at=120.0, settings=slow, state="EXPIRED", error="Job exceeded its timeout of 86400s.", error_code=4, root=Root(("Job exceeded its timeout",), ("service",)), **vertex),
        quiet("job_timeout_failed", t, replicas=8, cancel_at=100.0, settings=slow, error="CustomJob ran longer than the specified timeout 604800s and was cancelled.", error_code=4, root=Root(("ran longer than the specified timeout",), ("service",)), incidents=("wandb_network", "library_traceback"), **vertex),
        quiet("active_deadline", t, replicas=4, cancel_at=90.0, settings=slow, error="Job was active longer than specified deadline (DeadlineExceeded)", root=Root((), ("",)), **pods),
        mixed("walltime_guard", t, "", "wall-time limit", "worded.say_and_leave", on="zero", really=False, replicas=6, ranks=1, options={"code": 124, "text": "ERROR trainer: wall-time limit of 12:00:00 reached at step 8123, checkpoint saved, stopping"}, retry=("yes", "change")),
        mixed("slurm_time_limit", t, "", "DUE TO TIME LIMIT", "worded.say_and_leave", on="all", really=False, replicas=4, ranks=1, settings={"collective": "none"}, options={"code": 143, "text": "slurmstepd: error: *** STEP 62281.0 ON gpu-node-{rank} CANCELLED AT 2026-06-12T04:00:21 DUE TO TIME LIMIT ***"}, retry=("yes", "change")),
        mixed("command_timeout", t, "", "TimeoutExpired|timed out after", "worded.raise_text", on="zero", stage="build", really=False, replicas=2, options={"module": "subprocess", "name": "TimeoutExpired", "text": "Command '['gsutil', '-m', 'cp', '-r', 'gs://acme-data/shards', '/tmp/shards']' timed out after 3600 seconds"}),
    ]


def cancels() -> list[Case]:
    f = "user-cancel"
    slow = {"steps": 4000, "scale": 60.0, "step_seconds": 1.5, "print_every": 20}
    cancelled: dict[str, Any] = {"state": "CANCELLED", "root": None, "retry": "no", "skew": {}}
    error = "Job cancelled by user. CANCELED"
    return [
        quiet("cancel_plain", f, replicas=4, cancel_at=60.0, settings=slow, error=error, error_code=1, platform="vertex", **cancelled),
        quiet("cancel_quiet_error", f, replicas=16, ranks=1, cancel_at=45.0, settings=slow, error="", platform="vertex", **cancelled),
        quiet("cancel_with_survived", f, replicas=8, ranks=1, cancel_at=80.0, settings=slow, incidents=("oom_recovered", "logged_exception", "library_traceback", "gcs_retry"), error=error, error_code=1, platform="vertex", **cancelled),
        quiet("cancel_torchrun_teardown", f, replicas=2, ranks=4, cancel_at=70.0, settings=slow | {"launcher": "torchrun", "collective": "gloo"}, error=error, error_code=1, platform="vertex", **cancelled),
        quiet("cancel_cascade", f, replicas=6, ranks=1, cancel_at=60.0, settings=slow | {"collective": "nccl"}, error="", platform="vertex", hooks_more=[hook("system.notice_preemption", [0, 3], "setup", seconds=6.0, text="got SIGTERM, cleaning up")], **cancelled),
        quiet("cancel_pods_deleted", f, replicas=8, ranks=1, cancel_at=60.0, settings=slow, error="PyTorchJob train was deleted by ana@acme.example", platform="kubernetes", **cancelled),
        quiet("cancel_64", f, replicas=64, ranks=1, cancel_at=90.0, settings=slow | {"step_seconds": 6.0}, error=error, error_code=1, platform="vertex", **cancelled),
        mixed("cancel_keyboard", f, "", "KeyboardInterrupt", "system.interrupt", on="all", replicas=2, ranks=1, settings={"collective": "none"}, state="CANCELLED", error="", platform="vertex", retry="no"),
        quiet("cancel_deepspeed", f, replicas=2, ranks=8, cancel_at=70.0, settings=slow | {"launcher": "deepspeed"}, error=error, error_code=1, platform="vertex", **cancelled),
        quiet("cancel_at_start", f, replicas=12, ranks=1, cancel_at=15.0, settings=slow, error="CANCELED", error_code=1, platform="vertex", **cancelled),
    ]


def fine() -> list[Case]:
    f = "none"
    done: dict[str, Any] = {"state": "SUCCEEDED", "error": "", "root": None, "retry": ("no", ""), "skew": {}}
    short = {"steps": 60}
    return [
        quiet("ok_plain", f, replicas=4, settings=short, **done),
        quiet("ok_many_survived", f, replicas=8, ranks=1, settings=short, incidents=("gcs_retry", "library_traceback", "oom_recovered", "eval_assert", "logged_exception", "checkpoint_fallback", "worker_restart", "nan_skipped"), **done),
        quiet("ok_teardown_noise", f, replicas=2, ranks=4, settings=short, hooks_more=[hook("system.atexit_noise", None, "setup"), hook("system.wandb_summary", [0], "setup")], **done),
        quiet("ok_32", f, replicas=32, ranks=1, settings={"steps": 20}, incidents=("nccl_warn", "wandb_network", "xid_other"), **done),
        quiet("ok_others_killed", f, replicas=4, ranks=1, settings={"steps": 30, "collective": "none"}, platform="vertex", hooks_more=[hook("system.hang", [1, 2, 3], "end")], **done),
        quiet("ok_loss_scale", f, replicas=2, ranks=8, settings=short | {"launcher": "deepspeed"}, incidents=("loss_scale", "deprecation", "hub_retry"), **done),
        quiet("ok_json", f, replicas=6, ranks=1, settings=short | {"dialect": "json"}, incidents=("errors_metric", "bad_sample", "gcs_retry"), **done),
        quiet("ok_wandb_fails_at_end", f, replicas=3, ranks=1, settings=short, hooks_more=[hook("incidents.wandb_network", [0], "end"), hook("incidents.library_traceback", [0], "end")], **done),
        quiet("ok_still_running", f, replicas=4, ranks=1, settings={"steps": 50}, incidents=("oom_recovered", "gcs_retry"), state="RUNNING", error="", root=None, retry=("no", ""), skew={}, cut=(0, 9), platform="vertex", late=0.0),
        quiet("ok_pods", f, replicas=8, ranks=1, platform="kubernetes", settings=short, incidents=("eval_assert", "logged_exception"), **done),
    ]


def unknowns() -> list[Case]:
    f = "unknown"
    none: dict[str, Any] = {"tells": False, "root": None, "retry": ("no", "yes", "change", "node", "")}
    s = "system."
    u = mixed
    survived = [hook(f"incidents.{n}", [k], "step", 2) for k, n in enumerate(("oom_recovered", "bad_sample", "library_traceback"))]
    alone: dict[str, Any] = {"settings": {"collective": "none"}, "before": ()}
    return [
        u("exit_1_silent", f, "", "", s + "leave_silently", replicas=4, **none, **alone),
        u("exit_1_silent_64", f, "", "", s + "leave_silently", replicas=64, ranks=1, **none, **alone),
        u("exit_3_silent", f, "", "", s + "leave_silently", options={"code": 3}, replicas=8, **none, **alone),
        u("exit_42_silent_start", f, "", "", s + "leave_silently", options={"code": 42}, stage="setup", replicas=6, **none, **alone),
        u("exit_255_silent", f, "", "", s + "leave_silently", options={"code": 255}, replicas=2, **none, **alone),
        u("exit_1_after_survived", f, "", "", s + "leave_silently", extra=survived, at_step=15, replicas=8, ranks=1, on=[2], settings={"collective": "none", "steps": 40}, **none),
        u("exit_1_with_cascade", f, "", "", s + "leave_silently", replicas=16, ranks=1, on=[6], settings={"collective": "nccl"}, grace=60.0, **none),
        u("exit_1_gloo_cascade", f, "", "", s + "leave_silently", replicas=8, ranks=1, on=[3], settings={"collective": "gloo", "rank_prefix": True}, grace=60.0, **none),
        u("unflushed", f, "", "", s + "leave_unflushed", replicas=4, ranks=1, env={"PYTHONUNBUFFERED": ""}, **none, **alone),
        u("training_failed_only", f, "", "", s + "say_and_leave", options={"text": "training failed"}, replicas=4, **none, **alone),
        u("see_the_other_log", f, "", "", s + "say_and_leave", options={"text": "ERROR: an error occurred, see /var/log/trainer/rank.log for details", "code": 1}, replicas=8, ranks=1, **none, **alone),
        u("abnormal_exit", f, "", "", s + "say_and_leave", options={"text": "Task completed. Exit code (1). Exit reason (SUBPROCESS_EXCEPTION)", "code": 1}, replicas=2, ranks=1, on="zero", platform="vertex", **none, **alone),
        u("log_cut_before_end", f, "", "", "modeling.attribute_of_none", replicas=8, ranks=1, on=[4], settings={"collective": "none"}, at_step=18, error="The replica workerpool1-3 exited with a non-zero status of 1. Termination reason: Error. \n", platform="vertex", cut_at="Traceback .most recent", service=False, form="jsonl", late=0.0, joined=False, skew={}, **none),
        u("root_log_missing", f, "", "", "modeling.metric_key", replicas=8, ranks=1, on=[5], settings={"collective": "gloo"}, platform="vertex", drop=("workerpool1-4",), error="The replica workerpool1-4 exited with a non-zero status of 1. Termination reason: Error. \n", grace=60.0, **none),
        u("root_pod_log_missing", f, "", "", "modeling.metric_key", replicas=16, ranks=1, on=[9], settings={"collective": "nccl"}, platform="kubernetes", drop=("train-worker-8",), grace=60.0, **none),
        u("empty_log_exit_1", f, "", "", s + "leave_silently", replicas=2, ranks=1, platform="kubernetes", drop=("train-master-0", "train-worker-0"), **none, **alone),
        u("deepspeed_exit_1", f, "", "", s + "leave_silently", replicas=2, ranks=8, settings={"launcher": "deepspeed", "collective": "none"}, **none),
        u("torchrun_exit_7", f, "", "", s + "leave_silently", options={"code": 7}, replicas=2, ranks=4, settings={"launcher": "torchrun", "collective": "none"}, **none),
        u("exit_1_json", f, "", "", s + "leave_silently", replicas=6, ranks=1, settings={"collective": "none", "dialect": "json"}, **none),
        u("exit_1_bar", f, "", "", s + "leave_silently", replicas=3, ranks=1, settings={"collective": "none", "dialect": "tqdm"}, **none),
        u("word_error_rates", f, "", "", s + "leave_silently", replicas=4, ranks=1, extra=[hook("incidents.errors_metric", [0], "step", n) for n in (2, 4, 6, 8)], at_step=12, settings={"collective": "none", "steps": 40}, **none),
        u("abort_exit_no_words", f, "", "", s + "say_and_leave", options={"text": "Aborting.", "code": 1}, replicas=12, ranks=1, **none, **alone),
        u("teardown_only", f, "", "", s + "leave_silently", replicas=32, ranks=1, on=[17], settings={"collective": "horovod"}, grace=60.0, **none),
        u("pod_failed_exit_2", f, "", "", s + "leave_silently", options={"code": 2}, replicas=8, ranks=1, platform="kubernetes", error="Job has reached the specified backoff limit", **none, **alone),
    ]


def outcomes() -> list[Case]:
    return [*capacity(), *preemptions(), *cancels(), *fine(), *unknowns()]

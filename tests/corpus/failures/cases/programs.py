"""Faults of the program, of its packages and of its flags."""

# fmt: off
from __future__ import annotations

from tests.corpus.failures.case import Case, hook
from tests.corpus.failures.cases.mix import mixed

PC = ("package", "code")


def packages() -> list[Case]:
    p = "package"
    return [
        mixed("flash_attn_one_rank", p, "flash_attn", "No module named 'flash_attn'$", "packages.load_source", stage="setup", options={"line": "from flash_attn import flash_attn_func"}, replicas=16, settings={"noise": ["omp", "future", "nccl", "pip"]}),
        mixed("apex_all_ranks", p, "apex", "ModuleNotFoundError: No module named 'apex'", "packages.load_source", stage="setup", on="all", replicas=8),
        mixed("deep_gemm_late_import", p, "deep_gemm", "No module named 'deep_gemm'", "packages.load", options={"name": "deep_gemm"}),
        mixed("torchvision_bad_import", p, "causal_conv1d", "No module named 'causal_conv1d'", "packages.load_source", stage="build", options={"line": "import causal_conv1d.cpp_functions"}, platform="kubernetes", replicas=8),
        mixed("undefined_symbol", p, "undefined symbol", "undefined symbol: _ZN3c10", "packages.extension", stage="setup", replicas=12),
        mixed("undefined_symbol_all", p, "flash_attn_2_cuda", "undefined symbol: _ZN2at", "packages.extension", stage="setup", on="all", options={"symbol": "_ZN2at4_ops9to_device4callERKNS_6TensorE", "name": "flash_attn_2_cuda"}, replicas=3),
        mixed("cudnn_library", (p, "image"), "libcudnn.so.9", "libcudnn.so.9: cannot open shared object file", "packages.library", stage="build", replicas=6),
        mixed("nvrtc_library", (p, "image"), "libnvrtc-builtins.so.12.9", "libnvrtc-builtins.so.12.9: cannot open shared object file", "packages.library", stage="setup", on="all", options={"name": "libnvrtc-builtins.so.12.9"}),
        mixed("numpy_float_alias", PC, "float", "module 'numpy' has no attribute 'float'", "packages.numpy_alias", stage="build", replicas=4),
        mixed("tokenizers_version", p, "tokenizers", "tokenizers>=0.19,<0.20 is required", "packages.requirement", stage="setup", light=False, on="last"),
        mixed("transformers_adamw", p, "AdamW", "cannot import name 'AdamW' from 'transformers'", "packages.from_transformers", stage="setup", light=False, replicas=3),
        mixed("pip_no_matching", p, "internal-tokenizers", "Could not find a version|No matching distribution", "packages.pip_install", stage="setup", replicas=8, ranks=1, light=False, settings={"noise": ["pip", "entrypoint"]}),
        mixed("metadata_missing", p, "transformer_engine", "No package metadata was found for transformer_engine", "packages.metadata_version", stage="build"),
        mixed("protobuf_descriptors", p, "Descriptors", "TypeError: Descriptors cannot be created directly|out of date and must be regenerated", "packages.protobuf", stage="setup", replicas=4),
    ]


def code() -> list[Case]:
    c = "code"
    m = "modeling."
    return [
        mixed("none_shape", c, "shape", "'NoneType' object has no attribute 'shape'", m + "attribute_of_none"),
        mixed("forward_keyword", c, "token_type_ids", "unexpected keyword argument 'token_type_ids'", m + "unexpected_argument", on="all"),
        mixed("recursion", c, "recursion", "RecursionError: maximum recursion depth exceeded", m + "nested", stage="build"),
        mixed("undefined_name", c, "optimiser_state", "name 'optimiser_state' is not defined", m + "undefined_name", stage="save", on="zero"),
        mixed("unbound_local", c, "warmup", "local variable 'warmup'", m + "unbound", on="all", replicas=4),
        mixed("zero_division", c, "division by zero", "ZeroDivisionError", m + "divide", stage="end", settings={"steps": 20}),
        mixed("metric_key", c, "eval/bleu", "KeyError: 'eval/bleu'", m + "metric_key", on="zero", replicas=32),
        mixed("index_layers", c, "index out of range", "IndexError: list index out of range", m + "index", replicas=64, ranks=1),
        mixed("pickle_local", c, "pickle", "Can't (get|pickle) local object|cannot pickle", m + "pickle_lambda"),
        mixed("pickle_lock", c, "pickle", "cannot pickle '_thread.lock' object", m + "unpicklable", stage="save", on="zero", replicas=6),
        mixed("matmul_numpy", c, "768|1024", "matmul: Input operand 1 has a mismatch", m + "broadcast", light=False, on="all", replicas=2),
        mixed("reshape_numpy", c, "reshape", "cannot reshape array of size", m + "reshape", light=False),
        mixed("nan_guard", (c, "data", "config-flag"), "nan", "FloatingPointError: loss is nan", m + "loss_guard", replicas=16),
        mixed("overflow", c, "math range error", "OverflowError", m + "overflow", platform="kubernetes"),
        mixed("not_implemented", c, "Block.forward", "NotImplementedError: Block.forward", m + "not_implemented", on="all", replicas=8),
        mixed("str_times_float", (c, "config-flag"), "float", "can't multiply sequence by non-int", m + "wrong_type", stage="build"),
        mixed("none_plus_float", c, "NoneType", "unsupported operand type", m + "strings"),
        mixed("jax_dot_shapes", c, "dot_general|512|256", "dot_general requires contracting dimensions", m + "jax_shapes", light=False, replicas=2, ranks=1, settings={"collective": "jax", "dialect": "maxtext"}, limit=90.0),
        mixed("jax_tracer_bool", c, "traced", "TracerBoolConversionError", m + "jax_tracer", light=False, replicas=2, ranks=1, settings={"collective": "jax", "dialect": "maxtext"}, limit=90.0),
        mixed("lightning_no_step", c, "training_step", "No `training_step\\(\\)` method defined", m + "lightning_hook", light=False, replicas=2, ranks=1, limit=120.0),
        mixed("syntax_error", c, "losses.py", "SyntaxError: invalid syntax|losses.py\", line", "packages.syntax", stage="setup", on="all", replicas=4),
        mixed("circular_import", c, "Norm", "cannot import name 'Norm' from partially initialized module", "packages.circular", stage="setup", on="all", replicas=2),
        mixed("segfault_faulthandler", c, "segmentation fault", "Fatal Python error: Segmentation fault", "system.segfault"),
        mixed("abort_assert_cxx", c, "heads", "Assertion .heads > 0", "system.cxx_throw", options={"what": "assert"}, replicas=8, ranks=1),
        mixed("cxx_logic_error", c, "stream is not open", "what\\(\\):  stream is not open", "system.cxx_throw", options={"what": "logic"}, replicas=4, ranks=1),
        mixed("service_blames_victim", c, "shape", "'NoneType' object has no attribute 'shape'", m + "attribute_of_none", replicas=16, ranks=1, on=[11], before=("system.slow_leave",), settings={"collective": "gloo", "rank_prefix": True}, grace=60.0, note="the root ends after its victims, and the service names a victim"),
        mixed("skewed_clock_root", c, "eval/bleu", "KeyError: 'eval/bleu'", m + "metric_key", replicas=8, ranks=1, on=[5], settings={"collective": "gloo"}, grace=60.0, skew={"workerpool1-4": 45.0}, platform="vertex", note="the root's clock is 45 s ahead"),
    ]


def config() -> list[Case]:
    f = "config-flag"
    o = "options."
    bad = {"argv": ["--data", "gs://b/d", "--learning_rate", "1e-3"]}
    return [
        mixed("argparse_unknown", f, "--learning_rate", "unrecognized arguments: --learning_rate", o + "flags", stage="setup", on="all", options=bad),
        mixed("argparse_missing", f, "--data", "the following arguments are required: --data", o + "flags", stage="setup", on="all", options={"argv": []}, replicas=4),
        mixed("argparse_choice", f, "--optimizer|adam", "invalid choice: 'adam'", o + "flags", stage="setup", on="all", options={"argv": ["--data", "x", "--optimizer", "adam"]}, replicas=24, ranks=1),
        mixed("argparse_type", f, "--lr", "invalid float value", o + "flags", stage="setup", options={"argv": ["--data", "x", "--lr", "3e-4,1e-4"]}, replicas=3),
        mixed("click_no_option", f, "--lerning-rate", "No such option", o + "click_flags", stage="setup", on="all", replicas=2),
        mixed("yaml_indent", f, "yaml", "yaml\\.(parser|scanner)\\.\\w+Error|in \".*config.yaml\", line|while parsing a block|expected <block end>", o + "yaml_file", stage="setup", on="all", replicas=4),
        mixed("config_key", (f, "code"), "num_experts", "KeyError: 'num_experts'", o + "config_key", stage="build", on="all", replicas=8),
        mixed("env_missing", f, "DATA_BUCKET", "KeyError: 'DATA_BUCKET'", o + "variable", stage="setup", replicas=8, platform="kubernetes"),
        mixed("env_checked", f, "HF_HOME_DIR", "environment variable HF_HOME_DIR is not set", o + "variable_checked", stage="setup", on="all", replicas=6),
        mixed("int_of_16k", (f, "code"), "16k", "invalid literal for int\\(\\) with base 10: '16k'", o + "integer", stage="build", on="all"),
        mixed("pydantic", f, "learning_rate", "ValidationError: 2 validation errors|^learning_rate|Input should be a valid number", o + "pydantic_model", stage="setup", on="all", replicas=4),
        mixed("omega_missing", f, "data.path", "MissingMandatoryValue|full_key: data.path", o + "omega_missing", stage="build", on="all", replicas=2),
        mixed("omega_interpolation", f, "trainer.micro_batch", "InterpolationKeyError", o + "omega_interpolation", stage="setup", on="zero", replicas=4),
        mixed("omega_struct", f, "hidden_size", "ConfigAttributeError|full_key: model.hidden_size", o + "omega_struct", stage="build", on="all", replicas=3),
        mixed("hydra_override", f, "learning_rat", "Could not override|Key 'learning_rat' is not in struct", o + "hydra_override", stage="setup", on="all", replicas=2),
        mixed("hydra_group", f, "llama9", "In 'config': Could not find|Could not find 'model/llama9'|MissingConfigException", o + "hydra_group", stage="setup", on="zero", replicas=2),
        mixed("batch_divisible", f, "100", "global batch size \\(100\\) is not divisible", o + "batch_sizes", stage="build", on="all", replicas=16),
        mixed("parallel_sizes", f, "world_size", "is not divisible by tensor_model_parallel_size", o + "parallel_sizes", stage="build", on="all", replicas=8, ranks=8),
        mixed("fp16_and_bf16", f, "bf16", "--fp16 and --bf16 exclude each other", o + "exclusive", stage="setup", on="all"),
        mixed("hf_unused_args", f, "--save_stepss", "not used by the HfArgumentParser", o + "unused", stage="setup", on="all", replicas=4),
        mixed("device_name", f, "cudaa:0", "is no device", o + "device", stage="build", replicas=2, on="last"),
        mixed("heads_divisible", (f, "code"), "1000", "must be divisible by the number of attention heads", "modeling.heads", stage="build", on="all", replicas=12),
    ]


def programs() -> list[Case]:
    cases = [*packages(), *code(), *config()]
    for case in cases:
        if case.name == "nan_guard":
            case.hooks.insert(0, hook("incidents.nan_skipped", None, "step", 2))
    return cases

"""Failures of devices and services that this machine lacks, in their documented words."""

import os
import signal
import sys
import time

import callbacks
import engine


SITE = "/opt/conda/lib/python3.11/site-packages"
FRAMES = {
    "linear": [
        ("/app/modeling_gpt.py", 412, "forward", "hidden = self.mlp(self.ln_2(hidden))"),
        (
            f"{SITE}/torch/nn/modules/module.py",
            1773,
            "_wrapped_call_impl",
            "return self._call_impl(*args, **kwargs)",
        ),
        (f"{SITE}/torch/nn/modules/module.py", 1784, "_call_impl", "return forward_call(*args, **kwargs)"),
        (
            f"{SITE}/torch/nn/modules/linear.py",
            125,
            "forward",
            "return F.linear(input, self.weight, self.bias)",
        ),
    ],
    "backward": [
        ("/app/finetune.py", 233, "training_step", "self.accelerator.backward(loss)"),
        (f"{SITE}/accelerate/accelerator.py", 2578, "backward", "loss.backward(**kwargs)"),
        (f"{SITE}/torch/_tensor.py", 648, "backward", "torch.autograd.backward("),
        (f"{SITE}/torch/autograd/__init__.py", 353, "backward", "_engine_run_backward("),
    ],
    "deepspeed": [
        (f"{SITE}/deepspeed/runtime/engine.py", 2173, "step", "self._take_model_step(lr_kwargs)"),
        (f"{SITE}/deepspeed/runtime/zero/stage_1_and_2.py", 1948, "step", "self._optimizer_step(i)"),
    ],
    "trainer": [
        (f"{SITE}/transformers/trainer.py", 2245, "train", "return inner_training_loop("),
        (
            f"{SITE}/transformers/trainer.py",
            2560,
            "_inner_training_loop",
            "tr_loss_step = self.training_step(model, inputs, num_items_in_batch)",
        ),
    ],
    "jax": [
        ("/app/train_loop.py", 188, "train_loop", "state, metrics = p_train_step(state, batch, rng)"),
        (
            f"{SITE}/jax/_src/traceback_util.py",
            182,
            "reraise_with_filtered_traceback",
            "return fun(*args, **kwargs)",
        ),
        (f"{SITE}/jax/_src/pjit.py", 338, "cache_miss", "pgle_profiler, const_args) = _python_pjit_helper("),
    ],
    "tf": [
        (
            f"{SITE}/keras/src/utils/traceback_utils.py",
            122,
            "error_handler",
            "raise e.with_traceback(filtered_tb) from None",
        ),
        (
            f"{SITE}/tensorflow/python/eager/execute.py",
            53,
            "quick_execute",
            "tensors = pywrap_tfe.TFE_Py_Execute(ctx._handle, device_name, op_name,",
        ),
    ],
    "sync": [
        ("/app/utils.py", 61, "log_metrics", "loss = loss.item()"),
    ],
    "collective": [
        (f"{SITE}/torch/distributed/c10d_logger.py", 81, "wrapper", "return func(*args, **kwargs)"),
        (
            f"{SITE}/torch/distributed/distributed_c10d.py",
            2932,
            "all_reduce",
            "work = group.allreduce([tensor], opts)",
        ),
    ],
    "": [],
}


def raise_text(trainer, module="builtins", name="RuntimeError", text="", base="RuntimeError", frames=""):
    """Raise an exception from frames of libraries that this machine lacks."""
    import builtins
    import linecache
    import traceback

    kind = (
        getattr(builtins, name)
        if module == "builtins"
        else type(name, (getattr(builtins, base),), {"__module__": module})
    )
    printing = traceback.print_exception if sys.excepthook is sys.__excepthook__ else sys.excepthook

    def hook(kind, error, trace):
        sys.stdout.flush()
        printing(kind, error, without_this_module(trace))

    sys.excepthook = hook

    def end():
        raise kind(text)

    call = end
    for path, line, function, source in reversed(FRAMES[frames]):
        linecache.cache[path] = (1, None, linecache.cache.get(path, (0, 0, [""] * 3000))[2][:], path)
        linecache.cache[path][2][line - 1] = source + "\n"
        scope = {}
        last = call is end
        body = "raise go" if last else "return go()"
        exec(compile("\n" * (line - 1) + f"def {function}(go): {body}", path, "exec"), scope)
        inner = kind(text) if last else call
        call = (lambda f, g: lambda: f(g))(scope[function], inner)
    call()


def without_this_module(trace):
    kept = []
    while trace is not None:
        if trace.tb_frame.f_code.co_filename not in (__file__, callbacks.__file__):
            kept.append(trace)
        trace = trace.tb_next
    for one, following in zip(kept, [*kept[1:], None], strict=True):
        one.tb_next = following
    return kept[0] if kept else None


def formatted(text, **values):
    for key, value in values.items():
        text = text.replace("{" + key + "}", str(value))
    return text


def say(trainer, text="", err=True):
    (sys.stderr if err else sys.stdout).write(
        formatted(
            text,
            rank=trainer.s.rank,
            local=trainer.s.local_rank,
            replica=trainer.s.replica,
            pid=os.getpid(),
            now=trainer.s.now(),
        )
        + "\n"
    )
    sys.stdout.flush()
    sys.stderr.flush()


def say_and_leave(trainer, text="", code=1, err=True):
    say(trainer, text, err)
    engine.leave(code)


def say_and_die(trainer, text="", number=6):
    say(trainer, text)
    os.kill(os.getpid(), number)
    time.sleep(30)


def say_and_raise(trainer, before="", **error):
    say(trainer, before)
    raise_text(trainer, **error)


def chained(trainer, first="", second="", module="builtins", name="RuntimeError"):
    try:
        raise ConnectionError(first)
    except ConnectionError:
        raise_text(trainer, module, name, second)


def hidden(trainer, text=""):
    """An exception that only the handler of the library prints, without a traceback."""
    say(trainer, f"{time.strftime('%H:%M:%S')} CRITICAL runner: {text}")
    signal.raise_signal(signal.SIGTERM)

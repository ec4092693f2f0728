"""Pipelines of container components: kfp.local can't run them, and they need no kfp in their tasks."""

from kfp import dsl


@dsl.container_component
def say(text: str, out: dsl.OutputPath(str)):
    return dsl.ContainerSpec(
        image="alpine", command=["sh", "-c", 'printf "%s" "$0" > "$1"'], args=[text, out]
    )


@dsl.container_component
def join(texts: list[str], out: dsl.OutputPath(str)):
    return dsl.ContainerSpec(
        image="alpine", command=["sh", "-c", 'printf "%s" "$0" > "$1"'], args=[texts, out]
    )


@dsl.container_component
def fail_once(marker: str, out: dsl.OutputPath(int)):
    """Fail if nobody has made the folder `marker` yet."""
    script = 'mkdir "$0" 2>/dev/null && exit 1; printf 2 > "$1"'
    return dsl.ContainerSpec(image="alpine", command=["sh", "-c", script], args=[marker, out])


@dsl.pipeline(name="everything")
def everything(words: list[str], marker: str):
    """A loop, a condition with else, an exit handler and a retry."""
    last = say(text="the end").set_display_name("clean-up").set_caching_options(False)
    with dsl.ExitHandler(last, name="guard"):
        tries = fail_once(marker=marker).set_retry(num_retries=2, backoff_duration="0s")
        with dsl.ParallelFor(words, parallelism=2, name="each-word") as word:
            said = say(text=word).after(tries)
        joined = join(texts=dsl.Collected(said.outputs["out"]))
        with dsl.If(tries.outputs["out"] == 2, name="twice"):
            say(text=joined.outputs["out"]).set_display_name("yes")
        with dsl.Else(name="otherwise"):
            say(text="no").set_display_name("no")


PIPELINES = {"everything": everything}

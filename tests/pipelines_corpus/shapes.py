"""Small pipelines in the shapes of kfp's samples, of Python components that only compute."""

from typing import NamedTuple

from kfp import dsl


@dsl.component
def add(a: int, b: int) -> int:
    return a + b


@dsl.component
def halve(x: float) -> float:
    return x / 2


@dsl.component
def join(a: str, b: str = "!") -> str:
    return a + b


@dsl.component
def is_even(n: int) -> bool:
    return n % 2 == 0


@dsl.component
def coin(side: str) -> str:
    return side


@dsl.component
def numbers(n: int) -> list[int]:
    return list(range(n))


@dsl.component
def total(xs: list[int]) -> int:
    return int(sum(xs))


@dsl.component
def words(xs: list[str]) -> str:
    return ",".join(xs)


@dsl.component
def count(d: dict[str, int]) -> int:
    return int(sum(d.values()))


@dsl.component
def point(x: int) -> NamedTuple("P", [("x", int), ("name", str), ("both", list[str])]):
    from collections import namedtuple

    return namedtuple("P", ["x", "name", "both"])(x + 1, f"p{x}", [str(x), "y"])


@dsl.component
def grow(n: int, data: dsl.Output[dsl.Dataset]):
    with open(data.path, "w") as file:
        file.write("x" * n)
    data.metadata["rows"] = n


@dsl.component
def size(data: dsl.Input[dsl.Dataset]) -> int:
    with open(data.path) as file:
        return len(file.read())


@dsl.component
def train(
    data: dsl.Input[dsl.Dataset], rate: float, model: dsl.Output[dsl.Model], metrics: dsl.Output[dsl.Metrics]
):
    with open(data.path) as file, open(model.path, "w") as out:
        out.write(file.read() + str(rate))
    metrics.log_metric("accuracy", 1 - rate)
    model.metadata["framework"] = "none"


@dsl.component
def accuracy(metrics: dsl.Input[dsl.Metrics]) -> float:
    return metrics.metadata["accuracy"]


@dsl.component
def boom(n: int) -> int:
    raise ValueError("no")


@dsl.component
def either(a: str = "none", b: int = 7) -> str:
    return f"{a}-{b}"


@dsl.component
def sizes(data: dsl.Input[list[dsl.Dataset]]) -> int:
    return sum(len(open(one.path).read()) for one in data)


@dsl.pipeline
def one_task(a: int = 1, b: int = 2) -> int:
    return add(a=a, b=b).output


@dsl.pipeline
def chain(n: int = 5) -> int:
    first = add(a=n, b=1)
    second = add(a=first.output, b=first.output)
    return add(a=second.output, b=n).output


@dsl.pipeline
def diamond(n: int = 3) -> int:
    top = add(a=n, b=0)
    left, right = add(a=top.output, b=1), add(a=top.output, b=2)
    return add(a=left.output, b=right.output).output


@dsl.pipeline
def real_numbers(x: float = 3.0) -> float:
    return halve(x=halve(x=x).output).output


@dsl.pipeline
def texts(word: str = 'it\'s "quoted" $HOME [b]é') -> str:
    return join(a=word, b=f"{word}-end").output


@dsl.pipeline
def defaults() -> str:
    return either().output


@dsl.pipeline
def some_defaults(a: str = "given") -> str:
    return either(a=a).output


@dsl.pipeline
def structs(d: dict[str, int] = {"a": 1, "b": 2}) -> int:
    return count(d=d).output


@dsl.pipeline
def lists(n: int = 4) -> int:
    return total(xs=numbers(n=n).output).output


@dsl.pipeline
def several_outputs(x: int = 1) -> str:
    made = point(x=x)
    return words(xs=made.outputs["both"]).output


@dsl.pipeline
def after(n: int = 1) -> int:
    first = add(a=n, b=1)
    second = add(a=n, b=2).after(first)
    return second.output


@dsl.pipeline
def artifacts(n: int = 9) -> int:
    return size(data=grow(n=n).outputs["data"]).output


@dsl.pipeline
def training(n: int = 3, rate: float = 0.25) -> float:
    data = grow(n=n)
    model = train(data=data.outputs["data"], rate=rate)
    return accuracy(metrics=model.outputs["metrics"]).output


@dsl.pipeline
def if_true(side: str = "heads") -> str:
    flip = coin(side=side)
    with dsl.If(flip.output == "heads"):
        join(a="heads")
    return flip.output


@dsl.pipeline
def if_else(side: str = "tails") -> str:
    flip = coin(side=side)
    with dsl.If(flip.output == "heads"):
        first = join(a="h")
    with dsl.Else():
        second = join(a="t")
    return dsl.OneOf(first.output, second.output)


@dsl.pipeline
def if_elif_else(n: int = 5) -> str:
    flip = add(a=n, b=0)
    with dsl.If(flip.output > 10):
        first = join(a="big")
    with dsl.Elif(flip.output > 3):
        second = join(a="middle")
    with dsl.Else():
        third = join(a="small")
    return dsl.OneOf(first.output, second.output, third.output)


@dsl.pipeline
def booleans(n: int = 4) -> str:
    even = is_even(n=n)
    with dsl.If(even.output == True):  # noqa: E712
        first = join(a="even")
    with dsl.Else():
        second = join(a="odd")
    return dsl.OneOf(first.output, second.output)


@dsl.pipeline
def nested_conditions(n: int = 4) -> int:
    top = add(a=n, b=0)
    with dsl.If(top.output > 1):
        inner = add(a=top.output, b=1)
        with dsl.If(inner.output > 4):
            add(a=inner.output, b=1)
    return top.output


@dsl.pipeline
def static_loop() -> int:
    with dsl.ParallelFor([1, 2, 3]) as item:
        made = add(a=item, b=10)
    return total(xs=dsl.Collected(made.output)).output


@dsl.pipeline
def dynamic_loop(n: int = 3) -> int:
    with dsl.ParallelFor(numbers(n=n).output) as item:
        made = add(a=item, b=1)
    return total(xs=dsl.Collected(made.output)).output


@dsl.pipeline
def parameter_loop(items: list[str] = ["a", "b"]) -> str:
    with dsl.ParallelFor(items) as item:
        made = join(a=item)
    return words(xs=dsl.Collected(made.output)).output


@dsl.pipeline
def loop_of_structs() -> str:
    with dsl.ParallelFor([{"a": "1", "b": "x"}, {"a": "2", "b": "y"}]) as item:
        made = join(a=item.a, b=item.b)
    return words(xs=dsl.Collected(made.output)).output


@dsl.pipeline
def limited_loop() -> int:
    with dsl.ParallelFor([1, 2, 3, 4], parallelism=2) as item:
        made = add(a=item, b=0)
    return total(xs=dsl.Collected(made.output)).output


@dsl.pipeline
def loop_with_chain() -> int:
    with dsl.ParallelFor([1, 2]) as item:
        first = add(a=item, b=1)
        second = add(a=first.output, b=first.output)
    return total(xs=dsl.Collected(second.output)).output


@dsl.pipeline
def condition_in_loop() -> int:
    with dsl.ParallelFor([1, 2, 3]) as item:
        made = add(a=item, b=0)
        with dsl.If(made.output > 1):
            add(a=made.output, b=100)
    return total(xs=dsl.Collected(made.output)).output


@dsl.pipeline
def loop_of_artifacts() -> int:
    with dsl.ParallelFor([1, 2, 3]) as item:
        made = grow(n=item)
    return sizes(data=dsl.Collected(made.outputs["data"])).output


@dsl.pipeline
def inner(n: int) -> int:
    return add(a=n, b=1).output


@dsl.pipeline
def nested_pipeline(n: int = 2) -> int:
    return add(a=inner(n=n).output, b=inner(n=10).output).output


@dsl.pipeline
def loop_of_pipelines() -> int:
    with dsl.ParallelFor([1, 2]) as item:
        made = inner(n=item)
    return total(xs=dsl.Collected(made.output)).output


@dsl.pipeline
def empty_loop(items: list[str] = []) -> str:
    with dsl.ParallelFor(items) as item:
        join(a=item)
    return join(a="done").output


@dsl.pipeline
def fails(n: int = 1) -> int:
    return add(a=boom(n=n).output, b=1).output


@dsl.pipeline
def fails_in_a_loop() -> int:
    with dsl.ParallelFor([1, 2]) as item:
        made = boom(n=item)
    return total(xs=dsl.Collected(made.output)).output


@dsl.pipeline
def imports() -> int:
    data = grow(n=4)
    return size(data=data.outputs["data"]).output


PIPELINES = {
    name: (function, {})
    for name, function in list(globals().items())
    if type(function).__name__ == "GraphComponent" and name != "inner"
}
PIPELINES |= {
    "if_else_heads": (if_else, {"side": "heads"}),
    "if_false": (if_true, {"side": "tails"}),
    "small": (if_elif_else, {"n": 1}),
    "big": (if_elif_else, {"n": 11}),
    "odd": (booleans, {"n": 3}),
}

"""Hands arrays back, in memory or on disk; runs under both packages, imports swapped."""

from pydantic import BaseModel

from binref_sci.runtime import Array, Float64, Int8
from binref_sci.runtime.experimental import BinrefWriter


class Inner(BaseModel):
    values: list[Array[..., None]] = []
    named: dict[str, Array[..., None]] = {}


class InputSchema(BaseModel):
    array: Array[..., None]
    inner: Inner = Inner()
    typed: Array[(None,), Float64] = [0.0]
    small: Array[(None,), Int8] = [0]
    number: float = 0.0
    disk: bool = False
    fail: bool = False


class OutputSchema(BaseModel):
    array: Array[..., None]
    inner: Inner
    typed: Array[(None,), Float64]
    number: float
    text: str


def apply(inputs: InputSchema) -> OutputSchema:
    if inputs.fail:
        raise ArithmeticError("no way")
    writer = BinrefWriter() if inputs.disk else None
    store = writer.write if inputs.disk else lambda array: array
    return OutputSchema(
        array=store(inputs.array),
        inner=Inner(
            values=[store(each) for each in inputs.inner.values],
            named={key: store(each) for key, each in inputs.inner.named.items()},
        ),
        typed=inputs.typed,
        number=inputs.number,
        text="Grüße",
    )

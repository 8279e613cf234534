"""Components that tests call through every door."""

ECHO = '''
"""Hands arrays back, in memory or on disk."""
from typing import Annotated

import numpy as np
from pydantic import BaseModel

from binref_sci import BinrefArray, BinrefWriter
from binref_sci.runtime import Array, Labels

class Inner(BaseModel):
    values: list[Array[..., None]] = []
    named: dict[str, Array[..., None]] = {}

class Plain(BaseModel):
    loss: float = 0.0
    losses: list[float] = []
    table: dict[str, tuple[float, str]] = {}
    perhaps: float | None = None
    word: str = ""
    either: float | str = 0.0

class InputSchema(BaseModel):
    array: Array[..., None] = 0.0
    plain: Plain = Plain()
    inner: Inner = Inner()
    number: float = 0.0
    disk: bool = False
    compression: str | None = None

class OutputSchema(BaseModel):
    array: Array[..., None]
    plain: Plain
    inner: Inner
    number: float
    text: str

def apply(inputs):
    store = BinrefWriter(compression=inputs.compression).write if inputs.disk else lambda a: a
    return OutputSchema(
        array=store(inputs.array),
        inner=Inner(
            values=[store(each) for each in inputs.inner.values],
            named={key: store(each) for key, each in inputs.inner.named.items()},
        ),
        number=inputs.number,
        plain=inputs.plain,
        text="Grüße",
    )

def abstract_eval(abstract_inputs):
    return {"array": abstract_inputs.array, "inner": {}, "plain": {}, "number": 0, "text": ""}
'''

HEAT = '''
"""A solver that streams."""
from typing import Annotated

import numpy as np
from pydantic import BaseModel

from binref_sci import BinrefWriter, output_path
from binref_sci.runtime import Array, Float64, Labels

class InputSchema(BaseModel):
    steps: int = 3
    cells: int = 4
    fail: str = ""
    fold: bool = False
    ragged: bool = False
    plain: bool = False

class OutputSchema(BaseModel):
    heat: Annotated[list[Array[(None,), Float64]], Labels(dims=("time", "x"), units="K")]
    final: Annotated[Array[(None,), Float64], Labels(dims=("x",))]
    where: str

def apply(inputs):
    if inputs.fail:
        raise ArithmeticError(inputs.fail)
    if inputs.plain:
        writer = BinrefWriter()
    else:
        writer = BinrefWriter("heat", attrs={"long_name": "temperature"})
    made = []
    for step in range(inputs.steps):
        cells = inputs.cells + step if inputs.ragged else inputs.cells
        time = None if inputs.plain else 0.5 * step
        made.append(writer.write(np.full(cells, float(step)), time=time))
    return OutputSchema(
        heat=writer.trajectory() if inputs.fold else made, final=made[-1], where=str(output_path())
    )
'''


def component(folder, source):
    folder.mkdir(parents=True)
    (folder / "tesseract_api.py").write_text(source)
    return folder

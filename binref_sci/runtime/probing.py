"""Running a component's own functions again and again, without leaving traces.

A solver that is asked for a thousand products would stream a thousand trajectories into
the run directory. Each of these calls has a scratch directory instead, which is emptied
as soon as what was asked for has been taken from its result.
"""

from __future__ import annotations

import copy
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from binref_sci.call import Call, entering, running_call
from binref_sci.dtypes import DTYPES
from binref_sci.errors import ComponentError
from binref_sci.messages import shown
from binref_sci.naming import SCRATCH_PREFIX
from binref_sci.runtime import paths
from binref_sci.runtime.printing import held_back
from binref_sci.runtime.schema import ShapeDType

_NESTED: Final = 16
"""As many derived functions in each other are still taken for meant."""

_PLAIN: Final = {int, float, bool, str, type(None)}


def fresh(value: Any) -> Any:
    """Return inputs that a component may change as it likes: containers and arrays copied.

    Each call has arrays of its own, and many solvers step in place. What is run again and
    again on the same inputs must not see what the run before has made of them.
    """
    if type(value) in _PLAIN or isinstance(value, np.generic):
        return value
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, BaseModel):
        return paths.copied(value, {key: fresh(each) for key, each in _held(value).items()})
    if type(value) is dict:
        return {key: fresh(each) for key, each in value.items()}
    if type(value) is list:
        return list(value) if set(map(type, value)) <= _PLAIN else [fresh(each) for each in value]
    if type(value) is tuple:
        return tuple(fresh(each) for each in value)
    try:
        return copy.deepcopy(value)
    except Exception:  # something that there is only one of
        return value


def _held(model: BaseModel) -> dict[str, Any]:
    fields = {key: each for key, each in model.__dict__.items() if key in type(model).model_fields}
    return {**fields, **(model.__pydantic_extra__ or {})}


@contextmanager
def scratch(parent: Path | None = None) -> Iterator[Path]:
    """Give a folder for calls that leave nothing; below the running call's, on its disk.

    Raises
    ------
    ComponentError
        If there are too many of them in each other.
    """
    call = running_call()
    if parent is None and call is not None:
        parent = call.run_directory
        if sum(part.startswith(SCRATCH_PREFIX) for part in parent.parts) > _NESTED:
            raise ComponentError(
                "gradients are derived from each other in a circle: one of jacobian, "
                "jacobian_vector_product and vector_jacobian_product must be computed by other "
                "means, finite differences for one"
            )
    folder = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX, dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def throwaway(folder: Path, *, quiet: bool = False) -> Call:
    """Return a call that writes into a scratch folder; for `calling`, again and again.

    What a quiet one prints is held back.
    """
    return Call(folder, folder, uuid.uuid4().hex, time.time_ns(), quiet=quiet)


@contextmanager
def calling(call: Call) -> Iterator[None]:
    """Let what runs inside write into a call's scratch folder, and empty it afterwards."""
    with held_back() if call.quiet else nullcontext(), entering(call):
        yield
    with os.scandir(call.run_directory) as entries:
        left = list(entries)
    for entry in left:
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            Path(entry.path).unlink(missing_ok=True)


def arrays_of(made: Any, wanted: Iterable[str], what: str) -> dict[str, NDArray[Any]]:
    """Return what a result has under the wanted keys, in memory.

    Raises
    ------
    ComponentError
        If it lacks one.
    """
    found: dict[str, NDArray[Any]] = {}
    for key in wanted:
        if not isinstance(made, Mapping) or key not in made:
            raise ComponentError(f"the result of {what} lacks {shown(key)}")
        found[key] = np.asarray(made[key])
    return found


@dataclass(frozen=True)
class Evaluation:
    """A component's ``apply``, and the outputs to be taken from it; can be pickled with it.

    Parameters
    ----------
    apply_fn
        The function.
    outputs
        Paths of the outputs.
    parent
        Folder to make scratch folders in.
    quiet
        Whether what it prints is held back.
    folder
        The scratch folder, for evaluations one after another: where a file system is far away,
        to make one for each takes longer than many a solver. None: each has its own.
    """

    apply_fn: Callable[[Any], Any]
    outputs: tuple[str, ...]
    parent: Path | None
    quiet: bool = False
    folder: Path | None = None

    def __call__(self, inputs: Any) -> dict[str, NDArray[Any]]:
        """Return the outputs at some inputs, in memory."""
        place = scratch(self.parent) if self.folder is None else nullcontext(self.folder)
        with place as folder, calling(throwaway(folder, quiet=self.quiet)):
            made = self.apply_fn(fresh(inputs))
            return {path: np.array(_at(made, path)) for path in self.outputs}


def _at(made: Any, path: str) -> Any:
    try:
        found = paths.get(made, path)
    except paths.PathError as error:
        raise ComponentError(f"the outputs have no {shown(path)}: {error}") from error
    if found is None:
        raise ComponentError(f"output {shown(path)} is None at these inputs")
    return found


@dataclass(frozen=True)
class Shape:
    """Shape and dtype of an output."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def shapes_of(
    eval_fn: Callable[[Any], Any], inputs: BaseModel, outputs: Iterable[str]
) -> dict[str, Shape]:
    """Return shapes and dtypes of outputs; what ``eval_fn`` writes is thrown away.

    Parameters
    ----------
    eval_fn
        ``apply`` or, cheaper, ``abstract_eval``.
    inputs
        Inputs of the component.
    outputs
        Paths.
    """
    with scratch() as folder, calling(throwaway(folder)):
        made = eval_fn(fresh(inputs))
        return {path: _shape(_at(made, path)) for path in outputs}


def _shape(value: Any) -> Shape:
    if isinstance(value, ShapeDType):
        return Shape(value.shape, DTYPES[value.dtype])
    if isinstance(value, Mapping):
        return Shape(tuple(value["shape"]), np.dtype(value["dtype"]))
    array = value if hasattr(value, "shape") and hasattr(value, "dtype") else np.asarray(value)
    return Shape(tuple(array.shape), np.dtype(array.dtype))

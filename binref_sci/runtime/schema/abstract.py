"""`ShapeDType`: what stands for an array that is not there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, NonNegativeInt
from pydantic_core import PydanticCustomError

from binref_sci.dtypes import DTYPES, DTypeName
from binref_sci.errors import BinrefError, PayloadError
from binref_sci.runtime.schema.annotation import ArrayType, array_type, checked_key
from binref_sci.runtime.schema.fitting import castable, check_shape
from binref_sci.runtime.schema.values import to_numpy


class ShapeDType(BaseModel):
    """Shape and dtype of an array that is not there; what ``abstract_eval`` deals in.

    ``ShapeDType[(None, 3), Float64]`` is an annotation that checks both.

    Examples
    --------
    >>> ShapeDType(shape=(2, 3), dtype="float64")
    ShapeDType(shape=(2, 3), dtype='float64')
    """

    shape: tuple[NonNegativeInt, ...]
    dtype: DTypeName
    # a whole encoded array will do: its data is left out
    model_config = ConfigDict(extra="ignore")

    def __class_getitem__(cls, key: Any) -> Any:
        shape, dtype = checked_key("ShapeDType", key)
        field = array_type(object, shape, dtype, differentiable=False)

        def check(found: ShapeDType) -> ShapeDType:
            try:
                return abstract(field, found)
            except BinrefError as error:
                raise PydanticCustomError(
                    "array_dtype_mismatch", "{reason}", {"reason": str(error)}
                ) from error

        return Annotated[cls, AfterValidator(check)]


def abstract(field: ArrayType, value: Any) -> ShapeDType:
    """Return what stands for `value` in a field, in the declared dtype.

    Raises
    ------
    PydanticCustomError
        If its shape does not fit.
    PayloadError
        If its dtype does not.
    """
    if isinstance(value, ShapeDType):
        found = value
    elif isinstance(value, Mapping):
        found = ShapeDType.model_validate(value)
    else:  # a default of the schema
        array, _ = to_numpy(field, value, None)
        found = ShapeDType(shape=array.shape, dtype=array.dtype.name)
    check_shape(field, found.shape)
    wanted = field.expected_dtype
    if wanted is None or found.dtype == wanted.name:
        return found
    dtype = DTYPES[found.dtype]
    if not castable(dtype, wanted):
        raise PayloadError(f"{dtype.name} values cannot become {wanted.name}")
    return ShapeDType(shape=found.shape, dtype=wanted.name)

"""Labels of gradients: dimensions and coordinates of outputs and inputs, joined for blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from binref_sci.labels import Labels
from binref_sci.runtime import paths
from binref_sci.runtime.gradients.kinds import Gradient


def labels_of(
    gradient: Gradient,
    chosen_inputs: Sequence[str],
    chosen_outputs: Sequence[str],
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    ndims: Mapping[tuple[str, str], tuple[int, int]],
) -> dict[str, Any]:
    """Return the labels of a result by path, as ``run.json`` has them.

    A block of a Jacobian is found under ``output.input`` and has the dimensions of both;
    those of the input get the suffix ``_in`` where the output has a dimension of that name.

    Parameters
    ----------
    gradient
        The endpoint.
    chosen_inputs, chosen_outputs
        What was selected.
    inputs, outputs
        Labels of the component's schemas by path.
    ndims
        Number of axes of output and input, by output and input; where they are not known, a
        block has no labels.
    """
    if gradient.endpoint == "jacobian":
        made = {}
        for output in chosen_outputs:
            for path in chosen_inputs:
                if (known := ndims.get((output, path))) is not None:
                    sides = label_of(outputs, output), label_of(inputs, path)
                    joined = joined_labels(*sides, output=output, path=path, ndims=known)
                    made[f"{output}.{path}"] = joined.to_json()
        return made
    side, chosen = (inputs, chosen_inputs) if gradient.takes_outputs else (outputs, chosen_outputs)
    return {path: found.to_json() for path in chosen if (found := label_of(side, path)) is not None}


def label_of(labels: Mapping[str, Any], path: str) -> Labels | None:
    """Return the labels of what lies at a path, if its schema has some."""
    steps = paths.parse(path)
    found = labels.get(paths.pattern(path))
    if found is not None:
        return Labels.from_json(found)
    if steps and steps[-1].kind == "item":  # labels of a list, whose first axis is the list's
        found = labels.get(paths.pattern(paths.spell(steps[:-1])))
        if found is not None:
            whole = Labels.from_json(found)
            return whole.replace(dims=None if whole.dims is None else whole.dims[1:])
    return None


def joined_labels(
    outer: Labels | None,
    inner: Labels | None,
    *,
    output: str,
    path: str,
    ndims: tuple[int, int],
) -> Labels:
    """Return the labels of a block of a Jacobian.

    Parameters
    ----------
    outer, inner
        Labels of output and input.
    output, path
        Their paths; dimensions without a name are called after them.
    ndims
        Number of axes of both.

    Examples
    --------
    >>> field = Labels(dims=("y", "x"))
    >>> joined_labels(field, field, output="u", path="u0", ndims=(2, 2)).dims
    ('y', 'x', 'y_in', 'x_in')
    """
    rows = _dims(outer, output, ndims[0])
    columns = _dims(inner, path, ndims[1])
    taken = set(rows)
    renamed: dict[str, str] = {}
    for dim in columns:
        free = dim
        while free in taken:
            free += "_in"
        renamed[dim] = free
        taken.add(free)
    coords: dict[str, Any] = {}
    if outer is not None:
        for key, each in outer.coords.items():
            if set(each[0]) <= set(rows):
                # what is a coordinate of the output may be a dimension of the input
                coords[f"{key}_coord" if key in renamed.values() else key] = each
    if inner is not None:
        for key, (axes, values, attrs) in inner.coords.items():
            if set(axes) <= set(columns):
                name = renamed.get(key, key)
                while name in coords or (name in taken and key not in axes):
                    name += "_in"
                coords[name] = (tuple(renamed[axis] for axis in axes), values, attrs)
    return Labels((*rows, *renamed.values()), coords, long_name=f"d {output} / d {path}")


def _dims(labels: Labels | None, path: str, ndim: int) -> tuple[str, ...]:
    if labels is not None and labels.dims is not None and len(labels.dims) == ndim:
        return labels.dims
    return tuple(f"{path}_dim_{axis}" for axis in range(ndim))

"""The gradient endpoints: what they take, and what they have to return.

The payloads are tesseract-core's. A component's function is called with keywords:
``jacobian(inputs, jac_inputs, jac_outputs)``, where the selections are sets of paths, and
``tangent_vector`` or ``cotangent_vector`` are dicts of NumPy arrays by path.

Whatever a caller asks for is checked before the component runs: each path leads to a
differentiable array of these inputs, the vector has exactly the keys that were selected,
and each of its arrays the shape and kind of number of what it belongs to. What the
component returns is checked in the same way, arrays on disk by their metadata.
"""

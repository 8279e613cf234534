"""Run by the peer's interpreter: its client asks a server for gradients, and tells what it got.

Arguments: address, output path, file with the questions. Prints a JSON list: an answer, as nested
lists, or the text of the error, for each.
"""

import json
import sys
import traceback
from pathlib import Path

import numpy as np
from tesseract_core import Tesseract

url, output_path, questions = sys.argv[1:]
sim = Tesseract.from_url(url, server_output_path=output_path)
assert {"jacobian", "jacobian_vector_product", "vector_jacobian_product"} <= set(
    sim.available_endpoints
)


def plain(value):
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return {"dtype": str(np.asarray(value).dtype), "values": np.asarray(value).tolist()}


answers = []
for question in json.loads(Path(questions).read_text()):
    view = sim.with_encoding(output_format=question.pop("format"))
    endpoint = question.pop("endpoint")
    for key in ("tangent_vector", "cotangent_vector"):
        if key in question:
            question[key] = {path: np.asarray(each) for path, each in question[key].items()}
    try:
        answers.append(plain(getattr(view, endpoint)(**question)))
    except Exception:
        answers.append(traceback.format_exc()[-2000:])
json.dump(answers, sys.stdout)

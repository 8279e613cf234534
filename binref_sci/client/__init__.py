"""The caller's side: `Tesseract`, and the ways to reach a component."""

from binref_sci.client.result import Result
from binref_sci.client.tesseract import Tesseract

__all__ = ["Result", "Tesseract"]

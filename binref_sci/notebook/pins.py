"""Pinned points of a player, and their time series."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import xarray as xr

from binref_sci.notebook.scene import Scene
from binref_sci.notebook.series import Series
from binref_sci.notebook.session import Session, cell_at


class Pins:
    """Reads the series of pinned points while no frame is wanted."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._series: dict[Any, Series] = {}

    def check(self, pin: Mapping[str, Any]) -> None:
        """Check that a pin lies on a panel.

        Raises
        ------
        KeyError, TypeError, ValueError, OverflowError
            If it does not, or lacks a part.
        """
        hash(pin["id"])
        count = len(self._session.scene.panels)
        if not 0 <= int(pin["panel"]) < count:
            raise ValueError(f"panel {pin['panel']} is not among {count} panels")
        for key in ("fx", "fy"):
            if not 0.0 <= float(pin[key]) <= 1.0:
                raise ValueError(f"{key}={pin[key]} is not in 0 to 1")

    def update(self, pinned: Iterable[Mapping[str, Any]]) -> None:
        """Read the series of pins that are new, forget those that have gone."""
        wanted = {pin["id"]: pin for pin in pinned}
        scene = self._session.scene
        with self._lock:
            for number in [number for number in self._series if number not in wanted]:
                del self._series[number]
            new = [pin for number, pin in wanted.items() if number not in self._series]
            for pin in new:
                panel = scene.panels[int(pin["panel"])]
                row, column = cell_at(panel.shape, float(pin["fx"]), float(pin["fy"]))
                self._series[pin["id"]] = Series(scene, int(pin["panel"]), row, column)
        for pin in new:
            self._session.later(self._read(pin["id"]))

    def restart(self, scene: Scene, pinned: Iterable[Mapping[str, Any]]) -> None:
        """Read all series again, of another scene."""
        with self._lock:
            self._series.clear()
        self.update(pinned)

    def grow(self, scene: Scene) -> None:
        """Read what has been added to the run."""
        with self._lock:
            grown = []
            for number, series in self._series.items():
                whole = series.done == 1.0
                series.grow(scene)
                if whole:
                    grown.append(number)
        for number in grown:
            self._session.later(self._read(number))

    def arrays(self, numbers: Iterable[Any]) -> list[xr.DataArray]:
        """Return the series of pins as labelled arrays."""
        with self._lock:
            found = [self._series[number] for number in numbers if number in self._series]
        return [series.to_dataarray() for series in found]

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._series.clear()

    def _read(self, number: Any) -> Iterator[None]:
        series = self._series.get(number)
        if series is None:
            return
        for _ in series.read(lambda series: self._tell(number, series)):
            yield
            if self._series.get(number) is not series:
                return  # taken away, or begun anew

    def _tell(self, number: Any, series: Series) -> None:
        panel = series.scene.panels[series.panel]
        times = series.scene.times
        steps, values = series.found
        buffers = [steps.astype("<f8").tobytes(), values.astype("<f8").tobytes()]
        about: dict[str, Any] = {}
        if times.values is not None and times.values.dtype.kind in "biuf":
            where = times.values[steps].astype("<f8")
            if np.isfinite(where).all():
                buffers.append(where.tobytes())
                about["xlabel"] = f"{times.name} [{times.unit}]" if times.unit else times.name
        self._session.send(
            {
                "type": "series",
                "id": number,
                "panel": series.panel,
                "text": series.text,
                "label": panel.label,
                "unit": panel.unit,
                "done": round(series.done, 4),
                **about,
            },
            buffers,
        )

"""A laser draws a flower on a steel plate, and the heat spreads.

The plate is thin (a two-dimensional problem), insulated, and 20 cm wide. For the first part
of the run a laser beam moves along five loops at constant speed and heats the steel below
it; then it is switched off and the pattern fades. The solver streams a snapshot at a time
to disk and returns the whole film folded into one entry.

**The time step.** Explicit Euler with the five-point Laplacian is stable, and keeps
temperatures between those of the neighbours, as long as

    r = kappa * dt * (1/dx**2 + 1/dy**2) <= 1/2

The snapshots are equally far apart; between two of them the solver takes the least number
of equal steps that fulfils this. Twice the resolution therefore costs four times the steps,
and sixteen times the work. (On a coarse grid another limit is the tighter one: the beam is
to move no further than its own radius in a step.)
"""

import math
from typing import Annotated

import numpy as np
from pydantic import BaseModel, Field

from binref_sci import BinrefWriter
from binref_sci.runtime import Array, Float64, Labels

__version__ = "1.0"

AMBIENT = 293.15  # K
WIDTH = 0.2  # m, of the plate
THICKNESS = 1e-3  # m
CONDUCTIVITY = 16.0  # W/(m K), stainless steel; below its density and heat capacity
DENSITY = 8000.0  # kg/m3
HEAT_CAPACITY = 500.0  # J/(kg K)
DIFFUSIVITY = CONDUCTIVITY / (DENSITY * HEAT_CAPACITY)  # m2/s: 4e-6

BEAM = 3e-3  # m, standard deviation of the beam's Gaussian profile


def flower() -> tuple[np.ndarray, np.ndarray]:
    """Return a closed curve of five loops: points as x + iy, and how far it is to each, in m."""
    angle = np.linspace(0, 2 * np.pi, 4001)
    places = -1j * (0.060 * np.exp(1j * angle) + 0.028 * np.exp(-4j * angle))
    distances = np.concatenate([[0], np.cumsum(np.abs(np.diff(places)))])
    return (1 + 1j) * WIDTH / 2 + places, distances


PATH, DISTANCES = flower()


class InputSchema(BaseModel):
    size: int = Field(128, ge=16, le=16384, description="Cells along each side of the plate.")
    steps: int = Field(100, ge=1, description="Snapshots after the first, equally far apart.")
    duration: float = Field(8.0, gt=0, description="Length of the film, s.")
    drawing: float = Field(
        0.625, gt=0, le=1, description="Part of the duration in which the laser is on."
    )
    power: float = Field(1200.0, ge=0, description="Absorbed power of the laser, W.")


class OutputSchema(BaseModel):
    temperature: Annotated[
        list[Array[(None, None), Float64]],
        Labels(
            dims=("time", "y", "x"),
            units="K",
            long_name="temperature",
            standard_name="temperature",
        ),
    ] = Field(description="Snapshots of the plate; steps + 1 of them.")
    final: Annotated[
        Array[(None, None), Float64],
        Labels(dims=("y", "x"), units="K", long_name="temperature at the end"),
    ] = Field(description="The last snapshot.")
    time_step: Annotated[float, Labels(units="s", long_name="time step")] = Field(
        description="Length of one step of the solver."
    )
    hottest: Annotated[float, Labels(units="K", long_name="highest temperature")] = Field(
        description="Highest temperature in any snapshot."
    )
    heat_absorbed: Annotated[float, Labels(units="J", long_name="heat absorbed")] = Field(
        description="What the laser put in."
    )
    heat_stored: Annotated[float, Labels(units="J", long_name="heat stored")] = Field(
        description="What the plate holds in the end: the same, as no heat leaves it."
    )


def substeps_for(interval: float, spacing: float, speed: float) -> int:
    """Return into how many steps `interval` is to be cut; see above.

    `spacing` is that of the cells, in m along both axes; `speed` is that of the beam, in m/s.
    """
    stable = 0.5 / (DIFFUSIVITY * (1 / spacing**2 + 1 / spacing**2))
    return math.ceil(interval / min(stable, BEAM / speed))


def beam_at(distance: float) -> tuple[float, float]:
    """Return x and y of the beam, in m, when it has gone a distance."""
    place = np.interp(distance, DISTANCES, PATH)
    return place.real, place.imag


class Plate:
    """Temperature of the plate, and the buffers that a step needs."""

    def __init__(self, size: int) -> None:
        self.spacing = WIDTH / size
        self.centres = (np.arange(size) + 0.5) * self.spacing
        self.field = np.full((size, size), AMBIENT)
        self._across = np.empty((size - 1, size))  # flow through the faces between rows
        self._along = np.empty((size, size - 1))  # and between columns

    def diffuse(self, dt: float) -> None:
        """Let heat flow for one step: what leaves a cell enters its neighbour."""
        u, across, along = self.field, self._across, self._along
        np.subtract(u[1:], u[:-1], out=across)
        np.subtract(u[:, 1:], u[:, :-1], out=along)
        across *= DIFFUSIVITY * dt / self.spacing**2
        along *= DIFFUSIVITY * dt / self.spacing**2
        u[:-1] += across
        u[1:] -= across
        u[:, :-1] += along
        u[:, 1:] -= along

    def heat(self, x: float, y: float, energy: float) -> None:
        """Put `energy` (in J) into the steel under a beam at `x`, `y`."""
        columns, across = self._profile(x)
        rows, along = self._profile(y)
        capacity = DENSITY * HEAT_CAPACITY * THICKNESS * self.spacing**2  # J/K, of a cell
        self.field[rows, columns] += energy / capacity * np.outer(along, across)

    def _profile(self, at: float) -> tuple[slice, np.ndarray]:
        """Return the cells that the beam reaches along one axis, and its share in each."""
        first, last = np.searchsorted(self.centres, [at - 5 * BEAM, at + 5 * BEAM])
        share = np.exp(-0.5 * ((self.centres[first:last] - at) / BEAM) ** 2)
        return slice(first, last), share / share.sum()  # of any grid: all of the energy


def apply(inputs: InputSchema) -> OutputSchema:
    """Draw, let it spread, and stream the film to disk."""
    plate = Plate(inputs.size)
    on = inputs.drawing * inputs.duration
    speed = DISTANCES[-1] / on
    interval = inputs.duration / inputs.steps
    substeps = substeps_for(interval, plate.spacing, speed)
    dt = interval / substeps

    metres = {"units": "m"}
    writer = BinrefWriter(
        "temperature",
        dims=("time", "y", "x"),
        coords={
            "time": {"units": "s", "long_name": "time"},
            "y": ("y", plate.centres, metres),
            "x": ("x", plate.centres, metres),
        },
        attrs={"units": "K", "long_name": "temperature", "standard_name": "temperature"},
        total=inputs.steps + 1,  # shows a progress bar, and lets others see how far it is
    )
    final = writer.write(plate.field, time=0.0)
    hottest, absorbed = AMBIENT, 0.0
    for step in range(inputs.steps):
        for substep in range(substeps):
            time = step * interval + substep * dt
            lit = min(dt, on - time)  # the beam goes out within a step
            if lit > 0:
                plate.heat(*beam_at(speed * (time + lit / 2)), inputs.power * lit)
                absorbed += inputs.power * lit
            plate.diffuse(dt)
        final = writer.write(plate.field, time=(step + 1) * interval)
        hottest = max(hottest, float(plate.field.max()))

    mass = DENSITY * THICKNESS * WIDTH**2
    return OutputSchema(
        temperature=writer.trajectory(),  # folded: one entry, not one a snapshot
        final=final,
        time_step=dt,
        hottest=hottest,
        heat_absorbed=absorbed,
        heat_stored=mass * HEAT_CAPACITY * float(np.mean(plate.field - AMBIENT)),
    )

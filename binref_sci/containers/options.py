"""What a container is given: folders, variables, limits, a network."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from binref_sci.containers.engine import Engine, mount
from binref_sci.containers.layout import INPUT_PATH, OUTPUT_PATH, PORT, USER

Volumes = Sequence[str] | Mapping[str, str]


@dataclass(frozen=True)
class Options:
    """What a container is given.

    Parameters
    ----------
    output_path
        Absolute folder that run directories are made in, or None.
    input_path
        Absolute folder that references in inputs are resolved in, or None.
    volumes
        Further folders: the engine's ``SOURCE:TARGET[:ro]``, or a mapping of both.
    environment
        Environment variables.
    port, host
        Of a server on this machine; None takes a free port.
    network
        None publishes the port to this machine; ``"host"`` shares its network; another name
        is a network of the engine's.
    memory
        Most memory, such as ``"2g"``.
    cpus
        Most processors, such as 1.5.

    Raises
    ------
    ValueError, TypeError
        If one of them cannot be meant.
    """

    output_path: Path | None = None
    input_path: Path | None = None
    volumes: Volumes = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    port: int | None = None
    host: str = "127.0.0.1"
    network: str | None = None
    memory: str | int | None = None
    cpus: float | None = None

    def __post_init__(self) -> None:
        if self.port is not None and not isinstance(self.port, int):
            raise TypeError(f"port must be a whole number, got {self.port!r}")
        for name, value in self.environment.items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise TypeError(f"environment variables are text, got {name!r}: {value!r}")
            if not name or "=" in name or "\0" in name + value:
                raise ValueError(f"environment variable {name!r} cannot have this name or value")
        if self.port is not None and not 0 < self.port < 65536:
            raise ValueError(f"port must be between 1 and 65535, not {self.port}")
        if self.cpus is not None and not self.cpus > 0:
            raise ValueError(f"cpus must be more than 0, not {self.cpus}")
        if isinstance(self.volumes, str):
            raise ValueError(f"volumes are given as a list, got the text {self.volumes!r}")

    def arguments(self, engine: Engine) -> list[str]:
        """Return the arguments of the engine's ``run``, except those of a server's port."""
        made = ["--user", _user()]
        if engine.rootless:
            made += ["--userns", "keep-id"]  # the caller's number is the caller there, too
        if self.output_path is not None:
            made += mount(self.output_path, OUTPUT_PATH)
        if self.input_path is not None:
            made += mount(self.input_path, INPUT_PATH, read_only=True)
        if isinstance(self.volumes, Mapping):
            for source, target in self.volumes.items():
                made += mount(Path(source).expanduser().absolute(), str(target))
        else:
            for volume in self.volumes:
                made += ["--volume", volume]
        for name, value in self.environment.items():
            made += ["--env", f"{name}={value}"]
        if self.network is not None:
            made += ["--network", self.network]
        if self.memory is not None:
            made += ["--memory", str(self.memory)]
        if self.cpus is not None:
            made += ["--cpus", str(self.cpus)]
        return made

    @property
    def shares_network(self) -> bool:
        """Whether a server in the container listens on this machine itself."""
        return self.network == "host"

    def publishing(self) -> list[str]:
        """Return the arguments that let a server be reached at host and port.

        Raises
        ------
        ValueError
            If there is no network.
        """
        if self.network == "none":
            raise ValueError("network 'none' leaves no way to call the component")
        if self.shares_network:
            return []
        host = f"[{self.host}]" if ":" in self.host else self.host
        return ["--publish", f"{host}:{self.port or ''}:{PORT}"]


def _user() -> str:
    if os.geteuid() == 0:
        return f"{USER}:{USER}"
    return f"{os.geteuid()}:{os.getegid()}"

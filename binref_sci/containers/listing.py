"""Which images hold a component, and which containers run one."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from binref_sci.containers.container import removal
from binref_sci.containers.engine import Engine, checked_image
from binref_sci.containers.layout import LABEL_NAME, LABEL_SCHEMA, LABEL_VERSION, OUTPUT_PATH, PORT
from binref_sci.containers.serving import missing
from binref_sci.errors import EngineError, ImageNotFoundError, PayloadError


@dataclass(frozen=True)
class ImageFacts:
    """An image with a component.

    Parameters
    ----------
    names
        Names of the image; none for one that lost them to a newer one.
    identifier
        Its id.
    component, version
        What the component is called.
    endpoints
        What it can be asked.
    size
        In bytes.
    created
        As the engine writes it.
    """

    names: tuple[str, ...]
    identifier: str
    component: str
    version: str
    endpoints: tuple[str, ...]
    size: int
    created: str


@dataclass(frozen=True)
class ContainerFacts:
    """A container that runs a component.

    Parameters
    ----------
    name, image
        Of the container, and of what it was made from.
    component, version
        What the component is called.
    state
        As the engine says it, such as ``running``.
    url
        Where it can be called, as far as the engine knows.
    output_path
        The folder on this machine that it writes to, or None.
    created
        As the engine writes it.
    """

    name: str
    image: str
    component: str
    version: str
    state: str
    url: str | None
    output_path: str | None
    created: str


def images(engine: Engine) -> list[ImageFacts]:
    """Return the images with a component, in the order of their names.

    Raises
    ------
    EngineError
        If the engine fails.
    """
    told = engine.run("images", "--quiet", "--no-trunc", "--filter", f"label={LABEL_NAME}")
    found = _still_there(engine, "image", told)
    return sorted((_image(each) for each in found), key=lambda each: (each.component, each.names))


def containers(engine: Engine) -> list[ContainerFacts]:
    """Return the containers that run a component, in the order of their names.

    Raises
    ------
    EngineError
        If the engine fails.
    """
    told = engine.run("ps", "--all", "--quiet", "--no-trunc", "--filter", f"label={LABEL_NAME}")
    found = _still_there(engine, "container", told)
    return sorted((_container(each) for each in found), key=lambda each: each.name)


def _still_there(engine: Engine, kind: str, told: str) -> list[dict[str, Any]]:
    """Return what the engine knows of what it has told, but for what has gone since."""
    found = []
    for identifier in dict.fromkeys(told.split()):
        with suppress(EngineError, ImageNotFoundError):
            found += engine.inspect(kind, identifier)
    return found


def schema(engine: Engine, image: str) -> dict[str, Any]:
    """Return the OpenAPI document of the component in an image; none if the image has it not.

    Raises
    ------
    ImageNotFoundError
        If there is none.
    PayloadError
        If it holds no component, or this is no name of one.
    EngineError
        If the engine fails.
    """
    try:
        found = engine.inspect("image", checked_image(image))
    except ImageNotFoundError:
        raise missing(engine, image) from None
    if not found or LABEL_NAME not in _labels(found[0]):
        raise PayloadError(
            f"image {image!r} holds no component; binref-sci images lists those that do"
        )
    return _schema(_labels(found[0]))


def stop(engine: Engine, name: str, seconds: int) -> None:
    """End and remove a container; running calls have some seconds to finish.

    Raises
    ------
    EngineError
        If the engine fails.
    """
    engine.run("stop", "--time", str(seconds), name, timeout=seconds + 60.0)
    try:
        engine.run(*removal(engine, name)[1:])
    except EngineError:
        pass  # whoever started it was faster


def _labels(found: dict[str, Any]) -> dict[str, str]:
    return (found.get("Config") or {}).get("Labels") or {}


def _schema(labels: dict[str, str]) -> dict[str, Any]:
    try:
        found = json.loads(labels.get(LABEL_SCHEMA, "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _image(found: dict[str, Any]) -> ImageFacts:
    labels = _labels(found)
    paths = _schema(labels).get("paths", {})
    return ImageFacts(
        names=tuple(sorted(found.get("RepoTags") or ())),
        identifier=str(found["Id"]).removeprefix("sha256:"),
        component=labels.get(LABEL_NAME, ""),
        version=labels.get(LABEL_VERSION, ""),
        endpoints=tuple(path.strip("/") for path, of in paths.items() if "post" in of),
        size=int(found.get("Size") or 0),
        created=str(found.get("Created", "")),
    )


def _container(found: dict[str, Any]) -> ContainerFacts:
    labels = _labels(found)
    config = found.get("Config") or {}
    host = found.get("HostConfig") or {}
    ports = (found.get("NetworkSettings") or {}).get("Ports") or {}
    url = None
    for binding in ports.get(f"{PORT}/tcp") or ():
        url = f"http://{binding.get('HostIp') or '127.0.0.1'}:{binding['HostPort']}"
    if host.get("NetworkMode") == "host":
        command = config.get("Cmd") or []
        if "--port" in command and command[command.index("--port") + 1] != "0":
            url = f"http://127.0.0.1:{command[command.index('--port') + 1]}"
    mounts = {each.get("Destination"): each.get("Source") for each in found.get("Mounts") or ()}
    return ContainerFacts(
        name=str(found.get("Name", "")).lstrip("/"),
        image=str(found.get("ImageName") or config.get("Image") or ""),
        component=labels.get(LABEL_NAME, ""),
        version=labels.get(LABEL_VERSION, ""),
        state=str((found.get("State") or {}).get("Status", "")),
        url=url,
        output_path=mounts.get(OUTPUT_PATH),
        created=str(found.get("Created", "")),
    )

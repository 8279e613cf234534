"""The image of a component, built."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from binref_sci.containers import containerfile as files
from binref_sci.containers.copying import copy_folder
from binref_sci.containers.engine import Engine
from binref_sci.containers.gathering import gather, probe
from binref_sci.containers.layout import (
    LABEL_METADATA,
    LABEL_NAME,
    LABEL_PACKAGE,
    LABEL_SCHEMA,
    LABEL_VERSION,
)
from binref_sci.containers.slim import DISTRIBUTION
from binref_sci.errors import ContainerError, EngineError, ImageNotFoundError, PayloadError
from binref_sci.runtime.component import API_FILE
from binref_sci.runtime.config import CONFIG_FILE, ComponentConfig, read_config

_REPOSITORY: Final = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*")

LONGEST_LABEL: Final = 100_000
"""A label is one argument of a command, which Linux limits to 128 KiB."""


@dataclass(frozen=True)
class Built:
    """An image that was built.

    Parameters
    ----------
    name
        Its first name.
    names
        All its names.
    identifier
        Its id.
    """

    name: str
    names: tuple[str, ...]
    identifier: str


def build(
    folder: Path,
    engine: Engine,
    *,
    tag: str | None = None,
    base: str | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Built:
    """Build the image of the component in `folder`.

    Parameters
    ----------
    folder
        With ``tesseract_api.py`` and, if it has one, ``tesseract_config.yaml``.
    engine
        Who builds.
    tag
        Name of the image; default: the component's name, with its version and ``latest``.
    base
        Base image, instead of the configuration's.
    tell
        Called with a line on each step.

    Raises
    ------
    PayloadError
        If there is no component, or its configuration is wrong.
    ImageNotFoundError
        If there is no base image.
    EngineError
        If the engine or pip fails.
    ContainerError
        If the component does not load in the image.
    """
    if not (folder / API_FILE).is_file():
        raise PayloadError(f"folder {str(folder)!r} has no {API_FILE}")
    config = read_config(folder)
    names = _names(config, tag)
    base = base or config.build_config.base_image
    with tempfile.TemporaryDirectory(prefix="binref-sci-build-") as scratch:
        context = Path(scratch)
        _copy_component(folder, config, context)
        wheels = context / files.WHEELS
        wheels.mkdir()
        tell(f"system: {base}")
        recipe = context / "Containerfile"
        recipe.write_text(files.containerfile(config, base))
        platform = config.build_config.target_platform
        options = [] if platform == "native" else ["--platform", platform]
        try:
            system = _build(engine, context, [*options, "--target", files.SYSTEM])
            python = probe(engine, system, options=options)
        except (EngineError, ImageNotFoundError) as error:
            if platform == "native":
                raise
            raise type(error)(
                f"{error}\nFor target_platform {platform!r} there must be a base image "
                f"{base!r} of that platform, and this machine must run its programs: where the "
                "processor is another one, with qemu-user-static and binfmt"
            ) from error
        wanted = config.build_config.requirements.python_version
        if wanted is not None and wanted != python.markers["python_version"]:
            raise PayloadError(
                f"python_version {wanted!r} is asked for, and the base image {base!r} has Python "
                f"{python.markers['python_full_version']}; choose a base image that has it"
            )
        tell(f"packages: wheels for Python {python.markers['python_version']}, {python.machine}")
        found = gather(wheels, _requirements(folder, config), python)
        recipe.write_text(files.containerfile(config, base, found))
        tell(f"image: {names[0]}")
        labels = _labels(config)
        if not config.build_config.skip_checks:
            plain = _build(engine, context, options)
            tell("check: the component loads")
            labels |= _schema_label(engine, plain, options)
        for name, value in labels.items():
            options += ["--label", f"{name}={value}"]
        for name in names:
            options += ["--tag", name]
        return Built(names[0], names, _build(engine, context, options))


def _names(config: ComponentConfig, tag: str | None) -> tuple[str, ...]:
    if tag is not None:
        return (tag,)
    if not _REPOSITORY.fullmatch(config.name):
        raise PayloadError(
            f"name {config.name!r} cannot be the name of an image: lower-case letters and digits, "
            "with '.', '_' or '-' between them; give the image another one with --tag"
        )
    return (f"{config.name}:{config.version}", f"{config.name}:latest")


def _requirements(folder: Path, config: ComponentConfig) -> Path | None:
    requirements = config.build_config.requirements
    listed = folder / requirements.requirements_file
    if listed.is_file():
        return listed
    if "requirements_file" in requirements.model_fields_set:
        raise PayloadError(f"requirements_file {str(listed)!r} does not exist")
    return None


def _copy_component(folder: Path, config: ComponentConfig, context: Path) -> None:
    """Copy what goes into the image; whoever runs it may read it, nobody may write."""
    here = context / files.FILES
    here.mkdir()
    shutil.copy(folder / API_FILE, here)
    # As it was understood, so that a component without the file keeps its name.
    known = {"name": config.name, "version": config.version, "description": config.description}
    (here / CONFIG_FILE).write_text(json.dumps(known))
    data = context / files.DATA
    data.mkdir()
    for number, (source, _) in enumerate(files.data_targets(config)):
        path = folder / source
        if path.is_dir():
            copy_folder(path, data / str(number))
        elif path.is_file():
            shutil.copy(path, data / str(number))
        else:
            raise PayloadError(f"package_data: {str(path)!r} does not exist")
    for path in (*here.rglob("*"), *data.rglob("*")):
        runs = path.is_dir() or path.stat().st_mode & 0o100
        path.chmod(0o755 if runs else 0o644)


def _build(engine: Engine, context: Path, options: Sequence[str]) -> str:
    """Run a build; return the id of the image."""
    told = context.parent / f"{context.name}.id"
    command = ["build", "--iidfile", str(told), "--file", str(context / "Containerfile")]
    if engine.name == "podman":
        command += ["--format", "docker"]  # OCI's own has no place for a health check
    try:
        engine.run(*command, *options, str(context), timeout=None)
        return told.read_text().strip()
    finally:
        told.unlink(missing_ok=True)


def _labels(config: ComponentConfig) -> dict[str, str]:
    labels = {
        "org.opencontainers.image.title": config.name,
        "org.opencontainers.image.version": config.version,
        "org.opencontainers.image.description": config.description,
        LABEL_NAME: config.name,
        LABEL_VERSION: config.version,
        LABEL_PACKAGE: version(DISTRIBUTION),
    }
    if config.metadata:
        labels[LABEL_METADATA] = json.dumps(config.metadata, default=str)
    return {name: value for name, value in labels.items() if value}


def _schema_label(engine: Engine, image: str, options: Sequence[str]) -> Mapping[str, str]:
    """Return the component's schema, told by the image; so the image is tried, too."""
    command = ["run", "--rm", "--network", "none", "--pull", "never", "--no-healthcheck", *options]
    try:
        schema = engine.run(*command, "--read-only", image, "schema").strip()
    except EngineError as error:
        raise ContainerError(
            f"the component does not load in its image: {error}\n"
            "Files beside tesseract_api.py go into it with package_data, packages with "
            "tesseract_requirements.txt, both in the component's folder"
        ) from error
    return {LABEL_SCHEMA: schema} if len(schema.encode()) <= LONGEST_LABEL else {}

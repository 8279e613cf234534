"""``tesseract_config.yaml``: what a component says of itself, and what its image needs.

The names of the fields are tesseract-core's, so that a component has one such file for both.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final, Literal

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from binref_sci.errors import PayloadError

CONFIG_FILE: Final = "tesseract_config.yaml"
DEFAULT_BASE: Final = "docker.io/library/python:3.12-slim-bookworm"
UNKNOWN_VERSION: Final = "unknown"

_VERSION: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")  # what an image's tag may be
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PACKAGE: Final = re.compile(r"[a-z0-9][a-z0-9+.:_=~-]*", re.IGNORECASE)


def _inside(path: str) -> str:
    parts = PurePosixPath(path)
    if not path or parts.is_absolute() or ".." in parts.parts:
        raise ValueError(f"{path!r} must be a path inside the component's folder")
    return path


def _version(text: str) -> str:
    if not _VERSION.fullmatch(text):
        raise ValueError(f"{text!r} is no version: up to 128 letters, digits, '.', '_' and '-'")
    return text


def _variables(variables: dict[str, str]) -> dict[str, str]:
    for name, value in variables.items():
        if not _VARIABLE.fullmatch(name):
            raise ValueError(f"{name!r} is no name of an environment variable")
        if "\n" in value or "\0" in value:
            raise ValueError(f"the value of {name!r} must be one line")
    return variables


def _package(name: str) -> str:
    if not _PACKAGE.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a Debian package")
    return name


def _line(text: str) -> str:
    if not text or len(text.split()) != 1:
        raise ValueError(f"{text!r} must be one word")
    return text


def _or_empty(kind: type) -> BeforeValidator:
    """Take a key without a value, as templates with commented lines have it, for nothing."""
    return BeforeValidator(lambda value: kind() if value is None else value)


Variables = Annotated[dict[str, str], AfterValidator(_variables), _or_empty(dict)]


class _Strict(BaseModel):
    # Numbers are not taken for text: YAML reads `version: 1.10` as 1.1.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Requirements(_Strict):
    """What Python packages the component needs.

    Parameters
    ----------
    provider
        Where they come from. Packages of conda are none of pip's: have them in the base image.
    requirements_file
        Name of the list, in the form of pip's requirements files. Left out: there may be none.
    python_version
        What the base image's Python has to be, such as ``"3.12"``.
    """

    provider: Literal["pip", "uv-pip"] = "pip"
    requirements_file: Annotated[str, AfterValidator(_inside)] = "tesseract_requirements.txt"
    python_version: str | None = None


class BuildConfig(_Strict):
    """What the image of a component needs.

    Parameters
    ----------
    base_image
        Image with a Debian-like system; Python is installed where it has none.
    target_platform
        Such as ``"linux/arm64"``; ``"native"`` is the engine's own.
    extra_packages
        Debian packages.
    package_data
        Pairs of a path in the component's folder and a path in the image; a relative one lies
        beside the component.
    custom_build_steps
        Lines of a Containerfile, after everything else.
    inherit_base_image_packages
        Whether the component sees the Python packages of the base image.
    requirements
        Python packages.
    build_env
        Environment variables while packages are installed.
    skip_checks
        Whether the image is left untried; it then has no schema.
    """

    base_image: Annotated[str, AfterValidator(_line)] = DEFAULT_BASE
    target_platform: Annotated[str, AfterValidator(_line)] = "native"
    extra_packages: Annotated[
        tuple[Annotated[str, AfterValidator(_package)], ...], Field(strict=False), _or_empty(tuple)
    ] = ()
    package_data: Annotated[
        tuple[
            Annotated[tuple[Annotated[str, AfterValidator(_inside)], str], Field(strict=False)], ...
        ],
        Field(strict=False),
        _or_empty(tuple),
    ] = ()
    custom_build_steps: Annotated[tuple[str, ...], Field(strict=False), _or_empty(tuple)] = ()
    inherit_base_image_packages: bool = False
    requirements: Annotated[Requirements, _or_empty(Requirements)] = Requirements()
    build_env: Variables = Field(default_factory=dict)
    skip_checks: bool = False


class ComponentConfig(_Strict):
    """A component's ``tesseract_config.yaml``.

    Parameters
    ----------
    name
        Of the component, and of its image.
    version
        Of the component, and tag of its image.
    description
        For people.
    env
        Environment variables of the component.
    metadata
        Anything; kept as a label of the image.
    build_config
        What its image needs.

    Examples
    --------
    >>> ComponentConfig(name="heat", version="1.2.0").build_config.target_platform
    'native'
    """

    name: str = Field(min_length=1)
    version: Annotated[str, AfterValidator(_version)] = UNKNOWN_VERSION
    description: str = ""
    env: Variables = Field(default_factory=dict)
    metadata: Annotated[dict[str, Any], _or_empty(dict)] = Field(default_factory=dict)
    build_config: Annotated[BuildConfig, _or_empty(BuildConfig)] = BuildConfig()


def read_config(folder: Path) -> ComponentConfig:
    """Return the configuration of the component in `folder`.

    Without a file it is the default, the folder's name for a name.

    Raises
    ------
    PayloadError
        If the file cannot be read, or has a field that is unknown or wrong; its `errors` name
        each.
    """
    path = folder / CONFIG_FILE
    found = _mapping(path)
    if found is None:
        return ComponentConfig(name=folder.resolve().name)
    try:
        return ComponentConfig.model_validate(found)
    except ValidationError as error:
        entries = [
            {"loc": list(each["loc"]), "msg": _meant(each), "type": each["type"]}
            for each in error.errors()
        ]
        lines = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in entries]
        raise PayloadError(f"{path}: " + "; ".join(lines), entries) from None


def identity(folder: Path) -> tuple[str | None, str | None]:
    """Return name and version that a component's configuration gives it, as far as it does.

    Other fields are not looked at: they matter to who builds an image.

    Raises
    ------
    PayloadError
        If the file cannot be read.
    """
    found = _mapping(folder / CONFIG_FILE) or {}
    name, version = found.get("name"), found.get("version")
    return (
        name if isinstance(name, str) and name else None,
        None if version is None or version == UNKNOWN_VERSION else str(version),
    )


def _mapping(path: Path) -> dict[Any, Any] | None:
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PayloadError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeError) as error:
        raise PayloadError(f"{str(path)!r} is no YAML: {error}") from error
    if not isinstance(found, dict):
        raise PayloadError(f"{str(path)!r} must hold fields such as 'name: heat', found {found!r}")
    return found


def _meant(error: Any) -> str:
    message = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "string_type":
        return f"{message}, found {error['input']!r}; write it in quotes"
    if error["type"] == "extra_forbidden":
        return "there is no such field"
    return message

"""The Containerfile of a component: text, from its configuration."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from binref_sci.containers.layout import (
    COMPONENT,
    ENTRYPOINT,
    ENVIRONMENT,
    INPUT_PATH,
    OUTPUT_PATH,
    PORT,
    USER,
)
from binref_sci.runtime.config import ComponentConfig

SYSTEM: Final = "system"
"""First stage: the base image with Python and the packages of its system."""

WHEELS: Final = "wheels"
FILES: Final = "component"
DATA: Final = "data"
"""Folders of the build context: Python packages, the component, and its further files."""

_HEALTH: Final = "--interval=30s --timeout=10s --start-period=60s"
_APT: Final = (
    "apt-get update && apt-get install -y --no-install-recommends {} && rm -rf /var/lib/apt/lists/*"
)


def containerfile(config: ComponentConfig, base: str, *, pip: str = "", listed: str = "") -> str:
    """Return the text of the Containerfile.

    Parameters
    ----------
    config
        Of the component.
    base
        Name of the base image.
    pip
        Name of the wheel of pip among the wheels; pip runs from it and stays out of the image.
    listed
        Name of the list of what is installed. It has to change with what is in the wheels: the
        builder's cache does not look into them.

    Examples
    --------
    >>> text = containerfile(ComponentConfig(name="heat"), "debian:bookworm-slim")
    >>> text.splitlines()[1]
    'FROM debian:bookworm-slim AS system'
    """
    build = config.build_config
    lines = [
        "# Written by binref-sci build.",
        f"FROM {base} AS {SYSTEM}",
        "USER root",
        f"RUN command -v python3 || ({_APT.format('python3')})",
        *([f"RUN {_APT.format(' '.join(build.extra_packages))}"] if build.extra_packages else []),
        "",
        f"FROM {SYSTEM}",
        f"WORKDIR {COMPONENT}",
        f"RUN --mount=type=bind,source={WHEELS},target=/{WHEELS} {_install(config, pip, listed)}",
        f"COPY {FILES} {COMPONENT}",
        *(
            f"COPY {json.dumps([f'{DATA}/{number}', target])}"
            for number, (_, target) in enumerate(data_targets(config))
        ),
        f"ENV PATH={ENVIRONMENT}/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp",
        *_variables(config.env),
        *build.custom_build_steps,
        f"USER {USER}:{USER}",
        f"EXPOSE {PORT}",
        "STOPSIGNAL SIGTERM",
        f"HEALTHCHECK {_HEALTH} CMD {json.dumps([*ENTRYPOINT, 'health'])}",
        f"ENTRYPOINT {json.dumps(ENTRYPOINT)}",
        'CMD ["--help"]',
    ]
    return "\n".join(lines) + "\n"


def _install(config: ComponentConfig, pip: str, listed: str) -> str:
    """Return the one command that makes the environment: one layer."""
    build = config.build_config
    python = f"{ENVIRONMENT}/bin/python"
    venv = ["python3", "-m", "venv", "--without-pip", ENVIRONMENT]
    if build.inherit_base_image_packages:
        venv.insert(3, "--system-site-packages")
    install = [python, f"/{WHEELS}/{pip}/pip", "install", "--no-index", "--no-deps"]
    install += ["--no-compile", "--disable-pip-version-check", "--root-user-action=ignore"]
    install += ["--no-cache-dir", "-r", f"/{WHEELS}/{listed}"]
    # By their hash, not by date: true wherever the layer is unpacked. Nobody can write there.
    compiling = [python, "-m", "compileall", "-q", "-j", "0"]
    compiling += ["--invalidation-mode", "unchecked-hash", f"{ENVIRONMENT}/lib"]
    variables = [f"{name}={value}" for name, value in build.build_env.items()]
    return " && ".join(
        [
            shlex.join(venv),
            shlex.join(["env", *variables, *install] if variables else install),
            # Some packages carry files for other Pythons: they do not compile, and need not.
            f"({shlex.join(compiling)} || true)",
            f"mkdir -p {INPUT_PATH} {OUTPUT_PATH}",
            f"chmod 1777 {OUTPUT_PATH}",
        ]
    )


def data_targets(config: ComponentConfig) -> Sequence[tuple[str, str]]:
    """Return source and absolute target of each further file or folder.

    Examples
    --------
    >>> build = {"package_data": [["mesh.h5", "mesh.h5"], ["shared", "/opt/shared"]]}
    >>> data_targets(ComponentConfig(name="heat", build_config=build))
    [('mesh.h5', '/tesseract/mesh.h5'), ('shared', '/opt/shared')]
    """
    return [
        (source, target if target.startswith("/") else f"{COMPONENT}/{target}")
        for source, target in config.build_config.package_data
    ]


def _variables(variables: Mapping[str, str]) -> list[str]:
    return [f"ENV {name}={_quoted(value)}" for name, value in variables.items()]


def _quoted(value: str) -> str:
    for letter in '\\"$':
        value = value.replace(letter, f"\\{letter}")
    return f'"{value}"'

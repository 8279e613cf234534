"""The Containerfile of a component: text, from its configuration."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from binref_sci.containers.gathering import Gathered
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

_MOUNT: Final = f"--mount=type=bind,source={WHEELS},target=/{WHEELS}"
_NOTHING: Final = Gathered("", "", "")
_HEALTH: Final = "--interval=30s --timeout=10s --start-period=60s"
_WARMING: Final = (
    "import sys; sys.dont_write_bytecode = False; import "
    "binref_sci.cli.run, binref_sci.cli.serve, binref_sci.server.loop, binref_sci.server.worker"
)
_APT: Final = (
    "apt-get update && apt-get install -y --no-install-recommends {} && rm -rf /var/lib/apt/lists/*"
)


def containerfile(config: ComponentConfig, base: str, packages: Gathered = _NOTHING) -> str:
    """Return the text of the Containerfile.

    Parameters
    ----------
    config
        Of the component.
    base
        Name of the base image.
    packages
        Names of what was gathered. Those of the lists have to change with what is in the
        wheels: the builder's cache does not look into them.

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
        *(f"RUN {_MOUNT} {each}" for each in _installing(config, packages)),
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


def _installing(config: ComponentConfig, packages: Gathered) -> list[str]:
    """Return the commands that make the environment, one layer each: rarest changes first."""
    build = config.build_config
    venv = ["python3", "-m", "venv", "--without-pip", ENVIRONMENT]
    if build.inherit_base_image_packages:
        venv.insert(3, "--system-site-packages")
    folders = f"mkdir -p {INPUT_PATH} {OUTPUT_PATH} && chmod 1777 {OUTPUT_PATH}"
    variables = [f"{name}={value}" for name, value in build.build_env.items()]
    # pip runs from its wheel, and stays out of the image.
    pip = [*variables, f"{ENVIRONMENT}/bin/python", f"/{WHEELS}/{packages.pip}/pip"]
    pip += ["install", "--no-index", "--no-deps", "--no-compile", "--no-cache-dir"]
    pip += ["--disable-pip-version-check", "--root-user-action=ignore", "-r"]
    # By their hash, not by date: true wherever the layer is unpacked. Nobody can write there.
    compiling = [f"{ENVIRONMENT}/bin/python", "-m", "compileall", "-q", "-j", "0"]
    compiling += ["--invalidation-mode", "unchecked-hash"]
    # Some packages carry files for other Pythons: they do not compile, and need not.
    compiled = f"({shlex.join(compiling)} {ENVIRONMENT}/lib{{}} || true)"
    ours = compiled.format("/*/site-packages/binref_sci")
    others, own = (
        shlex.join(["env", *pip, f"/{WHEELS}/{each}"]) for each in (packages.others, packages.own)
    )
    all_others = f"{shlex.join(venv)} && {others} && {compiled.format('')}"
    # Docker's images of Python have none of its own modules compiled: each start would do it.
    warming = shlex.join([f"{ENVIRONMENT}/bin/python", "-P", "-c", _WARMING])
    return [all_others, f"{own} && {ours} && {warming} && {folders}"]


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

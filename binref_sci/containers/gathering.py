"""The Python packages of an image, gathered on this machine as wheels.

Inside a build pip knows neither the index nor the certificates that this machine is set up
with. So pip runs here, asked for wheels of the image's Python, and the image installs what
was gathered without an index: what is in it was chosen in one place.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from binref_sci.containers import slim, wheel
from binref_sci.containers.engine import Engine
from binref_sci.errors import EngineError, PayloadError

OLDEST: Final = (3, 11)

# Run in the image, by whatever Python is there: what pip's markers and tags depend on.
_PROBE: Final = """
import json, os, platform, sys
v = sys.version_info
try:
    libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
except (AttributeError, ValueError, OSError):
    libc = ""
print(json.dumps({"libc": libc, "markers": {
    "implementation_name": sys.implementation.name,
    "implementation_version": platform.python_version(),
    "os_name": os.name,
    "platform_machine": platform.machine(),
    "platform_python_implementation": platform.python_implementation(),
    "platform_release": platform.release(),
    "platform_system": platform.system(),
    "platform_version": platform.version(),
    "python_full_version": platform.python_version(),
    "python_version": "%d.%d" % v[:2],
    "sys_platform": sys.platform,
}}))
"""

# Markers ("; python_version < '3.12'") are pip's to judge, and it judges by the Python that runs
# it, whatever --python-version says. They are judged by the image's here.
_PIP: Final = """
import json, sys
from pip._vendor.packaging import markers
from pip._internal.cli.main import main
found = json.loads(sys.argv.pop(1))
markers.default_environment = lambda: dict(found)
sys.exit(main(sys.argv[1:]))
"""

_LOCAL: Final = re.compile(
    r"([\w.-]+\s*(?P<named>\[[^]]*\])?\s*@\s*(?=file:))?"
    r"(?P<path>(?:[\w.-]*/|\.{1,2}$|file:).*?|[\w.+-]+\.(?:whl|zip|tar\.gz))"
    r"(?P<extras>\[[^]/]*\])?\s*(?P<marker>;.*)?"
)
_EDITABLE: Final = re.compile(r"^(-e|--editable)[\s=]+")
_FILE: Final = re.compile(r"(-r|-c|--requirement|--constraint)[\s=]+(.+)")
_LINES: Final = 30


@dataclass(frozen=True)
class Interpreter:
    """The Python of an image.

    Parameters
    ----------
    version
        Major and minor.
    machine
        Such as ``"x86_64"``.
    glibc
        Its glibc, major and minor; None for musl.
    markers
        The environment that the markers of requirements are judged in.
    """

    version: tuple[int, int]
    machine: str
    glibc: tuple[int, int] | None
    markers: dict[str, str]

    @property
    def platforms(self) -> list[str]:
        """Tags of the platforms whose wheels run there, the newest first.

        Examples
        --------
        >>> Interpreter((3, 12), "x86_64", (2, 19), {}).platforms[:4]
        ['manylinux_2_19_x86_64', 'manylinux_2_18_x86_64', 'manylinux_2_17_x86_64', 'manylinux2014_x86_64']
        """
        if self.glibc is None:
            return [f"musllinux_1_{minor}_{self.machine}" for minor in (2, 1)]
        made = []
        old = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
        for minor in range(self.glibc[1], 4, -1):
            made.append(f"manylinux_2_{minor}_{self.machine}")
            if minor in old:
                made.append(f"{old[minor]}_{self.machine}")
        return [*made, f"linux_{self.machine}"]

    @property
    def is_ours(self) -> bool:
        """Whether what the Python that runs here builds would run there."""
        return (
            self.markers["implementation_name"] == sys.implementation.name
            and self.version == sys.version_info[:2]
            and (self.markers["sys_platform"], self.machine) == (sys.platform, platform.machine())
            and (self.glibc is None) == (platform.libc_ver()[0] != "glibc")
        )


def probe(engine: Engine, image: str, *, options: Sequence[str] = ()) -> Interpreter:
    """Return the Python of an image, asked there.

    Raises
    ------
    PayloadError
        If it is too old.
    EngineError
        If there is none, or the container does not run.
    """
    command = ["run", "--rm", "--network", "none", "--pull", "never", *options]
    told = engine.run(*command, "--entrypoint", "python3", image, "-c", _PROBE)
    found: dict[str, Any] = json.loads(told)
    markers = found["markers"]
    major, minor = (int(part) for part in markers["python_version"].split("."))
    if (major, minor) < OLDEST:
        raise PayloadError(
            f"the base image has Python {markers['python_full_version']}, and a component needs "
            f"{OLDEST[0]}.{OLDEST[1]} or newer; choose another with --base or base_image"
        )
    glibc = re.fullmatch(r"glibc (\d+)\.(\d+).*", found["libc"].strip())
    return Interpreter(
        (major, minor),
        markers["platform_machine"],
        None if glibc is None else (int(glibc[1]), int(glibc[2])),
        markers,
    )


@dataclass(frozen=True)
class Gathered:
    """What was gathered.

    Parameters
    ----------
    pip
        Name of the wheel of pip.
    others
        Name of the list of what the component and this package need.
    own
        Name of the list of this package's own wheel, which changes more often.
    """

    pip: str
    others: str
    own: str


def gather(folder: Path, listed: Path | None, python: Interpreter) -> Gathered:
    """Fill `folder` with the wheels of an image and the list that installs them.

    Parameters
    ----------
    folder
        An empty folder.
    listed
        The component's own requirements file, or None.
    python
        The Python of the image.

    Raises
    ------
    EngineError
        If a package is not to be had.
    """
    own = wheel.pack(folder)
    asked = folder / "asked.txt"
    where = folder if listed is None else listed.parent.resolve()
    wanted = [*slim.requirements(), *_own(listed, folder, python, where), "pip"]
    asked.write_text("".join(f"{line}\n" for line in wanted))
    common = ["--find-links", str(folder), "-r", str(asked)]
    version = ".".join(map(str, python.version))
    there = ["--only-binary=:all:", "--implementation", "cp", "--python-version", version]
    there += [f"--platform={tag}" for tag in python.platforms]
    try:
        _pip(["download", "--dest", str(folder), *there, *common], python, where)
    except EngineError:
        if not python.is_ours:
            raise
        # There may be a source distribution only: built here it runs there.
        _pip(["wheel", "--wheel-dir", str(folder), *common], python, where)
    asked.unlink()
    (pip,) = folder.glob("pip-*.whl")
    others = sorted(path for path in folder.glob("*.whl") if path not in (pip, own))
    return Gathered(pip.name, _list(folder, others), _list(folder, [own]))


def _list(folder: Path, wheels: Sequence[Path]) -> str:
    """Write a requirements file; return its name, which is another one for other wheels.

    It has files in it and not names: what is installed is what was gathered.
    """
    digest = hashlib.sha256()
    for path in wheels:
        digest.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    made = folder / f"{digest.hexdigest()[:16]}.txt"
    made.write_text("".join(f"/{folder.name}/{path.name}\n" for path in wheels))
    return made.name


def _own(
    listed: Path | None,
    folder: Path,
    python: Interpreter,
    where: Path,
    above: tuple[Path, ...] = (),
) -> Iterator[str]:
    """Yield the component's requirements, with what lies in its folder made into wheels."""
    if listed is None or listed.resolve() in above:
        return
    try:
        lines = re.sub(r"\\\r?\n", "", listed.read_text(encoding="utf-8-sig")).splitlines()
    except (OSError, UnicodeError) as error:
        raise PayloadError(f"cannot read the requirements in {str(listed)!r}: {error}") from error
    for line in lines:
        text = re.sub(r"(^|\s)#.*", "", line).strip()
        text = _EDITABLE.sub("", text)  # in an image it is like any other
        file, local = _FILE.fullmatch(text), _LOCAL.fullmatch(text)
        if file is not None and file[1] in ("-r", "--requirement"):
            yield from _own(
                listed.parent / file[2], folder, python, where, (*above, listed.resolve())
            )
        elif file is not None:
            yield f"{file[1]} {(listed.parent / file[2]).resolve()}"
        elif local is not None:
            source = (where / local["path"].removeprefix("file:")).resolve()
            marker = local["marker"] or ""
            before = set(folder.glob("*.whl"))
            command = ["wheel", "--no-deps", "--wheel-dir", str(folder), f"{source}{marker}"]
            _pip(command, python if marker else None, where)
            for path in set(folder.glob("*.whl")) - before:
                yield f"{path}{local['extras'] or local['named'] or ''}"
        elif text:
            yield text


def _pip(arguments: list[str], python: Interpreter | None, where: Path) -> None:
    command = [sys.executable, "-m", "pip"]
    if python is not None:
        command = [sys.executable, "-c", _PIP, json.dumps(python.markers)]
    done = subprocess.run(
        [*command, *arguments, "--disable-pip-version-check", "--no-input", "--progress-bar=off"],
        cwd=where,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        told = (done.stdout + done.stderr).decode(errors="replace")
        if "No module named 'pip'" in told or "No module named pip" in told:
            raise EngineError(
                "building an image needs pip beside this Python; install it: "
                f"{sys.executable} -m ensurepip"
            )
        lines = "\n".join(told.strip().splitlines()[-_LINES:])
        raise EngineError(f"pip {arguments[0]} could not gather the image's packages:\n{lines}")

"""A base image, and images of components on it."""

import fcntl
import hashlib
import subprocess
import tempfile
import uuid
from pathlib import Path

import psutil
import pytest

from benchmarks.base_image import base_image
from binref_sci.containers.building import build
from binref_sci.containers.engine import find_engine
from binref_sci.containers.wheel import pack
from tests.policy import require

REPOSITORY = "localhost/binref-sci-test"
ROOT = Path(__file__).parents[2]
PASSTHROUGH = ROOT / "examples" / "binref_passthrough"


@pytest.fixture(scope="session")
def engine():
    require("podman")
    return find_engine("podman")


@pytest.fixture(scope="session")
def base(engine):
    require("debootstrap")
    return base_image()


@pytest.fixture(scope="session")
def passthrough(engine, base, tmp_path_factory):
    """Name of the image of examples/binref_passthrough, built once for all workers.

    Its tag stands for what is in it: another run of the same sources finds it there.
    """
    wheel = pack(tmp_path_factory.mktemp("wheel")).read_bytes()
    files = [path.read_bytes() for path in sorted(PASSTHROUGH.glob("*.*"))]
    name = f"{REPOSITORY}:{hashlib.sha256(b''.join([wheel, *files])).hexdigest()[:12]}"
    with open(Path(tempfile.gettempdir(), "binref-sci-test-image.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if podman("image", "exists", name, check=False).returncode:
            build(PASSTHROUGH, engine, tag=name, base=base)
            old = ["--filter", f"reference={REPOSITORY}", "--filter", "until=12h"]
            for each in podman("images", "--quiet", *old).stdout.split():
                podman("rmi", each, check=False)
    return name


@pytest.fixture(scope="session")
def image_of(engine, passthrough, tmp_path_factory):
    """Make the image of a component quickly: another one's, with the component replaced."""

    def make(source):
        folder = tmp_path_factory.mktemp("component")
        (folder / "tesseract_api.py").write_text(source)
        (folder / "tesseract_api.py").chmod(0o644)
        (folder / "Containerfile").write_text(
            f"FROM {passthrough}\nCOPY tesseract_api.py /tesseract/\n"
        )
        name = f"{REPOSITORY}:{uuid.uuid4().hex[:12]}"
        command = ["build", "--format", "docker", "--file", folder / "Containerfile"]
        podman(*command, "--tag", name, folder)
        return name

    return make


@pytest.fixture(autouse=True)
def nothing_is_left():
    """No keeper of a container that a test has started in this process outlives the test."""
    yield
    assert keepers() == []


def keepers():
    return [each for each in psutil.Process().children() if is_keeper(each)]


def is_keeper(process):
    try:
        return any("keeper" in part for part in process.cmdline())
    except psutil.NoSuchProcess:  # another test's, which ends just now or waits to be reaped
        return False


def podman(*arguments, check=True):
    done = subprocess.run(
        ["podman", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert not check or done.returncode == 0, done.stderr
    return done

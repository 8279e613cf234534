"""A base image without a registry: Debian's smallest system with Python, made by debootstrap.

``python -m benchmarks.base_image`` makes it unless it is there; the tests and the benchmarks
of containers build on it. Needs root, podman, debootstrap, and the mirror that apt uses.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from pathlib import Path

IMAGE = "localhost/binref-sci-base:bookworm"
SUITE = "bookworm"


def base_image() -> str:
    """Return the name of the base image; made on first use, which takes minutes."""
    lock = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "binref-sci-base.lock")
    lock.parent.mkdir(parents=True, exist_ok=True)
    with open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # the workers of pytest-xdist make it once
        if subprocess.run(["podman", "image", "exists", IMAGE], check=False).returncode:
            _make()
    return IMAGE


def _make() -> None:
    with tempfile.TemporaryDirectory(prefix="binref-sci-base-") as folder:
        root = Path(folder, "root")
        command = ["debootstrap", "--variant=minbase", "--include=python3", SUITE, str(root)]
        done = subprocess.run([*command, _mirror()], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"debootstrap failed: {(done.stdout + done.stderr)[-2000:]}")
        left_out = [f"--exclude=./var/{each}/*" for each in ("cache/apt", "lib/apt/lists", "log")]
        packing = subprocess.Popen(
            ["tar", "-C", str(root), *left_out, "-c", "."], stdout=subprocess.PIPE
        )
        with packing:
            subprocess.run(
                ["podman", "import", "--change", 'CMD ["python3"]', "-", IMAGE],
                stdin=packing.stdout,
                capture_output=True,
                check=True,
            )


def _mirror() -> str:
    """Return the mirror that apt itself uses for the suite."""
    told = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME)", "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for line in told.splitlines():
        mirror, _, codename = line.partition(" ")
        if codename.strip() == SUITE:
            return mirror
    return "http://deb.debian.org/debian"


if __name__ == "__main__":
    print(base_image())

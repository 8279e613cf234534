"""Packages that a test fetches from npm, since no Python package brings them."""

import subprocess


def fetched(package, folder, *, timeout):
    """Install a package into a folder within some seconds; return its ``node_modules``."""
    subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "--silent", package],
        cwd=folder,
        check=True,
        timeout=timeout,
    )
    return folder / "node_modules"

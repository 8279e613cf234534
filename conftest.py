"""Set-up shared by the tests and by the doctests of the package."""

import signal

import pytest

# What a shell starts in the background ignores Ctrl-C, and so would all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["tests.policy"]


@pytest.fixture(autouse=True)
def _doctests_write_into_a_folder_of_their_own(request):
    if isinstance(request.node, pytest.DoctestItem):
        folder = request.getfixturevalue("tmp_path")
        request.getfixturevalue("monkeypatch").chdir(folder)

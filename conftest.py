"""Set-up shared by the tests and by the doctests of the package."""

import pytest

pytest_plugins = ["tests.policy"]


@pytest.fixture(autouse=True)
def _doctests_write_into_a_folder_of_their_own(request):
    if isinstance(request.node, pytest.DoctestItem):
        folder = request.getfixturevalue("tmp_path")
        request.getfixturevalue("monkeypatch").chdir(folder)

"""The rules of the house that no linter knows."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import binref_sci
from tests.serving import ENVIRONMENT

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def floors() -> list[str]:
    (contract,) = (
        contract
        for contract in PYPROJECT["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    )
    return [module.strip(" ()") for layer in contract["layers"] for module in layer.split("|")]


def test_every_top_level_module_is_on_a_floor():
    modules = {
        path.stem
        for path in (ROOT / "binref_sci").iterdir()
        if (path.suffix == ".py" and path.stem != "__init__") or (path / "__init__.py").exists()
    }
    assert modules <= set(floors())


def test_no_module_is_on_two_floors():
    assert len(floors()) == len(set(floors()))


def test_the_architecture_page_shows_every_floor():
    page = (ROOT / "docs" / "architecture.md").read_text()
    table = [row for row in page.splitlines() if row.startswith("| ") and row[2].isdigit()]
    shown = [module.strip(" `") for row in table for module in row.split("|")[2].split(",")]
    assert shown == floors()


def test_the_version_is_the_same_everywhere():
    assert binref_sci.__version__ == PYPROJECT["project"]["version"]
    assert f"## {binref_sci.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_everything_public_can_be_had_and_is_listed():
    listed = set(binref_sci.__all__)
    for name in listed:
        getattr(binref_sci, name)
    assert listed <= set(dir(binref_sci))
    public = {
        name
        for name in dir(binref_sci)
        if not name.startswith("_") and f"binref_sci.{name}" not in sys.modules
    }
    assert public <= listed


def test_the_readme_names_the_two_commands_that_the_makefile_has():
    readme = (ROOT / "README.md").read_text()
    makefile = (ROOT / "Makefile").read_text()
    for target in ("test", "demo"):
        assert f"make {target}" in readme
        assert f"\n{target}:" in makefile


def test_every_link_of_the_readme_leads_to_a_file_of_the_project():
    links = re.findall(r"(?<!!)\[[^]]*\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    assert links
    assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []


def test_every_picture_of_the_readme_is_there():
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    assert pictures
    assert [picture for picture in pictures if not (ROOT / picture).exists()] == []


def test_the_readmes_example_runs_as_it_stands(tmp_path):
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    command = [sys.executable, "-W", "error", "-c", example]
    done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True)
    assert (done.stderr, done.stdout) == ("", "3.125\n")


@pytest.mark.parametrize(
    "statement", ["import binref_sci", "from binref_sci import BinrefArray, BinrefWriter"]
)
def test_a_solver_that_writes_imports_no_heavy_package(statement):
    heavy = {"xarray", "dask", "pandas", "matplotlib", "fastapi", "IPython"}
    assert _imported(statement) & heavy == set()


def test_a_server_starts_without_numpy():
    imported = _imported("import binref_sci.cli.serve, binref_sci.server.loop")
    assert "binref_sci.server.pool" in imported
    assert "numpy" not in imported


def _imported(statement):
    code = f"{statement}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())

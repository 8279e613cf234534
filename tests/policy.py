"""What a test run may leave out, and how it says so.

Without ``BINREF_SCI_FULL=1`` the tests marked ``long`` are left out and a test that ``needs`` a
program or a Python module that is missing is skipped; the summary tells both. With it nothing is left
out: a missing program or module and every skip that `ALLOWED_SKIPS` does not name are failures.
"""

import importlib.util
import os
import shutil
from collections import Counter
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import HealthCheck, settings

FULL = os.environ.get("BINREF_SCI_FULL", "") not in {"", "0"}

# Node id (a pattern) -> why this test may be skipped even in a full run.
ALLOWED_SKIPS: dict[str, str] = {
    "tests/containers/test_docker.py::*": "Debian has docker's client with its daemon only",
    "tests/test_xarray_contract.py::*": "xarray's own tests of netCDF, cftime and iris",
}

# No deadlines, for an example or for making one: on a busy machine they fail tests that are
# right. pytest-timeout catches hangs. A test that sets aside other checks sets aside this too.
UNTIMED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
# The same examples each time: a change is not to fail for what it has not changed.
settings.register_profile("default", max_examples=25, derandomize=True, **UNTIMED)
settings.register_profile("ci", max_examples=300, derandomize=True, print_blob=True, **UNTIMED)
# New ones each time, to look for what nobody has thought of: pytest --hypothesis-profile=search
settings.register_profile("search", max_examples=1000, print_blob=True, **UNTIMED)
settings.load_profile("ci" if FULL else "default")


def require(program: str) -> Path:
    """Path of an external program; without it the test is skipped, in a full run failed."""
    found = shutil.which(program)
    if found is None:
        lack(f"needs {program!r}, which is not on PATH")
    return Path(found)


def require_module(module: str) -> None:
    """Demand a Python module; without it the test is skipped, in a full run failed.

    The module is not imported here: some start threads, which the other tests do without.
    """
    if importlib.util.find_spec(module) is None:
        lack(f"needs the Python module {module!r}, which is not installed")


def lack(message: str) -> NoReturn:
    if FULL:
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


@pytest.fixture
def needs() -> Callable[[str], Path]:
    """Ask for a program inside a test: ``compiler = needs("gcc")``."""
    return require


class Policy:
    """The hooks. Workers of pytest-xdist count what they leave out; the controller reports it."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.long = 0

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if FULL or "long" in self.config.option.markexpr:
            return
        long = [item for item in items if item.get_closest_marker("long")]
        if long:
            self.long = len(long)
            self.config.hook.pytest_deselected(items=long)
            items[:] = [item for item in items if not item.get_closest_marker("long")]

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        for mark in item.iter_markers("needs"):
            for program in mark.args:
                require(program)
        for mark in item.iter_markers("needs_module"):
            for module in mark.args:
                require_module(module)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item):
        report = yield
        if report.skipped and not hasattr(report, "wasxfail"):
            fail_if_full(report)
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector):
        report = yield
        if report.skipped:
            fail_if_full(report)
        return report

    def pytest_sessionfinish(self) -> None:
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["long"] = self.long

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node) -> None:
        # Every worker collects every test, so any one of them has the whole count.
        self.long = max(self.long, getattr(node, "workeroutput", {}).get("long", 0))

    def pytest_terminal_summary(self, terminalreporter) -> None:
        skipped = Counter(reason(report) for report in terminalreporter.stats.get("skipped", []))
        if not self.long and not skipped:
            terminalreporter.write_line("nothing was left out of this run")
            return
        terminalreporter.write_line("left out of this run (BINREF_SCI_FULL=1 make test adds it):")
        if self.long:
            terminalreporter.write_line(f"  {self.long} long tests")
        for why, count in sorted(skipped.items()):
            terminalreporter.write_line(f"  {count} skipped: {why}")


def reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return why.removeprefix("Skipped: ")


def fail_if_full(report: pytest.TestReport | pytest.CollectReport) -> None:
    allowed = any(fnmatch(report.nodeid, pattern) for pattern in ALLOWED_SKIPS)
    if FULL and not allowed:
        report.longrepr = f"skipped in a full run: {reason(report)}"
        report.outcome = "failed"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "long: takes more than a few seconds; left out unless BINREF_SCI_FULL=1"
    )
    config.addinivalue_line(
        "markers", "needs(*programs): skipped where a program is missing, failed in a full run"
    )
    config.addinivalue_line(
        "markers", "needs_module(*modules): skipped where one is missing, failed in a full run"
    )
    # Those that xarray's own tests carry, which tests/test_xarray_contract.py runs.
    for mark in ("asyncio", "flaky", "network", "skip_with_dask_array", "skip_if_param"):
        config.addinivalue_line("markers", f"{mark}: of xarray's tests")
    config.pluginmanager.register(Policy(config), "binref-sci-policy")

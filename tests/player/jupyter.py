"""JupyterLab or Notebook 7 on loopback, with folders of its own, and notebooks to open in it."""

import json
import os
import secrets
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
QUIET = {
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "full"},
}


def shared():
    """Where the data of Jupyter's packages lies: beside them, be it this environment or not."""
    import jupyterlab

    folders = [parent / "share" / "jupyter" for parent in Path(jupyterlab.__file__).parents]
    return next(folder for folder in folders if (folder / "lab").is_dir())


def notebook(*cells):
    """The text of a notebook with these code cells."""
    made = [
        {
            "cell_type": "code",
            "id": f"cell-{k}",
            "metadata": {},
            "outputs": [],
            "execution_count": None,
            "source": cell,
        }
        for k, cell in enumerate(cells)
    ]
    spec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return json.dumps(
        {"cells": made, "metadata": {"kernelspec": spec}, "nbformat": 4, "nbformat_minor": 5}
    )


@contextmanager
def jupyter(folder, *, app="lab"):
    """Serve `folder`; gives ``address(name)``, the address of a notebook in it.

    Parameters
    ----------
    app
        ``"lab"`` or ``"notebook"``.
    """
    own = folder / ".jupyter"
    token = secrets.token_hex(16)
    environment = os.environ | {
        "JUPYTER_CONFIG_DIR": str(own / "config"),
        "JUPYTER_DATA_DIR": str(own / "data"),
        "JUPYTER_RUNTIME_DIR": str(own / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(own / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(own / "workspaces"),
        "JUPYTER_PATH": str(shared()),
        "IPYTHONDIR": str(own / "ipython"),
        "PYTHONPATH": str(ROOT),
        "JUPYTER_PLATFORM_DIRS": "1",
    }
    settings = own / "config" / "labconfig" / "default_setting_overrides.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps(QUIET if app == "lab" else {}))
    # the application as `window.jupyterapp`; Notebook does not take its own option for it
    settings.with_name("page_config.json").write_text(json.dumps({"exposeAppInBrowser": True}))
    name = {"lab": "LabApp", "notebook": "JupyterNotebookApp"}[app]
    log = folder / "jupyter.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                {"lab": "jupyterlab", "notebook": "notebook"}[app],
                "--allow-root",
                "--no-browser",
                "--ServerApp.ip=127.0.0.1",
                "--ServerApp.port=0",
                f"--IdentityProvider.token={token}",
                f"--ServerApp.root_dir={folder}",
                f"--{name}.app_dir={shared() / 'lab'}",
            ],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        base = _started(own / "runtime", process, log)
        path = {"lab": "lab/tree", "notebook": "notebooks"}[app]
        yield lambda notebook_name: f"{base}{path}/{notebook_name}?token={token}"
    finally:
        process.terminate()  # its kernels end with it
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _started(runtime, process, log):
    """The address of the server once it answers."""
    record = runtime / f"jpserver-{process.pid}.json"
    for _ in range(600):
        if process.poll() is not None:
            raise RuntimeError(f"Jupyter ended: {log.read_text()}")
        if record.is_file() and record.read_text():
            url = json.loads(record.read_text())["url"]
            return url.replace("localhost", "127.0.0.1")
        time.sleep(0.1)
    raise TimeoutError(f"Jupyter did not start: {log.read_text()}")


def run_all(page, *, timeout=60_000):
    """Wait for the notebook and its kernel, then run all cells."""
    page.wait_for_function("window.jupyterapp?.shell?.currentWidget?.context", timeout=timeout)
    page.evaluate("() => jupyterapp.shell.currentWidget.context.ready")
    page.wait_for_function(
        "jupyterapp.shell.currentWidget.context.sessionContext.session?.kernel?.status === 'idle'",
        timeout=timeout,
    )
    page.evaluate("() => jupyterapp.commands.execute('notebook:run-all-cells')")


def show(page, cell):
    """Scroll to a cell: one that is out of sight is not even in the page."""
    page.evaluate(
        "cell => { const { content } = jupyterapp.shell.currentWidget;"
        " content.activeCellIndex = cell; return content.scrollToItem(cell, 'start') }",
        cell,
    )


def execute(page, code):
    """Run code in the kernel of the notebook, beside its cells, to its end."""
    page.evaluate(
        "code => jupyterapp.shell.currentWidget.context.sessionContext.session.kernel"
        ".requestExecute({ code, silent: true }).done",
        code,
    )

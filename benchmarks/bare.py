"""Chromium driven over its own pipe, for figures that a driver must not be part of.

Playwright listens to the network of each page, so Chromium tells it of every message of a
websocket, with the bytes in base64: that took more time than the messages themselves. Here the
page is told what to do, and nothing else is asked for.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.player.serving import CHROMIUM, FLAGS

_KEYS = {"Space": " "}  # code -> key, of those that are pressed


class Pipe:
    """Commands of the DevTools protocol and their answers, one after another."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands = commands
        self._answers = os.fdopen(answers, "rb", buffering=0)
        self._rest = b""
        self._number = 0
        self._hear: list[Callable[[dict[str, Any]], None]] = []

    def hear(self, heard: Callable[[dict[str, Any]], None]) -> None:
        """Have each event passed on."""
        self._hear.append(heard)

    def ask(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Send a command; return its result.

        Raises
        ------
        RuntimeError
            If Chromium says that it failed.
        """
        self._number += 1
        command: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if session is not None:
            command["sessionId"] = session
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result
            for heard in self._hear:
                heard(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            piece = self._answers.read(1 << 16)
            if not piece:
                raise RuntimeError("Chromium has ended")
            self._rest += piece
        text, _, self._rest = self._rest.partition(b"\0")
        made: dict[str, Any] = json.loads(text)
        return made

    def close(self) -> None:
        """Close both ends, which ends Chromium too."""
        os.close(self._commands)
        self._answers.close()


class Page:
    """One page; its methods are called, and do, as those of Playwright."""

    def __init__(self, pipe: Pipe, session: str) -> None:
        self._pipe = pipe
        self._session = session
        self.errors: list[str] = []
        pipe.hear(self._heard)
        for domain in ("Page", "Runtime"):
            self._ask(f"{domain}.enable")

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        return self._pipe.ask(method, self._session, **params)

    def _heard(self, event: dict[str, Any]) -> None:
        # of a host, which may have errors of its own, those of a widget's module count
        if event.get("method") == "Runtime.exceptionThrown":
            text = event["params"]["exceptionDetails"].get("exception", {}).get("description", "")
            if "blob:" in text:
                self.errors.append(text)

    def add_init_script(self, source: str) -> None:
        """Run a script in each document before its own."""
        self._ask("Page.addScriptToEvaluateOnNewDocument", source=source)

    def goto(self, address: str) -> None:
        """Open an address; return once it has been loaded."""
        self._ask("Page.navigate", url=address)
        self.wait_for_function("document.readyState === 'complete'", timeout=60_000)

    def evaluate(self, expression: str, arg: Any = None) -> Any:
        """Return the value of an expression, or of a function called with `arg`, once it is there."""
        answer = self._ask(
            "Runtime.evaluate",
            expression=f"(async () => {{ const made = ({expression});"
            f" return typeof made === 'function' ? made({json.dumps(arg)}) : made }})()",
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def wait_for_function(
        self, expression: str, *, arg: Any = None, timeout: float = 60_000
    ) -> None:
        """Return once an expression, or a function called with `arg`, gives what is true.

        Raises
        ------
        TimeoutError
            After `timeout` milliseconds.
        """
        stop = time.monotonic() + timeout / 1e3
        while time.monotonic() < stop:
            try:
                if self.evaluate(
                    f"async arg => {{ const made = ({expression});"
                    " return Boolean(await (typeof made === 'function' ? made(arg) : made)) }",
                    arg,
                ):
                    return
            except RuntimeError as error:
                if "Cannot find context" not in str(error) and "navigat" not in str(error):
                    raise
            time.sleep(0.05)
        raise TimeoutError(f"{timeout / 1e3:g} s: {expression}")

    def wait_for_timeout(self, milliseconds: float) -> None:
        """Let time pass."""
        time.sleep(milliseconds / 1e3)

    @property
    def keyboard(self) -> Page:
        """What keys are pressed on."""
        return self

    def press(self, code: str) -> None:
        """Press a key and let go of it."""
        key = _KEYS[code]
        for kind in ("keyDown", "keyUp"):
            self._ask("Input.dispatchKeyEvent", type=kind, code=code, key=key, text=key)

    def locator(self, selector: str) -> Elements:
        """Return the elements that a selector of CSS finds."""
        return Elements(self, f"document.querySelectorAll({json.dumps(selector)})")


class Elements:
    """Elements of a page, found anew each time."""

    def __init__(self, page: Page, all_of_them: str) -> None:
        self._page = page
        self._all = all_of_them

    def nth(self, number: int) -> Elements:
        """Return one of them, counted from 0."""
        return Elements(self._page, f"[{self._all}[{number}]]")

    def evaluate(self, function: str, arg: Any = None) -> Any:
        """Return what a function of the first of them, and of `arg`, returns."""
        return self._page.evaluate(f"arg => ({function})({self._all}[0], arg)", arg)

    def focus(self) -> None:
        """Give the first of them the focus."""
        self.evaluate("element => element.focus()")


@contextmanager
def bare_page(*, width: int, height: int, ratio: float) -> Iterator[Page]:
    """Open a page in a Chromium of its own, with a fresh profile.

    Parameters
    ----------
    width, height
        In CSS pixels.
    ratio
        Pixels of the display a CSS pixel.
    """
    to_chromium, commands = os.pipe()
    answers, from_chromium = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [
                "/bin/sh",  # commands are read from 3, answers written to 4
                "-c",
                f'exec "$0" "$@" 3<&{to_chromium} 4>&{from_chromium}',
                CHROMIUM,
                *FLAGS,
                "--headless",
                "--remote-debugging-pipe",
                f"--user-data-dir={profile}",
            ],
            pass_fds=(to_chromium, from_chromium),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_chromium)
        os.close(from_chromium)
        pipe = Pipe(commands, answers)
        try:
            target = pipe.ask("Target.createTarget", url="about:blank")["targetId"]
            session = pipe.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            page = Page(pipe, session)
            pipe.ask(
                "Emulation.setDeviceMetricsOverride",
                session,
                width=width,
                height=height,
                deviceScaleFactor=ratio,
                mobile=False,
            )
            yield page
            assert not page.errors, page.errors
        finally:
            pipe.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

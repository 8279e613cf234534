"""Chromium for the player's tests, and what is looked at in it."""

from contextlib import contextmanager

from tests.player.serving import CHROMIUM, FLAGS


@contextmanager
def chromium(*flags):
    """A headless Chromium with a fresh profile."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as running:
        opened = running.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS, *flags])
        try:
            yield opened
        finally:
            opened.close()


@contextmanager
def watched_page(opened, *, host=False, **context):
    """A page whose errors fail the test that made them.

    In a page of a `host`, which may have errors of its own, those of a widget count: its
    module was loaded from a blob.
    """
    window = opened.new_context(**{"viewport": {"width": 900, "height": 800}} | context)
    page = window.new_page()
    page.set_default_timeout(60_000)
    errors = []

    def thrown(error):
        if not host or "blob:" in (error.stack or ""):
            errors.append(error.stack)

    def printed(line):
        if line.type == "error" and (not host or "anywidget" in line.text):
            errors.append(line.text)

    page.on("pageerror", thrown)
    page.on("console", printed)
    try:
        yield page
        assert not errors, errors
    finally:
        window.close()


class Player:
    """One display of the player in a page: what it shows and what it is told.

    Where the page's clock is `held`, its time passes only as it is let, be the machine as slow
    as it likes: what is played is the same each time.
    """

    def __init__(self, page, number=0, *, held=False):
        self.page = page
        self.root = page.locator(".binref-player").nth(number)
        self.number = number
        self.held = held

    def let(self, milliseconds):
        """Let time pass."""
        if self.held:
            self.page.clock.run_for(milliseconds)
        else:
            self.page.wait_for_timeout(milliseconds)
        return self

    def until(self, condition, arg=None):
        """Let time pass until a condition holds in the page."""
        if not self.held:
            self.page.wait_for_function(condition, arg=arg)
            return self
        for _ in range(5000):
            if self.page.evaluate(condition, arg):
                return self
            self.let(20)
        raise AssertionError(f"{condition} is not true after 100 s")

    def _painted(self):
        """Until what was done is painted: before, the page says what was."""
        if self.held:
            self.let(20)
        else:
            self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => done()))")

    def wait(self):
        """Until the frame at the playhead is shown exactly."""
        self._painted()
        return self.until(
            "k => { const root = document.querySelectorAll('.binref-player')[k];"
            " return root?.dataset.exact === '1' && root.dataset.shownIndex === root.dataset.index }",
            self.number,
        )

    def wait_for(self, **values):
        """Until the data attributes of the root have these values."""
        self._painted()
        return self.until(
            "([k, values]) => { const { dataset } = document.querySelectorAll('.binref-player')[k];"
            " return Object.entries(values).every(([name, value]) => dataset[name] === value) }",
            [self.number, {name: str(value) for name, value in values.items()}],
        )

    def data(self, name):
        return self.root.evaluate("(root, name) => root.dataset[name]", name)

    @property
    def shown(self):
        return int(self.data("shownIndex"))

    @property
    def index(self):
        return int(self.data("index"))

    def pixels(self, panel=0):
        """RGBA bytes of the picture, with its rows and columns."""
        return self.root.evaluate(
            "(root, panel) => { const canvas = root.querySelectorAll('.br-picture')[panel];"
            " const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);"
            " return [canvas.height, canvas.width, Array.from(data)] }",
            panel,
        )

    def box(self, panel=0):
        return self.root.locator(".br-box").nth(panel).bounding_box()

    def at(self, fx, fy, panel=0):
        """Coordinates in the page of a point of the picture."""
        box = self.box(panel)
        return box["x"] + fx * box["width"], box["y"] + fy * box["height"]

    def focus(self):
        self.root.focus()
        return self

    def scrub(self, *indices):
        """As a user drags the slider over these steps."""
        self.root.evaluate(
            "(root, indices) => { const slider = root.querySelector('.br-timeline input');"
            " for (const index of indices) { slider.value = index;"
            " slider.dispatchEvent(new Event('input', { bubbles: true })) } }",
            list(indices),
        )

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)
        return self

    def step(self, count):
        """Show each of the next frames, so that the player has them whatever comes then."""
        self.focus()
        for _ in range(count):
            self.press("ArrowRight").wait()
        return self

    def button(self, name):
        return self.root.locator(f"[data-name={name}]")

"""ESLint, fetched from npm for the test: each part imports all that it uses, and uses all of it."""

import json
import subprocess

import pytest

from binref_sci.notebook import script
from tests.player.npm import fetched

pytestmark = [pytest.mark.needs("npm"), pytest.mark.long]

PAGE = """
    AbortController Blob DecompressionStream ImageData IntersectionObserver MutationObserver
    OffscreenCanvas ResizeObserver Response URL atob cancelAnimationFrame clearInterval
    clearTimeout document getComputedStyle matchMedia performance requestAnimationFrame
    setInterval setTimeout
"""
"""What the player uses of the page."""

RULES = ["no-undef", "no-unused-vars", "no-unused-private-class-members", "no-dupe-class-members"]


@pytest.fixture(scope="module")
def eslint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("npm")
    modules = fetched("eslint@9", folder, timeout=110)
    settings = {
        "files": ["**/*.js"],
        "languageOptions": {"globals": dict.fromkeys(PAGE.split(), "readonly")},
        "rules": dict.fromkeys(RULES, "error"),
    }
    config = folder / "eslint.config.mjs"
    config.write_text(f"export default [{json.dumps(settings)}]")
    return [modules / ".bin" / "eslint", "--config", config, "--format", "json"]


def complaints(eslint, folder):
    done = subprocess.run([*eslint, "."], cwd=folder, capture_output=True, text=True)
    assert not done.stderr
    files = json.loads(done.stdout)
    told = [f"{file['filePath']}: {one['message']}" for file in files for one in file["messages"]]
    return len(files), told


def test_every_part_imports_what_it_uses_and_no_more(eslint):
    assert complaints(eslint, script.FOLDER) == (len(script.PAGE), [])


def test_what_is_not_imported_is_found(eslint, tmp_path):
    (tmp_path / "part.js").write_text('import { say } from "./dom.js";\nflag(document);\n')
    _, (unused, unknown) = complaints(eslint, tmp_path)
    assert "'say' is defined but never used" in unused
    assert "'flag' is not defined" in unknown

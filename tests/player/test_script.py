"""The parts of the player's script: each stands by itself, and joined they are one module."""

import json
import re
import subprocess

import pytest

from binref_sci.notebook import script

SIBLINGS = re.compile(r'^import \{([^{}]*)\} from "(\.\.?/[\w/]+\.js)";$', re.MULTILINE)
EXPORTED = re.compile(r"^export (?:async )?(?:function|class|const) (\w+)", re.MULTILINE)
LIST = "const [name] = process.argv.slice(-1); console.log(JSON.stringify(Object.keys(await import(name))))"


def text(part):
    return (script.FOLDER / f"{part}.js").read_text(encoding="utf-8")


def exported(path):
    """Names that a module exports, as Node sees them."""
    done = subprocess.run(
        ["node", "--input-type=module", "--eval", LIST, str(path)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def test_every_part_is_joined_once():
    files = (path.relative_to(script.FOLDER) for path in script.FOLDER.rglob("*.js"))
    assert sorted(script.PAGE) == sorted(file.with_suffix("").as_posix() for file in files)


@pytest.mark.parametrize("part", script.PAGE)
def test_a_part_imports_only_siblings_in_the_form_that_is_left_out(part):
    assert len(SIBLINGS.findall(text(part))) == len(re.findall(r"^import\b", text(part), re.M))
    assert " as " not in "".join(names for names, _ in SIBLINGS.findall(text(part)))


@pytest.mark.needs("node")
@pytest.mark.parametrize("part", script.PAGE)
def test_a_part_stands_by_itself(part):
    assert exported(script.FOLDER / f"{part}.js") >= set(EXPORTED.findall(text(part)))


@pytest.mark.needs("node")
@pytest.mark.parametrize("made", ["widget_script", "page_script"])
def test_the_joined_module_exports_what_its_parts_export(made, tmp_path):
    joined = tmp_path / "joined.mjs"
    joined.write_text(getattr(script, made)(), encoding="utf-8")
    assert not re.search(r"^\s*import\b", joined.read_text(encoding="utf-8"), re.M)
    parts = script.WIDGET if made == "widget_script" else script.PAGE
    names = {name for part in parts for name in EXPORTED.findall(text(part))}
    assert exported(joined) == names | {"default"}

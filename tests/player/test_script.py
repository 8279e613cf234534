"""The parts of the player's script: each stands by itself, and joined they are one module."""

import json
import re
import subprocess

import pytest

from binref_sci.notebook import script

IMPORT = re.compile(r'^import \{([^{}]*)\} from "(\.\.?/[\w/]+\.js)";$', re.MULTILINE)
EXPORTED = re.compile(r"^export (?:async )?(?:function|class|const) (\w+)", re.MULTILINE)
NAMES = """
const made = await Promise.all(process.argv.slice(1).map((path) => import(path)));
console.log(JSON.stringify(made.map((module) => Object.keys(module))));
"""


def text(part):
    return (script.FOLDER / f"{part}.js").read_text(encoding="utf-8")


def exported(*paths):
    """Names that modules export, as Node sees them."""
    done = subprocess.run(
        ["node", "--input-type=module", "--eval", NAMES, *map(str, paths)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return [set(names) - {"default"} for names in json.loads(done.stdout)]


def test_every_part_is_joined_once():
    style = [path.stem for path in (script.FOLDER / "style").iterdir()]
    assert sorted(script.STYLE) == sorted(style)
    files = (path.relative_to(script.FOLDER) for path in script.FOLDER.rglob("*.js"))
    assert sorted(script.PAGE) == sorted(file.with_suffix("").as_posix() for file in files)


@pytest.mark.parametrize("place", range(len(script.PAGE)))
def test_a_part_imports_from_those_before_it_in_the_form_that_is_left_out(place):
    part = script.PAGE[place]
    imports = IMPORT.findall(text(part))
    assert len(imports) == len(re.findall(r"\bimport\b *[({]", text(part)))
    assert not re.search(r"\bas\b", "".join(names for names, _ in imports))  # one scope: one name
    folder = (script.FOLDER / part).parent
    came = {(folder / name).resolve().relative_to(script.FOLDER).as_posix() for _, name in imports}
    assert came <= {f"{before}.js" for before in script.PAGE[:place]}


@pytest.mark.needs("node")
def test_every_part_finds_what_it_imports():
    names = [set(EXPORTED.findall(text(part))) for part in script.PAGE]
    assert exported(*(script.FOLDER / f"{part}.js" for part in script.PAGE)) == names


@pytest.mark.needs("node")
@pytest.mark.parametrize("made", ["widget_script", "page_script"])
def test_the_joined_module_exports_what_its_parts_export(made, tmp_path):
    joined = tmp_path / "joined.mjs"
    whole = getattr(script, made)()
    assert not re.search(r"\bimport\b", whole)
    joined.write_text(whole, encoding="utf-8")
    parts = script.WIDGET if made == "widget_script" else script.PAGE
    names = {name for part in parts for name in EXPORTED.findall(text(part))}
    assert exported(joined) == [names]
    assert len(re.findall(r"^export default\b", whole, re.MULTILINE)) == 1

"""How the documentation is built; `make docs` calls it with warnings as errors."""

import importlib
import importlib.util
import inspect
import tomllib
from pathlib import Path
from types import ModuleType

DOCS = Path(__file__).parent
PROJECT = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())["project"]

project = "binref_sci"
author = copyright = "binref_sci developers"
version = release = PROJECT["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc"]
exclude_patterns = ["_build"]
html_theme = "pydata_sphinx_theme"
html_title = "binref_sci"
html_static_path = ["_static"]
html_theme_options = {"show_toc_level": 2, "navigation_with_keys": False}
html_show_sourcelink = False
html_sidebars = {page: [] for page in ("architecture", "formats", "develop", "changelog")}
default_role = "py:obj"  # `name` in a docstring is code, and a link where it is one of ours

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autosummary_generate = False
numpydoc_show_class_members = False

# A reference to a public name must lead somewhere. Types of inner modules may stand in a signature,
# and names of other packages cannot be checked: their inventories are out on the network.
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(?!binref_sci\.).*"),
    ("py:.*", r"binref_sci\.(?!runtime\.|errors\.)[a-z_]+\..*"),
]

# --- the API pages: one for each public module ----------------------------------------------------

PUBLIC = ["binref_sci", "binref_sci.runtime", "binref_sci.errors"]


def directive_for(thing: object) -> str:
    if inspect.isclass(thing):
        return "autoexception" if issubclass(thing, BaseException) else "autoclass"
    return "autofunction" if inspect.isroutine(thing) else "autodata"


def public_names(module: ModuleType) -> list[str]:
    """What `__all__` lists, or else what the module itself defines."""
    own = [name for name, thing in vars(module).items() if is_defined_in(module, thing)]
    names = [name for name in getattr(module, "__all__", own) if not name.startswith("_")]
    return sorted((n for n in names if not inspect.ismodule(getattr(module, n))), key=str.lower)


def is_defined_in(module: ModuleType, thing: object) -> bool:
    return getattr(thing, "__module__", None) == module.__name__


def members(cls: type) -> list[str]:
    """The public members that a class of ours has from us, those of its bases included."""
    ours = [each for each in inspect.getmro(cls) if each.__module__.startswith("binref_sci.")]
    names = dict.fromkeys(name for each in ours for name in vars(each))
    return [name for name in names if not name.startswith("_")]


def api_page(module_name: str) -> str:
    module = importlib.import_module(module_name)
    lines = [module_name, "=" * len(module_name), "", f".. automodule:: {module_name}", ""]
    lines += [f".. currentmodule:: {module_name}", ""]
    for name in public_names(module):
        thing = getattr(module, name)
        lines += [f".. {directive_for(thing)}:: {name}"]
        if inspect.isclass(thing):
            lines += [f"   :members: {', '.join(members(thing))}".rstrip()]
        lines += [""]
    return "\n".join(lines)


def write_api_pages() -> None:
    folder = DOCS / "api" / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    for module_name in PUBLIC:
        if importlib.util.find_spec(module_name):
            (folder / f"{module_name}.rst").write_text(api_page(module_name))


write_api_pages()

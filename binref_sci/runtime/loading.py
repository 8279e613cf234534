"""Import the module of a component: by name, or from a file, apart from other components'."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from pydantic import PydanticSchemaGenerationError

from binref_sci.errors import ComponentError, PayloadError

# One at a time: loading changes sys.path and sys.modules, which all threads share.
_loading = threading.RLock()
_folders: set[str] = set()


def module_by_name(target: str) -> ModuleType:
    """Import a module by its dotted name.

    Raises
    ------
    PayloadError
        If there is no such module, or it is no component.
    ComponentError
        If it fails.
    """
    if not all(part.isidentifier() for part in target.split(".")):
        raise PayloadError(
            f"component {target!r} does not exist: no such folder or file under {os.fspath(Path.cwd())!r}"
        )
    try:
        module = importlib.import_module(target)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{target}.".startswith(f"{error.name}."):
            raise _failed(target, error) from error
        raise PayloadError(
            f"component {target!r} does not exist: no folder or file of this name under "
            f"{os.fspath(Path.cwd())!r}, and no module either"
        ) from error
    except Exception as error:
        raise _failed(target, error) from error
    if not any(hasattr(module, part) for part in ("InputSchema", "OutputSchema", "apply")):
        raise PayloadError(
            f"component {target!r} does not exist: no folder or file of this name under "
            f"{os.fspath(Path.cwd())!r}, and the module of this name that Python has "
            f"({place_of(module)}) is no component"
        )
    return module


def module_from_file(path: Path) -> ModuleType:
    """Run a component's file as a module of its own.

    It is named after the file, so that processes it starts find its functions, unless
    another component has the name; then after its path. While it runs, the modules of
    other components are out of sight, and its own folder comes first.

    Raises
    ------
    PayloadError
        If it is no Python file.
    ComponentError
        If it fails.
    """
    with _loading, _apart(path.parent, path.stem):
        known = sys.modules.get(path.stem)
        free = known is None or getattr(known, "__file__", None) == str(path)
        digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
        name = path.stem if free else f"{path.stem}_{digest}"
        loader = _AsItIs(name, os.fspath(path)) if path.suffix == ".py" else None
        spec = importlib.util.spec_from_file_location(name, path, loader=loader)
        if spec is None or spec.loader is None:
            raise PayloadError(f"component {os.fspath(path)!r} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # functions are pickled by the name of their module
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            if known is None or not free:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = known
            raise _failed(os.fspath(path), error) from error
        return module


class _AsItIs(SourceFileLoader):
    """Loads a file as it is now: Python takes its cache for one of the same size and second."""

    def get_code(self, fullname: str) -> CodeType:
        """Return what the file holds."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


@contextmanager
def _apart(folder: Path, stem: str) -> Iterator[None]:
    """Hide what other components imported from their own folders under names used in this one.

    Not the component's own name, `stem`: whether it is taken decides how it is called.
    """
    own = os.fspath(folder)
    names = {entry.stem for entry in folder.iterdir() if entry.suffix == ".py" or entry.is_dir()}
    names.discard(stem)
    hidden = {
        name: module
        for name, module in sys.modules.items()
        if name.partition(".")[0] in names and _is_other(module, own)
    }
    for name in hidden:
        del sys.modules[name]
    _folders.add(own)
    sys.path.insert(0, own)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.modules.update(hidden)  # the first component keeps the name
        # At the end, for what is imported later, inside functions.
        sys.path.remove(own)
        if own not in sys.path:
            sys.path.append(own)


def _is_other(module: ModuleType, own: str) -> bool:
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or file.startswith(own + os.sep):
        return False
    return any(file.startswith(folder + os.sep) for folder in _folders - {own})


def place_of(module: ModuleType) -> str:
    """Return where a module lies, for messages."""
    return getattr(module, "__file__", None) or f"module {module.__name__}"


def _failed(name: str, error: BaseException) -> ComponentError:
    told = f"{type(error).__name__}: {error}"
    if isinstance(error, PydanticSchemaGenerationError):
        kind = str(error).partition(">")[0].partition("<")[2] or "a field"
        told = (
            f"a schema cannot have a field of type <{kind}>; declare an array as "
            "Array[(None, 3), Float64], from binref_sci.runtime, with one length for each axis"
        )
    return ComponentError(f"component {name!r} failed to load: {told}")

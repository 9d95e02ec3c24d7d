"""Python objects by address: ``path/to/file.py:name`` or ``package.module:name``."""

import importlib
import importlib.util
import sys
from pathlib import Path

from brinell.errors import BadInput


def located(address: str, *, subject: str) -> object:
    """The object at an address; the file's folder and the working folder can be imported from while it loads.

    Raises
    ------
    BadInput
        If there is no such file, module or name, or loading it raises.
    """
    where, colon, name = address.rpartition(":")
    if not colon or not where or not name.isidentifier():
        raise _unfound(subject, repr(address), "not of the form file.py:name or module:name")
    try:
        module = _from_file(Path(where)) if where.endswith(".py") else _from_module(where)
    except BadInput:
        raise
    except Exception as error:  # the user's own code may raise anything
        raise _unfound(subject, address, f"{type(error).__name__} while loading it: {error}") from error
    if not hasattr(module, name):
        names = [entry for entry in vars(module) if not entry.startswith("_")]
        raise _unfound(subject, address, f"no {name!r} in {where}; it has {', '.join(names[:12]) or 'no names'}")
    return getattr(module, name)


def called(thing: object, *, subject: str) -> object:
    """What a function without arguments returns.

    Raises
    ------
    BadInput
        If it is not callable or raises.
    """
    if not callable(thing):
        raise _unfound(subject, type(thing).__name__, "not a function")
    try:
        return thing()
    except Exception as error:  # the user's own code may raise anything
        raise _unfound(subject, repr(thing), f"{type(error).__name__} when called: {error}") from error


def _from_module(name: str) -> object:
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    return importlib.import_module(name)


def _from_file(path: Path) -> object:
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}")
    if str(path.parent.resolve()) not in sys.path:
        sys.path.insert(0, str(path.parent.resolve()))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    return module


def _unfound(subject: str, address: str, why: str) -> BadInput:
    return BadInput(
        subject,
        got=f"{address} ({why})",
        expected="a function without arguments, or the object itself",
        remedy="Give it as file.py:name or package.module:name.",
    )

"""What tells two models apart: their text, their weights, and whatever else their modules hold.

Not covered: the code of ``forward`` and of functions, values of a class, objects of classes that are not named below.
"""

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

Plain = bool | int | float | complex | str | bytes | np.generic | torch.dtype | None
BOOKKEEPING = frozenset(vars(nn.Module()))
"""What torch itself keeps in every module: parameters, buffers and children, which are told by name, hooks and the mode."""


def fingerprint(module: nn.Module, held: str) -> str:
    """SHA-256 over the module's text, the names, shapes, precisions and values of its parameters and buffers, and ``held``."""
    digest = hashlib.sha256()
    for part in (*_weights(module), held.encode()):
        digest.update(part)
    return digest.hexdigest()


def held(module: nn.Module) -> str:
    """SHA-256 over what a module and its parts hold in attributes: tensors, arrays, numbers, strings, and collections of these.

    To be taken before any pass, for a pass may leave a count or an activation in an attribute. Of another object only the
    class counts; a module in a list or dictionary, which torch does not see, counts whole.
    """
    digest = hashlib.sha256()
    for part in _attributes(module, {id(part) for part in module.modules()}):
        digest.update(part)
    return digest.hexdigest()


def _weights(module: nn.Module) -> Iterator[bytes]:
    yield repr(module).encode()
    tensors = [*module.named_parameters(), *module.named_buffers()]
    for name, tensor in sorted(tensors, key=lambda named: named[0]):
        yield f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode()
        yield _bytes_of(tensor)


def _attributes(module: nn.Module, seen: set[int]) -> Iterator[bytes]:
    for path, part in sorted(module.named_modules(), key=lambda named: named[0]):
        for name in sorted(vars(part).keys() - BOOKKEEPING):
            if not _computed(part, name):
                yield f"{path}.{name} = ".encode()
                yield from _told(vars(part)[name], seen)


def _computed(module: nn.Module, name: str) -> bool:
    """Whether ``weight_norm``, ``spectral_norm`` or pruning compute it from parameters anew at each pass."""
    own = {parameter for parameter, _ in module.named_parameters(recurse=False)}
    return f"{name}_orig" in own or {f"{name}_g", f"{name}_v"} <= own


def _told(value: Any, seen: set[int]) -> Iterator[bytes]:
    """A value as bytes from which its kind and extent can be read, so that no two values have the same."""
    if isinstance(value, Plain):
        text = f"{type(value).__name__} {value!r}".encode()
        yield b"%d " % len(text) + text
    elif isinstance(value, Tensor):
        yield f"tensor {value.dtype} {tuple(value.shape)} ".encode()
        yield _bytes_of(value)
    elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
        yield f"array {value.dtype.str} {value.shape} ".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif id(value) in seen:
        yield b"told already "
    elif isinstance(value, nn.Module):
        seen |= {id(part) for part in value.modules()}
        yield from _weights(value)
        yield from _attributes(value, seen)
    elif isinstance(value, tuple | list | set | frozenset | dict):
        seen = {*seen, id(value)}  # a list may hold itself
        yield f"{type(value).__name__} of {len(value)} ".encode()
        for item in _in_order(value):
            yield from _told(item, seen)
    else:
        yield f"a {type(value).__qualname__} ".encode()


def _in_order(items: Any) -> list[Any]:
    if isinstance(items, dict):
        return sorted(items.items(), key=lambda item: repr(item[0]))
    return list(items) if isinstance(items, tuple | list) else sorted(items, key=repr)


def _bytes_of(tensor: Tensor) -> bytes:
    if tensor.is_meta or not tensor.numel():
        return b""
    plain = tensor.detach()
    if plain.is_quantized:
        plain = plain.dequantize()
    elif plain.layout != torch.strided:
        plain = plain.to_dense()
    plain = plain.cpu().resolve_conj().resolve_neg().contiguous()
    return plain.reshape(-1).view(torch.uint8).numpy().tobytes()

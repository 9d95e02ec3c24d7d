"""What tells two models apart: their text, their weights, and whatever else their modules hold.

Not covered: the code of ``forward`` and of functions, values of a class, objects of classes that are not named below, and
whole numbers in modules of one's own, which as often count passes as set something.
"""

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

Setting = bool | float | complex | str | bytes | np.inexact | np.bool_ | np.str_ | torch.dtype
Count = int | np.integer | None
"""What a module of one's own may change at every pass."""
BOOKKEEPING = frozenset(vars(nn.Module()))
"""What torch itself keeps in every module: parameters, buffers and children, which are told by name, hooks and the mode."""


def fingerprint(module: nn.Module, held: str) -> str:
    """SHA-256 over the module's text, the names, shapes, precisions and values of its parameters and buffers, and ``held``."""
    digest = hashlib.sha256()
    for part in (*_weights(module), held.encode()):
        digest.update(part)
    return digest.hexdigest()


def held(module: nn.Module) -> str:
    """SHA-256 over what a module and its parts hold in attributes: tensors, arrays, fractions, strings, and collections of these.

    Whole numbers count in torch's own modules alone. To be taken before any pass, for a pass may leave an activation in an
    attribute. Of another object only the class counts; a module in a list or dictionary, which torch does not see, counts
    whole.
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
            told = (
                b""
                if _computed(part, name)
                else _told(vars(part)[name], seen, type(part).__module__.startswith("torch."))
            )
            if told:
                yield f"{path}.{name} = ".encode() + told


def _computed(module: nn.Module, name: str) -> bool:
    """Whether ``weight_norm``, ``spectral_norm`` or pruning compute it from parameters anew at each pass."""
    own = {parameter for parameter, _ in module.named_parameters(recurse=False)}
    return f"{name}_orig" in own or {f"{name}_g", f"{name}_v"} <= own


def _told(value: Any, seen: set[int], counts: bool) -> bytes:
    """A value as bytes from which its kind and extent can be read; empty where all of it may be counts that do not count."""
    if isinstance(value, Setting) or (counts and isinstance(value, Count)):
        return _measured(f"{type(value).__name__} {value!r}".encode())
    if isinstance(value, Count):
        return b""
    if isinstance(value, Tensor):
        return f"tensor {value.dtype} {tuple(value.shape)} ".encode() + _bytes_of(value)
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return f"array {value.dtype.str} {value.shape} ".encode() + np.ascontiguousarray(value).tobytes()
    if id(value) in seen:
        return b"told already "
    if isinstance(value, nn.Module):
        seen |= {id(part) for part in value.modules()}
        return b"".join((*_weights(value), *_attributes(value, seen)))
    if isinstance(value, tuple | list | set | frozenset | dict):
        inner = {*seen, id(value)}  # a list may hold itself
        parts = [_told(item, inner, counts) for item in _in_order(value)]
        kept = [_measured(part) for part in parts if part]
        return f"{type(value).__name__} of {len(kept)} ".encode() + b"".join(kept) if kept or counts else b""
    return f"a {type(value).__qualname__} ".encode()


def _measured(told: bytes) -> bytes:
    """With its length before it, so that no two sequences of values have the same bytes."""
    return b"%d " % len(told) + told


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

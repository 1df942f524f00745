"""The parameters of a kernel that is written in C inside a string."""

from __future__ import annotations

import re
from dataclasses import dataclass

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_QUALIFIERS = re.compile(r"\b(const|volatile|__restrict__|__restrict|restrict|struct|register)\b")

# C type -> the NumPy type of the same bytes.
NUMPY = {
    "float": "float32",
    "double": "float64",
    "char": "int8",
    "signed char": "int8",
    "unsigned char": "uint8",
    "bool": "bool",
    "short": "int16",
    "unsigned short": "uint16",
    "int": "int32",
    "unsigned": "uint32",
    "unsigned int": "uint32",
    "long long": "int64",
    "long long int": "int64",
    "unsigned long long": "uint64",
    "size_t": "uint64",
    "ptrdiff_t": "int64",
    "int8_t": "int8",
    "uint8_t": "uint8",
    "int16_t": "int16",
    "uint16_t": "uint16",
    "int32_t": "int32",
    "uint32_t": "uint32",
    "int64_t": "int64",
    "uint64_t": "uint64",
    "half": "float16",
    "__half": "float16",
}


@dataclass(frozen=True)
class Parameter:
    """One parameter of a C function."""

    name: str
    type: str  # without qualifiers: "unsigned int"
    pointer: bool
    constant: bool  # what it points to is only read

    @property
    def dtype(self) -> str:
        """The NumPy name of its type, or of what it points to; empty when that is not known."""
        return NUMPY.get(self.type, "")


def parameters(code: str, name: str) -> tuple[Parameter, ...] | None:
    """The parameters of the kernel `name`; None unless the text states them plainly."""
    text = _COMMENT.sub(" ", code)
    found = re.findall(rf"__global__[^;{{]*?\b{re.escape(name)}\s*\(([^)]*)\)", text)
    if len(found) != 1 or any(letter in found[0] for letter in "#<>("):
        return None
    listed = found[0].strip()
    if listed in ("", "void"):
        return ()
    parts = [_parameter(" ".join(part.split())) for part in listed.split(",")]
    return None if None in parts else tuple(p for p in parts if p is not None)


def _parameter(text: str) -> Parameter | None:
    constant = re.search(r"\bconst\b[^*]*\*", text) is not None
    plain = " ".join(_QUALIFIERS.sub(" ", text.replace("*", " * ")).split())
    plain = plain.partition("[")[0].strip() + (" *" if "[" in plain else "")
    words = plain.replace("*", " ").replace("&", " ").split()
    if len(words) < 2 or not all(re.fullmatch(r"[\w:]+", word) for word in words):
        return None
    pointer = "*" in plain or "&" in plain
    return Parameter(words[-1], " ".join(words[:-1]), pointer, constant)

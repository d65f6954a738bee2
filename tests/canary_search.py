"""How a secret may look once it has leaked, and a search for all those looks in bytes and folders."""

import base64
import binascii
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, quote_plus

SHORTEST_FRAGMENT = 12
WINDOW_BYTES = 64 << 20
OVERLAP_BYTES = 1 << 20
UNPACKED_BYTES_MAX = 64 << 20
DEPTH_MAX = 3

_GZIP = re.compile(rb"\x1f\x8b\x08")
_ZLIB = re.compile(rb"\x78[\x01\x5e\x9c\xda]")
_BASE64_OF_GZIP = re.compile(rb"H4sI[A-Za-z0-9+/_-]{16,}")
_CHUNK_BORDER = re.compile(rb"\r\n[0-9A-Fa-f]{1,8}(?:;[^\r\n]*)?\r\n")
_LINE_BORDER = re.compile(rb"\r?\n[ \t]*(?:data: ?)?")


@dataclass(frozen=True, slots=True)
class Hit:
    """One place where a secret was found. Never carries the secret: this text ends up in logs."""

    secret: str
    form: str
    where: str
    offset: int

    def __str__(self) -> str:
        return f"{self.secret} as {self.form} in {self.where} at byte {self.offset}"


Patterns = Mapping[bytes, tuple[str, str]]


def fragments(secret: str) -> tuple[str, ...]:
    """Both halves of a secret: whatever cuts it once (a page border, a buffer) leaves one of them whole."""
    if len(secret) < SHORTEST_FRAGMENT:
        raise ValueError(f"a secret of fewer than {SHORTEST_FRAGMENT} characters would be found by chance")
    if len(secret) < 2 * SHORTEST_FRAGMENT:
        return (secret,)
    middle = len(secret) // 2
    return (secret[:middle], secret[middle:])


def forms(text: str) -> dict[bytes, str]:
    """Each byte string in which `text` may show up, with the name of the form."""
    raw = text.encode()
    found: dict[bytes, str] = {}

    def add(name: str, value: str | bytes) -> None:
        found.setdefault(value.encode() if isinstance(value, str) else value, name)

    add("raw", raw)
    add("JSON-escaped", json.dumps(text)[1:-1])
    add("JSON-escaped", json.dumps(text, ensure_ascii=False)[1:-1])
    add("JSON-escaped", json.dumps(text)[1:-1].replace("/", "\\/"))
    for template in ("\\u{:04x}", "\\u{:04X}"):
        add("JSON-escaped", "".join(c if c.isascii() and c.isalnum() else template.format(ord(c)) for c in text))
    for safe in ("", "/", "+/", "+/:;=@!$'()*,"):
        encoded = quote(text, safe=safe)
        add("URL-encoded", encoded)
        add("URL-encoded", re.sub("%[0-9A-F]{2}", lambda match: match[0].lower(), encoded))
        add("URL-encoded twice", quote(encoded, safe=""))
    add("URL-encoded", quote_plus(text))
    add("URL-encoded", "".join(f"%{byte:02x}" for byte in raw))
    add("URL-encoded", "".join(f"%{byte:02X}" for byte in raw))
    add("hex", raw.hex())
    add("hex", raw.hex().upper())
    for alignment in range(3):
        core = _base64_core(raw, alignment)
        add(f"base64 at offset {alignment}", core)
        add(f"URL-safe base64 at offset {alignment}", core.translate(bytes.maketrans(b"+/", b"-_")))
    return found


def _base64_core(raw: bytes, alignment: int) -> bytes:
    """The characters of a base64 text that depend on `raw` alone when `alignment` unknown bytes stand before it."""
    unknown = b"\0" * alignment
    encoded = base64.b64encode(unknown + raw + b"\0\0")
    first = -(-alignment * 8 // 6)
    last = (alignment + len(raw)) * 8 // 6
    return encoded[first:last]


def patterns_for(secrets: Mapping[str, str]) -> dict[bytes, tuple[str, str]]:
    """What to look for, given secrets by label: pattern -> (label, form)."""
    return {
        pattern: (label, form)
        for label, secret in secrets.items()
        for fragment in fragments(secret)
        for pattern, form in forms(fragment).items()
    }


def search(data: bytes, patterns: Patterns, where: str, *, depth: int = 0) -> Iterator[Hit]:
    """Every pattern in `data`, in `data` with line and chunk borders taken out, and in what `data` holds packed."""
    yield from _plain(data, patterns, where)
    for name, border in (("chunks joined", _CHUNK_BORDER), ("lines joined", _LINE_BORDER)):
        joined = border.sub(b"", data)
        if len(joined) != len(data):
            yield from _plain(joined, patterns, f"{where} ({name})")
    if depth < DEPTH_MAX:
        for name, content in _unpacked(data):
            yield from search(content, patterns, f"{where} ({name})", depth=depth + 1)


def _plain(data: bytes, patterns: Patterns, where: str) -> Iterator[Hit]:
    for pattern, (label, form) in patterns.items():
        offset = data.find(pattern)
        if offset >= 0:
            yield Hit(label, form, where, offset)


def _unpacked(data: bytes) -> Iterator[tuple[str, bytes]]:
    for name, magic, window_bits in (("gzip", _GZIP, 31), ("zlib", _ZLIB, 15)):
        for match in magic.finditer(data):
            content = _inflate(memoryview(data)[match.start() :], window_bits)
            if content:
                yield f"{name} at byte {match.start()}", content
    for match in _BASE64_OF_GZIP.finditer(data):
        text = match[0].translate(bytes.maketrans(b"-_", b"+/"))
        try:
            packed = base64.b64decode(text[: len(text) // 4 * 4])
        except binascii.Error:
            continue
        yield f"base64 at byte {match.start()}", packed


def _inflate(packed: memoryview, window_bits: int) -> bytes:
    """What can be unpacked; a torn stream gives its beginning, noise that merely looks packed gives nothing."""
    inflater = zlib.decompressobj(window_bits)
    content = bytearray()
    for start in range(0, len(packed), 1024):
        before = inflater.copy()
        try:
            content += inflater.decompress(packed[start : start + 1024])
        except zlib.error:
            return bytes(content + _inflate_to_the_tear(before, packed[start : start + 1024]))
        if inflater.eof or len(content) > UNPACKED_BYTES_MAX:
            break
    return bytes(content)


def _inflate_to_the_tear(inflater: "zlib._Decompress", packed: memoryview) -> bytes:
    content = bytearray()
    for position in range(len(packed)):
        try:
            content += inflater.decompress(packed[position : position + 1])
        except zlib.error:
            break
    return bytes(content)


def files_in(place: Path) -> Iterator[Path]:
    """Ordinary files below a folder, or the file itself; links are not followed."""
    found: Iterable[Path] = sorted(place.rglob("*")) if place.is_dir() else (place,)
    for path in found:
        if path.is_file() and not path.is_symlink():
            yield path


def search_file(path: Path, patterns: Patterns) -> Iterator[Hit]:
    """Search a file's path and content; a big file in windows that overlap."""
    in_path = list(search(str(path).encode(errors="surrogateescape"), patterns, "a file's path"))
    yield from in_path
    where = "that file" if in_path else str(path)
    try:
        with path.open("rb") as file:
            window = file.read(WINDOW_BYTES)
            while window:
                yield from search(window, patterns, where)
                more = file.read(WINDOW_BYTES)
                if not more:
                    break
                window = window[-OVERLAP_BYTES:] + more
    except FileNotFoundError:
        return  # a server still running may prune a file between listing and reading

"""What went over the wire, byte for byte: a listener for the fault proxy."""

from dataclasses import dataclass, field

from fixtures.proxy.toxic import Stream


@dataclass(slots=True)
class Heard:
    """The bytes that one connection carried towards the service."""

    data: bytearray = field(default_factory=bytearray)

    async def seen(self, stream: Stream, chunk: bytes) -> None:
        if stream == "upstream":
            self.data += chunk

    async def ended(self) -> None:
        return


@dataclass(slots=True)
class Wire:
    """Give `listen` to a `FaultProxy` as its `watch`."""

    connections: list[Heard] = field(default_factory=list)

    def listen(self, _number: int) -> Heard:
        heard = Heard()
        self.connections.append(heard)
        return heard

    def requests(self, method: str) -> list[bytes]:
        """What every connection that began with this method carried; the gateway sends one request on each."""
        return [bytes(heard.data) for heard in self.connections if heard.data.startswith(method.encode() + b" ")]


def header(request: bytes, name: str) -> bytes:
    """The value of a header field, as it stood on the wire."""
    head = request.partition(b"\r\n\r\n")[0]
    values = [
        value
        for field_name, _, value in (line.partition(b": ") for line in head.split(b"\r\n"))
        if field_name.decode().lower() == name.lower()
    ]
    assert len(values) == 1, head
    return values[0]

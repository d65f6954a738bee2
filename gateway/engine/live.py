"""Operations under way in this process, with everything an attempt needs beside them."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.core.placeholders import variables_of
from gateway.core.template import Rendered
from gateway.model.action import Action
from gateway.model.operation import Operation, Receipt


@dataclass(slots=True, eq=False)
class Live:
    """One operation and its pinned definition. `lock` orders every change made to it in this process."""

    operation: Operation
    action: Action
    arguments: Mapping[str, Any]
    request: Rendered
    receipt: Receipt | None = None
    result: bytes | None = None
    """Shaped result, JSON, once there is one."""
    kept: tuple[bytes, Mapping[str, Any]] | None = None
    """A result that was put beside the log, with what the record of the outcome says of it."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    driven: bool = False
    """A driver task is at work on it: never two."""
    filled: dict[str, Any] | None = None
    """Its variables, once they were made."""
    nudged: bool = False
    """Something changed while the driver was at work; it looks once more before it stops."""

    @property
    def id(self) -> str:
        """The operation's id."""
        return self.operation.id

    def variables(self) -> dict[str, Any]:
        """The variables of its templates and rules."""
        operation = self.operation
        if self.filled is None:
            self.filled = variables_of(
                self.arguments,
                operation_id=operation.id,
                run=operation.run,
                correlation_id=operation.correlation_id,
            )
        return self.filled

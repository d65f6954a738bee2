"""The audit log; usable alone, without a gateway."""

MARKER = "action-gateway"

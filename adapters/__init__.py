"""How one attempt reaches the outside: adapters observe, they never judge."""

MARKER = "action-gateway"

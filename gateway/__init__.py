"""Everything that decides: gives an action its durable identity, carries it out and settles its outcome."""

MARKER = "action-gateway"

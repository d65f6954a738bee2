"""How an action reaches a host over SSH, and how the host can say later what became of it."""

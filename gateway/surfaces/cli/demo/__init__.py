"""`gateway demo`: the main job on real processes and sockets, checked against the service's own ledger."""

"""One HTTP attempt: one connection, counted bytes, nothing resent, and proof where there is proof."""

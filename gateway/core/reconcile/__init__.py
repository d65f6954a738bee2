"""From a service's answer to a finding, and from findings to conclusive absence."""

"""`python -m gateway`: the same program as `gateway`."""

from gateway.app import main

main()

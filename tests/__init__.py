"""The tests of the project; never part of the wheel."""

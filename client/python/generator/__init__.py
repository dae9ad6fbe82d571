"""Writes the generated files of the package; see ../generate.py."""

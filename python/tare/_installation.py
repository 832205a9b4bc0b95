"""Where the worker and the plugins are."""

from pathlib import Path

FOLDER = str(Path(__file__).resolve().parent)
"""The folder of the package, which carries the command `host`, its worker and the plugins."""

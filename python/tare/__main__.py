"""The command `host`, which the package carries."""

import os
import sys

from ._installation import FOLDER


def main() -> None:
    """Become the command."""
    program = os.path.join(FOLDER, "host")
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()

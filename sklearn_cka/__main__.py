"""Run the command line as ``python -m sklearn_cka``."""

import sys

from sklearn_cka.cli import main

if __name__ == "__main__":
    sys.exit(main())

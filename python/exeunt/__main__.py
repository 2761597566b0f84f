# SPDX-License-Identifier: Apache-2.0
"""`python -m exeunt`, and the script `exeunt` that pip installs: the command inside this package."""
from ._command import main

if __name__ == "__main__":
    main()

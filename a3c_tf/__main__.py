"""``python -m a3c_tf`` is ``a3c-tf``."""

import sys

from a3c_tf.commands.cli import main

if __name__ == "__main__":
    sys.exit(main())

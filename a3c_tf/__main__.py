"""``python -m a3c_tf`` is ``a3c-tf``."""

import sys

from a3c_tf.cli import main

sys.exit(main())

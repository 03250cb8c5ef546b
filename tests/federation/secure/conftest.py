from __future__ import annotations

import sys
from pathlib import Path

from jaxtyping import install_import_hook

install_import_hook(
    ("feddag.federation.secure.fixed_point", "feddag.federation.secure.cryptography"), "beartype.beartype"
)

sys.path.append(str(Path(__file__).parent))  # where secure_network is

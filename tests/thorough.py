"""What takes long and is part of `make safety` or `make release-check`, not of every `make test`."""

import os

import pytest

thorough = pytest.mark.skipif(
    not os.environ.get("INFOPT_THOROUGH"), reason="part of `make safety` or `make release-check`: INFOPT_THOROUGH=1"
)

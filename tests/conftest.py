"""Puts this folder on the import path, so that test modules in the folders below find the helpers that stand here."""

import pytest

pytest.register_assert_rewrite("cases")

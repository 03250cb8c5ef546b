from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

import feddag as package
from feddag.cli.commands import SUMMARIES


@pytest.mark.parametrize("command", SUMMARIES)
def test_help_tells_what_a_command_does_and_shows_an_example(feddag, command):
    words = command.split()
    overview, own = (
        " ".join(feddag(*arguments, "--help").stdout.replace("│", "").split()) for arguments in (words[:-1], words)
    )
    assert SUMMARIES[command] in overview
    assert SUMMARIES[command] in own
    assert f"Example: feddag {command}" in own


def test_version_is_that_of_the_package(feddag):
    assert feddag("--version").stdout == f"feddag {version('feddag')}\n"
    assert package.__version__ == version("feddag")


def test_help_needs_no_numerical_library():
    code = "import sys, feddag.cli; sys.exit(bool({'jax', 'numpy', 'pandas', 'sklearn'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_mistyped_command_is_answered_with_the_likely_one(feddag):
    result = feddag("lern")
    assert result.exit_code == 2
    assert "'learn'" in result.stderr


def test_every_public_name_can_be_imported():
    assert all(getattr(package, name) is not None for name in package.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = package.nothing

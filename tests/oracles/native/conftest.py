"""A library of which everything is known, built once."""

import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("sample.cpp")


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample as a shared library with a build id, stripped as wheels are."""
    library = tmp_path_factory.mktemp("native") / "libsample.so"
    options = ["-O1", "-fPIC", "-shared", "-s", "-Wl,--build-id=sha1"]
    subprocess.run(["g++", *options, "-o", str(library), str(SOURCE)], check=True)
    return library

"""The top-level package names are generic: they are guarded here."""

import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PACKAGES: list[str] = PROJECT["tool"]["setuptools"]["packages"]
NOT_SHIPPED = {"tests", "benchmarks", "examples", "docs"}


def test_the_package_list_is_the_tree() -> None:
    """Every folder with an __init__.py is listed, but for tests and the like."""
    found = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for path in ROOT.glob("*/**/__init__.py")
        if not path.relative_to(ROOT).parts[0].startswith(".")
        and path.relative_to(ROOT).parts[0] not in NOT_SHIPPED | {"build", "dist"}
    }
    assert found == set(PACKAGES)


@pytest.mark.parametrize("package", PACKAGES)
def test_each_package_is_ours(package: str) -> None:
    """No other distribution's package of that name is imported instead."""
    module = import_module(package)
    assert module.__file__ is not None
    assert Path(module.__file__).is_relative_to(ROOT)


def test_no_other_distribution_claims_a_name() -> None:
    """A clash with an installed distribution is found here, not at run time."""
    claims = packages_distributions()
    others = {p: set(claims.get(p, [])) - {"construct-beam"} for p in PACKAGES}
    assert {p: names for p, names in others.items() if names} == {}


@pytest.mark.parametrize("package", [p for p in PACKAGES if "." not in p])
def test_importing_a_package_imports_nothing_heavy(package: str) -> None:
    """A package's __init__ is light; only its modules import Beam and the like."""
    heavy = "{'apache_beam', 'pyarrow', 'aiohttp', 'pydantic'}"
    code = f"import sys, {package}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"


def test_tests_have_an_init_at_every_level() -> None:
    """Two test files of one name in two folders must not clash."""
    folders = {path.parent for path in (ROOT / "tests").rglob("*.py")}
    assert [f for f in folders if not (f / "__init__.py").exists()] == []

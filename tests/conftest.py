"""Fixtures and settings of the whole test run.

Every test that takes the ``backend`` fixture runs once per array library. A library that is not installed
skips those tests by name; where ``SKLEARN_CKA_REQUIRE_BACKENDS`` (names, commas between) lists it, the run
fails instead, as it does when no test of a listed library passed. The summary states which libraries ran.
``SKLEARN_CKA_REQUIRE_PACKAGES`` lists further optional packages that must be there, so that no test is skipped for lack
of one.
"""

import importlib.util
import os
import re
import sys
from collections import Counter
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

# Before the first import of SciPy, which reads this only once: scikit-learn's array API checks depend on it.
os.environ.setdefault("SCIPY_ARRAY_API", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
# Before the first import of JAX, which has no float64 otherwise.
os.environ.setdefault("JAX_ENABLE_X64", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

SCIPY_DISPATCHES = tuple(map(int, version("scipy").split(".")[:2])) >= (1, 14)
# Libraries, each as it is, and two kinds of arrays that trip what passes on others: read-only memory, a second device.
BACKENDS = ("numpy", "numpy-readonly", "torch", "array_api_strict", "array_api_strict-device1", "jax")
# Libraries on which scikit-learn runs array API checks of its own.
CHECKED_BY_SKLEARN = ("numpy", "torch", "array_api_strict")
REQUIRED = tuple(name for name in os.environ.get("SKLEARN_CKA_REQUIRE_BACKENDS", "").split(",") if name)
PACKAGES = tuple(name for name in os.environ.get("SKLEARN_CKA_REQUIRE_PACKAGES", "").split(",") if name)
SHARED = Path(__file__).resolve().parents[2] / "shared"

settings.register_profile(
    "ci", derandomize=True, deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("dev", deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci" if os.environ.get("CI") else "dev")

_ran: Counter[str] = Counter()
_estimator_checks: Counter[str] = Counter()


@dataclass(frozen=True)
class Backend:
    """An array library under test: its ``name``, its array API namespace ``xp``, and ``asarray``."""

    name: str
    xp: Any
    device: Any = None
    read_only: bool = False

    def asarray(self, array: Any, **kwargs: Any) -> Any:
        """Return a NumPy array, or what NumPy turns into one, as an array of this library."""
        if self.device is not None:
            kwargs["device"] = self.device
        made = self.xp.asarray(np.array(array), **kwargs)
        if self.read_only:
            made.flags.writeable = False
        return made


def _load(name: str) -> Any:
    """Return the array API namespace of a library, or None where it is not installed."""
    name = name.partition("-")[0]
    module = {"array_api_strict": name, "jax": "jax.numpy"}.get(name, f"array_api_compat.{name}")
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        return None


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Backend:
    """Each array library in turn; a test that takes this runs once per library."""
    xp = _load(request.param)
    if xp is None:
        pytest.skip(f"array backend {request.param} is not installed")
    request.node.user_properties.append(("backend", request.param))
    library, _, kind = request.param.partition("-")
    device = xp.Device(kind) if kind.startswith("device") else None
    return Backend(library, xp, device=device, read_only=kind == "readonly")


@pytest.fixture(scope="session")
def shared() -> Path:
    """Directory of reference data that lies beside the checkout; skips by name where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("the directory shared/ of reference values does not lie beside this checkout")
    return SHARED


@pytest.fixture(autouse=True)
def _close_figures():
    """Close what a test drew: open figures pile up and matplotlib warns."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to start without a required array library, rather than skip its tests."""
    unknown = sorted(set(REQUIRED) - set(BACKENDS))
    if unknown:
        raise pytest.UsageError(f"SKLEARN_CKA_REQUIRE_BACKENDS names {unknown}; known are {list(BACKENDS)}")
    absent = [name for name in REQUIRED if _load(name) is None]
    if absent:
        raise pytest.UsageError(f"SKLEARN_CKA_REQUIRE_BACKENDS lists array backends not installed: {absent}")
    absent = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if absent:
        raise pytest.UsageError(f"SKLEARN_CKA_REQUIRE_PACKAGES lists packages not installed: {absent}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip scikit-learn's array API checks, by name, where the installed SciPy cannot run them."""
    if SCIPY_DISPATCHES:
        return
    skip = pytest.mark.skip(reason="scikit-learn's array API checks need SciPy 1.14 or newer")
    for item in items:
        if "check_array_api" in item.nodeid:
            item.add_marker(skip)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count passed tests by array library, and scikit-learn's own array API checks by namespace."""
    if report.when != "call" or not report.passed:
        return
    _ran.update(value for key, value in report.user_properties if key == "backend")
    if "check_array_api_input" in report.nodeid:
        namespace = re.search(r"array_namespace=(\w+)", report.nodeid)
        _estimator_checks[namespace[1] if namespace else "numpy"] += 1


def _is_tested(name: str) -> bool:
    """Whether tests of a library passed, scikit-learn's checks among them where it has some that can run."""
    has_checks = SCIPY_DISPATCHES and name in CHECKED_BY_SKLEARN
    return bool(_ran[name] and (_estimator_checks[name] or not has_checks))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a run in which nothing was tested on a required array library."""
    if hasattr(session.config, "workerinput"):
        return
    missing = [name for name in REQUIRED if not _is_tested(name)]
    if missing and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """State which array libraries ran."""
    terminalreporter.section("array backends", sep="-")
    for name in BACKENDS:
        state = "not installed" if _load(name) is None else f"{_ran[name]} passed"
        checks = f", scikit-learn's array API checks: {_estimator_checks[name]} passed"
        line = f"{name}: {state}{checks if name in CHECKED_BY_SKLEARN else ''}"
        short = name in REQUIRED and not _is_tested(name)
        terminalreporter.write_line(f"{line}  REQUIRED, AND NOT TESTED" if short else line, red=short)

"""How much memory there is, and sizes of memory in words."""

from __future__ import annotations

import math
import os
from pathlib import Path


def size_text(n_bytes: int) -> str:
    """Return a number of bytes with a unit that suits it."""
    power = min(4, int(math.log2(max(n_bytes, 1)) // 10))
    return f"{n_bytes / 2 ** (10 * power):.{0 if power < 2 else 1}f} {('bytes', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


def available_memory() -> int | None:
    """Return the bytes of memory that this process may still use, None where the system does not say."""
    limits = [_free_of_machine(), _free_of_control_group()]
    return min((limit for limit in limits if limit is not None), default=None)


def _free_of_machine() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _free_of_control_group() -> int | None:
    """Return what a container's memory limit leaves, None without a limit."""
    root = Path("/sys/fs/cgroup")
    for limit, used, statistics, cache in (
        ("memory.max", "memory.current", "memory.stat", "file"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "cache"),
    ):
        try:
            lines = (root / statistics).read_text(encoding="ascii").splitlines()
            cached = next(int(line.split()[1]) for line in lines if line.split()[0] == cache)
            return max(0, int((root / limit).read_text()) - int((root / used).read_text()) + cached)
        except (OSError, StopIteration, ValueError):
            continue
    return None

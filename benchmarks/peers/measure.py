"""Clock, memory and error of one job, and of all jobs of a row in turns.

A job is first run in a fresh process, which gives its peak memory and stops it at a time limit; those that ended are
then timed in turns in one process, between runs of a large matrix product whose rate is the bound. Loops over pairs
that would take too long are measured on some pairs, and the factor is stated.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
import warnings
from functools import partial
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.peers.adapters import OURS, PEERS, PairLoop, Peer, peer
from benchmarks.peers.workloads import Workload, workloads

SIDE = 3000
LOOP_SECONDS = 10.0
_STATUS = Path("/proc/self/status")


def peak_memory() -> int:
    """Return the most bytes that this process has held."""
    # A child inherits the ru_maxrss of the parent that started it; the kernel's own mark does not.
    if _STATUS.exists():
        lines = _STATUS.read_text(encoding="utf-8").splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def reset_peak() -> None:
    """Set the mark of the most memory held to what is held now, where the system lets one."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    except OSError:
        return


def run(found: Peer, work: Workload, layers: list[np.ndarray], n_pairs: int | None = None) -> tuple[Any, float]:
    """Return the value of a job and the factor by which a whole table takes longer than what was run."""
    job = found.jobs[work.task]
    if not isinstance(job, PairLoop):
        return job(layers, **work.params), 1.0
    if not work.is_table:
        return job.job(*layers, **work.params), 1.0
    pairs = list(combinations(range(len(layers)), 2))
    chosen = [pairs[i] for i in np.linspace(0, len(pairs) - 1, n_pairs or len(pairs)).astype(int)]
    values = np.full((len(layers), len(layers)), np.nan)
    start = time.perf_counter()
    done = 0
    for i, j in chosen:
        done += 1
        values[i, j] = job.job(layers[i], layers[j], **work.params)
        if n_pairs is None and time.perf_counter() - start > LOOP_SECONDS:
            break
    return values, len(pairs) / done


def _error(value: Any, reference: Any) -> float:
    difference = np.abs(np.asarray(value, dtype=np.float64) - reference)
    return float("nan") if np.isnan(difference).all() else float(np.nanmax(difference))


def alone(name: str, row: str, quick: bool) -> dict[str, Any]:
    """Run one job once in this process: seconds, peak memory above its data, pairs done, value."""
    work, found = workloads(quick)[row], peer(name)
    tiny = Workload("", "", work.task, 40, (6, 6), 1.0, work.params, work.dtype)
    warnings.simplefilter("ignore")
    run(found, tiny, tiny.layers(), n_pairs=1)  # imports and compilation, which are not the job's
    layers = work.layers()
    reset_peak()
    before, start = peak_memory(), time.perf_counter()
    value, factor = run(found, work, layers)
    seconds = time.perf_counter() - start
    return {
        "seconds": seconds * factor,
        "factor": factor,
        "memory": peak_memory() - before,
        "data": sum(X.nbytes for X in layers),
        "value": np.asarray(value, dtype=np.float64).tolist(),
    }


def in_fresh_process(name: str, row: str, quick: bool, limit: float) -> dict[str, Any]:
    """Return what `alone` returns in a process of its own, or why there is nothing."""
    command = [sys.executable, "-m", "benchmarks.peers.measure", name, row, *(["--quick"] if quick else [])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return {"failed": f"over {limit:.0f} s"}
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:] or [f"exit {done.returncode}"]
        return {"failed": "out of memory" if done.returncode == -9 else reason[0][:120]}
    return json.loads(done.stdout.splitlines()[-1])


def _seconds(job: Any, calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        job()
    return (time.perf_counter() - start) / calls


def measure_row(work: Workload, *, quick: bool, rounds: int, limit: float) -> dict[str, Any]:
    """Return the figures of ours and of every installed peer that knows the task."""
    results: dict[str, dict[str, Any]] = {}
    layers = work.layers()
    reference = work.reference(layers)
    for found in [OURS, *PEERS]:
        if work.task in found.jobs and found.is_installed:
            result = results[found.name] = in_fresh_process(found.name, work.name, quick, limit)
            if "value" in result:
                value = np.asarray(result.pop("value"))
                result["error"] = _error(value, reference)
                result["example"] = float(value[0, -1] if value.ndim == 2 else value)
    rate = _turns(work, layers, results, rounds, limit)
    return {
        "row": work.name,
        "title": work.title,
        "n_samples": work.n_samples,
        "widths": list(work.widths),
        "dtype": work.dtype,
        "gigaflops": rate / 1e9,
        "bound": work.operations / rate,
        "reference": float(reference[0, -1] if work.is_table else reference),
        "results": results,
    }


def _turns(
    work: Workload, layers: list[np.ndarray], results: dict[str, dict[str, Any]], rounds: int, limit: float
) -> float:
    """Time the jobs that ended in turns, write the medians into `results`, return the rate of the product."""
    A = np.random.default_rng(0).standard_normal((SIDE, SIDE), dtype=np.float32)
    jobs, times = {}, {}
    for name, result in results.items():
        if "seconds" in result and result["seconds"] / result["factor"] < limit / 4:
            n_pairs = max(1, round(len(layers) * (len(layers) - 1) / 2 / result["factor"]))
            jobs[name] = partial(run, peer(name), work, layers, n_pairs), result["factor"]
            times[name] = []
    calls = {name: max(1, int(0.05 / max(results[name]["seconds"], 1e-5))) for name in jobs}
    products = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for job, _ in jobs.values():
            job()
        for number in range(rounds):
            products.append(_seconds(lambda: A @ A, 1))
            for name in sorted(jobs, reverse=bool(number % 2)):
                job, factor = jobs[name]
                times[name].append(_seconds(job, calls[name]) * factor)
    for name, seconds in times.items():
        results[name]["seconds"] = median(seconds)
        results[name]["rounds"] = len(seconds)
    return 2.0 * SIDE**3 / median(products)


if __name__ == "__main__":
    print(json.dumps(alone(sys.argv[1], sys.argv[2], "--quick" in sys.argv[3:])))

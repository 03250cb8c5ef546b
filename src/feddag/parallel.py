"""Spread work over processes with joblib, or past one machine with one of its backends."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any

import joblib
from joblib.parallel import get_active_backend

from feddag.errors import FeddagError

ONE_THREAD: Mapping[str, str] = {"PJRT_NPROC": "1"}
"""For the environment of a process beside others like it, before it first computes with JAX.

joblib does the same for other libraries. With a thread for each core in each process, JAX takes twice the CPU time.
"""


def as_finished(calls: Iterable[Any], jobs: int | None) -> Iterator[Any]:
    """Yield what delayed calls return, each as soon as it is there; no call begins before a process is free for it.

    Some backends, such as Ray's, give back a whole list only: they get as many calls at once as they have processes.
    """
    if joblib.effective_n_jobs(jobs) > 1:  # pyright: ignore[reportArgumentType]
        calls = (joblib.delayed(_with_one_thread)(*call) for call in calls)
    try:
        with warnings.catch_warnings():
            # loky replaces a process that has grown, between two calls, and loses nothing by it
            warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given to the executor")
            yield from _as_finished(calls, jobs)
    except Exception as error:
        if isinstance(error, BrokenProcessPool) and "un-serialize" in str(error):
            *_, reason = str(error.__cause__).rstrip('\n"').splitlines()
            raise FeddagError(
                f"Another process could not load what it was to compute ({reason}). Put a method of your own into a "
                "module that is installed, or compute in one process (--jobs 1)."
            ) from None
        # of loky, and of Dask, which need not be there
        if isinstance(error, BrokenProcessPool) or type(error).__name__ == "KilledWorker":
            raise FeddagError(
                "A process that computed has died, perhaps for lack of memory. What was kept stays: repeat the "
                "command, with fewer processes (--jobs)."
            ) from None
        raise


def _as_finished(calls: Iterable[Any], jobs: int | None) -> Iterator[Any]:
    backend: Any = get_active_backend()[0]
    one_by_one: dict[str, Any] = {"n_jobs": jobs, "pre_dispatch": "n_jobs", "batch_size": 1}
    if backend.supports_return_generator:
        parallel: Any = joblib.Parallel(return_as="generator_unordered", **one_by_one)
        yield from parallel(calls)
        return
    calls, at_once = iter(calls), joblib.effective_n_jobs(jobs)  # pyright: ignore[reportArgumentType]
    while some := list(islice(calls, at_once)):
        yield from joblib.Parallel(**one_by_one)(some)


def _with_one_thread(function: Callable[..., Any], arguments: Iterable[Any], named: Mapping[str, Any]) -> Any:
    os.environ |= {**ONE_THREAD, **os.environ}  # a choice of the user stands
    return function(*arguments, **named)

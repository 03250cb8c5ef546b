"""A fit that lives in a folder: started, resumed, watched from outside, assessed and loaded again."""

from feddag.runs.folder import at_work, check_that_folder_is_free, resume_command
from feddag.runs.monitor import RunMonitor, follow
from feddag.runs.run import Run, load

__all__ = [
    "Run",
    "RunMonitor",
    "at_work",
    "check_that_folder_is_free",
    "follow",
    "load",
    "resume_command",
]

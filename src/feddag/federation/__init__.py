"""Carrying a learner's tasks to the sites, and nothing but weighted sums back."""

from feddag.federation.in_process import InProcess
from feddag.federation.protocol import Answer, Federation, Ledger, Site, Stateless, Task, unknown_task

__all__ = ["Answer", "Federation", "InProcess", "Ledger", "Site", "Stateless", "Task", "unknown_task"]

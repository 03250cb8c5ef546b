"""A federation carried by NVIDIA FLARE: certificates, kits, processes, and the two ends of a call.

Only this package imports `nvflare`.
"""

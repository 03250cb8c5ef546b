"""Graphs, matrices and histories as layouts, charts and Matplotlib plots; numbers as readers see them."""

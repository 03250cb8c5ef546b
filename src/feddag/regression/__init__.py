"""Regressions of one variable on others: functions of the parents, evidence, predictions, and the sums they need."""

"""What feddag reads of the method whenever it starts: the learner, with its libraries, is imported when it is used."""

from feddag.learners.registry import Method

METHOD = Method(
    name="partial-correlations",
    estimator="own_method.learner:PartialCorrelations",
    summary="Joins variables that are correlated given all others; the one with the smaller variance is the cause.",
    assumptions="Linear mechanisms shared by all sites, no hidden common causes, noise of equal variance.",
    leaves_site="Once: rows, means and covariances, summed over sites.",
    reference="An example of feddag.",
)

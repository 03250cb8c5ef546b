"""What every report says in plain words: of which data the graph is, and what it does not mean."""

from __future__ import annotations

from feddag.reports.contents import Contents

_NO_DATA = ("random", "empty")


def title(contents: Contents) -> str:
    variables, sites = len(contents.graph.names), len(contents.record["sites"])
    return f"Causal graph of {variables} variables, learned from {sites} {'site' if sites == 1 else 'sites'}"


def lead(contents: Contents) -> str:
    if contents.record["method"] in _NO_DATA:
        return "A graph to compare others with: no data stand behind it."
    if contents.record["regime"] == "all":
        return "Learned from the rows of all sites in one table."
    if contents.learner.learned_alone:
        return "Each site learned alone, and the graph brings together what they found. No row has left its site."
    return "The sites learned together. No row has left its site: only sums over rows have."


def caveats(contents: Contents) -> list[str]:
    """The assumptions, and what goes wrong without them."""
    method, undirected = contents.method, contents.graph.undirected_edges
    told = [
        "An arrow says that one variable acts on another directly, given the others in the table, if what the method "
        "assumes is true. It comes from observation. It is a hypothesis to be tested, not the result of an experiment.",
        "A cause that nobody measured can put an arrow where there is none, or turn one round. The method takes it "
        "that there is no such common cause.",
        "A missing arrow does not prove that there is no effect: weak effects do not show in few rows, and an effect "
        "may go by way of other variables.",
        "The width of an edge says how much speaks for it, not how large the effect is.",
        "There are no circles: where two things act on each other in turn, at most one direction is shown.",
        "One graph stands for all sites. If things are caused in another way at one of them, the graph is wrong there.",
        "If the rows were chosen by something that the variables act on (only patients who were admitted, say), arrows "
        "may reflect that choice.",
    ]
    if undirected:
        told.insert(1, "A dashed line joins two variables of which the data do not tell which one acts on the other.")
    if method is not None and method.name not in _NO_DATA:
        told.append(f"The method “{method.name}” assumes: {method.assumptions}")
    return told

"""Find the operator that lost your accuracy: read, convert and compare Ascend NPU operator dumps."""

from opdiff.values import TYPE_CHECKING

__version__ = "0.1.0"
__all__ = [
    "CompareOptions", "Comparison", "GraphComparison", "GraphOptions", "__version__", "compare", "compare_graphs",
]  # fmt: skip

if TYPE_CHECKING:
    from opdiff.api import CompareOptions, Comparison, compare
    from opdiff.graph_api import GraphComparison, GraphOptions, compare_graphs


def __getattr__(name: str) -> object:
    # Imported on first use: the command line has no need of it.
    if name in ("CompareOptions", "Comparison", "compare"):
        from opdiff import api

        return getattr(api, name)
    if name in ("GraphComparison", "GraphOptions", "compare_graphs"):
        from opdiff import graph_api

        return getattr(graph_api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Find the operator that lost your accuracy: read, convert and compare Ascend NPU operator dumps."""

# Not imported from typing, which imports re and others: until `opdiff.__main__` runs, `python -m opdiff` looks for
# modules in the current folder first.
TYPE_CHECKING = False

__version__ = "0.2.0"
__all__ = [
    "CompareOptions", "Comparison", "DataMode", "Dump", "GoldenOptions", "InputError", "Mode", "OpdiffError",
    "StageName", "StagesOptions", "TopnOptions", "UsageError", "__version__", "compare", "golden", "open", "stages",
    "topn",
]  # fmt: skip

if TYPE_CHECKING:
    from opdiff.api import (
        CompareOptions,
        Comparison,
        DataMode,
        Dump,
        GoldenOptions,
        InputError,
        Mode,
        OpdiffError,
        StageName,
        StagesOptions,
        TopnOptions,
        UsageError,
        compare,
        golden,
        open,  # noqa: A004  the public name
        stages,
        topn,
    )  # fmt: skip


def __dir__() -> list[str]:
    """Return the public names, which are imported on first use."""
    return __all__


def __getattr__(name: str) -> object:
    # Imported on first use: the command line has no need of it.
    if name in __all__:
        from opdiff import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

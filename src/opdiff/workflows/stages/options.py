"""Options of a comparison of stages."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from opdiff.workflows.compare.options import CompareOptions

MIN_STAGES, MAX_STAGES = 2, 4


class StageName(StrEnum):
    """Names by which users say what a directory holds."""

    ORIGINAL = "original"
    QUANTIZED = "quantized"
    FUSION_OFF = "fusion-off"
    OFFLINE = "offline"
    VERSION = "version"
    PROCESSOR = "processor"


class StagesOptions(Struct, frozen=True):
    """Options of a comparison of stages.

    Attributes:
        folders: directories of the dumps, in the order of the chain.
        names: what each directory holds, as far as the user said.
        fusion_rules: rule file of the model with fusion on.
        fusion_off_rules: rule file of the model with fusion off.
        quant_rules: rule file of the quantization tool.
        version_rules: rule file of the model of the other version or processor.
        compare: all other options of the comparisons; its paths are not used, except the path of the results.
    """

    folders: tuple[str, ...] = ()
    names: tuple[StageName | None, ...] = ()
    fusion_rules: str = ""
    fusion_off_rules: str = ""
    quant_rules: str = ""
    version_rules: str = ""
    compare: CompareOptions = CompareOptions()

    def name(self, position: int) -> StageName | None:
        """Return what a directory holds, if the user named it."""
        return self.names[position] if position < len(self.names) else None

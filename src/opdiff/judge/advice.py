"""The result in at most three sentences, in English and Chinese, and what to do about each kind of error."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.comparison import Birth, Level

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import Finding, Verdict


class _Words(NamedTuple):
    """A kind of error in both languages: what it is, and what to do."""

    what: str
    what_zh: str
    remedy: str
    remedy_zh: str


KINDS: dict[str, _Words] = {
    "overflow": _Words(
        "overflow of the element type",
        "数据类型溢出",
        "Keep this operator in float32 (or bfloat16), or scale its inputs down",
        "请让该算子保持 float32（或 bfloat16）精度，或缩小其输入",
    ),
    "scale": _Words(
        "a wrong scale",
        "缩放系数错误",
        "Check the factors of this operator: quantization scales, folded normalization, 1/sqrt(d), epsilon",
        "请检查该算子的系数：量化 scale、折叠的归一化、1/sqrt(d)、epsilon",
    ),
    "offset": _Words(
        "a wrong offset",
        "偏移量错误",
        "Check bias, zero point and mean of this operator",
        "请检查该算子的 bias、量化零点和均值",
    ),
    "permuted": _Words(
        "the right numbers in wrong places",
        "数值正确但位置错误",
        "Check axis order, layout conversion and transposes before and in this operator",
        "请检查该算子及其前面的轴顺序、格式转换和转置",
    ),
    "channel": _Words(
        "one bad channel",
        "单个通道错误",
        "Compare weights, bias and scale of that channel, and tile borders of the kernel",
        "请比较该通道的权重、bias、scale，以及算子分块边界",
    ),
    "outliers": _Words(
        "a few bad elements",
        "少量元素错误",
        "Run this operator alone with the dumped inputs; look at tile borders and tails",
        "请用已 dump 的输入单独运行该算子，检查分块边界和尾块",
    ),
    "clipping": _Words(
        "numbers cut off",
        "数值被截断",
        "Check the limits of clipping and saturation of this operator",
        "请检查该算子的截断和饱和上下限",
    ),
    "quantization": _Words(
        "quantization that costs too much",
        "量化误差过大",
        "Leave this layer out of quantization, or calibrate its scale and zero point again with representative data",
        "请跳过该层的量化，或用有代表性的数据重新校准 scale 和零点",
    ),
    "precision": _Words(
        "loss of precision",
        "精度损失",
        "Keep this operator in float32, or switch its high-precision mode on",
        "请让该算子保持 float32 精度，或打开其高精度模式",
    ),
    "memory": _Words(
        "memory that holds other data",
        "内存中是其他数据",
        "Check memory reuse, stream synchronization and the address of this tensor",
        "请检查内存复用、流同步以及该 tensor 的地址",
    ),
    "fusion": _Words(
        "a fusion that went wrong",
        "融合错误",
        "Switch this fusion off (fusion_switch.cfg), convert again and compare fusion on with fusion off",
        "请用 fusion_switch.cfg 关闭该融合，重新转换，并比较融合开启与关闭的结果",
    ),
    "input": _Words(
        "different model inputs",
        "模型输入不一致",
        "Feed both runs the same data: check preprocessing, channel order, mean and scale",
        "请让两次运行使用相同的输入：检查预处理、通道顺序、均值和缩放",
    ),
    "pairing": _Words(
        "a wrong pairing",
        "tensor 配对错误",
        "Tell the right pair with --pairs, or check the rule file",
        "请用 --pairs 指定正确的配对，或检查规则文件",
    ),
    "indices": _Words(
        "other indices",
        "索引不一致",
        "Compare the values that the indices stand for; near ties are no fault",
        "请比较索引所对应的值；近似并列不是错误",
    ),
    "unknown": _Words(
        "an error of no known kind",
        "未知类型的误差",
        "Run this operator alone with the dumped inputs",
        "请用已 dump 的输入单独运行该算子",
    ),
}


def remedies_of(kind: str, passes: Sequence[str], buffer_passes: Sequence[str]) -> tuple[str, ...]:
    """What to do about an error, in sentences."""
    words = KINDS[kind]
    named = [*passes, *buffer_passes]
    fused = [f"Switch off the fusion that made it ({', '.join(named)}) and compare again"] if named else []
    return (words.remedy, *fused)


def remedy_in_chinese(remedy: str) -> str:
    """One of the sentences of `remedies_of`, in Chinese."""
    from opdiff.core.sentences import in_chinese

    return next((words.remedy_zh for words in KINDS.values() if words.remedy == remedy), "") or in_chinese(remedy)


def advice_of(
    findings: Sequence[Finding], verdicts: Sequence[Verdict], first_bad: str = ""
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The result in at most three sentences, English and Chinese; `first_bad` is the first operator at fault."""
    if findings:
        return _faulty(findings, next((each for each in findings if each.operator == first_bad), findings[0]))
    compared = len(verdicts) - [verdict.level for verdict in verdicts].count(Level.NOT_COMPARABLE)
    if not compared:
        return (
            ("Nothing could be compared, so nothing can be said about any operator.",),
            ("没有可比较的数据，无法判断任何算子。",),
        )
    gathered = [verdict.origin for verdict in verdicts].count(Birth.ACCUMULATED)
    return _gathered(gathered) if gathered else _clean(compared)


def _faulty(findings: Sequence[Finding], earliest: Finding) -> tuple[tuple[str, ...], tuple[str, ...]]:
    from opdiff.core.sentences import in_chinese

    first = findings[0]
    words = KINDS[first.kind]
    why = f": {first.evidence[0]}" if first.evidence else ""
    why_zh = f"，{in_chinese(first.evidence[0])}" if first.evidence else ""
    share = f" About {first.share:.0%} of the error of the results comes from here." if first.share else ""
    share_zh = f"最终结果误差的约 {first.share:.0%} 来自这里。" if first.share else ""
    more, more_zh = _others(findings, earliest)
    before = f" (or {first.before[-1]} before it, which cannot be compared)" if first.before else ""
    before_zh = f"（或其前无法比对的 {first.before[-1]}）" if first.before else ""
    english = [f"{first.operator} ({first.op_type}) is at fault{before}, {words.what}{why}{more}."]
    chinese = [f"{first.operator}（{first.op_type}）{before_zh}有问题：{words.what_zh}{why_zh}{more_zh}。"]
    fused = [*first.passes, *first.buffer_passes]
    also = f", or switch off the fusion {fused[0]}" if fused else ""
    also_zh = f"，或关闭融合 {fused[0]}" if fused else ""
    english += [*([share.strip()] if share else []), f"{words.remedy}{also}."]
    chinese += [*([share_zh] if share_zh else []), f"{words.remedy_zh}{also_zh}。"]
    return tuple(english), tuple(chinese)


def _others(findings: Sequence[Finding], earliest: Finding) -> tuple[str, str]:
    """The first bad operator, where it is another one than the worst, or how many others there are."""
    if earliest is not findings[0]:
        kind, kind_zh = KINDS[earliest.kind].what, KINDS[earliest.kind].what_zh
        return (
            f"; the first of {len(findings)} bad operators is {earliest.operator}, {kind}",
            f"；{len(findings)} 个出错算子中最早的是 {earliest.operator}（{kind_zh}）",
        )
    count = len(findings) - 1
    return (f"; {count} more behind it", f"；其后另有 {count} 处") if count else ("", "")


def _gathered(count: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return (
        (
            (
                "No operator is at fault: none adds more than the noise of its element types, but along the network it "
                f"adds up until {count} {'tensor is' if count == 1 else 'tensors are'} visibly off."
            ),
            "Keep the operators before the first of them in a wider type, or accept it if the final score is fine.",
        ),
        (
            f"没有算子有问题：各算子引入的误差都不超过其数据类型的噪声，但沿网络累积后有 {count} 个 tensor 偏差明显。",
            "可让第一个偏差 tensor 之前的算子使用更高精度；若最终指标正常，则可接受。",
        ),
    )


def _clean(compared: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    tensors = "1 tensor is" if compared == 1 else f"all {compared} tensors are"
    return (
        (
            f"No operator is at fault: {tensors} within the noise of the element types.",
            (
                "If the result still differs, look before and after the network: preprocessing, postprocessing, near "
                "ties in the scores, other weights, or tensors that were not compared."
            ),
        ),
        (
            f"没有算子有问题：{compared} 个 tensor 都在数据类型的噪声范围内。",
            "如果最终结果仍有差异，请检查网络前后：预处理、后处理、得分接近并列、权重不同，或未参与比较的 tensor。",
        ),
    )

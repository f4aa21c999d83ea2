// Texts that only reports of graph mode have.
export const tokensEn = {
  rank: "rank {number}", token: "token {number}", graph_number: "graph {number}",
  all_rank: "all ranks", all_token: "all tokens", all_graph: "all graphs",
  c_rank: "Rank", c_token: "Token", c_graph: "Graph", c_result: "Result", c_target_crc: "CRC-32, target", c_golden_crc: "CRC-32, golden",
  r_max_relative: "Max off", r_min_relative: "Min off", r_mean_relative: "Mean off", r_norm_relative: "Norm off",
  m_max_relative: "maximum: relative difference", m_min_relative: "minimum: relative difference",
  m_mean_relative: "mean: relative difference", m_norm_relative: "L2 norm: relative difference", m_checksum: "checksum: 0 equal, 1 different",
  mode_0: "compared by data", mode_1: "compared by statistics, not by data", mode_2: "compared by checksum (CRC-32), not by data",
  pass_fail: "{pass} PASS · {fail} FAIL", pass_fail_hint: "PASS and FAIL go by the documented limits of graph mode",
  graph_levels: "Levels are opdiff's own judgement of the data, token by token. PASS and FAIL go by the documented limits, which a single number near zero can break. Where only statistics or checksums were compared, the colour of the row decides.",
  by_unit: "Ranks and tokens", by_unit_hint: "how many tensors are bad in each; a click shows its curve", first_tokens: "of {all} tokens the first {shown}",
  found_in: "{place} and {more} more", documented: "Documented metrics", within_1: "are within 1 ‰", within_5: "are within 5 ‰", result: "Result", marks: "Marked because", stack: "In your code",
  statistics_off: "How far the statistics are off", s_max: "maximum", s_min: "minimum", s_mean: "mean", s_norm: "L2 norm", crc: "CRC-32",
  norm: "L2 norm", no_data: "The data itself was not compared: there are no other metrics.", run_notes: "About the two dumps",
} as const;

export const tokensZh: Record<keyof typeof tokensEn, string> = {
  rank: "rank {number}", token: "token {number}", graph_number: "图 {number}", all_rank: "全部 rank", all_token: "全部 token", all_graph: "全部图",
  c_rank: "Rank", c_token: "Token", c_graph: "图", c_result: "结果", c_target_crc: "目标 CRC-32", c_golden_crc: "标杆 CRC-32",
  r_max_relative: "最大值偏差", r_min_relative: "最小值偏差", r_mean_relative: "均值偏差", r_norm_relative: "范数偏差",
  m_max_relative: "最大值相对偏差", m_min_relative: "最小值相对偏差", m_mean_relative: "均值相对偏差", m_norm_relative: "L2 范数相对偏差", m_checksum: "校验和：0 一致，1 不一致",
  mode_0: "按数据比对", mode_1: "按统计量比对，未比对数据", mode_2: "按校验和 (CRC-32) 比对，未比对数据",
  pass_fail: "{pass} PASS · {fail} FAIL", pass_fail_hint: "PASS 与 FAIL 按图模式的既定限值判定",
  graph_levels: "级别是 opdiff 对数据逐 token 的判定。PASS 与 FAIL 按既定限值判定，个别接近零的数即可使其 FAIL。只比对统计量或校验和时，级别由行的颜色决定。",
  by_unit: "Rank 与 token", by_unit_hint: "各自的异常张量数；单击查看其曲线", first_tokens: "共 {all} 个 token，显示前 {shown} 个", found_in: "{place} 等共 {count} 处", documented: "既定指标", within_1: "误差在 1 ‰ 以内", within_5: "误差在 5 ‰ 以内", result: "结果", marks: "标记原因", stack: "代码位置",
  statistics_off: "统计量的偏差", s_max: "最大值", s_min: "最小值", s_mean: "均值", s_norm: "L2 范数", crc: "CRC-32", norm: "L2 范数", no_data: "未比对数据本身，因此没有其他指标。", run_notes: "关于两份转储",
};

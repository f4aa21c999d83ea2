// Texts of the pictures of tensors, in both languages.
export const picturesEn = {
  explanation: "Explanation", p_title: "Pictures", p_plane: "rows {rows}, columns {columns}", p_line: "along {columns}", p_cell: "a cell is {rows} × {columns} elements",
  p_worst: "the {count} worst of {all} planes", p_outside: "{count} values are off the scale", p_not_finite: "{count} elements are NaN or infinite",
  p_choose: "Plane", p_frame: "{name}: {share} of the error", p_error: "Error", p_overall: "Error, all {count} planes", p_values: "values", p_errors: "error (log)",
  p_golden_text: "Golden values {name}, from {low} to {high}", p_target_text: "Target values {name}, from {low} to {high}",
  p_error_text: "Errors {name}, up to {largest}", p_overall_text: "Errors over all planes, up to {largest}",
  p_cell_text: "{at}: golden {golden}, target {target}, error {error}", p_worst_cell: "Worst at {at}: golden {golden}, target {target}, error {error}",
  p_special_error: "NaN or infinite", p_histogram: "Values of both sides", p_histogram_text: "Values from {low} to {high}; heights are square roots of counts",
  p_bin: "{range}: golden {golden}, target {target} elements", p_density: "Target against golden", p_density_short: "Density",
  p_density_text: "{share} of the elements are on the diagonal, where both sides are equal", p_pair: "golden {golden}, target {target}: {count} elements",
  p_open: "Pictures of the tensor, {name}", p_path: "Error along the path to the output", p_path_text: "Relative distance of {count} operators, from {first} to {last}",
};

export const picturesZh: Record<keyof typeof picturesEn, string> = {
  explanation: "解释", p_title: "张量图像", p_plane: "行 {rows}，列 {columns}", p_line: "沿 {columns}", p_cell: "每格 {rows} × {columns} 个元素",
  p_worst: "共 {all} 个平面，显示误差最大的 {count} 个", p_outside: "{count} 个数值超出色标范围", p_not_finite: "{count} 个元素为 NaN 或无穷",
  p_choose: "平面", p_frame: "{name}：占总误差的 {share}", p_error: "误差", p_overall: "全部 {count} 个平面的误差", p_values: "数值", p_errors: "误差（对数）",
  p_golden_text: "标杆数值 {name}，范围 {low} 至 {high}", p_target_text: "目标数值 {name}，范围 {low} 至 {high}",
  p_error_text: "误差 {name}，最大 {largest}", p_overall_text: "全部平面的误差，最大 {largest}",
  p_cell_text: "{at}：标杆 {golden}，目标 {target}，误差 {error}", p_worst_cell: "误差最大处 {at}：标杆 {golden}，目标 {target}，误差 {error}",
  p_special_error: "NaN 或无穷", p_histogram: "两侧数值分布", p_histogram_text: "数值范围 {low} 至 {high}；高度为元素个数的平方根",
  p_bin: "{range}：标杆 {golden} 个，目标 {target} 个元素", p_density: "目标值与标杆值对照", p_density_short: "密度",
  p_density_text: "{share} 的元素位于对角线上（两侧相等）", p_pair: "标杆 {golden}，目标 {target}：{count} 个元素",
  p_open: "张量图像，{name}", p_path: "误差沿路径到输出的变化", p_path_text: "{count} 个算子的相对距离，从 {first} 到 {last}",
};

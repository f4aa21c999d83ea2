// Columns of the table that only graph mode has.
import * as format from "../format";
import type { App } from "../state";
import { CHECKSUMS, FAIL, PASS, STATISTICS } from "../tokens";
import type { Key } from "../texts";
import { type ColumnSpec, isWindowNarrow } from "../virtual";
import { severalOf } from "./units";

export const resultText = (app: App, row: number): string => {
  const result = app.report.tokens!.results[row];
  return result === PASS ? "PASS" : result === FAIL ? "FAIL" : "–";
};

/** How far a statistic is off. */
export const offText = (value: number | null): string => (value === null || !Number.isFinite(value) ? format.number(value) : format.percent(value));

/** Where a row is, and whether it passes. */
export function unitColumns(app: App): ColumnSpec[] {
  const { tokens } = app.report;
  if (!tokens) return [];
  return [
    ...severalOf(app).map((dimension): ColumnSpec => ({ key: dimension, title: app.t(`c_${dimension}`), width: isWindowNarrow() ? "3rem" : "4.2rem", right: true, early: true, cell: (row) => ({ text: String(tokens.of(row)[dimension] ?? "–") }) })),
    { key: "result", title: app.t("c_result"), width: "4.6rem", early: true, cell: (row) => ({ text: resultText(app, row), ...(tokens.results[row] === FAIL ? { class: "bad" } : {}) }) },
  ];
}

/** What was compared in place of data. */
export function unitFigures(app: App): ColumnSpec[] {
  const { tokens } = app.report;
  if (!tokens) return [];
  const statistic = (key: string): ColumnSpec => ({ key, title: app.t(`r_${key}` as Key), width: "7rem", right: true, cell: (row) => ({ text: offText(tokens.figure("statistics", key, row)) }) });
  const checksum = (side: "target" | "golden"): ColumnSpec => ({ key: `${side}_crc`, title: app.t(`c_${side}_crc`), width: "9rem", sortable: false, cell: (row) => ({ text: tokens.checksum(side, row) || "–" }) });
  return [
    ...(tokens.modes.has(STATISTICS) ? ["max_relative", "min_relative", "mean_relative", "norm_relative"].map(statistic) : []),
    ...(tokens.modes.has(CHECKSUMS) ? [checksum("target"), checksum("golden")] : []),
  ];
}

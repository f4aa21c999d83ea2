// The error along the path of a finding: from the operator at fault to the output that it reaches.
import { type Finding, LEVELS } from "../data";
import { h } from "../dom";
import * as format from "../format";
import { readable } from "../names";
import type { App } from "../state";
import { decades, scaleOf } from "../scale";
import { svg } from "./svg";

const WIDTH = 360, HEIGHT = 84, EDGE = 9, LIMIT = 0.05, METRIC = "relative_euclidean_distance";
interface Step { operator: string; row: number; value: number }

export function pathPlot(app: App, finding: Finding, number: number): HTMLElement | null {
  const steps = stepsOf(app, finding, number);
  const finite = steps.map(({ value }) => value).filter((value) => Number.isFinite(value) && value > 0);
  if (steps.length < 2 || !finite.length) return null;
  const x = scaleOf([0, steps.length - 1], [EDGE, WIDTH - EDGE], false);
  const y = scaleOf(decades(Math.min(...finite, LIMIT), Math.max(...finite, LIMIT)), [HEIGHT - EDGE, EDGE], true);
  const height = (value: number): number => (Number.isFinite(value) ? y.at(value) : EDGE);
  const line = svg("polyline", { class: "path-line", points: steps.map(({ value }, n) => `${x.at(n)},${height(value)}`).join(" ") });
  const limit = svg("line", { class: "path-limit", x1: 0, x2: WIDTH, y1: y.at(LIMIT), y2: y.at(LIMIT) });
  const points = steps.map(({ operator, row, value }, n) => {
    const text = `${numbered(app, row)}${operator}: ${format.number(value, 4)}`;
    const point = svg("circle", { class: `level-${LEVELS[app.report.levels[row]!]!}`, cx: x.at(n), cy: height(value), r: n ? Math.min(4, 200 / steps.length) : 6 }, svg("title", {}, text));
    point.addEventListener("click", () => app.open(row));
    return point;
  });
  const first = steps[0]!, last = steps.at(-1)!;
  const end = (step: Step): string => `${format.number(step.value, 3)} ${readable(app.report, step.operator)}`;
  const label = app.t("p_path_text", { count: steps.length, first: end(first), last: end(last) });
  return h("figure", { class: "path-plot" }, h("h3", {}, app.t("p_path")),
    svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label }, limit, line, ...points),
    h("div", { class: "ends" }, h("span", { title: first.operator }, end(first)), h("span", { title: last.operator }, end(last))));
}

/** The first token in which a finding was made. */
export const unitOfFinding = ({ report }: App, number: number): number => report.document.findings[number]?.units[0] ?? 0;

/** The worst compared output of each operator of the path, as far as there is one. */
function stepsOf(app: App, { path }: Finding, number: number): Step[] {
  const { report } = app;
  const unit = unitOfFinding(app, number);
  const names = new Set(path), worst = new Map<string, Step>();
  for (const row of report.rowsOf(unit)) {
    if (!report.isOutput(row)) continue;
    const operator = report.text("operator", row), value = names.has(operator) ? report.metric(METRIC, row) : null;
    if (value !== null && !(badness(worst.get(operator)) >= badness({ value }))) worst.set(operator, { operator, row, value });
  }
  return path.flatMap((operator) => worst.get(operator) ?? []);
}

const badness = (step?: { value: number }): number => (step === undefined ? -1 : Number.isNaN(step.value) ? Infinity : step.value);

/** The number of a tensor as in the tables, where it has one. */
export function numbered(app: App, row: number): string {
  const number = app.report.number("index", row);
  return number ? `#${number} ` : "";
}

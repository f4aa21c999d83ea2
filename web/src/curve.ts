// The accuracy along the execution: a point for each tensor, on a canvas.
import { BORN, INHERITED, LEVELS, type Report, SUSPICIOUS, WRONG } from "./data";
import { colours, h, sharp } from "./dom";
import * as format from "./format";
import { levelText } from "./parts";
import { numbered } from "./pictures/path";
import type { App } from "./state";
import { type Scale, decades, logTicks, scaleOf, ticks } from "./scale";
import type { Key } from "./texts";
import { CHECKSUMS, REAL, STATISTICS } from "./tokens";

export interface CurveMetric { key: string; log: boolean; limit?: number; down?: boolean; value: (report: Report, row: number) => number | null }

const plain = (key: string, log = true, extra: Partial<CurveMetric> = {}): CurveMetric => ({
  key, log, ...extra, value: (report, row) => report.metric(key, row),
});
const away = (name: string) => (report: Report, row: number) => {
  const value = report.metric(name, row);
  return value === null ? null : Math.abs(1 - value);
};
const CURVE_METRICS: CurveMetric[] = [
  { key: "distance", log: true, limit: 0.01, value: away("cosine") },
  plain("relative_euclidean_distance", true, { limit: 0.05 }),
  plain("max_relative_error"),
  plain("mean_relative_error"),
  plain("max_absolute_error"),
  { key: "norm", log: true, limit: 0.01, value: away("norm_ratio") },
  plain("over_1_permille"),
  plain("max_ulp"),
  plain("snr_db", false, { down: true }),
  plain("cosine", false, { down: true, limit: 0.99 }),
];
const statistic = (key: string): CurveMetric => ({ key, log: true, limit: 0.01, value: (report, row) => report.tokens!.figure("statistics", key, row) });
const BY_STATISTICS = ["norm_relative", "max_relative", "min_relative", "mean_relative"].map(statistic);
const BY_CHECKSUM: CurveMetric = { key: "checksum", log: false, value: (report, row) => (report.tokens!.mode(row) === CHECKSUMS ? report.tokens!.results[row]! : null) };

/** What there is to draw: what was not measured cannot be chosen. */
export function curveMetrics({ tokens }: Report): CurveMetric[] {
  if (!tokens) return CURVE_METRICS;
  const { modes } = tokens;
  return [...(modes.has(REAL) ? CURVE_METRICS : []), ...(modes.has(STATISTICS) ? BY_STATISTICS : []), ...(modes.has(CHECKSUMS) ? [BY_CHECKSUM] : [])];
}

const LEFT = 62, RIGHT = 16, TOP = 22, BOTTOM = 30, HEIGHT = 300, REACH = 14, DENSE = 1500, MOST_NUMBERS = 9;
interface Point { row: number; order: number; value: number }

export class Curve {
  readonly element: HTMLElement;
  private readonly canvas = h("canvas", { attrs: { tabindex: "-1", role: "img" } });
  private readonly tip = h("div", { class: "tip", attrs: { hidden: "" } });
  private points: Point[] = [];
  private strange: Point[] = [];
  /** The numbers of the tensors in the order of the curve, as in the tables; 0 where they have none. */
  private numbers: number[] = [];
  private range: [number, number] = [0, 1];
  private drag: { from: number; to: number } | null = null;
  private hovered: Point | null = null;
  private y: Scale = scaleOf([0, 1], [0, 1], false);
  private readonly watcher = new ResizeObserver(() => this.draw());

  constructor(private readonly app: App) {
    this.element = h("div", { class: "curve" }, this.canvas, this.tip);
    const numbered = app.report.story.findings.slice(0, MOST_NUMBERS).map(({ tensor }, n) => `${n + 1} ${tensor}`);
    this.canvas.setAttribute("aria-label", [app.t("curve"), ...numbered].join(", "));
    this.canvas.addEventListener("pointermove", (event) => this.moved(event));
    this.canvas.addEventListener("pointerleave", () => this.hover(null));
    this.canvas.addEventListener("pointerdown", (event) => this.pressed(event));
    this.canvas.addEventListener("pointerup", (event) => this.released(event));
    this.canvas.addEventListener("pointercancel", () => { this.drag = null; this.draw(); });
    this.canvas.addEventListener("dblclick", () => { this.range = this.whole(); this.draw(); });
    this.watcher.observe(this.element);
    this.load();
  }

  gone(): void { this.watcher.disconnect(); }

  private get metric(): CurveMetric {
    return curveMetrics(this.app.report).find((metric) => metric.key === this.app.curve.metric) ?? CURVE_METRICS[0]!;
  }

  load(): void {
    const { report, curve } = this.app;
    const { value } = this.metric;
    this.points = [];
    this.strange = [];
    this.numbers = [];
    let order = 0;
    for (const row of report.hasUnit(this.app.unit) ? report.rowsOf(this.app.unit) : []) {
      if (!report.isCompared(row) || (curve.outputs && !report.isOutput(row))) continue;
      const found = value(report, row);
      if (found !== null) (Number.isFinite(found) ? this.points : this.strange).push({ row, order, value: found });
      this.numbers.push(report.number("index", row));
      order++;
    }
    this.range = this.whole();
    if (order) this.element.dataset["points"] = String(order);
    else delete this.element.dataset["points"];
    this.draw();
  }

  private whole(): [number, number] {
    const last = Math.max(this.points.at(-1)?.order ?? 0, this.strange.at(-1)?.order ?? 0);
    return [-0.5, last + 0.5];
  }

  private width = 800;
  private x(order: number): number {
    return LEFT + ((order - this.range[0]) / (this.range[1] - this.range[0])) * (this.width - LEFT - RIGHT);
  }
  private orderAt(x: number): number {
    return this.range[0] + ((x - LEFT) / (this.width - LEFT - RIGHT)) * (this.range[1] - this.range[0]);
  }

  draw(): void {
    if (!this.element.clientWidth) return;
    this.width = this.element.clientWidth;
    const context = sharp(this.canvas, this.width, HEIGHT);
    const colour = colours();
    context.font = `11px ${colour("font")}`;
    context.clearRect(0, 0, this.width, HEIGHT);
    const seen = this.points.filter(({ order }) => order >= this.range[0] && order <= this.range[1]);
    if (!seen.length && !this.strange.length) {
      context.fillStyle = colour("muted");
      context.fillText(this.app.t("nothing_drawn"), LEFT, HEIGHT / 2);
      return;
    }
    this.y = this.scale(seen);
    this.drawAxes(context, colour);
    context.save();
    context.beginPath();
    context.rect(LEFT - 12, 0, this.width - LEFT - RIGHT + 24, HEIGHT - BOTTOM + 6);
    context.clip();
    if (seen.length <= DENSE) this.drawLine(context, colour, seen);
    this.drawPoints(context, colour, seen);
    this.drawStrange(context, colour);
    context.restore();
    this.drawDrag(context, colour);
  }

  private scale(seen: Point[]): Scale {
    const log = this.app.curve.log && this.metric.log;
    const values = seen.map(({ value }) => value).filter((value) => !log || value > 0);
    let low = values.reduce((least, value) => Math.min(least, value), Infinity);
    let high = values.reduce((most, value) => Math.max(most, value), -Infinity);
    if (!Number.isFinite(low)) [low, high] = log ? [1e-6, 1] : [0, 1];
    const { limit } = this.metric;
    if (limit !== undefined) [low, high] = [Math.min(low, limit), Math.max(high, limit)];
    if (log) [low, high] = decades(low, high);
    else if (low === high) {
      const around = Math.max(1, Math.abs(low) / 1000);
      [low, high] = [Math.max(low - around, -Number.MAX_VALUE), Math.min(high + around, Number.MAX_VALUE)];
    }
    return scaleOf([low, high], [HEIGHT - BOTTOM - 8, TOP], log);
  }

  private drawAxes(context: CanvasRenderingContext2D, colour: (name: string) => string): void {
    const { y } = this;
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const value of y.log ? logTicks(y.domain) : ticks(y.domain, 6)) {
      context.strokeStyle = colour("grid");
      line(context, LEFT, y.at(value), this.width - RIGHT, y.at(value));
      context.fillStyle = colour("muted");
      context.fillText(y.log ? power(value) : axisText(value), LEFT - 10, y.at(value));
    }
    context.textAlign = "center";
    context.textBaseline = "top";
    for (const [order, text] of this.orderTicks()) context.fillText(text, this.x(order), HEIGHT - BOTTOM + 10);
    this.drawLimit(context, colour);
  }

  /** Numbers of tensors, as in the tables, nearly round ones; positions where tensors have no numbers. */
  private orderTicks(): [order: number, text: string][] {
    const [first, last] = [Math.max(Math.ceil(this.range[0]), 0), Math.min(Math.floor(this.range[1]), this.numbers.length - 1)];
    const count = Math.floor(this.width / 110);
    if (!this.numbers[first]) return ticks([first + 1, last + 1], count).filter(Number.isInteger).map((each) => [each - 1, format.number(each)]);
    const orders = ticks([this.numbers[first]!, this.numbers[last]!], count).map((each) => this.numbers.findIndex((number, order) => order >= first && number >= each));
    return [...new Set(orders)].filter((order) => order >= first && order <= last).map((order) => [order, `#${this.numbers[order]}`]);
  }

  private drawLimit(context: CanvasRenderingContext2D, colour: (name: string) => string): void {
    const { limit } = this.metric;
    if (limit === undefined) return;
    context.save();
    context.setLineDash([5, 4]);
    context.strokeStyle = colour("wrong");
    context.globalAlpha = 0.7;
    line(context, LEFT, this.y.at(limit), this.width - RIGHT, this.y.at(limit));
    context.textAlign = "right";
    context.textBaseline = "bottom";
    context.fillStyle = colour("wrong");
    context.fillText(`${this.app.t("limit")} ${limit}`, this.width - RIGHT, this.y.at(limit) - 3);
    context.restore();
  }

  private drawLine(context: CanvasRenderingContext2D, colour: (name: string) => string, seen: Point[]): void {
    context.strokeStyle = colour("line");
    context.lineWidth = 1.25;
    context.beginPath();
    for (const point of seen) context.lineTo(this.x(point.order), this.y.at(point.value));
    context.stroke();
    context.lineWidth = 1;
  }

  private drawPoints(context: CanvasRenderingContext2D, colour: (name: string) => string, seen: Point[]): void {
    const { report } = this.app;
    const radius = seen.length > 600 ? 2.8 : 4;
    const byLevel: Point[][] = LEVELS.map(() => []);
    for (const point of seen) byLevel[report.levels[point.row]!]!.push(point);
    byLevel.forEach((points, level) => {
      const paint = colour(LEVELS[level]!);
      if (seen.length > DENSE) return this.drawDense(context, points, paint);
      for (const point of points) {
        const origin = report.origins[point.row];
        mark(context, this.x(point.order), this.y.at(point.value), radius + (origin === BORN ? 2 : 0), paint, colour("card"), origin === INHERITED);
      }
    });
    this.drawNumbers(context, colour, [...seen, ...this.strange.filter(({ order }) => order >= this.range[0] && order <= this.range[1])]);
    if (this.hovered) {
      context.strokeStyle = colour("text");
      context.lineWidth = 1.5;
      ring(context, this.x(this.hovered.order), this.yOf(this.hovered), radius + 4);
    }
  }

  /** The numbers of the findings beside their points. */
  private drawNumbers(context: CanvasRenderingContext2D, colour: (name: string) => string, seen: Point[]): void {
    const numbers = new Map(this.app.report.story.findings.slice(0, MOST_NUMBERS).map(({ tensor }, n) => [tensor, n + 1]));
    context.font = `700 12px ${colour("font")}`;
    context.textAlign = "center";
    context.textBaseline = "bottom";
    context.fillStyle = colour("text");
    for (const point of seen) {
      const number = this.app.report.origins[point.row] === BORN ? numbers.get(this.app.report.tensor(point.row)) : undefined;
      if (number && Number.isFinite(point.value)) context.fillText(String(number), this.x(point.order), this.y.at(point.value) - 8);
      else if (number) context.fillText(String(number), this.x(point.order), TOP + 12);
    }
  }

  /** More points than pixels: small squares, each place once. */
  private drawDense(context: CanvasRenderingContext2D, points: Point[], paint: string): void {
    const taken = new Set<number>();
    context.fillStyle = paint;
    for (const point of points) {
      const [x, y] = [2 * Math.round(this.x(point.order) / 2), 2 * Math.round(this.y.at(point.value) / 2)];
      if (taken.has(x * HEIGHT + y)) continue;
      taken.add(x * HEIGHT + y);
      context.fillRect(x - 1, y - 1, 3, 3);
    }
  }

  private yOf(point: Point): number { return Number.isFinite(point.value) ? this.y.at(point.value) : TOP - 7; }

  /** A stroke for each at the upper edge, and what it is where there is room. */
  private drawStrange(context: CanvasRenderingContext2D, colour: (name: string) => string): void {
    context.font = `600 11px ${colour("font")}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    let free = -Infinity;
    for (const point of this.strange) {
      if (point.order < this.range[0] || point.order > this.range[1]) continue;
      const x = this.x(point.order), text = format.number(point.value), half = context.measureText(text).width / 2;
      const level = this.app.report.levels[point.row]!;
      // An infinite signal to noise ratio is as good as can be.
      context.fillStyle = colour(level === WRONG || level === SUSPICIOUS ? LEVELS[level]! : "muted");
      context.fillRect(x - 1, TOP - 8, 2, 6);
      if (x - half < free) continue;
      context.fillText(text, x, TOP - 15);
      free = x + half + 3;
    }
  }

  private drawDrag(context: CanvasRenderingContext2D, colour: (name: string) => string): void {
    if (!this.drag) return;
    context.globalAlpha = 0.15;
    context.fillStyle = colour("accent");
    context.fillRect(Math.min(this.drag.from, this.drag.to), TOP - 8, Math.abs(this.drag.to - this.drag.from), HEIGHT - BOTTOM - TOP + 12);
    context.globalAlpha = 1;
  }

  private nearest(event: PointerEvent): Point | null {
    let best: Point | null = null, least = REACH * REACH;
    for (const points of [this.points, this.strange]) {
      for (const point of points) {
        const distance = (this.x(point.order) - event.offsetX) ** 2 + (this.yOf(point) - event.offsetY) ** 2;
        if (distance < least) [best, least] = [point, distance];
      }
    }
    return best;
  }

  private moved(event: PointerEvent): void {
    if (this.drag) {
      this.drag.to = event.offsetX;
      this.draw();
    } else this.hover(this.nearest(event));
  }

  private pressed(event: PointerEvent): void {
    if (event.button !== 0) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.drag = { from: event.offsetX, to: event.offsetX };
  }

  private released(event: PointerEvent): void {
    const drag = this.drag;
    this.drag = null;
    if (drag && Math.abs(drag.to - drag.from) > 8) {
      const ends = [this.orderAt(drag.from), this.orderAt(drag.to)].sort((a, b) => a - b) as [number, number];
      if (ends[1] - ends[0] > 2) this.range = ends;
      this.draw();
      return;
    }
    const point = this.nearest(event);
    if (point) this.app.open(point.row);
  }

  private hover(point: Point | null): void {
    if (point === this.hovered) return;
    this.hovered = point;
    this.canvas.style.cursor = point ? "pointer" : "crosshair";
    this.tip.toggleAttribute("hidden", !point);
    if (point) this.showTip(point);
    this.draw();
  }

  private showTip(point: Point): void {
    const { app } = this;
    const level = app.report.levels[point.row]!, origin = app.report.origins[point.row]!;
    const verdict = levelText(app, level) + (origin ? ` · ${app.t(`origin_${origin}` as Key)}` : "");
    this.tip.replaceChildren(
      h("code", {}, app.report.tensor(point.row)),
      h("span", {}, `${numbered(app, point.row)}${app.report.text("type", point.row)} · ${verdict}`),
      h("b", {}, `${app.t(`m_${this.metric.key}` as Key)}  ${format.number(point.value)}`),
    );
    const x = this.x(point.order);
    this.tip.style.left = `${Math.min(Math.max(x, 150), this.width - 150)}px`;
    this.tip.style.top = `${this.yOf(point)}px`;
    this.tip.classList.toggle("under", this.yOf(point) < 90);
  }
}

function line(context: CanvasRenderingContext2D, x1: number, y1: number, x2: number, y2: number): void {
  context.beginPath();
  context.moveTo(x1, y1);
  context.lineTo(x2, y2);
  context.stroke();
}

function ring(context: CanvasRenderingContext2D, x: number, y: number, radius: number): void {
  context.beginPath();
  context.arc(x, y, radius, 0, 7);
  context.stroke();
}

function mark(context: CanvasRenderingContext2D, x: number, y: number, radius: number, paint: string, under: string, hollow: boolean): void {
  context.beginPath();
  context.arc(x, y, radius, 0, 7);
  context.fillStyle = hollow ? under : paint;
  context.fill();
  if (!hollow) return;
  context.strokeStyle = paint;
  context.lineWidth = 1.6;
  context.stroke();
}

/** A number with as few letters as can be: there is little room beside an axis. */
function axisText(value: number): string {
  const size = Math.abs(value);
  return size >= 1e6 || (size && size < 1e-4) ? Number(value.toPrecision(4)).toExponential().replace("e+", "e") : format.number(value, 4);
}

function power(value: number): string {
  const exponent = Math.round(Math.log10(value));
  if (exponent >= -2 && exponent <= 3) return String(Number(value.toPrecision(3)));
  return `10${[...String(exponent)].map((digit) => (digit === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(digit)])).join("")}`;
}

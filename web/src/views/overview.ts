// The story: what was compared, what is wrong, where it began, and the curve.
import { BORN, type Finding, INHERITED, LEVELS, SUSPICIOUS, UNKNOWN, WRONG } from "../data";
import { Curve, curveMetrics } from "../curve";
import { button, h, select } from "../dom";
import * as format from "../format";
import { readable } from "../names";
import { card, chip, copyButton, dot, kindText, levelText, name, tensorName, whenRead } from "../parts";
import { pathPlot, unitOfFinding } from "../pictures/path";
import { pictureStrip } from "../pictures/strip";
import type { App, View } from "../state";
import type { Key } from "../texts";
import { changeCounts } from "./changes";
import { modeLine, placeText, unitGrid, unitQuery, unitSelects, unitText } from "./units";

const MOST = 5;

export function overview(app: App): View {
  const counts = countLevels(app);
  const curve = new Curve(app);
  const units = h("span", { class: "unit-selects" });
  const chosen = (): void => {
    app.setAddress(`#/${unitQuery(app)}`);
    load();
  };
  const load = (): void => {
    units.replaceChildren(...unitSelects(app, chosen));
    grid?.paint();
    curve.load();
    if (!app.report.hasUnit(app.unit)) void app.report.loadUnit(app.unit).then(() => curve.load());
  };
  const grid = unitGrid(app, chosen);
  const element = h(
    "main",
    { class: "overview" },
    hero(app, counts),
    changed(app),
    findings(app),
    grid && grid.element,
    counts.some((count, level) => count && level !== UNKNOWN) && curveCard(app, curve, units),
  );
  load();
  return { element, shown: () => { grid?.paint(); curve.draw(); }, gone: () => curve.gone(), printing: () => curve.draw() };
}

/** What changed since an earlier comparison. */
function changed(app: App): HTMLElement | null {
  if (!app.report.document.changes) return null;
  return card(app.t("changed"), "changed", changeCounts(app, button(app.t("open"), () => app.go("changes"), "small")));
}

/** Tensors by level; those that cannot have a golden one by nature are not counted. */
function countLevels(app: App): number[] {
  const { report } = app;
  const counts = LEVELS.map(() => 0);
  for (let row = 0; row < report.count; row++) if (!report.isAlone(row)) counts[report.levels[row]!]!++;
  return counts;
}

function hero(app: App, counts: number[]): HTMLElement {
  const { report } = app;
  const { story } = report;
  const compared = counts.reduce((sum, count, level) => sum + (level === UNKNOWN ? 0 : count), 0);
  const worst = counts[WRONG] ? WRONG : counts[SUSPICIOUS] ? SUSPICIOUS : compared ? 0 : UNKNOWN;
  const advice = story.advice.map((each) => app.sentence(each));
  return h(
    "header",
    { class: `hero level-${LEVELS[worst]!}` },
    h("p", { class: "eyebrow" }, `${app.t("eyebrow")} · ${app.scenario}`),
    h("h1", {}, ...verdict(app, worst, counts)),
    ...advice.map((sentence) => h("p", { class: "advice" }, sentence)),
    !advice.length && worst === 0 ? h("p", { class: "advice" }, app.t(compared === 1 ? "good_one" : "good_text", { count: compared })) : null,
    worst === UNKNOWN ? h("p", { class: "advice" }, app.t("nothing_text")) : null,
    modeLine(app),
    levelBar(app, counts),
    h("div", { class: "sides" }, side(app, "target"), side(app, "golden")),
  );
}

function verdict(app: App, worst: number, counts: number[]): (Node | string)[] {
  const { headline, findings: [finding] } = app.report.story;
  if (worst === UNKNOWN) return [app.t("verdict_nothing")];
  if (headline) return [app.t(`verdict_${headline}`)];
  if (worst < SUSPICIOUS) return [app.t("verdict_good")];
  if (finding) return [operatorLink(app, finding.operator, 0), ` ${app.t(finding.missing ? "verdict_suspect" : finding.proved ? "verdict_proved" : "verdict_fault", { kind: kindText(app, finding.kind) })}`];
  const count = counts[worst]!;
  const key = `verdict_${count === 1 ? "one_" : ""}${LEVELS[worst]!}` as Key;
  // The first error may be of a tensor that is not as bad as the only one of these.
  const operator = count === 1 ? app.report.story.only : app.report.story.first;
  return [`${app.t(key, { count })} `, operatorLink(app, operator)];
}

function operatorLink(app: App, operator: string, finding = -1): HTMLElement {
  return h("a", { class: "culprit", attrs: { href: "#" }, onclick: (event) => { event.preventDefault(); void openOperator(app, operator, finding); }, title: operator }, readable(app.report, operator));
}

/** Graph mode has an operator in every token: a finding tells in which one. */
async function openOperator(app: App, operator: string, finding = -1): Promise<void> {
  const { report } = app;
  const known = finding < 0 || (!report.tokens && report.story.findings[finding]!.missing) ? -1 : report.document.findings[finding]!.row;
  if (known < 0) await report.loadUnit(app.unit);
  const row = known < 0 ? app.rowOf(operator) : known;
  if (row >= 0) app.open(row);
}

function levelBar(app: App, counts: number[]): HTMLElement {
  const order = [WRONG, SUSPICIOUS, 2, 1, 0, UNKNOWN].filter((level) => counts[level]);
  const show = (level: number) => {
    app.filter.levels = new Set([level]);
    app.go(level === UNKNOWN ? "missing" : "table");
  };
  const bar = h("div", { class: "bar", attrs: { role: "img", "aria-label": app.t("legend") } });
  for (const level of order) {
    const part = h("span", { class: `level-${LEVELS[level]!}`, title: `${levelText(app, level)}: ${counts[level]}`, onclick: () => show(level) });
    part.style.flexGrow = String(Math.max(counts[level]!, app.report.count / 120));
    bar.append(part);
  }
  const legend = h("div", { class: "legend" });
  for (const level of order) {
    legend.append(h("button", { attrs: { type: "button" }, title: app.t(`about_${LEVELS[level]!}` as Key), onclick: () => show(level) },
      dot(level), h("b", {}, format.number(counts[level]!)), ` ${levelText(app, level)}`));
  }
  const alone = app.report.count - counts.reduce((sum, count) => sum + count, 0);
  if (alone) legend.append(h("span", { class: "muted alone", title: app.t("about_alone") }, app.t("alone", { count: format.number(alone) })));
  return h("div", { class: "levels" }, bar, legend);
}

function side(app: App, which: "target" | "golden"): HTMLElement {
  const { path, kind, quantized } = app.report.document[which];
  const what = [kind === "npu" || kind === "npy" ? app.t(`kind_${kind}`) : kind, quantized ? app.t("quantized") : ""];
  return h("div", {}, h("span", { class: "label" }, app.t(which)), name(path), h("span", { class: "muted" }, what.filter(Boolean).join(" · ")));
}

function findings(app: App): HTMLElement | null {
  const found = app.report.story.findings;
  if (!found.length) return lookFirst(app);
  const list = h("div", { class: "findings" }, ...found.slice(0, MOST).map((finding, n) => findingCard(app, finding, n)));
  return h("section", {}, h("h2", { class: "title" }, app.t("culprits")), list, moreButton(app, found.length - MOST));
}

function findingCard(app: App, finding: Finding, number: number): HTMLElement {
  const unit = unitOfFinding(app, number);
  return h(
    "article",
    { class: `card finding level-${LEVELS[finding.level]!}` },
    h("header", {}, h("span", { class: "rank" }, number + 1), name(finding.operator, "big", readable(app.report, finding.operator)), h("span", { class: "muted" }, finding.type)),
    h("p", { class: "kind" }, chip(app, finding.level), h("strong", {}, kindText(app, finding.kind)),
      finding.proved ? h("span", { class: "proved", title: app.t("proved_title") }, app.t("proved")) : null,
      finding.share === null ? null : h("span", { class: "muted" }, app.t("share", { share: format.percent(finding.share) }))),
    foundIn(app, number),
    h("div", { class: "visual" }, pictureStrip(app, app.report.document.findings[number]!.row, () => void openOperator(app, finding.operator, number)),
    whenRead(app, app.report.hasUnit(unit), () => app.report.loadUnit(unit, false), () => pathPlot(app, finding, number))),
    h("div", { class: "words" }, finding.evidence.length ? h("div", {}, h("h3", {}, app.t("evidence")), h("ul", {}, ...finding.evidence.map((each) => h("li", {}, app.sentence(each))))) : null,
    finding.remedies.length ? h("div", {}, h("h3", {}, app.t("remedies")), ...finding.remedies.map((each) => app.sentence(each)).map((text) =>
      h("p", { class: "remedy" }, text))) : null,
    finding.command ? h("div", { class: "command" }, h("code", { title: finding.command }, finding.command), copyButton(app, finding.command)) : null,
    finding.passes.length ? h("p", { class: "muted" }, `${app.t("passes")}: ${finding.passes.join(", ")}`) : null,
    finding.before.length ? h("p", { class: "muted" }, `${app.t("before")}: ${finding.before.join(", ")}`) : null,
    h("footer", {},
      button(app.t("open"), () => void openOperator(app, finding.operator, number), "small"),
      app.report.hasGraph && button(app.t("in_graph"), () => showInGraph(app, finding.operator, number), "small quiet"))),
  );
}

function showInGraph(app: App, operator: string, finding: number): void {
  app.unit = app.report.document.findings[finding]?.units[0] ?? app.unit;
  app.go("graph", operator);
}

/** In which tokens a finding was made. */
function foundIn(app: App, finding: number): HTMLElement | null {
  const units = app.report.document.findings[finding]?.units ?? [];
  if (!units.length) return null;
  const place = unitText(app, app.report.tokens!.units[units[0]!]!);
  return h("p", { class: "muted" }, units.length > 1 ? app.t("found_in", { place, more: units.length - 1, count: units.length }) : place);
}

/** Without findings: where errors were born, or else the first bad outputs. */
function lookFirst(app: App): HTMLElement | null {
  const { report } = app;
  const bad: number[] = [], born: number[] = [];
  for (let row = 0; row < report.count; row++) {
    const level = report.levels[row]!;
    if ((level !== SUSPICIOUS && level !== WRONG) || !report.isOutput(row)) continue;
    bad.push(row);
    if (report.origins[row] === BORN) born.push(row);
  }
  const rows = born.length ? born : bad;
  if (!rows.length) return null;
  const shown = rows.slice(0, MOST);
  const looks = (): HTMLElement => h("div", { class: "looks" }, ...shown.map((row) =>
    h("a", { class: "look", attrs: { href: `#/row/${row}` } }, dot(report.levels[row]!), tensorName(app, row),
      h("span", { class: "muted" }, [report.text("type", row), placeText(app, row)].filter(Boolean).join(" · ")), h("span", { class: "why" }, app.sentences("why", row)),
      report.isMeasured(row) && h("span", { class: "num" }, format.cosine(report.metric("cosine", row))))));
  const hint = h("p", { class: "muted hint" }, app.t(born.length ? "look_hint" : "look_hint_plain"));
  return card(app.t("look_first"), "", hint, whenRead(app, shown.every((row) => report.has(row)), () => report.load(shown), looks), moreButton(app, rows.length - MOST));
}

/** Leads to what there is no room for; nothing where there is room for all. */
function moreButton(app: App, count: number): HTMLElement | null {
  return count <= 0 ? null : button(app.t("more", { count }), () => {
    app.filter.levels = new Set([SUSPICIOUS, WRONG]);
    app.go("table");
  }, "small quiet");
}

function curveCard(app: App, curve: Curve, units: HTMLElement): HTMLElement {
  const { curve: chosen } = app;
  const toggle = (label: string, value: boolean, change: (value: boolean) => void): HTMLElement => {
    const box = h("input", { attrs: { type: "checkbox" }, onchange: () => { change(box.checked); curve.load(); } });
    box.checked = value;
    return h("label", { class: "toggle" }, box, label);
  };
  const direction = h("span", { class: "muted" });
  const tell = (): void => {
    const metric = curveMetrics(app.report).find(({ key }) => key === chosen.metric);
    direction.textContent = app.t(metric?.down ? "worst_down" : "worst_up");
  };
  tell();
  const metrics = curveMetrics(app.report).map(({ key }) => [key, app.t(`m_${key}` as Key)] as const);
  const tools = h("div", { class: "tools" }, units,
    select(metrics, chosen.metric, (value) => { chosen.metric = value; tell(); curve.load(); }, app.t("metric")),
    toggle(app.t("log"), chosen.log, (value) => (chosen.log = value)),
    toggle(app.t("outputs_only"), chosen.outputs, (value) => (chosen.outputs = value)),
    direction);
  const { report } = app;
  const present = new Set(report.levels.filter((_, row) => report.isOutput(row)));
  const origins = new Set(report.origins);
  const levels = [WRONG, SUSPICIOUS, 2, 1, 0].filter((level) => present.has(level)).map((level) => h("span", { class: `with-dot level-${LEVELS[level]!}` }, h("i", { class: "point" }), levelText(app, level)));
  const key = h("div", { class: "key muted" }, ...levels, ...(origins.has(BORN) ? [h("span", { class: "ring full" }), app.t("born_sign")] : []), ...(origins.has(INHERITED) ? [h("span", { class: "ring" }), app.t("inherited_sign")] : []),
    h("span", { class: "spacer" }), app.t("curve_hint"));
  return card(app.t("curve"), "curve-card", tools, curve.element, key);
}

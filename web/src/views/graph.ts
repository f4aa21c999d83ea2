// The network: panned, zoomed, searched, folded; from the culprit along its path to the output.
import { button, h, select, sharp } from "../dom";
import { type Camera, HEIGHT, STEP_X, STEP_Y, type Scene, WIDTH, draw } from "../graph/draw";
import type { Layout, LayoutJob } from "../graph/layout";
import { facts, legend } from "../graph/legend";
import { Minimap, extentOf } from "../graph/minimap";
import { type Edge, type Folding, type Network, fold, isBad, networkOf, pathFrom } from "../graph/network";
import { chip, dot, name } from "../parts";
import type { App, View } from "../state";
import { unitQuery, unitSelects } from "./units";

declare const WORKER_SOURCE: string;
const LEAST_ZOOM = 0.02, MOST_ZOOM = 2.5, LARGE = 150, MOST_READABLE = 400, MARGIN = 30, TOOLS = 60, PANEL = 300, NARROW = 700, MOST_NEAR = 8;
// What is chosen stays when the view is left.
const chosen: { folding: Folding | ""; open: Set<string>; constants: boolean; network: Network | null; unit: number } = { folding: "", open: new Set(), constants: false, network: null, unit: 0 };

export function graph(app: App, wanted: string): View { return new GraphView(app, wanted).view(); }

/** The first way to fold that leaves as many shapes as can be read at once; otherwise that with the fewest. */
function firstFolding(network: Network): Folding {
  if (network.operators.length <= LARGE) return "none";
  const counts = (["good", "scope"] as const).map((folding) => [folding, fold(network, folding, new Set()).shapes.length] as const);
  return (counts.find(([, count]) => count <= MOST_READABLE) ?? counts.sort((a, b) => a[1] - b[1])[0]!)[0];
}

class GraphView {
  private network: Network;
  private scene: Scene | null = null;
  private readonly camera: Camera = { scale: 1, x: 0, y: 0 };
  private readonly canvas = h("canvas", { attrs: { tabindex: "0", role: "img" } });
  private readonly status = h("div", { class: "graph-status muted", attrs: { role: "status" } });
  private readonly tip = h("div", { class: "tip", attrs: { hidden: "" } });
  private readonly minimap = new Minimap((x, y) => this.centre(x, y));
  private readonly panel = h("aside", { class: "panel", attrs: { hidden: "" } });
  private readonly found = h("span", { class: "muted" });
  private readonly search: HTMLInputElement;
  private readonly element: HTMLElement;
  private worker: Worker | null = null;
  private address = "";
  private readonly watcher = new ResizeObserver(() => this.redraw());
  private current = -1;
  private matchAt = -1;
  private frame = 0;

  constructor(private readonly app: App, private readonly wanted: string) {
    if (chosen.unit !== app.unit) chosen.network = null;
    chosen.unit = app.unit;
    this.network = chosen.network ??= networkOf(app.report, chosen.constants, app.unit);
    chosen.folding ||= firstFolding(this.network);
    this.canvas.setAttribute("aria-label", app.t("graph"));
    this.search = h("input", { class: "search", attrs: { type: "search", placeholder: app.t("find_operator"), "aria-label": app.t("find_operator") }, oninput: () => this.find(0) });
    this.element = h("main", { class: "full graph-view" }, this.canvas, this.tools(), this.minimap.element, this.panel, this.status, this.tip);
    this.listen();
  }

  view(): View {
    return {
      element: this.element,
      shown: () => { this.watcher.observe(this.element); this.layOut(this.wanted); },
      key: (key) => this.key(key),
      printing: () => this.paint(),
      gone: () => { this.watcher.disconnect(); this.stop(); cancelAnimationFrame(this.frame); },
    };
  }

  private tools(): HTMLElement {
    const { app } = this;
    const foldings = [["none", app.t("group_none")], ["good", app.t("group_good")], ["scope", app.t("group_scope")]] as const;
    const folding = select(foldings, chosen.folding, (value) => { chosen.folding = value as Folding; chosen.open.clear(); this.layOut(this.currentName()); }, app.t("group"));
    const constants = h("input", { attrs: { type: "checkbox" }, onchange: () => {
      const name = this.currentName();
      chosen.constants = constants.checked;
      this.network = chosen.network = networkOf(app.report, chosen.constants, app.unit);
      this.layOut(name);
    } });
    constants.checked = chosen.constants;
    return h("div", { class: "graph-tools" }, this.search, this.found, ...unitSelects(app, () => { app.setAddress(`#/graph/${encodeURIComponent(this.currentName())}${unitQuery(app)}`); app.redraw(); }), folding,
      this.network.known ? h("label", { class: "toggle" }, constants, app.t("constants")) : null,
      button("+", () => this.zoom(1.4), "small quiet"), button("−", () => this.zoom(1 / 1.4), "small quiet"),
      button(app.t("fit"), () => this.fit(), "small quiet"), button(app.t("culprit"), () => this.goTo(this.culprit), "small quiet"), legend(app, this.network));
  }

  private get culprit(): string {
    const { findings, first } = this.app.report.story;
    return findings[0]?.operator || first;
  }

  private currentName(): string { return this.network.operators[this.current]?.name ?? ""; }

  /** Lay out what is drawn, beside the page; then show the operator that is asked for. */
  private layOut(operator: string): void {
    const folded = fold(this.network, chosen.folding || "none", chosen.open);
    this.stop();
    this.status.textContent = this.app.t("laying_out", { count: folded.shapes.length });
    this.address = URL.createObjectURL(new Blob([WORKER_SOURCE], { type: "text/javascript" }));
    this.worker = new Worker(this.address);
    this.worker.onmessage = (event: MessageEvent<Layout>) => {
      this.stop();
      const text = (count: number): string => this.app.t("folded", { count });
      this.scene = { network: this.network, folded, layout: event.data, selected: -1, hovered: -1, path: new Set(), matches: new Set(), foldedText: text };
      this.status.textContent = this.note(folded.edges);
      this.element.dataset["laid"] = String(folded.shapes.length);
      this.minimap.show(this.scene);
      this.fit();
      this.goTo(operator || this.culprit);
    };
    const { clientWidth, clientHeight } = this.element;
    const aspect = ((clientWidth - 2 * MARGIN) / STEP_X) / ((clientHeight - TOOLS - 2 * MARGIN) / STEP_Y);
    const job: LayoutJob = { count: folded.shapes.length, from: Int32Array.from(folded.edges, ({ from }) => from), to: Int32Array.from(folded.edges, ({ to }) => to), aspect };
    this.worker.postMessage(job);
  }

  private note(edges: Edge[]): string {
    if (!this.network.operators.length) return this.app.t("verdict_nothing");
    if (!this.network.known) return this.app.t("no_graph");
    return edges.some(({ guess }) => guess) ? this.app.t("guessed") : "";
  }

  private stop(): void {
    this.worker?.terminate();
    if (this.address) URL.revokeObjectURL(this.address);
    [this.worker, this.address] = [null, ""];
  }

  private redraw(): void {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.paint());
  }

  private paint(): void {
    const { clientWidth: width, clientHeight: height } = this.element;
    if (!this.scene || !width) return;
    draw(sharp(this.canvas, width, height), this.scene, this.camera, width, height);
    this.minimap.frame(this.camera, width, height);
  }

  private fit(): void {
    if (!this.scene) return;
    const { wide, high } = extentOf(this.scene.layout);
    const { clientWidth, clientHeight } = this.element;
    const scale = Math.max(LEAST_ZOOM, Math.min(1, (clientWidth - 2 * MARGIN) / wide, (clientHeight - TOOLS - 2 * MARGIN) / high));
    Object.assign(this.camera, { scale, x: (clientWidth - wide * scale) / 2, y: TOOLS + (clientHeight - TOOLS - high * scale) / 2 });
    this.redraw();
  }

  private centre(x: number, y: number): void {
    const { camera, element } = this;
    Object.assign(camera, { x: element.clientWidth / 2 - x * camera.scale, y: element.clientHeight / 2 - y * camera.scale });
    this.redraw();
  }

  private zoom(by: number, x = this.element.clientWidth / 2, y = this.element.clientHeight / 2): void {
    const { camera } = this;
    const scale = Math.max(LEAST_ZOOM, Math.min(MOST_ZOOM, camera.scale * by));
    camera.x = x - ((x - camera.x) * scale) / camera.scale;
    camera.y = y - ((y - camera.y) * scale) / camera.scale;
    camera.scale = scale;
    this.redraw();
  }

  /** Select an operator by name and bring it to the middle. */
  private goTo(operator: string): void {
    const node = this.network.byName.get(operator) ?? this.network.byName.get(operator.split(",")[0]!);
    if (node === undefined || !this.scene) return;
    this.selectNode(node);
    const shape = this.scene.folded.of[node]!;
    const { camera, element, scene } = this;
    camera.scale = Math.max(camera.scale, 0.9);
    // The panel covers the right side, or the lower half where there is no room beside it.
    camera.x = (element.clientWidth - (element.clientWidth > NARROW ? PANEL : 0)) / 2 - (scene.layout.x[shape]! * STEP_X + WIDTH / 2) * camera.scale;
    camera.y = element.clientHeight * 0.4 - (scene.layout.y[shape]! * STEP_Y + HEIGHT / 2) * camera.scale;
    this.redraw();
  }

  private selectNode(node: number): void {
    if (!this.scene) return;
    const { folded } = this.scene;
    this.current = node;
    this.scene.selected = folded.of[node]!;
    const operator = this.network.operators[node]!;
    this.app.setAddress(`#/graph/${encodeURIComponent(operator.name)}${unitQuery(this.app)}`);
    const knownPath = this.app.report.story.findings.find((finding) => finding.operator === operator.name)?.path ?? [];
    const path = isBad(operator.level) ? pathFrom(this.network, node, knownPath) : new Set<number>();
    this.scene.path = new Set([...path].map((one) => folded.of[one]!));
    this.showPanel(node);
    this.redraw();
  }

  private showPanel(node: number): void {
    const { app, network } = this;
    const operator = network.operators[node]!;
    const shape = this.scene!.folded.shapes[this.scene!.folded.of[node]!]!;
    const near = (title: "producers" | "consumers", nodes: number[]): (HTMLElement | null)[] => !nodes.length ? [] : [h("h3", {}, app.t(title)),
      h("div", { class: "looks" }, ...nodes.slice(0, MOST_NEAR).map((other) => h("a", { class: "look", attrs: { href: "#" }, onclick: (event) => { event.preventDefault(); this.goTo(network.operators[other]!.name); } },
        dot(network.operators[other]!.level), name(network.operators[other]!.name, "", network.operators[other]!.short)))), nodes.length > MOST_NEAR ? h("p", { class: "muted" }, `… + ${nodes.length - MOST_NEAR}`) : null];
    const list = (title: "originals" | "passes", texts: string[]): (HTMLElement | null)[] => !texts.length ? [] : [h("h3", {}, app.t(title)), h("ul", {}, ...texts.map((text) => h("li", {}, name(text))))];
    this.panel.replaceChildren(
      h("header", {}, name(operator.name, "big"), button("×", () => this.panel.setAttribute("hidden", ""), "small quiet", app.t("close"))),
      h("p", {}, chip(app, operator.level, operator.origin), " ", h("span", { class: "muted" }, operator.type)),
      ...(operator.row >= 0 ? [h("p", { class: "why" }, app.sentences("why", operator.row))] : [h("p", { class: "muted" }, app.t("not_dumped"))]),
      ...(this.scene!.path.size > 1 ? [h("p", { class: "muted" }, app.t("path_hint"))] : []),
      ...list("originals", operator.originals.filter((original, _, all) => all.length > 1 || original !== operator.name)).filter((part) => part !== null), ...list("passes", operator.passes).filter((part) => part !== null),
      ...near("producers", network.edges.filter(({ to }) => to === node).map(({ from }) => from)).filter((part) => part !== null),
      ...near("consumers", network.edges.filter(({ from }) => from === node).map(({ to }) => to)).filter((part) => part !== null),
      h("footer", {}, operator.row >= 0 ? button(app.t("open"), () => app.open(operator.row), "small") : "",
        shape.members.length > 1 ? button(`${app.t("unfold")} (${shape.members.length})`, () => this.unfold(shape.key), "small quiet") : ""),
    );
    this.panel.removeAttribute("hidden");
  }

  private unfold(key: string): void {
    chosen.open.add(key);
    this.layOut(this.currentName());
  }

  private find(step: number): void {
    if (!this.scene) return;
    const wanted = this.search.value.trim().toLowerCase();
    const { operators } = this.network;
    const fits = (text: string): boolean => text.toLowerCase().includes(wanted);
    const nodes = wanted ? operators.flatMap(({ name, type, originals }, n) => (fits(name) || fits(type) || originals.some(fits) ? [n] : [])) : [];
    this.scene.matches = new Set(nodes.map((node) => this.scene!.folded.of[node]!));
    this.matchAt = nodes.length ? (step ? (this.matchAt + step + nodes.length) % nodes.length : 0) : -1;
    this.found.textContent = wanted ? this.app.t("matches", { at: this.matchAt + 1, count: nodes.length }) : "";
    if (nodes.length) this.goTo(operators[nodes[this.matchAt]!]!.name);
    this.redraw();
  }

  private at(event: MouseEvent): number {
    if (!this.scene) return -1;
    const { camera } = this;
    const [x, y] = [(event.offsetX - camera.x) / camera.scale, (event.offsetY - camera.y) / camera.scale];
    const { layout } = this.scene;
    for (let n = 0; n < layout.x.length; n++) {
      const [dx, dy] = [x - layout.x[n]! * STEP_X, y - layout.y[n]! * STEP_Y];
      if (dx >= 0 && dx <= WIDTH && dy >= 0 && dy <= HEIGHT) return n;
    }
    return -1;
  }

  private listen(): void {
    const { canvas, camera } = this;
    let drag: { x: number; y: number; moved: boolean } | null = null;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.hover(-1);
      this.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), event.offsetX, event.offsetY);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => { drag = { x: event.clientX, y: event.clientY, moved: false }; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener("pointermove", (event) => {
      if (!drag) return this.hover(this.at(event));
      const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
      if (!drag.moved && Math.hypot(dx, dy) < 4) return;
      this.hover(-1);
      camera.x += dx;
      camera.y += dy;
      drag = { x: event.clientX, y: event.clientY, moved: true };
      this.redraw();
    });
    canvas.addEventListener("pointerleave", () => { if (!drag) this.hover(-1); });
    canvas.addEventListener("pointerup", (event) => {
      const shape = drag && !drag.moved ? this.at(event) : -1;
      drag = null;
      if (shape >= 0) this.selectNode(this.scene!.folded.shapes[shape]!.members[0]!);
    });
    canvas.addEventListener("dblclick", (event) => {
      const shape = this.scene?.folded.shapes[this.at(event)];
      const row = shape ? this.network.operators[shape.members[0]!]!.row : -1;
      if (shape && shape.members.length > 1) this.unfold(shape.key);
      else if (row >= 0) this.app.open(row);
    });
  }

  private hover(shape: number): void {
    if (!this.scene || shape === this.scene.hovered) return;
    this.scene.hovered = shape;
    this.canvas.style.cursor = shape >= 0 ? "pointer" : "grab";
    this.showTip(shape);
    this.redraw();
  }

  private showTip(shape: number): void {
    this.tip.toggleAttribute("hidden", shape < 0);
    if (shape < 0) return;
    const { camera, network, tip } = this;
    const { folded, layout } = this.scene!;
    tip.replaceChildren(...facts(this.app, network, folded.shapes[shape]!).filter((part) => part !== null));
    const top = layout.y[shape]! * STEP_Y * camera.scale + camera.y;
    const isHigh = top < tip.offsetHeight + TOOLS;
    tip.classList.toggle("under", isHigh);
    const half = tip.offsetWidth / 2 + 8;
    tip.style.left = `${Math.max(half, Math.min(this.element.clientWidth - half, (layout.x[shape]! * STEP_X + WIDTH / 2) * camera.scale + camera.x))}px`;
    tip.style.top = `${isHigh ? top + HEIGHT * camera.scale : top}px`;
  }

  private key(key: string): boolean {
    const typing = document.activeElement === this.search;
    if (key === "/") this.search.focus();
    else if (key === "Enter" && typing) this.find(1);
    else if (key === "Enter" && this.current >= 0 && this.network.operators[this.current]!.row >= 0) this.app.open(this.network.operators[this.current]!.row);
    else if (key === "Escape" && !typing && !this.panel.hasAttribute("hidden")) this.panel.setAttribute("hidden", "");
    else if (key === "Escape" && typing) { this.search.value = ""; this.find(0); this.search.blur(); }
    else if ((key === "j" || key === "k") && !typing) this.goTo(this.network.operators[this.current + (key === "j" ? 1 : -1)]?.name ?? "");
    else return false;
    return true;
  }
}

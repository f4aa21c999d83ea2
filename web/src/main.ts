// The page: opens the data, shows the view that the address names, listens to the keyboard.
import { type Report, readReport } from "./data";
import { button, h } from "./dom";
import { App, type View, remember, remembered } from "./state";
import { type Key, type Language, texts } from "./texts";
import { about, keyList } from "./views/about";
import { changes } from "./views/changes";
import { graph } from "./views/graph";
import { missing } from "./views/missing";
import { overview } from "./views/overview";
import { row } from "./views/row";
import { table } from "./views/table";
import { unitOfQuery } from "./views/units";

const root = document.getElementById("app")!;
let view: View | null = null;
let isPrinting = false;

function preferredLanguage(): Language {
  const chosen = remembered("language") ?? navigator.language;
  return chosen.startsWith("zh") ? "zh" : "en";
}

function preferredTheme(): "light" | "dark" {
  const chosen = remembered("theme");
  if (chosen === "light" || chosen === "dark") return chosen;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

async function start(): Promise<void> {
  const language = preferredLanguage();
  document.documentElement.dataset["theme"] = preferredTheme();
  root.replaceChildren(h("p", { class: "loading" }, texts[language].loading));
  const source = document.getElementById("data")!;
  const report = await readReport(source.textContent ?? "");
  source.remove();
  const app = new App(report, () => show(app));
  app.language = language;
  app.theme = preferredTheme();
  window.addEventListener("hashchange", () => { if (location.hash !== app.address) show(app); });
  window.addEventListener("keydown", (event) => pressed(app, event));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (!isPrinting) setTheme(app, preferredTheme()); });
  window.addEventListener("beforeprint", () => print(app, true));
  window.addEventListener("afterprint", () => print(app, false));
  // All rows of a short comparison are in one block.
  if (report.document.blocks.length === 1) await report.loadUnit(app.unit);
  if (!location.hash && report.document.start !== undefined) history.replaceState(null, "", `#/row/${report.document.start}`);
  show(app);
  document.documentElement.dataset["ready"] = "yes";
}

/** The view that the address names, and what of it; an address that names none is that of the overview. */
function address(app: App): [where: string, argument: string] {
  const { report } = app;
  const [where = "", argument = ""] = pathOf(location.hash).split("/").map(safeDecode);
  const known: Record<string, boolean> = { row: isRow(report, argument), tensor: where === "tensor" && app.rowOfTensor(argument) >= 0, graph: report.hasGraph, table: true, missing: true, changes: !!report.document.changes, about: true };
  if (!Object.hasOwn(known, where) || !known[where]) return ["overview", ""];
  return where === "tensor" ? ["row", String(app.rowOfTensor(argument))] : [where, argument];
}

/** An address without its mark and without what is chosen in the view. */
const pathOf = (hash: string): string => hash.replace(/^#\/?/, "").split("?")[0]!;

/** Overview and graph show the token that their address names. */
function chooseUnit(app: App): void {
  const [path, query = ""] = location.hash.split("?");
  if (/^(#?\/?|#\/graph(\/.*)?)$/.test(path!)) app.unit = unitOfQuery(app, new URLSearchParams(query)) ?? app.unit;
}

/** What the address names is read first; `null` if it has been read. */
function reading({ report, unit }: App): Promise<void> | null {
  const [where, argument] = pathOf(location.hash).split("/").map(safeDecode);
  const wanted = where === "row" && isRow(report, argument) ? report.unit(Number(argument)) : where === "tensor" || where === "graph" ? unit : -1;
  return wanted < 0 || report.hasUnit(wanted) ? null : report.loadUnit(wanted);
}

const isRow = (report: Report, argument = ""): boolean => /^\d+$/.test(argument) && Number(argument) < report.count;

function makeView(app: App): View {
  const [where, argument] = address(app);
  if (where === "row") {
    app.selected = Number(argument);
    return row(app, Number(argument));
  }
  if (where === "graph") return graph(app, argument);
  if (where === "table") return table(app);
  if (where === "missing") return missing(app);
  if (where === "changes") return changes(app);
  return where === "about" ? about(app) : overview(app);
}

function safeDecode(text: string): string {
  try { return decodeURIComponent(text); } catch { return text; }
}

function show(app: App): void {
  chooseUnit(app);
  const wait = reading(app);
  if (wait) {
    const wanted = location.hash;
    void wait.then(() => { if (location.hash === wanted) show(app); });
    return;
  }
  view?.gone?.();
  const isOther = pathOf(app.address) !== pathOf(location.hash);
  app.address = location.hash;
  document.documentElement.lang = app.language;
  const [where] = address(app);
  const isUnknown = where === "overview" && pathOf(location.hash) !== "";
  view = makeView(app);
  document.title = titleOf(app, where);
  root.replaceChildren(topBar(app), ...(isUnknown ? [h("p", { class: "notice", attrs: { role: "alert" } }, app.t("unknown_address", { address: safeDecode(location.hash) }))] : []), view.element);
  if (isOther) scrollTo(0, 0);
  if (where !== "row") app.from = location.hash || "#/";
  view.shown?.();
}

/** What the tab is called: the tensor, or the view and the headline. */
function titleOf(app: App, where: string): string {
  if (where === "row") return `${app.report.tensor(app.selected) || app.report.text("target", app.selected)} · opdiff`;
  return where === "overview" ? `opdiff · ${headlineOf(app)}` : `${app.t(where as Key)} · opdiff · ${headlineOf(app)}`;
}

/** The headline in short: the operator that it names, or what else it says. */
function headlineOf(app: App): string {
  const { headline, findings: [finding], first } = app.report.story;
  return headline ? app.t(`verdict_${headline}`) : finding?.operator || first || app.scenario;
}

function topBar(app: App): HTMLElement {
  const [here] = address(app);
  const tabs: Key[] = ["overview", ...(app.report.hasGraph ? (["graph"] as const) : []), "table", "missing", ...(app.report.document.changes ? (["changes"] as const) : []), "about"];
  const current = here === "row" ? "table" : here;
  return h("header", { class: "top" },
    h("a", { class: "brand", attrs: { href: "#/" } }, "op", h("span", {}, "diff")),
    h("nav", {}, ...tabs.map((key) => h("a", { attrs: { href: `#/${key === "overview" ? "" : key}`, ...(key === current ? { "aria-current": "page" } : {}) } }, app.t(key)))),
    h("span", { class: "spacer" }),
    button(app.t("language"), () => {
      app.language = app.language === "en" ? "zh" : "en";
      remember("language", app.language);
      show(app);
    }, "small quiet", "English / 中文"),
    button(app.t(app.theme === "dark" ? "light" : "dark"), () => {
      remember("theme", app.theme === "dark" ? "light" : "dark");
      setTheme(app, app.theme === "dark" ? "light" : "dark");
    }, "small quiet"),
    button("?", () => help(app), "small quiet", app.t("help")));
}

function setTheme(app: App, theme: "light" | "dark"): void {
  app.theme = theme;
  document.documentElement.dataset["theme"] = theme;
  show(app);
}

/** Paper is light, and has everything on it that a screen scrolls to. */
function print(app: App, starts: boolean): void {
  isPrinting = starts;
  document.documentElement.dataset["theme"] = starts ? "light" : app.theme;
  view?.printing?.(starts);
}

function help(app: App): void {
  const dialog = h("dialog", { onclose: () => dialog.remove() }, h("h2", {}, app.t("keys")), keyList(app),
    button(app.t("close"), () => dialog.close(), "small"));
  document.body.append(dialog);
  dialog.showModal();
}

const GO: Record<string, string> = { o: "", g: "graph", t: "table" };

function pressed(app: App, event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
  if (typing && event.key !== "Escape" && !(event.key === "Enter" && event.target instanceof HTMLInputElement)) return;
  if (view?.key?.(event.key)) event.preventDefault();
  else if (event.key === "?") help(app);
  else if (event.key === "/") {
    event.preventDefault();
    app.go("table");
    view?.key?.("/");
  } else if (event.key in GO && (event.key !== "g" || app.report.hasGraph)) app.go(GO[event.key]!);
  else if (event.key === "Escape") app.go("");
}

start().catch((problem: unknown) => {
  const text = texts[preferredLanguage()].failed.replace("{problem}", String(problem));
  root.replaceChildren(h("p", { class: "loading bad" }, text));
});

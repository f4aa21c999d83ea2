// Small pieces that several views share.
import { LEVELS } from "./data";
import { button, h } from "./dom";
import { readable } from "./names";
import type { App } from "./state";
import { type Key, hasText } from "./texts";

// A sign beside every colour: colours alone do not tell everyone apart.
export const SIGNS = ["=", "≈", "~", "!", "✕", "–"] as const;

export function levelText(app: App, level: number): string {
  return app.t(`level_${LEVELS[level]!}` as Key);
}

export function chip(app: App, level: number, origin = 0): HTMLElement {
  return h(
    "span",
    { class: `chip level-${LEVELS[level]!}`, title: app.t(`about_${LEVELS[level]!}` as Key) },
    h("b", {}, SIGNS[level]!),
    levelText(app, level),
    origin > 0 && h("i", {}, app.t(`origin_${origin}` as Key)),
  );
}

export function dot(level: number): HTMLElement {
  return h("span", { class: `dot level-${LEVELS[level]!}` }, SIGNS[level]!);
}

export function kindText(app: App, kind: string): string {
  const key = `finding_${kind}`;
  return hasText(key) ? app.t(key) : kind.replaceAll("-", " ");
}

export function card(title: string, className: string, ...children: (Node | null)[]): HTMLElement {
  return h("section", { class: `card ${className}` }, title ? h("h2", {}, title) : null, ...children);
}

export function copyButton(app: App, text: string): HTMLButtonElement {
  const element = button(app.t("copy"), () => {
    copy(text);
    element.textContent = app.t("copied");
    setTimeout(() => (element.textContent = app.t("copy")), 1500);
  }, "small quiet");
  return element;
}

function copy(text: string): void {
  const field = h("textarea", { class: "offscreen" });
  field.value = text;
  document.body.append(field);
  field.select();
  // Pages from disk may not use the newer way.
  document.execCommand("copy");
  field.remove();
}

/** A name that may be long: its end tells most, so it is cut at the front. A short form is shown in its place, if there is one. */
export function name(text: string, className = "", short = text): HTMLElement {
  // Long names are broken behind the steps of their path, where there is a choice.
  const steps = className === "big" ? short.split(/(?<=[/.])/).flatMap((step, n) => (n ? [h("wbr"), step] : [step])) : [short];
  return h("code", { class: `name ${className}`, title: text }, ...steps);
}

/** What is made of rows: at once if they have been read, otherwise when they are. */
export function whenRead(app: App, isRead: boolean, read: () => Promise<void>, make: () => HTMLElement | null): HTMLElement | null {
  if (isRead) return make();
  const waiting = h("p", { class: "muted reading" }, app.t("loading"));
  void read().then(() => { const made = make(); if (made) waiting.replaceWith(made); else waiting.remove(); });
  return waiting;
}

/** The tensor of a row, its operator by its short name; the full name is the hover text. */
export function tensorName({ report }: App, row: number): HTMLElement {
  const tensor = report.tensor(row) || report.text("target", row), operator = report.text("operator", row);
  return name(tensor, "", operator ? readable(report, operator) + tensor.slice(operator.length) : tensor);
}

export function definition(pairs: [string, Node | string][]): HTMLElement {
  return h("dl", {}, ...pairs.flatMap(([term, value]) => [h("dt", {}, term), h("dd", {}, value)]));
}

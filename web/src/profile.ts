// Where in a tensor its errors are: a bar for each slice of an axis.
import type { Numbers, Profile } from "./data";
import { h } from "./dom";
import * as format from "./format";
import { card } from "./parts";
import type { App } from "./state";

// A slice stands out whose error is so many times the usual one.
const FAR = 5;

export function profileCards(app: App, row: number): HTMLElement[] {
  return app.report.profiles(row).map((profile) => card(title(app, profile), "profile", ...chart(app, profile)));
}

function title(app: App, { axis, letter }: Profile): string {
  if (letter === "C") return app.t("profile_channel");
  return letter ? app.t("profile_letter", { letter }) : app.t("profile_axis", { axis });
}

function chart(app: App, profile: Profile): HTMLElement[] {
  const shares = sharesOf(profile);
  const highest = Math.max(...profile.errors) || 1;
  const usual = median(profile.errors);
  const told = h("p", { class: "told", attrs: { "aria-live": "polite" } });
  const worst = worstOf(profile, shares);
  const tell = (place: number): void => { told.textContent = textOf(app, profile, place, shares[place]!); };
  const bars = Array.from(profile.errors, (error, place) => {
    const special = profile.notFinite[place]! > 0;
    const far = special || (error > FAR * usual && shares[place]! > 1 / shares.length);
    const fill = h("span", { class: far ? "fill far" : "fill" });
    fill.style.height = special ? "100%" : error ? `max(2px, ${(100 * error) / highest}%)` : "0";
    return h("div", { class: "hbar", title: textOf(app, profile, place, shares[place]!), onpointerenter: () => tell(place) }, fill);
  });
  const plot = h("div", { class: bars.length > 64 ? "hbars dense" : "hbars", onpointerleave: () => tell(worst) }, ...bars);
  tell(worst);
  return [where(app, profile), h("div", { class: "histogram" }, plot, labels(profile, bars.length)), told];
}

function where(app: App, { axis, extent, width, seen }: Profile): HTMLElement {
  const parts = [app.t("profile_where", { axis, count: format.number(extent) })];
  if (width > 1) parts.push(app.t("profile_width", { width }));
  if (seen < 1) parts.push(app.t("profile_seen", { share: format.percent(seen) }));
  return h("p", { class: "muted hint" }, parts.join(" · "));
}

function textOf(app: App, profile: Profile, place: number, share: number): string {
  const [first, last] = [place * profile.width, Math.min((place + 1) * profile.width, profile.extent) - 1];
  const parts = [app.t("profile_error", { error: format.number(profile.errors[place], 4), largest: format.number(profile.largest[place], 4) })];
  if (profile.notFinite[place]) parts.push(app.t("profile_special", { count: format.number(profile.notFinite[place]) }));
  else parts.push(app.t("profile_share", { share: format.percent(share) }));
  const name = `${profile.letter || `[${profile.axis}]`} ${first === last ? first : `${first}–${last}`}`;
  return `${name}: ${parts.join(app.t("comma"))}`;
}

/** The part of the squared error that each slice has. */
function sharesOf({ errors, extent, width }: Profile): number[] {
  const squares = Array.from(errors, (error, place) => error * error * Math.min(width, extent - place * width));
  const total = squares.reduce((sum, square) => sum + square, 0) || 1;
  return squares.map((square) => square / total);
}

function worstOf({ notFinite }: Profile, shares: number[]): number {
  const sizes = notFinite.some((count) => count > 0) ? Array.from(notFinite) : shares;
  return sizes.indexOf(Math.max(...sizes));
}

function median(numbers: Numbers): number {
  const sorted = Array.from(numbers).sort((a, b) => a - b);
  return sorted[sorted.length >> 1] ?? 0;
}

function labels({ width }: Profile, count: number): HTMLElement {
  const step = Math.max(1, Math.ceil(count / 8));
  const shown = Array.from({ length: Math.ceil(count / step) }, (_, n) => {
    const label = h("span", {}, n * step * width);
    label.style.flexGrow = String(Math.min(step, count - n * step));
    return label;
  });
  return h("div", { class: "hlabels" }, ...shown);
}

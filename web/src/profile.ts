// Bar chart of the errors along an axis: a bar for each slice.
import type { Numbers } from "./arrays";
import type { Profile } from "./data";
import { h } from "./dom";
import * as format from "./format";
import { card } from "./parts";
import type { App } from "./state";

// Slices with an error above this multiple of the median are highlighted.
const MIN_OUTLIER_RATIO = 5;

export function profileCards(app: App, row: number): HTMLElement[] {
  return app.report.profiles(row).map((profile) => card(title(app, profile), "profile", ...chart(app, profile)));
}

function title(app: App, { axis, label }: Profile): string {
  if (label === "C") return app.t("profile_channel");
  return label ? app.t("profile_label", { label }) : app.t("profile_axis", { axis });
}

function chart(app: App, profile: Profile): HTMLElement[] {
  const shares = sharesOf(profile);
  const maxError = Math.max(...profile.errors) || 1;
  const typicalError = median(profile.errors);
  const readout = h("p", { class: "readout", attrs: { "aria-live": "polite" } });
  const worst = worstOf(profile, shares);
  const show = (slice: number): void => { readout.textContent = textOf(app, profile, slice, shares[slice]!); };
  const bars = Array.from(profile.errors, (error, slice) => {
    const isNotFinite = profile.notFinite[slice]! > 0;
    const isOutlier = isNotFinite || (error > MIN_OUTLIER_RATIO * typicalError && shares[slice]! > 1 / shares.length);
    const fill = h("span", { class: isOutlier ? "fill outlier" : "fill" });
    fill.style.height = isNotFinite ? "100%" : error ? `max(2px, ${(100 * error) / maxError}%)` : "0";
    return h("div", { class: "hbar", title: textOf(app, profile, slice, shares[slice]!), onpointerenter: () => show(slice) }, fill);
  });
  const plot = h("div", { class: bars.length > 64 ? "hbars dense" : "hbars", onpointerleave: () => show(worst) }, ...bars);
  show(worst);
  return [where(app, profile), h("div", { class: "histogram" }, plot, labels(profile, bars.length)), readout];
}

function where(app: App, { axis, extent, width, sampledShare }: Profile): HTMLElement {
  const parts = [app.t("profile_where", { axis, count: format.number(extent) })];
  if (width > 1) parts.push(app.t("profile_width", { width }));
  if (sampledShare < 1) parts.push(app.t("profile_sample", { share: format.percent(sampledShare) }));
  return h("p", { class: "muted hint" }, parts.join(" · "));
}

function textOf(app: App, profile: Profile, slice: number, share: number): string {
  const [first, last] = [slice * profile.width, Math.min((slice + 1) * profile.width, profile.extent) - 1];
  const parts = [app.t("profile_error", { error: format.number(profile.errors[slice], 4), largest: format.number(profile.largest[slice], 4) })];
  if (profile.notFinite[slice]) parts.push(app.t("profile_special", { count: format.number(profile.notFinite[slice]) }));
  else parts.push(app.t("profile_share", { share: format.percent(share) }));
  const name = `${profile.label || `[${profile.axis}]`} ${first === last ? first : `${first}–${last}`}`;
  return `${name}: ${parts.join(app.t("comma"))}`;
}

/** Share of the squared error of each slice. */
function sharesOf({ errors, extent, width }: Profile): number[] {
  const squares = Array.from(errors, (error, slice) => error * error * Math.min(width, extent - slice * width));
  const total = squares.reduce((sum, square) => sum + square, 0) || 1;
  return squares.map((square) => square / total);
}

function worstOf({ notFinite }: Profile, shares: number[]): number {
  const weights = notFinite.some((count) => count > 0) ? Array.from(notFinite) : shares;
  return weights.indexOf(Math.max(...weights));
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

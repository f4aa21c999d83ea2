// A table of any length: only the rows in view exist.
import { h } from "./dom";

export interface Cell { text?: string; node?: Node; title?: string; class?: string }
export interface ColumnSpec { key: string; title: string; width: string; right?: boolean; sortable?: boolean; cell: (row: number) => Cell }

const HEIGHT = 34;
const SPARE = 6;
const MOST_PRINTED = 2000;

/** What columns need at least, in rem: the first number of each width. */
export const leastWidth = (columns: ColumnSpec[]): number => columns.reduce((sum, { width }) => sum + parseFloat(width.replace("minmax(", "")), 0);

export class VirtualTable {
  readonly element: HTMLElement;
  private rows: ArrayLike<number> = [];
  private selected = -1;
  private readonly body = h("div", { class: "vbody" });
  private readonly header: HTMLElement;
  private readonly shown = new Map<number, HTMLElement>();
  private sorted = { column: "", down: false };
  private isPrinting = false;

  constructor(
    private readonly columns: ColumnSpec[],
    private readonly open: (row: number) => void,
    sort?: (column: string) => void,
  ) {
    const layout = columns.map((column) => column.width).join(" ");
    this.header = h("div", { class: "vhead", attrs: { role: "row" } }, ...columns.map((column) => this.heading(column, sort)));
    this.element = h("div", { class: "vtable", attrs: { role: "grid", tabindex: "0" }, onscroll: () => this.draw() }, this.header, this.body);
    this.element.style.setProperty("--columns", layout);
    this.element.style.setProperty("--least", `${leastWidth(columns)}rem`);
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  show(rows: ArrayLike<number>, sorted = this.sorted): void {
    this.rows = rows;
    this.sorted = sorted;
    this.element.setAttribute("aria-rowcount", String(rows.length));
    for (const [n, heading] of [...this.header.children].entries()) {
      const column = this.columns[n]!;
      heading.setAttribute("aria-sort", column.key === sorted.column ? (sorted.down ? "descending" : "ascending") : "none");
    }
    this.redraw();
  }

  /** Select a place and bring it into view. */
  private select(place: number): void {
    this.selected = Math.max(0, Math.min(place, this.rows.length - 1));
    const top = this.selected * HEIGHT;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + 2 * HEIGHT > scrollTop + clientHeight) this.element.scrollTop = top + 2 * HEIGHT - clientHeight;
    this.redraw();
  }

  selectRow(row: number): void {
    for (let place = 0; place < this.rows.length; place++) if (this.rows[place] === row) return this.select(place);
  }

  private heading(column: ColumnSpec, sort?: (column: string) => void): HTMLElement {
    const props = { class: column.right ? "right" : "", attrs: { role: "columnheader" } };
    if (!sort || column.sortable === false) return h("div", props, h("span", {}, column.title));
    return h("div", props, h("button", { attrs: { type: "button" }, onclick: () => sort(column.key) }, column.title));
  }

  /** The keys that every table has. */
  key(pressed: string): boolean {
    if (pressed === "j") this.select(this.selected + 1);
    else if (pressed === "k") this.select(this.selected - 1);
    else if (pressed === "Enter" && this.selected >= 0 && this.selected < this.rows.length) this.open(this.rows[this.selected]!);
    else return false;
    return true;
  }

  /** On paper there is no scrolling: all rows exist, as far as anybody would print them. */
  printing(isPrinting: boolean): void {
    this.isPrinting = isPrinting;
    const more = this.rows.length - MOST_PRINTED;
    if (isPrinting && more > 0) this.element.dataset["more"] = `… + ${more}`;
    else delete this.element.dataset["more"];
    this.redraw();
  }

  private redraw(): void {
    this.body.style.height = `${(this.isPrinting ? Math.min(this.rows.length, MOST_PRINTED) : this.rows.length) * HEIGHT}px`;
    this.shown.clear();
    this.body.replaceChildren();
    this.draw();
  }

  private draw(): void {
    const { scrollTop, clientHeight } = this.element;
    const first = this.isPrinting ? 0 : Math.max(0, Math.floor(scrollTop / HEIGHT) - SPARE);
    const last = Math.min(this.rows.length, this.isPrinting ? MOST_PRINTED : Math.ceil((scrollTop + clientHeight) / HEIGHT) + SPARE);
    for (const [place, element] of this.shown) {
      if (place >= first && place < last) continue;
      element.remove();
      this.shown.delete(place);
    }
    for (let place = first; place < last; place++) {
      if (this.shown.has(place)) continue;
      const element = this.line(place);
      this.shown.set(place, element);
      this.body.append(element);
    }
  }

  private line(place: number): HTMLElement {
    const row = this.rows[place]!;
    const cells = this.columns.map((column) => {
      const { text, node, title, class: extra } = column.cell(row);
      return h("div", { class: `${column.right ? "right num" : ""} ${extra ?? ""}`, title: title ?? text ?? "", attrs: { role: "gridcell", "data-column": column.key } }, node ?? text ?? "");
    });
    const element = h("div", { class: place === this.selected ? "vrow selected" : "vrow", attrs: { role: "row", "data-row": String(row) }, onclick: () => this.open(row) }, ...cells);
    element.style.transform = `translateY(${place * HEIGHT}px)`;
    return element;
  }
}

// A table of any length: only the rows in view exist.
import { h } from "./dom";

export interface Cell { text?: string; node?: Node; title?: string; class?: string }
export interface ColumnSpec { key: string; title: string; width: string; right?: boolean; sortable?: boolean; cell: (row: number) => Cell }

const HEIGHT = 34;
const SPARE = 6;

export class VirtualTable {
  readonly element: HTMLElement;
  private rows: ArrayLike<number> = [];
  private selected = -1;
  private readonly body = h("div", { class: "vbody" });
  private readonly header: HTMLElement;
  private readonly shown = new Map<number, HTMLElement>();
  private sorted = { column: "", down: false };

  constructor(
    private readonly columns: ColumnSpec[],
    private readonly open: (row: number) => void,
    sort?: (column: string) => void,
  ) {
    const layout = columns.map((column) => column.width).join(" ");
    this.header = h("div", { class: "vhead", attrs: { role: "row" } }, ...columns.map((column) => this.heading(column, sort)));
    this.element = h("div", { class: "vtable", attrs: { role: "grid", tabindex: "0" }, onscroll: () => this.draw() }, this.header, this.body);
    this.element.style.setProperty("--columns", layout);
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  show(rows: ArrayLike<number>, sorted = this.sorted): void {
    this.rows = rows;
    this.sorted = sorted;
    this.element.setAttribute("aria-rowcount", String(rows.length));
    this.body.style.height = `${rows.length * HEIGHT}px`;
    for (const [n, heading] of [...this.header.children].entries()) {
      const column = this.columns[n]!;
      heading.setAttribute("aria-sort", column.key === sorted.column ? (sorted.down ? "descending" : "ascending") : "none");
    }
    this.redraw();
  }

  get length(): number { return this.rows.length; }
  get place(): number { return this.selected; }
  get row(): number { return this.selected < 0 ? -1 : this.rows[this.selected]!; }

  /** Select a place and bring it into view. */
  select(place: number): void {
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

  private redraw(): void {
    this.shown.clear();
    this.body.replaceChildren();
    this.draw();
  }

  private draw(): void {
    const first = Math.max(0, Math.floor(this.element.scrollTop / HEIGHT) - SPARE);
    const last = Math.min(this.rows.length, Math.ceil((this.element.scrollTop + this.element.clientHeight) / HEIGHT) + SPARE);
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
      return h("div", { class: `${column.right ? "right num" : ""} ${extra ?? ""}`, title: title ?? text ?? "", attrs: { role: "gridcell" } }, node ?? text ?? "");
    });
    const element = h("div", { class: place === this.selected ? "vrow selected" : "vrow", attrs: { role: "row", "data-row": String(row) }, onclick: () => this.open(row) }, ...cells);
    element.style.transform = `translateY(${place * HEIGHT}px)`;
    return element;
  }
}

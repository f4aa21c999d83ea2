// A table of any length: only the rows in view exist, and rows that have not been read are filled in when they are.
import { h } from "./dom";

export interface Cell { text?: string; node?: Node; title?: string; class?: string }
/** `early` cells are known before the row has been read. */
export interface ColumnSpec { key: string; title: string; width: string; right?: boolean; sortable?: boolean; early?: boolean; cell: (row: number) => Cell }
/** Where rows are read from. */
export interface RowSource { has: (row: number) => boolean; load: (rows: number[]) => Promise<void> }

/** Whether there is room only for what matters most: levels are signs without words, then. */
export const isWindowNarrow = (): boolean => window.innerWidth < NARROW;

const NARROW = 700;
const HEIGHT = 34;
const SPARE = 6;
const MOST_PRINTED = 2000;
// Browsers make no elements that are much higher; a longer table is scrolled faster than its rows are high.
const MOST_PIXELS = 15_000_000;
const UNREAD = "…";

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
  private isFilling = false;

  constructor(
    private readonly columns: ColumnSpec[],
    private readonly open: (row: number) => void,
    private readonly source: RowSource | null = null,
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
    this.element.scrollTop = 0;
    this.redraw();
  }

  /** Pixels of the rows for each one of the scroll bar. */
  private get factor(): number {
    const seen = this.element.clientHeight - this.header.offsetHeight;
    return Math.max(1, (this.rows.length * HEIGHT - seen) / (MOST_PIXELS - seen));
  }

  /** Select a place and bring it into view. */
  private select(place: number): void {
    this.selected = Math.max(0, Math.min(place, this.rows.length - 1));
    const top = this.selected * HEIGHT, seen = this.element.scrollTop * this.factor, { clientHeight } = this.element;
    if (top < seen) this.element.scrollTop = top / this.factor;
    else if (top + 2 * HEIGHT > seen + clientHeight) this.element.scrollTop = (top + 2 * HEIGHT - clientHeight) / this.factor;
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
    const rows = this.isPrinting ? Math.min(this.rows.length, MOST_PRINTED) : this.rows.length;
    this.body.style.height = `${Math.min(rows * HEIGHT, MOST_PIXELS)}px`;
    this.clear();
    this.draw();
  }

  private clear(): void {
    this.shown.clear();
    this.body.replaceChildren();
  }

  private draw(): void {
    const { clientHeight } = this.element, top = this.element.scrollTop * this.factor;
    // Rows move against a body that is not as high as all of them.
    if (this.factor > 1) this.clear();
    const first = this.isPrinting ? 0 : Math.max(0, Math.floor(top / HEIGHT) - SPARE);
    const last = Math.min(this.rows.length, this.isPrinting ? MOST_PRINTED : Math.ceil((top + clientHeight) / HEIGHT) + SPARE);
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
    void this.fill();
  }

  /** Read the rows in view that have not been read, one block after the other. */
  private async fill(): Promise<void> {
    if (!this.source || this.isFilling) return;
    this.isFilling = true;
    for (;;) {
      const unread = [...this.shown].find(([, element]) => "unread" in element.dataset);
      if (!unread) break;
      await this.source.load([this.rows[unread[0]]!]);
      for (const [place, element] of [...this.shown]) {
        if (!("unread" in element.dataset) || !this.source.has(this.rows[place]!)) continue;
        const line = this.line(place);
        this.shown.set(place, line);
        element.replaceWith(line);
      }
    }
    this.isFilling = false;
  }

  private line(place: number): HTMLElement {
    const row = this.rows[place]!;
    const isRead = !this.source || this.source.has(row);
    const cells = this.columns.map((column) => {
      const { text, node, title, class: extra } = isRead || column.early ? column.cell(row) : { text: UNREAD };
      return h("div", { class: `${column.right ? "right num" : ""} ${extra ?? ""}`, title: title ?? text ?? "", attrs: { role: "gridcell", "data-column": column.key } }, node ?? text ?? "");
    });
    const attrs = { role: "row", "data-row": String(row), ...(isRead ? {} : { "data-unread": "" }) };
    const element = h("div", { class: place === this.selected ? "vrow selected" : "vrow", attrs, onclick: () => this.open(row) }, ...cells);
    const { scrollTop } = this.element;
    element.style.transform = `translateY(${this.isPrinting ? place * HEIGHT : place * HEIGHT - scrollTop * (this.factor - 1)}px)`;
    return element;
  }
}

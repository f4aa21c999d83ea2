// Elements without markup: texts are always texts.
export type Child = Node | string | number | null | undefined | false;
type Handlers = { [K in keyof HTMLElementEventMap as `on${K}`]?: (event: HTMLElementEventMap[K]) => void };
export interface Props extends Handlers {
  class?: string;
  title?: string;
  id?: string;
  attrs?: Record<string, string>;
}

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props: Props = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined) continue;
    if (name === "attrs") for (const [key, text] of Object.entries(value)) element.setAttribute(key, String(text));
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value as EventListener);
    else if (name === "class") element.className = value as string;
    else element.setAttribute(name, value as string);
  }
  add(element, ...children);
  return element;
}

export function add(parent: Node, ...children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    parent.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

export function button(label: string, onclick: () => void, className = "", title = ""): HTMLButtonElement {
  return h("button", { class: className, title, onclick, attrs: { type: "button" } }, label);
}

export function select(
  options: readonly (readonly [string, string])[],
  value: string,
  change: (value: string) => void,
  label: string,
): HTMLSelectElement {
  const element = h(
    "select",
    { attrs: { "aria-label": label }, onchange: () => change(element.value) },
    ...options.map(([key, text]) => h("option", { attrs: { value: key } }, text)),
  );
  element.value = value;
  return element;
}

/** A canvas as sharp as the screen; returns its context, scaled to CSS pixels. */
export function sharp(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d")!;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

/** The colours of the theme, for what is drawn on a canvas. */
export function colours(): (name: string) => string {
  const style = getComputedStyle(document.documentElement);
  const known = new Map<string, string>();
  return (name) => {
    let colour = known.get(name);
    if (colour === undefined) known.set(name, (colour = style.getPropertyValue(`--${name}`).trim()));
    return colour;
  };
}

// Elements of SVG without markup of data. The page has no address in it, so the parser tells that of their namespace.
const NAMESPACE = new DOMParser().parseFromString("<svg>", "text/html").querySelector("svg")!.namespaceURI;

export function svg<K extends keyof SVGElementTagNameMap>(tag: K, attributes: Record<string, string | number>, ...children: (Node | string)[]): SVGElementTagNameMap[K] {
  const element = document.createElementNS(NAMESPACE, tag) as SVGElementTagNameMap[K];
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

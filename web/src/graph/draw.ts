// The network on a canvas: only what is in view, and text only where it can be read.
import { BORN, INHERITED, LEVELS } from "../data";
import { colours } from "../dom";
import { SIGNS } from "../parts";
import { shortened } from "./label";
import { GUTTER, type Layout } from "./layout";
import { type Folded, type Network, isBad } from "./network";

export const STEP_X = 208, STEP_Y = 92, WIDTH = 180, HEIGHT = 46;
// Below these scales there is no text, there are no curves.
const READABLE = 0.3, CURVED = 0.12;
// Text is this large on the screen, as far as its node has room.
const FONT = 12, LARGEST_FONT = 26, SMALLEST = 0.75, CORNER = 8, LANE = 3, LANES = 5;
// For text in a node, and between two texts.
const ROOM = WIDTH - 28, GAP = 8;

export interface Camera { scale: number; x: number; y: number }
export interface Scene {
  network: Network; folded: Folded; layout: Layout;
  selected: number; hovered: number; path: Set<number>; matches: Set<number>;
  foldedText: (count: number) => string;
}

export function draw(context: CanvasRenderingContext2D, scene: Scene, camera: Camera, width: number, height: number): void {
  const colour = colours();
  context.clearRect(0, 0, width, height);
  context.save();
  context.translate(camera.x, camera.y);
  context.scale(camera.scale, camera.scale);
  const view = { left: -camera.x / camera.scale, top: -camera.y / camera.scale, right: (width - camera.x) / camera.scale, bottom: (height - camera.y) / camera.scale };
  drawEdges(context, scene, camera, view, colour);
  drawShapes(context, scene, camera, view, colour);
  context.restore();
}

interface Rectangle { left: number; top: number; right: number; bottom: number }
type Colour = (name: string) => string;

function drawEdges(context: CanvasRenderingContext2D, scene: Scene, camera: Camera, view: Rectangle, colour: Colour): void {
  const { folded, layout, path } = scene;
  const strong: number[] = [];
  for (const guess of [false, true]) {
    context.beginPath();
    folded.edges.forEach((edge, n) => {
      if (edge.guess !== guess || !isSeen(layout, edge.from, edge.to, view)) return;
      if (path.has(edge.from) && path.has(edge.to)) strong.push(n);
      else trace(context, layout, n, edge.from, edge.to, camera.scale > CURVED);
    });
    context.setLineDash(guess && camera.scale > READABLE ? [5, 5] : []);
    context.strokeStyle = colour("edge");
    context.lineWidth = Math.max(1.2, 0.7 / camera.scale);
    context.stroke();
  }
  context.setLineDash([]);
  context.beginPath();
  for (const n of strong) trace(context, layout, n, folded.edges[n]!.from, folded.edges[n]!.to, camera.scale > CURVED);
  context.strokeStyle = colour("wrong");
  context.lineWidth = Math.max(3, 2 / camera.scale);
  context.stroke();
}

function isSeen({ x, y, columns }: Layout, from: number, to: number, view: Rectangle): boolean {
  const [left, right] = [Math.min(x[from]!, x[to]!) * STEP_X - 4 * STEP_X, Math.max(x[from]!, x[to]!) * STEP_X + 5 * STEP_X];
  if (right < view.left || left > view.right) return false;
  // An edge to another column may pass any layer.
  if (columnAt(columns, x[from]!) !== columnAt(columns, x[to]!)) return true;
  const [low, high] = [Math.min(y[from]!, y[to]!) * STEP_Y, Math.max(y[from]!, y[to]!) * STEP_Y + HEIGHT];
  return high >= view.top && low <= view.bottom;
}

/** The column of a place: the last one that starts before it. */
function columnAt(columns: Float32Array, x: number): number {
  let found = 0;
  while (found + 1 < columns.length && columns[found + 1]! <= x + GUTTER / 2) found++;
  return found;
}

function trace(context: CanvasRenderingContext2D, { x, y, bends, bendStart, columns }: Layout, edge: number, from: number, to: number, curved: boolean): void {
  const middle = (place: number): number => place * STEP_X + WIDTH / 2;
  let px = x[from]!, py = y[from]! * STEP_Y + HEIGHT;
  context.moveTo(middle(px), py);
  const go = (qx: number, qy: number): void => {
    const column = columnAt(columns, qx);
    if (columnAt(columns, px) !== column) around(context, [middle(px), py], [middle(qx), qy], (columns[column]! - GUTTER / 2) * STEP_X, edge % LANES);
    else if (curved && px !== qx) context.bezierCurveTo(middle(px), (py + qy) / 2, middle(qx), (py + qy) / 2, middle(qx), qy);
    else context.lineTo(middle(qx), qy);
    [px, py] = [qx, qy];
  };
  for (let n = bendStart[edge]!; n < bendStart[edge + 1]!; n++) {
    const by = bends[2 * n + 1]! * STEP_Y;
    go(bends[2 * n]!, by);
    context.lineTo(middle(px), by + HEIGHT);
    py = by + HEIGHT;
  }
  go(x[to]!, y[to]! * STEP_Y);
}

/** Go to another column: between two layers, along the gutter before that column, between two layers again. */
function around(context: CanvasRenderingContext2D, [px, py]: [number, number], [qx, qy]: [number, number], gutter: number, lane: number): void {
  const gap = (STEP_Y - HEIGHT) / 2 + (lane - 2) * LANE, at = gutter - WIDTH * 0.1 + (lane - 2) * LANE;
  const corners = [[px, py + gap], [at, py + gap], [at, qy - gap], [qx, qy - gap], [qx, qy]] as const;
  for (let n = 0; n + 1 < corners.length; n++) context.arcTo(...corners[n]!, ...corners[n + 1]!, CORNER);
  context.lineTo(qx, qy);
}

function drawShapes(context: CanvasRenderingContext2D, scene: Scene, camera: Camera, view: Rectangle, colour: Colour): void {
  const { folded, layout } = scene;
  const dimmed = scene.matches.size > 0;
  folded.shapes.forEach((_, n) => {
    const left = layout.x[n]! * STEP_X, top = layout.y[n]! * STEP_Y;
    if (left > view.right || left + WIDTH < view.left || top > view.bottom || top + HEIGHT < view.top) return;
    context.globalAlpha = dimmed && !scene.matches.has(n) ? 0.3 : 1;
    drawShape(context, scene, n, left, top, camera.scale, colour);
  });
  context.globalAlpha = 1;
}

function drawShape(context: CanvasRenderingContext2D, scene: Scene, n: number, left: number, top: number, scale: number, colour: Colour): void {
  const shape = scene.folded.shapes[n]!;
  const paint = colour(LEVELS[shape.level]!);
  const readable = scale >= READABLE;
  if (shape.members.length > 1 && readable) {
    // A second sheet behind it: here are several.
    box(context, left + 5, top + 5, colour("card"), colour("border"), 1);
  }
  const outlined = n === scene.selected || n === scene.hovered;
  box(context, left, top, readable ? colour("card") : paint, outlined ? colour("text") : scene.path.has(n) ? colour("wrong") : colour("border"), outlined ? 2.5 : scene.path.has(n) ? 2 : 1);
  if (!readable) return;
  context.save();
  context.beginPath();
  context.roundRect(left, top, WIDTH, HEIGHT, 7);
  context.clip();
  context.fillStyle = paint;
  if (shape.origin === INHERITED) {
    context.globalAlpha *= 0.55;
    context.fillRect(left, top, 4, HEIGHT);
  } else context.fillRect(left, top, shape.origin === BORN ? 10 : 7, HEIGHT);
  context.restore();
  label(context, scene, n, left + 18, top, scale, colour, paint);
}

function box(context: CanvasRenderingContext2D, left: number, top: number, fill: string, stroke: string, width: number): void {
  context.beginPath();
  context.roundRect(left, top, WIDTH, HEIGHT, 7);
  context.fillStyle = fill;
  context.fill();
  context.strokeStyle = stroke;
  context.lineWidth = width;
  context.stroke();
}

function label(context: CanvasRenderingContext2D, scene: Scene, n: number, left: number, top: number, scale: number, colour: Colour, paint: string): void {
  const shape = scene.folded.shapes[n]!;
  const operator = scene.network.operators[shape.members[0]!]!;
  const isFolded = shape.members.length > 1;
  const title = isFolded ? shape.label || scene.foldedText(shape.members.length) : operator.short;
  context.textBaseline = "alphabetic";
  context.fillStyle = colour("text");
  const fits = (text: string): boolean => context.measureText(text).width <= ROOM;
  const size = Math.min(LARGEST_FONT, FONT / scale);
  if (size > FONT * 1.3) {
    // There is room for one line; letters become smaller before any of them are left out.
    const setSize = (size: number): void => { context.font = `600 ${size}px ${colour("font")}`; };
    setSize(size);
    const smaller = Math.max(size * SMALLEST, (size * ROOM) / context.measureText(lastPart(title)).width);
    setSize(Math.min(size, smaller));
    context.fillText(shortened(firstPart(title), fits), left, top + HEIGHT / 2 + size * 0.35);
    return;
  }
  const under = isFolded ? (shape.label ? scene.foldedText(shape.members.length) : "") : operator.type + (operator.originals.length > 1 ? `  ⊕ ${operator.originals.length}` : "");
  context.font = `600 12px ${colour("font")}`;
  context.fillText(shortened(title, fits), left, top + (under ? 19 : 28));
  context.fillStyle = isBad(shape.level) ? paint : colour("muted");
  context.font = `11px ${colour("font")}`;
  context.textAlign = "right";
  const value = `${isFolded ? "" : operator.value} ${SIGNS[shape.level]!}`, taken = context.measureText(value).width + GAP;
  context.fillText(value, left + ROOM, top + 36);
  context.textAlign = "left";
  context.fillStyle = colour("muted");
  context.fillText(shortened(under, (text) => context.measureText(text).width <= ROOM - taken), left, top + 36);
}

/** A name without the parts behind the first one. */
const firstPart = (title: string): string => title.split(" + ")[0]!;

/** What of a name has to be read at least: its first part without the path. */
const lastPart = (title: string): string => firstPart(title).replace(/^.* · /, "").replace(/^.*\//, "");

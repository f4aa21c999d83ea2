// The whole network in a corner, with the part that is in view; a click or drag goes there.
import { LEVELS } from "../data";
import { colours, h, sharp } from "../dom";
import { type Camera, HEIGHT, STEP_X, STEP_Y, type Scene, WIDTH } from "./draw";
import { isBad } from "./network";

const MOST_WIDE = 200, MOST_HIGH = 140, MARGIN = 6;

export class Minimap {
  readonly element = h("canvas", { class: "minimap", attrs: { hidden: "", "aria-hidden": "true" } });
  private scale = 1;
  private readonly picture = document.createElement("canvas");

  /** `go` brings a place of the network to the middle of the view. */
  constructor(go: (x: number, y: number) => void) {
    const follow = (event: PointerEvent): void => go((event.offsetX - MARGIN) / this.scale, (event.offsetY - MARGIN) / this.scale);
    this.element.addEventListener("pointerdown", (event) => { this.element.setPointerCapture(event.pointerId); follow(event); });
    this.element.addEventListener("pointermove", (event) => { if (event.buttons) follow(event); });
  }

  /** Draw all operators once; after that only the frame moves. */
  show({ layout, folded }: Scene): void {
    const { wide, high } = extentOf(layout);
    this.scale = Math.min(MOST_WIDE / wide, MOST_HIGH / high);
    const context = sharp(this.picture, wide * this.scale + 2 * MARGIN, high * this.scale + 2 * MARGIN);
    const colour = colours();
    // Bad ones last, and large enough to be seen.
    for (const bad of [false, true]) folded.shapes.forEach(({ level }, n) => {
      if (isBad(level) !== bad) return;
      context.fillStyle = colour(LEVELS[level]!);
      const least = bad ? 2.5 : 1;
      context.fillRect(MARGIN + layout.x[n]! * STEP_X * this.scale, MARGIN + layout.y[n]! * STEP_Y * this.scale, Math.max(least, WIDTH * this.scale), Math.max(least, HEIGHT * this.scale));
    });
  }

  /** Draw the frame of what is in view; nothing at all where everything is. */
  frame(camera: Camera, width: number, height: number): void {
    const { picture, scale } = this;
    const [wide, high] = [parseFloat(picture.style.width), parseFloat(picture.style.height)];
    const [left, top] = [-camera.x / camera.scale, -camera.y / camera.scale];
    const [right, bottom] = [left + width / camera.scale, top + height / camera.scale];
    const isWhole = left <= 0 && top <= 0 && right * scale >= wide - 2 * MARGIN && bottom * scale >= high - 2 * MARGIN;
    this.element.toggleAttribute("hidden", isWhole || !wide);
    if (isWhole || !wide) return;
    const context = sharp(this.element, wide, high);
    context.drawImage(picture, 0, 0, wide, high);
    context.strokeStyle = colours()("accent");
    context.lineWidth = 2;
    context.strokeRect(MARGIN + left * scale, MARGIN + top * scale, (right - left) * scale, (bottom - top) * scale);
  }
}

/** How wide and high a layout is, drawn at its full size. */
export function extentOf({ x, y }: Scene["layout"]): { wide: number; high: number } {
  let [right, bottom] = [0, 0];
  for (let n = 0; n < x.length; n++) [right, bottom] = [Math.max(right, x[n]!), Math.max(bottom, y[n]!)];
  return { wide: right * STEP_X + WIDTH, high: bottom * STEP_Y + HEIGHT };
}

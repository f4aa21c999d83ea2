// Builds the page of the report to one file: node build.mjs [FILE]
import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const target = process.argv[2] ?? `${here}../src/opdiff/report/assets/report.html`;

async function bundle(entry, define = {}) {
  const { outputFiles } = await build({
    absWorkingDir: here,
    entryPoints: [entry],
    bundle: true,
    minify: true,
    write: false,
    charset: "utf8",
    format: "iife",
    target: "es2022",
    legalComments: "none",
    define,
  });
  return outputFiles[0].text.trim();
}

// What may run is told by its hash; nothing is loaded from anywhere.
const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
const policy = (script, style) =>
  [
    "default-src 'none'",
    `script-src ${hash(script)}`,
    `style-src ${hash(style)}`,
    "worker-src blob:",
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");

const worker = await bundle("src/graph/worker.ts");
const script = await bundle("src/main.ts", { WORKER_SOURCE: JSON.stringify(worker) });
const style = await bundle("src/style.css");
if (/<\/(script|style)/i.test(script + style)) throw new Error("the bundle would end its own element");
const parts = { policy: policy(script, style), script, style };
const template = await readFile(`${here}src/page.html`, "utf8");
await writeFile(target, template.replace(/@@(policy|script|style)@@/g, (_, name) => parts[name]));

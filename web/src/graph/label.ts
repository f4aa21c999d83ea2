// Names in little room: as much of what tells operators apart as fits.

/** Whether a text fits. */
type Fits = (text: string) => boolean;

/** The longest form of a name that fits: path and parts, less of the path, the first part, then a piece left out. */
export function shortened(name: string, fits: Fits): string {
  return forms(name).find(fits) ?? withoutMiddle(forms(name).at(-1)!, fits);
}

/** From long to short, as `a/b · Conv + Relu`, `b · Conv + Relu`, `b · Conv + …`, `Conv + …`. */
function forms(name: string): string[] {
  const [path, parts] = name.includes(" · ") ? [name.slice(0, name.indexOf(" · ")), name.slice(name.indexOf(" · ") + 3)] : ["", name];
  const first = parts.split(" + ")[0]!;
  const short = first === parts ? parts : `${first} + …`;
  const paths = lastSteps(path);
  const own = path ? [] : lastSteps(short).slice(1);
  return [...paths.map((each) => `${each} · ${parts}`), ...(path ? [`${paths.at(-1)!} · ${short}`] : [parts]), short, ...own];
}

/** A path, and it without its first steps. */
function lastSteps(path: string): string[] {
  const steps = path.split("/").filter(Boolean);
  return path ? [path, ...steps.slice(1).map((_, n) => steps.slice(n + 1).join("/"))] : [];
}

/** Beginning and end of a text. */
function withoutMiddle(text: string, fits: Fits): string {
  for (let kept = text.length - 1; kept > 1; kept--) {
    const end = Math.floor(kept / 2), found = `${text.slice(0, kept - end)}…${text.slice(text.length - end)}`;
    if (fits(found)) return found;
  }
  return `${text.slice(0, 1)}…`;
}

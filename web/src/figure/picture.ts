/** A drawing on the page as a file of its own. */

const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-family", "font-size", "font-weight"];
const SVG = "http://www.w3.org/2000/svg";

/** The SVG as text that looks the same outside the page: its styles are written into it. */
export function svgText(drawing: SVGSVGElement, cells?: SVGElement): string {
  const copy = drawing.cloneNode(true) as SVGSVGElement;
  const [from, to] = [drawing, copy].map((root) => [...root.querySelectorAll<SVGElement>("*")]) as [SVGElement[], SVGElement[]];
  from.forEach((element, i) => {
    const style = getComputedStyle(element);
    for (const name of STYLES) to[i]?.setAttribute(name, style.getPropertyValue(name));
    for (const name of ["tabindex", "class", "style", "role"]) to[i]?.removeAttribute(name);
  });
  const paper = document.createElementNS(SVG, "rect");
  paper.setAttribute("width", "100%");
  paper.setAttribute("height", "100%");
  paper.setAttribute("fill", getComputedStyle(document.body).backgroundColor);
  copy.prepend(...(cells ? [paper, cells] : [paper]));
  for (const name of ["class", "style", "role", "aria-hidden"]) copy.removeAttribute(name);
  copy.setAttribute("xmlns", SVG);
  return new XMLSerializer().serializeToString(copy);
}

/** A rectangle a cell: vectors, not pixels */
export function cellsOf(colours: string[], columns: number, left: number, top: number, size: number): SVGElement {
  const group = document.createElementNS(SVG, "g");
  group.setAttribute("shape-rendering", "crispEdges");
  colours.forEach((colour, i) => {
    const cell = document.createElementNS(SVG, "rect");
    const place = { x: left + (i % columns) * size, y: top + Math.floor(i / columns) * size, width: size, height: size };
    for (const [name, value] of Object.entries({ ...place, fill: colour })) cell.setAttribute(name, String(value));
    group.append(cell);
  });
  return group;
}

export async function pngOf(svg: string, sharpness = 2): Promise<Blob> {
  const image = new Image();
  const url = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  try {
    image.src = url;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = image.width * sharpness;
    canvas.height = image.height * sharpness;
    canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((done, fail) => {
      canvas.toBlob((blob) => (blob ? done(blob) : fail(new Error("the picture is too large"))), "image/png");
    });
  } finally {
    URL.revokeObjectURL(url);
  }
}

export function save(name: string, content: Blob | string, type: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

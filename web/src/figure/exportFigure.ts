/** Save a figure of the page as a file. */

const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-family", "font-size", "font-weight"];
const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

/** The SVG as text that looks the same outside the page: computed styles become attributes. */
export function serializeSvg(drawing: SVGSVGElement, cells?: SVGElement): string {
  const copy = drawing.cloneNode(true) as SVGSVGElement;
  const [from, to] = [drawing, copy].map((root) => [...root.querySelectorAll<SVGElement>("*")]) as [SVGElement[], SVGElement[]];
  from.forEach((element, i) => {
    const style = getComputedStyle(element);
    for (const name of STYLES) to[i]?.setAttribute(name, style.getPropertyValue(name));
    for (const name of ["tabindex", "class", "style", "role"]) to[i]?.removeAttribute(name);
  });
  const background = document.createElementNS(SVG_NAMESPACE, "rect");
  background.setAttribute("width", "100%");
  background.setAttribute("height", "100%");
  background.setAttribute("fill", getComputedStyle(document.body).backgroundColor);
  copy.prepend(...(cells ? [background, cells] : [background]));
  for (const name of ["class", "style", "role", "aria-hidden"]) copy.removeAttribute(name);
  copy.setAttribute("xmlns", SVG_NAMESPACE);
  return new XMLSerializer().serializeToString(copy);
}

/** The cells of a heatmap as rectangles, in the place of the canvas */
export function cellRectangles(colours: string[], columns: number, left: number, top: number, size: number): SVGElement {
  const group = document.createElementNS(SVG_NAMESPACE, "g");
  group.setAttribute("shape-rendering", "crispEdges");
  colours.forEach((colour, i) => {
    const cell = document.createElementNS(SVG_NAMESPACE, "rect");
    const box = { x: left + (i % columns) * size, y: top + Math.floor(i / columns) * size, width: size, height: size };
    for (const [name, value] of Object.entries({ ...box, fill: colour })) cell.setAttribute(name, String(value));
    group.append(cell);
  });
  return group;
}

/** Render an SVG as a PNG with `pixelRatio` pixels per unit. */
export async function svgToPng(svg: string, pixelRatio = 2): Promise<Blob> {
  const image = new Image();
  const url = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  try {
    image.src = url;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = image.width * pixelRatio;
    canvas.height = image.height * pixelRatio;
    canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve, reject) => {
      canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("The figure is too large for a PNG."))), "image/png");
    });
  } finally {
    URL.revokeObjectURL(url);
  }
}

/** Offer a file for download. */
export function download(name: string, content: Blob | string, type: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

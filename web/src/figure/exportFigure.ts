/** Save a figure of the page as a file. */

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

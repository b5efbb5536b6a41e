/** An image for captioners. */
import { settled } from "./page.mjs";

/** An image file of this size, drawn by the browser */
export async function drawImage(page, width, height) {
  const url = await page.evaluate(([width, height]) => {
    const canvas = Object.assign(document.createElement("canvas"), { width, height });
    const context = canvas.getContext("2d");
    context.fillStyle = "#e4e2dc";
    context.fillRect(0, 0, width, height);
    context.fillStyle = "#2846dc";
    context.fillRect(width / 4, height / 4, width / 5, height / 3);
    return canvas.toDataURL();
  }, [width, height]);
  return { name: "shapes.png", mimeType: "image/png", buffer: Buffer.from(url.split(",")[1], "base64") };
}

/** Choose an image and submit it. */
export async function describe(page, file) {
  await page.locator("#image").setInputFiles(file);
  await page.locator(".drop img").waitFor();
  await page.click("button.submit");
  await settled(page);
}

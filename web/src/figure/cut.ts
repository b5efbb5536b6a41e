/** A picture of the reader's, cut to what a model sees. The file itself stays in the browser. */
import { base64, middleSquare, rgbOf } from "../maths/picture";

export interface Picture {
  file: Blob;
  size: number;
  /** Its bytes, as the server is sent them */
  pixels: string;
  /** The same, to be shown */
  url: string;
}

export async function cut(file: Blob, size: number): Promise<Picture> {
  const bitmap = await createImageBitmap(file);
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = size;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  if (!context) throw new Error("this browser has no canvas");
  context.fillStyle = "white"; // it shows through where the picture is transparent
  context.fillRect(0, 0, size, size);
  context.imageSmoothingQuality = "high";
  const { x, y, side } = middleSquare(bitmap.width, bitmap.height);
  context.drawImage(bitmap, x, y, side, side, 0, 0, size, size);
  bitmap.close();
  return { file, size, pixels: base64(rgbOf(context.getImageData(0, 0, size, size).data)), url: canvas.toDataURL() };
}

/** An image file of the user's, cropped and scaled to the input of a captioner. The file itself stays in the browser. */
import { centralSquare, dropAlpha, toBase64 } from "../maths/image";

export interface InputImage {
  file: Blob;
  /** Pixels per side */
  size: number;
  /** The RGB bytes in base64, as the server receives them */
  pixels: string;
  /** The same pixels as a data URL, for display */
  url: string;
}

export async function prepareImage(file: Blob, size: number): Promise<InputImage> {
  const bitmap = await createImageBitmap(file);
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = size;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  if (!context) throw new Error("This browser does not support canvas.");
  context.fillStyle = "white"; // the background of transparent images
  context.fillRect(0, 0, size, size);
  context.imageSmoothingQuality = "high";
  const { x, y, side } = centralSquare(bitmap.width, bitmap.height);
  context.drawImage(bitmap, x, y, side, side, 0, 0, size, size);
  bitmap.close();
  return { file, size, pixels: toBase64(dropAlpha(context.getImageData(0, 0, size, size).data)), url: canvas.toDataURL() };
}

/** Copy a text. Without https, browsers have no `navigator.clipboard` except on localhost. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = document.body.appendChild(Object.assign(document.createElement("textarea"), { value: text }));
  field.select();
  document.execCommand("copy");
  field.remove();
}

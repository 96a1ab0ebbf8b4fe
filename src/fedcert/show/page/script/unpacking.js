// What Python packed, as arrays. The marks begin with a character that no name can have.

const NUMBERS = "\u0001f64", TRIANGLES = "\u0001triangles";

function unpacked(value) {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(unpacked);
  if (typeof value[NUMBERS] === "string") return numbersIn(value[NUMBERS]);
  if (Array.isArray(value[TRIANGLES])) return value[TRIANGLES].map((triangle) => squareOf(numbersIn(triangle[NUMBERS]), value.size));
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, unpacked(part)]));
}

function numbersIn(text) {
  const bytes = atob(text), view = new DataView(new ArrayBuffer(bytes.length));
  for (let i = 0; i < bytes.length; i++) view.setUint8(i, bytes.charCodeAt(i));
  return Float64Array.from({ length: bytes.length / 8 }, (_, i) => view.getFloat64(8 * i, true));
}

function squareOf(triangle, size) {
  const square = new Float64Array(size * size);
  let place = 0;
  for (let i = 0; i < size; i++) {
    for (let j = i; j < size; j++) square[i * size + j] = square[j * size + i] = triangle[place++];
  }
  return square;
}

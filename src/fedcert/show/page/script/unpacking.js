// What Python packed, as arrays. The marks begin with a character that no name can have.

const NUMBERS = "\u0001f64", TRIANGLES = "\u0001triangles", COUNTS = "\u0001u";

function unpacked(value) {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(unpacked);
  if (typeof value[NUMBERS] === "string") return numbersIn(value[NUMBERS]);
  if (typeof value[COUNTS] === "string") return countsIn(value[COUNTS], value.bytes);
  if (Array.isArray(value[TRIANGLES])) return value[TRIANGLES].map((triangle) => squareOf(unpacked(triangle), value.size));
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, unpacked(part)]));
}

function numbersIn(text) {
  const bytes = bytesIn(text), view = new DataView(bytes.buffer);
  return Float64Array.from({ length: bytes.length / 8 }, (_, i) => view.getFloat64(8 * i, true));
}

function countsIn(text, width) {
  // Whole numbers of so many bytes each, lowest byte first.
  const bytes = bytesIn(text), counts = new Float64Array(bytes.length / width);
  for (let i = 0; i < bytes.length; i++) counts[Math.floor(i / width)] += bytes[i] * 256 ** (i % width);
  return counts;
}

function bytesIn(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

function squareOf(triangle, size) {
  const square = new Float64Array(size * size);
  let place = 0;
  for (let i = 0; i < size; i++) {
    for (let j = i; j < size; j++) square[i * size + j] = square[j * size + i] = triangle[place++];
  }
  return square;
}

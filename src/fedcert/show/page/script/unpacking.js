// What Python packed, as arrays. The marks begin with a character that no name can have.

const NUMBERS = "\u0001f64", TRIANGLES = "\u0001triangles", COUNTS = "\u0001u";

function unpacked(value) {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(unpacked);
  if (typeof value[NUMBERS] === "string") return numbersIn(value[NUMBERS]);
  if (typeof value[COUNTS] === "string") return countsIn(value[COUNTS]);
  if (Array.isArray(value[TRIANGLES])) return value[TRIANGLES].map((triangle) => squareOf(unpacked(triangle), value.size));
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, unpacked(part)]));
}

function numbersIn(text) {
  const bytes = bytesIn(text), view = new DataView(bytes.buffer);
  return Float64Array.from({ length: bytes.length / 8 }, (_, i) => view.getFloat64(8 * i, true));
}

function countsIn(text) {
  // Seven bits of each count per byte, the lowest first; all bytes of a count but its last have their eighth bit set.
  const bytes = bytesIn(text), counts = new Float64Array(bytes.reduce((count, byte) => count + (byte < 128), 0));
  let place = 0, scale = 1;
  for (const byte of bytes) {
    counts[place] += (byte & 127) * scale;
    scale *= 128;
    if (byte < 128) { place++; scale = 1; }
  }
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

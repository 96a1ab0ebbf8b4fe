// What Python packed, as arrays.

function unpacked(value) {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(unpacked);
  if (typeof value.f64 === "string") return numbersIn(value.f64);
  if (Array.isArray(value.triangles)) return value.triangles.map((one) => squareOf(numbersIn(one.f64), value.size));
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, unpacked(part)]));
}

function numbersIn(text) {
  const bytes = atob(text), view = new DataView(new ArrayBuffer(bytes.length));
  for (let i = 0; i < bytes.length; i++) view.setUint8(i, bytes.charCodeAt(i));
  return Float64Array.from({ length: bytes.length / 8 }, (_, i) => view.getFloat64(8 * i, true));
}

function squareOf(triangle, size) {
  const made = new Float64Array(size * size);
  let place = 0;
  for (let i = 0; i < size; i++) {
    for (let j = i; j < size; j++) made[i * size + j] = made[j * size + i] = triangle[place++];
  }
  return made;
}

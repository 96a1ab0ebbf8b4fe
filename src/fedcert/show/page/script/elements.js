// Elements of the page. Everything that people wrote enters as text.

const SVG = "http://www.w3.org/2000/svg";

function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

function drawn(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

function named(text) {
  // A name in any script, apart from the text around it.
  return element("bdi", {}, text);
}

function percent(value, digits = 1) {
  return value === null || value === undefined ? "–" : `${(100 * value).toFixed(digits)}%`;
}

function surely(confidence) {
  return `${Number((100 * confidence).toPrecision(10))}%`;
}

function short(value) {
  return String(Number(value.toPrecision(9)));
}

function counted(value) {
  return Math.round(value).toLocaleString("en");
}

function byId(id) {
  return document.getElementById(id);
}

function replaced(place, ...children) {
  place.replaceChildren(...children);
}

async function copied(field, status) {
  field.select();
  try {
    await navigator.clipboard.writeText(field.value);
    status.textContent = "Copied.";
  } catch {
    status.textContent = document.execCommand("copy") ? "Copied." : "Select the text and copy it.";
  }
}

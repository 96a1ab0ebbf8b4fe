// The page's sentences for any radius and class mix: a port of `show/page/wording.py`.

const OK = "ok", WARNING = "warning", UNRELIABLE = "unreliable";  // estimation/diagnostics/checks.py
const LEAST_PART = 1e-6, CLASSES_IN_A_LINE = 6;  // show/page/wording.py

function asTitle(words) {
  return words[0].toUpperCase() + words.slice(1);
}

function of100(value) {
  const count = 100 * value;
  if (count < 0.5) return count < LEAST_PART ? "None of 100" : "Fewer than 1 of 100";
  if (count >= 99.5) return count > 100 - LEAST_PART ? "100 of 100" : "More than 99 of 100";
  return `About ${Math.floor(count + 0.5)} of 100`;
}

function rangeOf100(lower, upper) {
  // Rounded outwards, so that it still covers what it covered.
  return `${Math.floor(100 * lower + LEAST_PART)} to ${Math.ceil(100 * upper - LEAST_PART)}`;
}

function answerAt({ radii, votes, smoothing, unit }, shown, index) {
  // The number, its interval and the rest of the sentence.
  const radius = radii[index], units = unit ? ` (${unit})` : "";
  const change = radius === 0 ? "with no change to the input (radius 0)" : `under any change within ${smoothing.norm.toUpperCase()} radius ${short(radius)}${units}`;
  const proven = votes ? `proven to be classified correctly on average, by ${votedBy(votes)}` : "certified to be classified correctly";
  return [of100(shown.point[index]), shown.lower ? ` (${rangeOf100(shown.lower[index], shown.upper[index])})` : "",
    ` examples ${shown.own ? "of the target" : `with ${shown.said}`} are ${proven}, ${change}.`];
}

function marginAt(shown, index, confidence) {
  if (!shown.lower || !confidence) return "";
  const lower = shown.lower[index], upper = shown.upper[index], points = Math.max(Math.ceil(50 * (upper - lower) - LEAST_PART), 1);
  const size = `${points} point${points > 1 ? "s" : ""}`;
  return `${rangeOf100(lower, upper)} is the ${surely(confidence)} confidence interval. Its margin of error (half its length) is at most ${size}.`;
}

function mixInWords(classes, mix, most = CLASSES_IN_A_LINE) {
  const held = classes.map((_, j) => j).filter((j) => mix[j] > 0).sort((a, b) => mix[b] - mix[a] || a - b);
  if (held.length > most && mix[held[0]] - mix[held[held.length - 1]] < LEAST_PART) return `${counted(held.length)} classes with ${wholePercent(mix[held[0]])} each`;
  const count = held.length === most + 1 ? held.length : most, parts = held.slice(0, count).map((j) => `${wholePercent(mix[j])} ${classes[j]}`), rest = held.slice(count);
  if (rest.length) parts.push(`${wholePercent(rest.reduce((sum, j) => sum + mix[j], 0))} in ${counted(rest.length)} other classes`);
  return parts.length < 2 ? parts.join("") : `${parts.slice(0, -1).join(", ")} and ${parts[parts.length - 1]}`;
}

function wholePercent(value) {
  return value > 0 && value < 0.005 ? "<1%" : `${Math.floor(100 * value + 0.5)}%`;
}

function linked(text) {
  // A text in which the first occurrence of each word of the glossary leads there.
  const terms = [...document.querySelectorAll("#glossary dt")], places = [];
  for (const { id, textContent: word } of terms) {
    const match = new RegExp(`\\b${word}\\b`, "i").exec(text);
    if (match && !places.some(({ from, to }) => match.index < to && from < match.index + word.length)) places.push({ from: match.index, to: match.index + word.length, id });
  }
  places.sort((a, b) => a.from - b.from);
  const parts = [];
  let done = 0;
  for (const { from, to, id } of places) {
    parts.push(text.slice(done, from), element("a", { class: "term", href: `#${id}` }, text.slice(from, to)));
    done = to;
  }
  return [...parts, text.slice(done)];
}

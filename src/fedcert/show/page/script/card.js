// The certification card: what was certified, how sure it is, and what it rests on, for a README or a model card.

const MOST_IN_A_CARD = 20;

function cardOf(data, shown, index, mix, verdict) {
  const main = data.estimates[0], smoothing = data.smoothing;
  const safe = (text) => String(text).replace(/[\\`*_\[\]<>#|~]/g, "\\$&").replace(/\s+/g, " ");
  const marks = [0, index, ...data.radii.map((_, i) => i).filter((i) => i % Math.max(1, Math.floor(data.radii.length / 4)) === 0)];
  const rows = [...new Set(marks)].sort((a, b) => a - b);
  const sure = shown.lower ? `${surely(main.confidence)} confidence interval` : "confidence interval";
  const target = shown.own ? data.target_name || "the class mix below" : shown.said;
  const lines = [
    `### ${shown.own ? safe(data.title) : `${asTitle(data.measure)} with ${safe(shown.said)}`}`, "",
    `**${safe(verdict.title)}:** ${safe(verdict.words)}`, "",
    safe(answerAt(data, shown, index).join("")), "",
    safe(data.promise), "",
    `| ${smoothing.norm.toUpperCase()} radius | ${data.measure} | ${sure} |`, "|---|---|---|",
    ...rows.map((i) => `| ${short(data.radii[i])} | ${percent(shown.point[i])} | ${shown.lower ? `${percent(shown.lower[i])} to ${percent(shown.upper[i])}` : "–"} |`), "",
    ...(data.unit ? [`- Unit of the radii: ${safe(data.unit)}`] : []), ...(data.context ? [`- ${safe(data.context)}`] : []),
    `- Target: ${safe(target)}; method: ${safe(titleOf(shown.method))}`, `- Class mix: ${mixToTheDigit(data.classes, mix, safe)}`,
    `- From ${clientsOf(data.clients)} with ${counted(data.examples)} test examples; no data left its owner`,
    `- Model: \`${String(data.model).replace(/`/g, "'")}\``,
    `- Smoothing: ${safe(smoothing.noise)} noise, sigma ${short(smoothing.sigma)}, ${data.votes ? `${counted(smoothing.n)} passes of each example` : `n ${counted(smoothing.n)}, failure probability ${smoothing.failure_probability}`}`,
    ...(shown.own ? main.checks.filter((check) => check.verdict !== OK).map((check) => `- ${safe(data.titles[check.verdict])} (${safe(check.name)}): ${safe(check.sentence)}`) : []),
    `- ${safe(aboutThis(data))}`,
    `- ${safe(shown.guarantee)}`,
    `- Made by ${safe(data.written.software)}, ${safe(data.written.created)}`,
  ];
  return lines.join("\n");
}

function mixToTheDigit(classes, mix, safe) {
  const order = classes.map((_, j) => j).filter((j) => mix[j] > 0).sort((a, b) => mix[b] - mix[a] || a - b);
  const parts = order.slice(0, MOST_IN_A_CARD).map((j) => `${safe(classes[j])} ${percent(mix[j])}`);
  return parts.join(", ") + (order.length > MOST_IN_A_CARD ? `, and ${order.length - MOST_IN_A_CARD} more` : "");
}

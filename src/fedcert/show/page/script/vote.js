// Population certificates: the interval of what a vote keeps, each end by scores that are proven on its side of it. A port
// of `MixEvaluator._interval_of_vote` in `estimation/mix_evaluator.py`, and of `EndOfInterval` in `estimation/prepared.py`.

function* endsOfVote({ vote }, mix) {
  const { lower: below, upper: above } = vote;
  let unheld = 0;
  vote.held.forEach((held, j) => { if (!held) unheld += mix[j]; });
  const [share] = yield* endsAt(below, ingredientsAt(below, mix).uncertainty, mix);
  const [, other] = yield* endsAt(above, ingredientsAt(above, mix).uncertainty, mix);
  // Of classes that no client holds, the vote keeps 0 at least, and all at most.
  return [
    Array.from(share, (value, r) => below.low[r] * (1 - unheld) + below.width[r] * value),
    Array.from(other, (value, r) => above.low[r] * (1 - unheld) + above.width[r] * (value - unheld) + unheld),
  ];
}

function withRadii(evaluator, radii) {
  // Each end is evaluated as if it were alone. Of the upper one, the page carries what the lower one does not have as well.
  evaluator.radii = radii;
  if (!evaluator.vote) return;
  evaluator.vote.lower.radii = radii;
  evaluator.vote.upper = completed(evaluator.vote.upper, evaluator.vote.lower);
}

function completed(part, whole) {
  if (!isRecord(part) || !isRecord(whole)) return part;
  return Object.fromEntries(Object.entries(whole).map(([name, value]) => [name, Object.hasOwn(part, name) ? completed(part[name], value) : value]));
}

function isRecord(value) {
  return value !== null && typeof value === "object" && Object.getPrototypeOf(value) === Object.prototype;
}

// Two kinds of certificates, in words: those of single examples by CERTIFY, and those of a population by its answers.

const ABOUT_CERTIFY = "A certified accuracy by CERTIFY is the share of examples that have a proof of their own each: whatever is done to such an image within the radius, the smoothed classifier still answers right, unless its certificate fails.";

function aboutPopulation(votes) {
  return `A population certificate is about the population, not about single images: if each answer is by ${votedBy(votes)} of the input, with noise that is secret, then at least this share of the answers is right on average, whatever is done to the inputs within the radius before the noise is drawn.`;
}

function votedBy(votes) {
  if (votes === 1) return "one fresh noisy copy";
  return `the vote of ${votes ? counted(votes) : "some"} fresh noisy copies`;
}

function aboutThis({ votes }) {
  return votes ? aboutPopulation(votes) : ABOUT_CERTIFY;
}

function aboutOthers({ votes }) {
  return votes ? ABOUT_CERTIFY : aboutPopulation(null);
}

function radiiInWords({ votes, largest_radius: largest, radii }) {
  if (votes) return `An answer is by ${votedBy(votes)}. `;
  const digits = Number(largest.toPrecision(4));  // as many as a caption needs
  return largest < radii[radii.length - 1] ? `No radius above ${digits} can be certified with these samples. ` : `The largest radius that these samples can certify is ${digits}. `;
}

function samplesOf({ votes, smoothing }) {
  // Rows of the settings: what was drawn of each example.
  if (votes) {
    const named = smoothing.votes === votes ? "" : `; the request names ${counted(smoothing.votes)}`;
    return [["noisy passes of each example", counted(smoothing.n)], ["votes on an answer", `${counted(votes)}${named}`]];
  }
  return [
    ["samples", `${counted(smoothing.n0)} to select a class, up to ${counted(smoothing.n)} to certify it`],
    ["failure probability of a certificate", smoothing.failure_probability],
  ];
}

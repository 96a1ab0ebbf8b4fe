// Two kinds of certificates, in words: those of single examples by CERTIFY, and those of a population by its answers.

const ABOUT_CERTIFY = "A certified accuracy by CERTIFY is the share of examples that each have their own proof: whatever is changed within the radius, the smoothed classifier still answers correctly, unless that certificate fails.";

function aboutPopulation(votes) {
  return `A population certificate is about the population, not about single examples: if each answer is given by ${votedBy(votes)} of the input, with secret noise, then at least this share of the answers is correct on average, whatever is changed within the radius before the noise is drawn.`;
}

function votedBy(votes) {
  if (votes === 1) return "one noisy copy";
  return `the majority vote of ${votes ? counted(votes) : "some"} noisy copies`;
}

function aboutThis({ votes }) {
  return votes ? aboutPopulation(votes) : ABOUT_CERTIFY;
}

function clientsOf(count) {
  return `${counted(count)} client${count === 1 ? "" : "s"}`;
}

function aboutOthers({ votes }) {
  return votes ? ABOUT_CERTIFY : aboutPopulation(null);
}

function radiiInWords({ votes, largest_radius: largest, radii }) {
  if (votes) return `Each answer is given by ${votedBy(votes)}. `;
  const digits = Number(largest.toPrecision(4));  // as many as a caption needs
  return largest < radii[radii.length - 1] ? `No radius above ${digits} can be certified with these samples. ` : `The largest radius that these samples can certify is ${digits}. `;
}

function samplesOf({ votes, smoothing }) {
  // Rows of the settings: what was drawn of each example.
  if (votes) {
    const named = smoothing.votes === votes ? "" : `; ${counted(smoothing.votes)} in the request`;
    return [["noisy passes of each example", counted(smoothing.n)], ["votes on an answer", `${counted(votes)}${named}`]];
  }
  return [
    ["samples", `${counted(smoothing.n0)} to select a class, up to ${counted(smoothing.n)} to certify it`],
    ["failure probability of a certificate", smoothing.failure_probability],
  ];
}

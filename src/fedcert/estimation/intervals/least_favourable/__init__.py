"""Least-favourable intervals: exponential tilting at the class accuracies that make a test weakest.

For a weighted sum T of independent examples and any tilt λ > 0, P(T >= t) <= exp(K(λ) - λt)·bracket, with K the sum's
cumulant function. The largest right side over all class accuracies L with p(S)·L <= θ gives a test of θ for every
sample size, and the values of θ that it does not reject are the interval. `docs/proofs.md` has the proof.

`cells` says what T is made of, `bracket` bounds the factor beside Chernoff's, `tilted` the largest right side for one
tilt, `ends` inverts the tests, `design` chooses clients' weights for each θ.
"""

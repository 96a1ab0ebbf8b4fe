"""The paper's method: grouping (Algorithm 1), the subset search (Algorithm 2), VW, AP and GA."""

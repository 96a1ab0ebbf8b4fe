"""The paper's tables and figure, from traces: its figures beside ours."""

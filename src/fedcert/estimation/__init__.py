"""The server half: reports and a target class mix in, an estimate out. numpy and scipy only."""

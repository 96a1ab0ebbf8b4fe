"""Who holds what: partitions of a data set over clients, and target populations with another class mix."""

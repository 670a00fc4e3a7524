//! The limit on the number of series of a metric.

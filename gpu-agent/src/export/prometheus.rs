//! The snapshot as Prometheus text, in the format for which the scraper asks.

//! What the agent knows, as points of the metrics in the catalogue: pure mappings, one for each kind of subject.

pub mod devices;

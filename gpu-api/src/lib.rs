//! The contract between agent, scheduler and users: metric names, attributes, quantities, GPU model.

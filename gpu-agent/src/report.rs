//! What the agent knows, as exported points and as answers for people.

pub mod agent;
pub mod status;
pub mod tenants;

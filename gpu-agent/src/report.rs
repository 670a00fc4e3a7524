//! What the agent knows, as exported points and as answers for people.

pub mod agent;
pub mod devices;
pub mod status;
pub mod tenants;

#[cfg(test)]
mod tests;

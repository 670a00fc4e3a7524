//! The HTTP endpoints of the agent.

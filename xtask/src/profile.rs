//! How the static programs are built.

/// Build profiles of the static programs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Profile {
    /// As people get them: the agent is small, the workloads are fast.
    Shipped,
    /// For `cargo xtask test`: soon there.
    Tested,
}

impl Profile {
    /// Name of the profile for the agent.
    pub(crate) const fn of_agent(self) -> &'static str {
        match self {
            Profile::Shipped => "dist",
            Profile::Tested => "tested",
        }
    }

    /// Name of the profile for the workloads, for this host.
    pub(crate) const fn of_workloads(self) -> &'static str {
        match self {
            Profile::Shipped => "release",
            Profile::Tested => "tested-here",
        }
    }

    /// Name of the profile for the static workloads.
    pub(crate) const fn of_static_workloads(self) -> &'static str {
        match self {
            Profile::Shipped => "release",
            Profile::Tested => "tested",
        }
    }
}

//! The H2O study ("Impact of Virtualization on Machine Learning"): airline delays, parsed from CSV (bound by
//! input and output), a GLM (one busy thread), a network (all cores; bound by memory or by the processor),
//! and their seeded data. One file per workload, shared parts beside. Yields reports. Needs no C library.

pub mod cholesky;
pub mod columns;
pub mod dense;
pub mod design;
pub mod error;
pub mod flights;
pub mod generate;
pub mod glm;
pub mod mlp;
pub mod net;
pub mod options;
pub mod parse;
pub mod places;
pub mod reader;
pub mod report;
pub mod schema;
pub mod source;
pub mod table;
pub mod team;
